"""Connections that belong to the process."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import types
from concurrent.futures import CancelledError

import pytest

from kaa.limits import SPARK_CLUSTERS_CONNECTED_MAX
from kaa.spark.brokers import brokers_of, settle
from kaa.spark.options import ClientSettings


def settings(number: int = 1, more: dict[str, str] | None = None) -> ClientSettings:
    return ClientSettings({"bootstrap.servers": f"localhost:{number}"} | (more or {}))


def test_equal_settings_share_their_connections() -> None:
    first = brokers_of(settings())
    assert brokers_of(settings()) is first
    assert brokers_of(settings(2)) is not first


def test_the_least_used_are_closed() -> None:
    first = brokers_of(settings(100))
    for number in range(SPARK_CLUSTERS_CONNECTED_MAX):
        brokers_of(settings(101 + number))
    assert brokers_of(settings(100)) is not first


def test_what_is_for_others_is_left_out() -> None:
    given = {"group.id": "g", "acks": "1", "client.id": "me", "group.protocol": "consumer"}
    found = brokers_of(settings(1, given))
    assert found.cluster.values.value("group.id") is None
    assert found.cluster.values.get_string("client.id") == "me"
    assert found.admin.cluster.values.get_string("client.id") == "me"


def test_calls_run_on_the_loop_and_raise_here() -> None:
    found = brokers_of(settings())

    async def work(value: int) -> int:
        await asyncio.sleep(0)
        if value < 0:
            raise ValueError("negative")
        return value + 1

    assert found.call(work(1)) == 2
    with pytest.raises(ValueError, match="negative"):
        found.call(work(-1))


def test_work_that_is_given_up_is_cancelled() -> None:
    found = brokers_of(settings())
    future = found.submit(asyncio.sleep(60))
    future.cancel()
    with pytest.raises(CancelledError):
        future.result()


def test_a_forked_process_makes_a_loop_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    first = brokers_of(settings())
    pid = os.getpid() + 1
    monkeypatch.setattr(os, "getpid", lambda: pid)
    assert brokers_of(settings()) is not first


def test_workers_of_spark_freeze_what_they_have_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pid = os.getpid() + 2  # As in a process that is new.
    monkeypatch.setattr(os, "getpid", lambda: pid)
    brokers_of(settings())
    frozen: list[str] = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append("freeze"))
    contexts: list[object] = []
    fake: object = types.SimpleNamespace(get=lambda: contexts[-1] if contexts else None)
    module = types.SimpleNamespace(TaskContext=fake)
    monkeypatch.setitem(sys.modules, "pyspark.taskcontext", module)
    settle()
    assert frozen == []
    contexts.append(object())
    settle()
    settle()
    assert frozen == ["freeze"]
