"""What the verbs of a rule do with a request, in front of the handler that would have served it.

An action gets the rule, the handler, and what the handler would get; it gives an `Answer`, as a
handler does.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from kaa.handlers.context import response_of
from kaa.net.pending import Hold, Pending
from kaa.testing.refusals import OWN_ERROR, WRITTEN_OVER, merge, refuse, write_over
from kaa.testing.share_refusals import SESSION_APIS, Refused
from kaa.wire.frames import EncodedResponse
from kaa.wire.registry import ApiKey, api

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.handlers.context import Answer, Handle, RequestContext
    from kaa.testing.faults import Fault
    from kaa.wire.schema import Response


def fail(
    fault: Fault, handle: Handle, services: Any, request: Any, context: RequestContext
) -> Answer[Response]:
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
    response: type[Any] = api(on.key).response
    if on.key in OWN_ERROR and not on.is_partial:
        fault.acted()
        refused_whole: Response = response(error_code=int(error))
        return refused_whole
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
        context.connection.close("a produce without answer failed")
        return None
    if rest is None:
        return refused
    return then(
        handle(services, rest, context),
        lambda answer: None if answer is None else merge(answer, refused),
    )


def delay(
    fault: Fault, handle: Handle, services: Any, request: Any, context: RequestContext
) -> Answer[Response]:
    """The request is handled at once, and its answer held back."""
    fault.acted()
    result = handle(services, request, context)
    return then(result, lambda answer: answer, fault.verb.seconds)


def drop(
    fault: Fault, handle: Handle, services: Any, request: Any, context: RequestContext
) -> Answer[Response]:
    """The connection is closed, before or after the request takes effect."""
    fault.acted()
    result = handle(services, request, context) if fault.verb.after else None

    def close(_: Response | None) -> None:
        context.connection.close("dropped by a test")

    return then(result, close)


def answer(
    fault: Fault, handle: Handle, services: Any, request: Any, context: RequestContext
) -> Answer[Response]:
    """A function answers, or leaves it to the node; one in another process answers later."""
    given = fault.ask(kept(request, context), context.api_version)

    def decide(given: Any) -> Answer[Response]:
        if given is None:
            return handle(services, request, context)
        fault.acted()
        expected = api(fault.on.key).response
        if not isinstance(given, expected):
            raise TypeError(f"{given!r} is not of type {expected.__name__}")
        return given

    if not hasattr(given, "__await__"):
        return decide(given)

    async def later() -> Answer[Response]:
        return decide(await given)

    return Pending(later(), Hold.FRAME)


ACTIONS: Final = {"fail": fail, "delay": delay, "drop": drop, "answer": answer}
"""By the name of the verb; rules that observe act on nothing."""


def kept(request: Any, context: RequestContext) -> Any:
    """A copy that outlives the request, whose records lie in a buffer that is used again."""
    version = context.api_version
    return type(request).decode(request.encode(version), version)


def then(
    result: Answer[Response],
    change: Callable[[Response | None], Response | None],
    seconds: float = 0.0,
) -> Answer[Response]:
    """What a handler gave, with its response changed when it is known, and perhaps later."""

    async def later() -> Response | None:
        response = await response_of(result)
        if seconds:
            await asyncio.sleep(seconds)
        return change(_readable(response))

    if isinstance(result, Pending):
        return Pending(later(), result.hold)
    return Pending(later()) if seconds else change(_readable(result))


def _readable(response: Response | None) -> Response | None:
    """With fields that can be looked at and changed, where the handler had it encoded before."""
    return response.decoded() if isinstance(response, EncodedResponse) else response
