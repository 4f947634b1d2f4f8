from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kaa.coordinators.machine import CoordinatorError
from kaa.coordinators.promise import Promise
from kaa.wire.errors import Errors


def on_loop(test: Callable[[], Awaitable[Any]]) -> Callable[[], None]:
    return lambda: asyncio.run(test())  # type: ignore[arg-type]


def words(error: CoordinatorError) -> tuple[Errors, str | None]:
    return error.error, error.message


@on_loop
async def test_a_refusal_is_raised_where_nobody_says_how_it_reads() -> None:
    promise: Promise[int] = Promise(asyncio.get_running_loop())
    promise.refuse(CoordinatorError(Errors.NOT_ENOUGH_REPLICAS))
    with pytest.raises(CoordinatorError, match="NOT_ENOUGH_REPLICAS"):
        await promise


@on_loop
async def test_a_refusal_becomes_a_response_in_the_words_of_the_api() -> None:
    promise = Promise(asyncio.get_running_loop(), words)
    promise.refuse(CoordinatorError(Errors.INVALID_REQUEST, "why"))
    assert await promise == (Errors.INVALID_REQUEST, "why")


@on_loop
async def test_a_refusal_without_words_has_those_of_its_error() -> None:
    promise = Promise(asyncio.get_running_loop(), words)
    promise.refuse(CoordinatorError(Errors.GROUP_ID_NOT_FOUND))
    assert await promise == (Errors.GROUP_ID_NOT_FOUND, Errors.GROUP_ID_NOT_FOUND.message)


@on_loop
async def test_an_error_of_the_log_means_nothing_to_a_client() -> None:
    promise = Promise(asyncio.get_running_loop(), words)
    promise.refuse(CoordinatorError(Errors.KAFKA_STORAGE_ERROR))
    assert await promise == (Errors.NOT_COORDINATOR, None)


@on_loop
async def test_what_a_coordinator_says_in_words_does_not_come_from_the_log() -> None:
    promise = Promise(asyncio.get_running_loop(), words)
    promise.refuse(CoordinatorError(Errors.UNKNOWN_TOPIC_OR_PARTITION, "no such topic"))
    assert await promise == (Errors.UNKNOWN_TOPIC_OR_PARTITION, "no such topic")


@on_loop
async def test_the_answer_of_the_machine_becomes_a_response() -> None:
    promise: Promise[str] = Promise(asyncio.get_running_loop(), respond=str)
    promise.keep(7)
    promise.keep(8)
    assert await promise == "7"


@on_loop
async def test_a_response_that_cannot_be_made_costs_only_the_one_who_waits() -> None:
    def fail(_: object) -> int:
        raise ValueError("broken")

    for promise in (Promise(asyncio.get_running_loop(), fail, fail) for _ in range(2)):
        promise.keep(1)
        with pytest.raises(ValueError, match="broken"):
            await promise


@on_loop
async def test_what_has_ended_is_not_refused_any_more() -> None:
    promise: Promise[int] = Promise(asyncio.get_running_loop())
    promise.set_result(1)
    promise.refuse(CoordinatorError(Errors.NOT_COORDINATOR))
    assert await promise == 1


@on_loop
async def test_a_refusal_leaves_nothing_to_the_collector_of_garbage() -> None:
    """Ten thousand of them at once would keep it busy for many milliseconds."""

    def refusing() -> Promise[int]:
        promise: Promise[int] = Promise(asyncio.get_running_loop())
        try:
            raise CoordinatorError(Errors.NOT_COORDINATOR)
        except CoordinatorError as error:
            promise.refuse(error)
        return promise

    async def refused() -> Errors:
        try:
            await refusing()
        except CoordinatorError as error:
            return error.error
        return Errors.NONE

    gc.collect()
    gc.disable()
    try:
        assert await refused() is Errors.NOT_COORDINATOR
        assert gc.collect() == 0
    finally:
        gc.enable()
