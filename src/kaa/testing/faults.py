"""What goes wrong on demand: rules about requests, in front of the handlers of a running node.

`Broker.on` says which requests a rule is about, and the verb after it what happens to them:

- fail: the answer is an error, and the request has no effect; with a topic or partition given only
  for that part of the request.
- delay: the request takes effect at once, and its answer comes later.
- drop: the connection is closed, before the request takes effect or, if asked, after.
- answer: a function answers; if it returns None the node does.
- observe: nothing happens to the request; it is kept, and given to a function.

A rule that has not ended acts on every request it is about, until it did so `times` times or is
removed. All rules that observe see a request; of the others the first one acts.

The seam is the table of handlers of the listener for clients, `Router.handlers`: every handler in
it is replaced by one that looks at the rules first (`fault_actions`). A node without this package
has no trace of it. The requests of the helpers themselves are left alone.

Rules are made by the thread of the test and read by the loop of the node, so that the list of them
is replaced and never changed. Those of a node in a child process travel (`remote`).
"""

from __future__ import annotations

from collections import deque
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple

from kaa import limits
from kaa.client.arguments import whole_number
from kaa.handlers.registry import advertised_versions
from kaa.serving.share.persister import ShareStatePersister
from kaa.testing.client import CLIENT_ID
from kaa.testing.deliveries import Deliveries
from kaa.testing.fault_actions import ACTIONS, kept
from kaa.testing.refusals import WRITTEN_OVER
from kaa.testing.request_parts import description, group_ids, parts, topic_name
from kaa.testing.share_refusals import SESSION_APIS
from kaa.testing.state_calls import watched
from kaa.wire.errors import Errors
from kaa.wire.primitives import Versions
from kaa.wire.registry import ApiKey, api

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Self

    from kaa.broker import Broker
    from kaa.handlers.context import Answer, Handle, RequestContext
    from kaa.handlers.registry import Router, Served
    from kaa.wire.schema import Response


def api_key(name: ApiKey | str | int) -> ApiKey:
    """An API by its key, its number, or its name: `PRODUCE`, `OffsetCommit`."""
    if not isinstance(name, int | str):
        raise TypeError(f"{name!r} is not an API; give an ApiKey, or its name as 'Produce'")
    plain = name.replace("_", "").lower() if isinstance(name, str) else None
    for key in ApiKey:
        if name == key or key.name.replace("_", "").lower() == plain:
            return key
    raise ValueError(f"there is no API {name!r}; their names are those of kaa.testing.ApiKey")


def error_of(given: Errors | str | int) -> Errors:
    """An error by its name or its number."""
    for error in Errors:
        if given in (error, error.name):
            return error
    near = get_close_matches(given, Errors.__members__, 1) if isinstance(given, str) else []
    hint = f"; did you mean {near[0]}?" if near else ""
    raise ValueError(f"Kafka has no error {given!r}{hint}")


class Verb(NamedTuple):
    """What a rule does; the function of `answer` and `observe` is kept with the rule."""

    name: str
    error: Errors = Errors.NONE
    seconds: float = 0.0
    after: bool = False


