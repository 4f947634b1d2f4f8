"""What goes wrong on demand: rules about requests, in front of the handlers of a running node.

``Broker.on`` says which requests a rule is about, and the verb after it what happens to them:

==========  ====================================================================================
fail        the answer is an error, and the request has no effect; with a topic or partition given
            only for that part of the request
delay       the request takes effect at once, and its answer comes later
drop        the connection is closed, before the request takes effect or, if asked, after
answer      a function answers; if it returns None the node does
observe     nothing happens to the request; it is kept, and given to a function
==========  ====================================================================================

A rule that has not ended acts on every request it is about, until it did so ``times`` times or is
removed. All rules that observe see a request; of the others the first one acts.

The seam is the table of handlers of the listener for clients, ``Router.handlers``: every handler in
it is replaced by one that looks at the rules first. A node without this package has no trace of it.
The requests of the helpers themselves are left alone.

Rules are made by the thread of the test and read by the loop of the node, so that the list of them
is replaced and never changed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

from kaa import limits
from kaa.handlers.context import Parked
from kaa.handlers.registry import advertised_versions
from kaa.testing.client import CLIENT_ID
from kaa.testing.refusals import WRITTEN_OVER, merge, refuse, write_over
from kaa.wire.errors import Errors
from kaa.wire.primitives import Versions
from kaa.wire.registry import ApiKey, api

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from typing import Self

    from kaa.broker import Broker
    from kaa.handlers.context import RequestContext
    from kaa.handlers.registry import Router, Served
    from kaa.wire.schema import Response

    Handle = Callable[[Any, Any, RequestContext], Any]
    # Handles a request under a rule; `handle` is what would have handled it.
    Action = Callable[["Fault", Handle, Any, Any, RequestContext], Any]


def api_key(name: ApiKey | str | int) -> ApiKey:
    """An API by its key, its number, or its name: ``PRODUCE``, ``OffsetCommit``."""
    if isinstance(name, int):
        return ApiKey(name)
    plain = name.replace("_", "").lower()
    for key in ApiKey:
        if key.name.replace("_", "").lower() == plain:
            return key
    raise ValueError(f"there is no API {name!r}; their names are those of kaa.testing.ApiKey")


class Fault:
    """A rule in force. As a context it ends with its block."""

    def __init__(self, owner: Faults, on: On, times: int | None, action: Action | None) -> None:
        self._owner = owner
        self.on = on
        self.action = action
        self._left = times
        # How often it acted.
        self.count = 0
        # What it saw, if it observes, and who is told.
        self.requests: list[Any] = []
        self.observer: Callable[[Any], object] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()

    @property
    def has_ended(self) -> bool:
        return self._left == 0

    def remove(self) -> None:
        self._owner.remove(self)

    def acted(self) -> None:
        self.count += 1
        if self._left is not None:
            self._left -= 1

    def saw(self, request: Any) -> None:
        self.acted()
        self.requests.append(request)
        if self.observer is not None:
            self.observer(request)


class On:
    """The requests that a rule is about; each verb puts a rule into force."""

    def __init__(
        self,
        owner: Faults,
        key: ApiKey,
        *,
        topic: str | None = None,
        partition: int | None = None,
        client_id: str | None = None,
        group_id: str | None = None,
    ) -> None:
        self._owner = owner
        self.key = key
        self.topic = topic
        self.partition = partition
        self.client_id = client_id
        self.group_id = group_id

    def fail(self, error: Errors | str, times: int | None = None) -> Fault:
        """Answers with an error; Fetch and Metadata with it in every row that matches."""
        code = error if isinstance(error, Errors) else Errors[error]

        def act(fault: Fault, handle: Handle, services: Any, request: Any, context: Any) -> Any:
            return _fail(fault, code, handle, services, request, context)

        return self._add(times, act)

    def delay(self, seconds: float, times: int | None = None) -> Fault:
        """Holds the answer back; the request itself is handled at once."""

        def act(fault: Fault, handle: Handle, services: Any, request: Any, context: Any) -> Any:
            fault.acted()
            return _then(handle(services, request, context), lambda answer: answer, seconds)

        return self._add(times, act)

    def drop(self, times: int | None = None, *, after: bool = False) -> Fault:
        """Closes the connection; with ``after`` the request takes effect before that."""

        def act(fault: Fault, handle: Handle, services: Any, request: Any, context: Any) -> Any:
            fault.acted()
            result = handle(services, request, context) if after else None

            def close(_: Any) -> None:
                context.connection.close("dropped by a test")

            return _then(result, close)

        return self._add(times, act)

    def answer(self, function: Callable[[Any], Response | None], times: int | None = None) -> Fault:
        """Lets a function answer, on the thread of the node; with None the node answers."""

        def act(fault: Fault, handle: Handle, services: Any, request: Any, context: Any) -> Any:
            answer = function(_kept(request, context))
            if answer is None:
                return handle(services, request, context)
            fault.acted()
            expected = api(self.key).response
            if not isinstance(answer, expected):
                raise TypeError(f"{answer!r} is no {expected.__name__}")
            return answer

        return self._add(times, act)

    def observe(
        self, function: Callable[[Any], object] | None = None, times: int | None = None
    ) -> Fault:
        """Keeps the requests in ``Fault.requests``, and gives each to a function."""
        fault = self._add(times, None)
        fault.observer = function
        return fault

    def _add(self, times: int | None, action: Action | None) -> Fault:
        return self._owner.add(Fault(self._owner, self, times, action))

    # --- which requests

    def is_about(self, services: Any, request: Any, context: RequestContext) -> bool:
        if self.client_id is not None and self.client_id != context.client_id:
            return False
        if self.group_id is not None and self.group_id not in _group_ids(request):
            return False
        if self.topic is None and self.partition is None:
            return True
        if self.key in WRITTEN_OVER:
            return True  # What they are about shows in their answers.
        return any(
            self.matches(services, row, partition)
            for row, partitions in _parts(request)
            for partition in (partitions or [None])
        )

    def matches(self, services: Any, row: Any, partition: int | None) -> bool:
        """Whether a row of a request or answer is meant."""
        if self.topic is not None and _topic_name(services, row) != self.topic:
            return False
        return self.partition is None or partition is None or partition == self.partition


def _group_ids(request: Any) -> list[str]:
    """The groups that a request is about, in whichever of its fields it names them."""
    if hasattr(request, "group_id") and request.group_id:
        return [request.group_id]
    groups = getattr(request, "groups", None) or getattr(request, "group_ids", None) or ()
    return [getattr(group, "group_id", group) for group in groups]


class Seen:
    """A request that came in, for the report of a failed test."""

    __slots__ = ("client_id", "key", "note", "topics", "version")

    def __init__(self, key: ApiKey, version: int, client_id: str, topics: str) -> None:
        self.key = key
        self.version = version
        self.client_id = client_id
        self.topics = topics
        self.note = ""

    def __str__(self) -> str:
        text = f"{api(self.key).name} v{self.version} from {self.client_id or '?'}"
        return " ".join(filter(None, (text, self.topics, self.note)))


class Faults:
    """The rules of one broker, and the requests it has seen."""

    def __init__(self) -> None:
        self._rules: tuple[Fault, ...] = ()
        self._caps: dict[ApiKey, int] = {}
        self._broker: Broker | None = None
        self._served: dict[int, Served] = {}
        self.seen: deque[Seen] = deque(maxlen=limits.TESTING_REQUESTS_REMEMBERED_MAX)

    def add(self, fault: Fault) -> Fault:
        self._rules = (*self._rules, fault)
        return fault

    def remove(self, fault: Fault) -> None:
        self._rules = tuple(each for each in self._rules if each is not fault)

    def clear(self) -> None:
        """Ends every rule and forgets what was seen. Caps stay until they are replaced."""
        self._rules = ()
        self.seen.clear()

    # --- on the loop of the node

    def install(self, broker: Broker) -> None:
        """Puts itself in front of the handlers; nothing was served yet."""
        self._broker = broker
        router = self._router(broker)
        self._served = dict(router.handlers)
        self._apply()

    def cap(self, versions: Mapping[ApiKey, int]) -> None:
        """Serves no higher versions than these; a negative one takes the API away."""
        self._caps = dict(versions)
        if self._broker is not None:
            self._apply()

    @property
    def has_caps(self) -> bool:
        return bool(self._caps)

    @staticmethod
    def _router(broker: Broker) -> Router:
        return broker.listeners.routers[0]

    def _apply(self) -> None:
        broker = self._broker
        assert broker is not None
        handlers = {}
        for number, served in self._served.items():
            highest = self._caps.get(ApiKey(number), served.versions.high)
            if highest < served.versions.low:
                continue
            handlers[number] = served._replace(
                handle=self._wrapped(ApiKey(number), served.handle),
                versions=Versions(served.versions.low, min(highest, served.versions.high)),
                advertised=Versions(served.advertised.low, min(highest, served.advertised.high)),
            )
        self._router(broker).handlers = handlers
        rows = advertised_versions(handlers)
        services = broker.services
        controllers = {endpoint.listener for endpoint in broker.config.listeners.controller}
        services.api_versions = {
            name: versions if name in controllers else rows
            for name, versions in services.api_versions.items()
        }

    def _wrapped(self, key: ApiKey, handle: Handle) -> Handle:
        def look_first(services: Any, request: Any, context: RequestContext) -> Any:
            if context.client_id == CLIENT_ID:
                return handle(services, request, context)
            seen = Seen(key, context.api_version, context.client_id, _told(services, request))
            self.seen.append(seen)
            acting = None
            for fault in self._rules:
                if (
                    fault.on.key is not key
                    or fault.has_ended
                    or not fault.on.is_about(services, request, context)
                ):
                    continue
                if fault.action is None:
                    fault.saw(_kept(request, context))
                elif acting is None:
                    acting = fault
            if acting is None or acting.action is None:
                return handle(services, request, context)
            seen.note = "(a rule of the test acted)"
            return acting.action(acting, handle, services, request, context)

        return look_first


def _fail(
    fault: Fault, error: Errors, handle: Handle, services: Any, request: Any, context: Any
) -> Any:
    on = fault.on

    def matches(row: Any, partition: int | None) -> bool:
        return on.matches(services, row, partition)

    if on.key in WRITTEN_OVER:
        of_partitions = on.key is ApiKey.FETCH or on.partition is not None

        def written_over(answer: Any) -> Any:
            if not fault.has_ended and write_over(answer, error, matches, partitions=of_partitions):
                fault.acted()
            return answer

        return _then(handle(services, request, context), written_over)
    response = api(on.key).response
    rest, refused = refuse(request, response, context.api_version, error, matches)
    if refused is None:
        return handle(services, request, context)
    fault.acted()
    if rest is None and getattr(request, "acks", None) == 0:
        # Who wants no answer learns of a failure by losing the connection, as with Kafka.
        return context.connection.close("a produce without answer failed")
    if rest is None:
        return refused
    return _then(
        handle(services, rest, context),
        lambda answer: None if answer is None else merge(answer, refused),
    )


def _then(result: Any, change: Callable[[Any], Any], seconds: float = 0.0) -> Any:
    """What a handler returned, with its answer changed when it is known, and perhaps later."""

    async def later(awaited: Awaitable[Any] | None) -> Any:
        answer = result if awaited is None else await awaited
        if seconds:
            await asyncio.sleep(seconds)
        return change(answer)

    if isinstance(result, Parked):
        return Parked(later(result.response))  # type: ignore[arg-type]
    if hasattr(result, "__await__"):
        return later(result)
    return later(None) if seconds else change(result)


def _kept(request: Any, context: RequestContext) -> Any:
    """A copy that outlives the request, whose records lie in a buffer that is used again."""
    version = context.api_version
    return type(request).decode(request.encode(version), version)


# --- what a request is about


def _parts(request: Any) -> list[tuple[Any, list[int | None]]]:
    """The rows of a request that name topics, with the partitions they name."""
    rows = next(
        (
            found
            for name in ("topic_data", "topics", "topic_names", "topics_partitions")
            if (found := getattr(request, name, None))
        ),
        (),
    )
    groups = getattr(request, "groups", None) or ()
    nested = [row for group in groups for row in getattr(group, "topics", None) or ()]
    return [(row, _partitions(row)) for row in (*rows, *nested)]


def _partitions(row: Any) -> list[int | None]:
    inner = next(
        (
            found
            for name in ("partition_data", "partitions", "partition_indexes")
            if (found := getattr(row, name, None))
        ),
        (),
    )
    numbers: list[int | None] = []
    for each in inner:
        if isinstance(each, int):
            numbers.append(each)
            continue
        names = (name for name in ("index", "partition", "partition_index") if hasattr(each, name))
        numbers += [getattr(each, name) for name in names]
    return numbers


def _topic_name(services: Any, row: Any) -> str | None:
    if isinstance(row, str):
        return row
    name: str | None = getattr(row, "name", None) or getattr(row, "topic", None)
    if not name and hasattr(row, "topic_id"):
        topic = services.image.topics_by_id.get(row.topic_id)
        name = None if topic is None else topic.name
    return name


def _told(services: Any, request: Any) -> str:
    """The topics and partitions of a request in a few words."""
    words = []
    for row, partitions in _parts(request):
        numbers = ",".join(map(str, partitions))
        name = _topic_name(services, row) or "?"
        words.append(f"{name}[{numbers}]" if numbers else name)
    if group := getattr(request, "group_id", None):
        words.append(f"group={group}")
    return " ".join(words)
