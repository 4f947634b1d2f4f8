"""Rules about the calls with which a broker keeps the state of share groups (keys 83 to 87).

A broker that leads a share partition sends them to its share coordinator. Where that is the same
broker, as it always is when there is only one, nothing goes over the wire; so rules stand in front
of the call (`ShareStatePersister.here`) as they stand in front of handlers. To the caller a failure
is the coordinator's error, and a dropped connection is a lost one.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kaa.coordinators.machine import CoordinatorError
from kaa.testing.fault_actions import kept
from kaa.wire.errors import Errors
from kaa.wire.registry import ApiKey

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kaa.testing.faults import Fault, Faults

    Here = Callable[[Callable[[Any], Awaitable[Any]], Any], Awaitable[Any]]

_CLIENT_ID: Final = "broker"


class _Context(NamedTuple):
    """What rules ask about a request that came over no connection."""

    api_version: int
    client_id: str = _CLIENT_ID


def watched(faults: Faults, services: Any, here: Here) -> Here:
    """The call of the share coordinator of this broker, with rules in front of it."""

    async def look_first(call: Callable[[Any], Awaitable[Any]], request: Any) -> Any:
        context: Any = _Context(request.valid_versions.high)
        key = ApiKey(request.api_key)
        fault = faults.acting(key, services, request, context)
        if fault is None:
            return await here(call, request)
        return await _act(fault, lambda: here(call, request), request, context)

    return look_first


async def _act(fault: Fault, call: Callable[[], Awaitable[Any]], request: Any, context: Any) -> Any:
    verb = fault.verb
    if verb.name == "answer":
        given = fault.ask(kept(request, context), context.api_version)
        if hasattr(given, "__await__"):
            given = await given
        if given is None:
            return await call()
        fault.acted()
        return _result(given)
    fault.acted()
    if verb.name == "fail":
        raise CoordinatorError(verb.error, verb.error.message)
    if verb.name == "delay":
        found = await call()
        await asyncio.sleep(verb.seconds)
        return found
    if verb.after:
        await call()
    raise CoordinatorError(Errors.NETWORK_EXCEPTION)


def _result(response: Any) -> Any:
    """What a function answered, as the caller takes it from another broker."""
    row = response.results[0].partitions[0]
    if row.error_code != Errors.NONE:
        raise CoordinatorError(Errors.of(row.error_code), row.error_message)
    return row
