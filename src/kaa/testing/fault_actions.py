"""What the verbs of a rule do with a request, in front of the handler that would have served it.

An action gets the rule, the handler, and what the handler would get; it returns what a handler may
return: a response, None, an awaitable or `Pending`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from kaa.handlers.context import settled
from kaa.net.pending import Hold, Pending
from kaa.testing.refusals import OWN_ERROR, WRITTEN_OVER, merge, refuse, write_over
from kaa.testing.share_refusals import SESSION_APIS, Refused
from kaa.wire.registry import ApiKey, api

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.handlers.context import RequestContext
    from kaa.testing.faults import Fault

    Handle = Callable[[Any, Any, RequestContext], Any]


def fail(fault: Fault, handle: Handle, services: Any, request: Any, context: Any) -> Any:
    """An error, for all of the request or for the parts of it that are meant."""
    on, error = fault.on, fault.verb.error

    def matches(row: Any, partition: int | None) -> bool:
        return on.matches(services, row, partition)

    if on.key in WRITTEN_OVER:
        of_partitions = on.key is ApiKey.FETCH or on.partition is not None

        def written_over(answer: Any) -> Any:
            if not fault.has_ended and write_over(answer, error, matches, partitions=of_partitions):
                fault.acted()
            return answer

        return then(handle(services, request, context), written_over)
    response: Any = api(on.key).response
    if on.key in OWN_ERROR and not on.is_partial:
        fault.acted()
        return response(error_code=int(error))
    if on.key in SESSION_APIS:
        failed = Refused(services, request, error, matches)
        if not failed.rows:
            return handle(services, request, context)
        fault.acted()
        return then(handle(services, failed.rest(), context), failed.with_refusals)
    rest, refused = refuse(request, response, context.api_version, error, matches)
    if refused is None:
        return handle(services, request, context)
    fault.acted()
    if rest is None and getattr(request, "acks", None) == 0:
        # A client that wants no answer learns of a failure by losing the connection, as with Kafka.
        return context.connection.close("a produce without answer failed")
    if rest is None:
        return refused
    return then(
        handle(services, rest, context),
        lambda answer: None if answer is None else merge(answer, refused),
    )


def delay(fault: Fault, handle: Handle, services: Any, request: Any, context: Any) -> Any:
    """The request is handled at once, and its answer held back."""
    fault.acted()
    result = handle(services, request, context)
    return then(result, lambda answer: answer, fault.verb.seconds)


def drop(fault: Fault, handle: Handle, services: Any, request: Any, context: Any) -> Any:
    """The connection is closed, before or after the request takes effect."""
    fault.acted()
    result = handle(services, request, context) if fault.verb.after else None

    def close(_: Any) -> None:
        context.connection.close("dropped by a test")

    return then(result, close)


def answer(fault: Fault, handle: Handle, services: Any, request: Any, context: Any) -> Any:
    """A function answers, or leaves it to the node; one in another process answers later."""
    given = fault.ask(kept(request, context), context.api_version)

    def decide(given: Any) -> Any:
        if given is None:
            return handle(services, request, context)
        fault.acted()
        expected = api(fault.on.key).response
        if not isinstance(given, expected):
            raise TypeError(f"{given!r} is no {expected.__name__}")
        return given

    if not hasattr(given, "__await__"):
        return decide(given)

    async def later() -> Any:
        return decide(await given)

    return Pending(later(), Hold.FRAME)


ACTIONS: Final = {"fail": fail, "delay": delay, "drop": drop, "answer": answer}
"""By the name of the verb; rules that observe act on nothing."""


def kept(request: Any, context: RequestContext) -> Any:
    """A copy that outlives the request, whose records lie in a buffer that is used again."""
    version = context.api_version
    return type(request).decode(request.encode(version), version)


def then(result: Any, change: Callable[[Any], Any], seconds: float = 0.0) -> Any:
    """What a handler returned, with its answer changed when it is known, and perhaps later."""

    async def later() -> Any:
        response = await settled(result)
        if seconds:
            await asyncio.sleep(seconds)
        return change(response)

    if isinstance(result, Pending):
        return Pending(later(), result.hold)
    return later() if seconds or hasattr(result, "__await__") else change(result)