class Fault:
    """A rule in force. As a context it ends with its block."""

    def __init__(
        self,
        owner: Faults,
        on: On,
        verb: Verb,
        times: int | None,
        function: Callable[[Any], Any] | None = None,
    ) -> None:
        self._owner = owner
        self.on = on
        self.verb = verb
        # How often it will still act; None: always.
        self.left = times
        self.function = function
        self._count = 0
        self._requests: list[Any] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()

    @property
    def count(self) -> int:
        """How often it acted."""
        self._owner.catch_up()
        return self._count

    @property
    def requests(self) -> list[Any]:
        """What it saw, if it observes."""
        self._owner.catch_up()
        return self._requests

    @property
    def has_ended(self) -> bool:
        """Whether it has acted as often as it was to."""
        self._owner.catch_up()
        return self.left == 0

    def remove(self) -> None:
        """Ends the rule before its time."""
        self._owner.remove(self)

    def acted(self) -> None:
        """Counts that it acted."""
        self._count += 1
        if self.left is not None:
            self.left -= 1

    def saw(self, request: Any, version: int) -> None:
        """Remembers a request, and hands it to the function of the rule."""
        self.acted()
        self._requests.append(request)
        if self.function is not None:
            self.function(request)

    def ask(self, request: Any, version: int) -> Any:
        """What the function answers: a response, None, or later one of these."""
        assert self.function is not None
        return self.function(request)


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

    @property
    def is_partial(self) -> bool:
        """Whether it is about a part of a request."""
        return self.topic is not None or self.partition is not None

    def fail(self, error: Errors | str | int, times: int | None = None) -> Fault:
        """Answers with an error; Fetch and Metadata with it in every row that matches."""
        return self._add(Verb("fail", error=error_of(error)), times)

    def delay(self, seconds: float, times: int | None = None) -> Fault:
        """Holds the answer back; the request itself is handled at once."""
        return self._add(Verb("delay", seconds=seconds), times)

    def drop(self, times: int | None = None, *, after: bool = False) -> Fault:
        """Closes the connection; with `after` the request takes effect before that."""
        return self._add(Verb("drop", after=after), times)

    def answer(self, function: Callable[[Any], Response | None], times: int | None = None) -> Fault:
        """Lets a function answer, on another thread than the test's; with None the node answers."""
        return self._add(Verb("answer"), times, function)

    def observe(
        self, function: Callable[[Any], object] | None = None, times: int | None = None
    ) -> Fault:
        """Keeps the requests in `Fault.requests`, and gives each to a function."""
        return self._add(Verb("observe"), times, function)

    def _add(
        self, verb: Verb, times: int | None, function: Callable[[Any], Any] | None = None
    ) -> Fault:
        if times is not None:
            # A rule that never acts would let the test prove something else.
            times = whole_number(times, "times", least=1)
        return self._owner.add(Fault(self._owner, self, verb, times, function))

    # --- which requests

    def is_about(self, services: Any, request: Any, context: RequestContext) -> bool:
        """Whether a request is one that the rule is for."""
        if self.client_id is not None and self.client_id != context.client_id:
            return False
        if self.group_id is not None and self.group_id not in group_ids(request):
            return False
        if not self.is_partial:
            return True
        if self.key in WRITTEN_OVER or self.key in SESSION_APIS:
            return True  # What they are about shows in their answers, or in their sessions.
        return any(
            self.matches(services, row, partition)
            for row, partitions in parts(request)
            for partition in (partitions or [None])
        )

    def matches(self, services: Any, row: Any, partition: int | None) -> bool:
        """Whether a row of a request or answer is meant."""
        if self.topic is not None and topic_name(services, row) != self.topic:
            return False
        return self.partition is None or partition is None or partition == self.partition


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
        self.deliveries = Deliveries()

    def add(self, fault: Fault) -> Fault:
        """Adds a rule; the first that fits a request acts."""
        self._rules = (*self._rules, fault)
        return fault

    def remove(self, fault: Fault) -> None:
        """Takes a rule away."""
        self._rules = tuple(each for each in self._rules if each is not fault)

    def clear(self) -> None:
        """Ends every rule and forgets what was seen. Caps stay until they are replaced."""
        self._rules = ()
        self.seen.clear()
        self.deliveries.clear()

    def catch_up(self) -> None:
        """What happened in the node is known here at once."""

    def requests(self) -> list[str]:
        """The requests that came in, oldest first, in a few words each."""
        return [str(seen) for seen in tuple(self.seen)]

    # --- on the loop of the node

    def install(self, broker: Broker) -> None:
        """Puts itself in front of the handlers; nothing was served yet."""
        self._broker = broker
        router = self._router(broker)
        self._served = dict(router.handlers)
        fetch = self._served[ApiKey.SHARE_FETCH]
        handle = self.deliveries.watching(fetch.handle)
        self._served[ApiKey.SHARE_FETCH] = fetch._replace(handle=handle)
        persister = broker.services.share_partitions.persister
        assert isinstance(persister, ShareStatePersister)
        persister.here = watched(self, broker.services, persister.here)
        self._apply()

    def cap(self, versions: Mapping[ApiKey, int]) -> None:
        """Serves no higher versions than these; a negative one takes the API away."""
        self._caps = dict(versions)
        if self._broker is not None:
            self._apply()

    @property
    def has_caps(self) -> bool:
        """Whether versions of some requests are kept low."""
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
        for endpoint in broker.config.listeners.broker:
            broker.services.api_versions[endpoint.listener] = rows

    def _wrapped(self, key: ApiKey, handle: Handle) -> Handle:
        def look_first(services: Any, request: Any, context: RequestContext) -> Answer[Response]:
            if context.client_id == CLIENT_ID:
                return handle(services, request, context)
            seen = Seen(key, context.api_version, context.client_id, description(services, request))
            self.seen.append(seen)
            acting = self.acting(key, services, request, context)
            if acting is None:
                return handle(services, request, context)
            seen.note = "(a rule of the test acted)"
            return ACTIONS[acting.verb.name](acting, handle, services, request, context)

        return look_first

    def acting(self, key: ApiKey, services: Any, request: Any, context: Any) -> Fault | None:
        """The rule that acts on a request, if any; those that observe have seen it."""
        acting = None
        for fault in self._rules:
            if (
                fault.on.key is not key
                or fault.has_ended
                or not fault.on.is_about(services, request, context)
            ):
                continue
            if fault.verb.name not in ACTIONS:
                fault.saw(kept(request, context), context.api_version)
            elif acting is None:
                acting = fault
        return acting
