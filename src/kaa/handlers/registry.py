"""Which APIs a listener serves, and the way of a frame to its handler and back.

A handler is a module named by key and API (`k03_metadata`) with a function `handle(services,
request, context)`. It gives an `Answer` (`kaa.handlers.context`): a response, or `Pending`
(`kaa.net.pending`) where that is not known yet. A response that would take long to encode is
encoded by a thread if it is given by a coroutine.

What a listener serves is the two tables below, in the versions of `kaa.wire.registry`. ApiVersions
is answered from the same tables, so that nothing is advertised that is not served, or served that
is not advertised. As in Kafka, a request with an unknown key or version closes its connection,
except ApiVersions itself, which is answered in version 0 with what is supported.

The module of a handler, and with it the messages, is loaded when it is first needed: a node is
ready before it has loaded what its clients may never ask for. A program that serves for long loads
the rest once it is ready (`load_ahead`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kaa.handlers.cluster_action import guarded
from kaa.handlers.context import RequestContext
from kaa.limits import (
    NAMES_ANSWERED_PER_SLICE_MAX,
    REQUEST_BYTES_ON_LOOP_MAX,
    RESPONSE_ITEMS_ON_LOOP_MAX,
)
from kaa.model.turns import freed
from kaa.net.connection import CloseConnectionError
from kaa.net.pending import Hold, Pending
from kaa.wire.errors import Errors
from kaa.wire.frames import decode_request, encode_response, read_request_header
from kaa.wire.messages.k18_api_versions import ApiVersion, ApiVersionsResponse
from kaa.wire.primitives import WireError
from kaa.wire.registry import ApiKey, api
from kaa.wire.schema import Response, Struct

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kaa.handlers.context import Answer, Handle
    from kaa.net.connection import Connection
    from kaa.net.pending import Reply
    from kaa.serving.services import NodeServices
    from kaa.wire.frames import RequestFrame
    from kaa.wire.primitives import Versions
    from kaa.wire.registry import Api

BROKER_APIS: Final = (
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.METADATA,
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
    ApiKey.FIND_COORDINATOR,
    ApiKey.JOIN_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.DESCRIBE_GROUPS,
    ApiKey.LIST_GROUPS,
    ApiKey.SASL_HANDSHAKE,
    ApiKey.API_VERSIONS,
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.DELETE_RECORDS,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.END_TXN,
    ApiKey.WRITE_TXN_MARKERS,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.DESCRIBE_ACLS,
    ApiKey.CREATE_ACLS,
    ApiKey.DELETE_ACLS,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.ALTER_CONFIGS,
    ApiKey.ALTER_REPLICA_LOG_DIRS,
    ApiKey.DESCRIBE_LOG_DIRS,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.DELETE_GROUPS,
    ApiKey.ELECT_LEADERS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    ApiKey.OFFSET_DELETE,
    ApiKey.DESCRIBE_CLIENT_QUOTAS,
    ApiKey.ALTER_CLIENT_QUOTAS,
    ApiKey.DESCRIBE_QUORUM,
    ApiKey.UPDATE_FEATURES,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.DESCRIBE_PRODUCERS,
    ApiKey.UNREGISTER_BROKER,
    ApiKey.DESCRIBE_TRANSACTIONS,
    ApiKey.LIST_TRANSACTIONS,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    ApiKey.LIST_CONFIG_RESOURCES,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    ApiKey.SHARE_GROUP_HEARTBEAT,
    ApiKey.SHARE_GROUP_DESCRIBE,
    ApiKey.SHARE_FETCH,
    ApiKey.SHARE_ACKNOWLEDGE,
    ApiKey.ADD_RAFT_VOTER,
    ApiKey.REMOVE_RAFT_VOTER,
    ApiKey.INITIALIZE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE,
    ApiKey.WRITE_SHARE_GROUP_STATE,
    ApiKey.DELETE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    ApiKey.STREAMS_GROUP_HEARTBEAT,
    ApiKey.STREAMS_GROUP_DESCRIBE,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS,
)
# The module is named where it is not that of the broker listener.
CONTROLLER_APIS: Final = (
    (ApiKey.FETCH, "k01_fetch_metadata"),
    ApiKey.SASL_HANDSHAKE,
    ApiKey.API_VERSIONS,
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.DESCRIBE_ACLS,
    ApiKey.CREATE_ACLS,
    ApiKey.DELETE_ACLS,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.ALTER_CONFIGS,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.ELECT_LEADERS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    ApiKey.ALTER_CLIENT_QUOTAS,
    ApiKey.VOTE,
    ApiKey.BEGIN_QUORUM_EPOCH,
    ApiKey.END_QUORUM_EPOCH,
    ApiKey.DESCRIBE_QUORUM,
    ApiKey.ALTER_PARTITION,
    ApiKey.UPDATE_FEATURES,
    ApiKey.ENVELOPE,
    ApiKey.FETCH_SNAPSHOT,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.BROKER_REGISTRATION,
    ApiKey.BROKER_HEARTBEAT,
    ApiKey.UNREGISTER_BROKER,
    ApiKey.ALLOCATE_PRODUCER_IDS,
    ApiKey.CONTROLLER_REGISTRATION,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS,
    ApiKey.ADD_RAFT_VOTER,
    ApiKey.REMOVE_RAFT_VOTER,
    ApiKey.UPDATE_RAFT_VOTER,
)


class Served(NamedTuple):
    """An API as one listener serves it."""

    api: Api
    handle: Handle
    versions: Versions
    advertised: Versions


class LazyHandler:
    """Stands in a table of handlers for one whose module is not loaded yet. The first request, or
    `load`, puts the function of the module in its place: later requests go straight to that.
    """

    __slots__ = ("_key", "_name", "_table")

    def __init__(self, name: str, table: dict[int, Served], key: int) -> None:
        self._name = name
        self._table = table
        self._key = key

    def __call__(
        self, services: NodeServices, request: Any, context: RequestContext
    ) -> Answer[Response]:
        return self.load()(services, request, context)

    def load(self) -> Handle:
        """The function of the module, guarded where only nodes may call it."""
        module = import_module(f"kaa.handlers.{self._name}")
        handle: Handle = guarded(self._name, module.handle)
        self._table[self._key] = self._table[self._key]._replace(handle=handle)
        return handle


def find_handlers(
    apis: tuple[ApiKey | tuple[ApiKey, str], ...],
    *,
    unstable: bool = False,
    opened: frozenset[ApiKey] = frozenset(),
) -> dict[int, Served]:
    """The handlers of a listener by key. `opened` are served in versions that may still change,
    whatever `unstable` says.
    """
    served: dict[int, Served] = {}
    for each in apis:
        key, name = each if isinstance(each, tuple) else (each, module_name(each))
        found = api(key)
        is_open = unstable or key in opened
        served[key.value] = Served(
            found,
            LazyHandler(name, served, key.value),
            found.served_versions(unstable=is_open),
            found.advertised_versions(unstable=is_open),
        )
    return served


def load_ahead(handlers: dict[int, Served]) -> None:
    """Loads the handlers that nobody has asked for yet."""
    for served in tuple(handlers.values()):
        if isinstance(served.handle, LazyHandler):
            served.handle.load()


def module_name(key: ApiKey) -> str:
    return f"k{key.value:02d}_{key.name.lower()}"


def advertised_versions(handlers: dict[int, Served]) -> list[ApiVersion]:
    """The list of ApiVersions, in the order of the keys."""
    return [
        ApiVersion(api_key=key, min_version=low, max_version=high)
        for key, (_, _, _, (low, high)) in sorted(handlers.items())
    ]


def is_long(response: Response) -> bool:
    """Whether to encode it would take too long for the loop: it has many entries, or a few of them
    have many, as a topic with thousands of partitions does.
    """
    count = 0
    waiting: list[Any] = [response]
    while waiting:
        message = waiting.pop()
        for name in type(message).__slots__:
            value = getattr(message, name)
            if isinstance(value, list) and value:
                count += len(value)
                if count > RESPONSE_ITEMS_ON_LOOP_MAX:
                    return True
                if isinstance(value[0], Struct):
                    waiting += value
    return False


def entries_of(request: Struct) -> list[Any]:
    """What is in the lists of a message, and of its first entries. As long as somebody has them, to
    let go of the message is quick.
    """
    found: list[Any] = []
    waiting = deque[Struct]([request])
    while waiting and len(found) < NAMES_ANSWERED_PER_SLICE_MAX:
        message = waiting.popleft()
        for name in type(message).__slots__:
            value = getattr(message, name)
            if isinstance(value, list) and value:
                found += value
                if isinstance(value[0], Struct):
                    waiting += value[:NAMES_ANSWERED_PER_SLICE_MAX]
    # They are let go of from the end on: first what has others in it.
    found.reverse()
    return found


def _decode_produce(frame: memoryview, header: RequestFrame) -> Any:
    """A produce, whatever the size of its records; None for one with very many topics and
    partitions, and for what else takes a thread to decode. That finds out what is malformed.
    """
    if header.api_key != ApiKey.PRODUCE:
        return None
    try:
        return decode_request(frame, header, elements_max=NAMES_ANSWERED_PER_SLICE_MAX)
    except WireError:
        return None


async def encode_in_thread(
    services: NodeServices, response: Response, header: RequestFrame
) -> list[Any]:
    """The parts of a response that is long."""
    return await services.loop.run_in_executor(
        services.batch_work, encode_response, response, header.api_version, header.correlation_id
    )


def _abandon(response: Awaitable[object]) -> None:
    """Lets go of what nobody will wait for; a coroutine that never began would be complained of."""
    if asyncio.iscoroutine(response):
        response.close()


class Router:
    """The dispatcher of one kind of listener.

    A handler that fails costs its own client the connection and is reported; nobody else notices.
    """

    def __init__(
        self,
        services: NodeServices,
        handlers: dict[int, Served],
        tasks: asyncio.TaskGroup,
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.handlers = handlers
        self._services = services
        # Where requests under way live, so that none is lost or left running at the end.
        self._tasks = tasks
        self._under_way: dict[asyncio.Task[None], None] = {}
        self._report = report

    def __call__(self, connection: Connection, frame: memoryview) -> Reply:
        try:
            header = read_request_header(frame)
            served = self.handlers.get(header.api_key)
            if served is None or header.api_version not in served.versions:
                return self._unsupported(header)
            if len(frame) > REQUEST_BYTES_ON_LOOP_MAX:
                request = _decode_produce(frame, header)
                if request is None:
                    context = RequestContext(header, connection)
                    entries: list[list[Any]] = []
                    large = self._large(served, frame, context, entries)
                    return Pending(self._start(large, header, entries), Hold.FRAME)
            else:
                request = decode_request(frame, header)
        except WireError as error:
            raise CloseConnectionError(f"malformed request: {error}") from None
        try:
            answer = served.handle(self._services, request, RequestContext(header, connection))
            if isinstance(answer, Response):
                return encode_response(answer, header.api_version, header.correlation_id)
            return self._parts(answer, header)
        except CloseConnectionError:
            raise
        except Exception as error:
            raise CloseConnectionError(self._failed(header, error)) from error

    async def _large(
        self, served: Served, frame: memoryview, context: RequestContext, entries: list[list[Any]]
    ) -> Answer[Response]:
        """What the handler gives for a request of very many parts, which a thread decodes; they are
        added to the entries.
        """
        services = self._services
        try:
            request = await services.loop.run_in_executor(
                services.batch_work, decode_request, frame, context.header
            )
        except WireError as error:
            raise CloseConnectionError(f"malformed request: {error}") from None
        entries.append(entries_of(request))
        return served.handle(services, request, context)

    def _parts(
        self, answer: Answer[Response], header: RequestFrame, entries: list[list[Any]] | None = None
    ) -> Reply:
        """What a connection sends, or waits for, where a handler gave this."""
        if isinstance(answer, Response):
            return encode_response(answer, header.api_version, header.correlation_id)
        if answer is None:
            return []
        response, hold, _ = answer
        if not isinstance(response, asyncio.Future):
            return Pending(self._start(response, header, entries), hold)

        def encode(done: asyncio.Future[Answer[Response]]) -> Reply:
            if done.cancelled():
                raise CloseConnectionError("the request was given up")
            try:
                return self._parts(done.result(), header)
            except Exception as error:
                raise CloseConnectionError(self._failed(header, error)) from error

        return encode(response) if response.done() else Pending(response, hold, encode)

    def _unsupported(self, header: RequestFrame) -> list[Any]:
        if header.api_key != ApiKey.API_VERSIONS or ApiKey.API_VERSIONS not in self.handlers:
            raise CloseConnectionError(
                f"API key {header.api_key} version {header.api_version} is not served here"
            )
        supported = self.handlers[ApiKey.API_VERSIONS].advertised
        response = ApiVersionsResponse(
            error_code=Errors.UNSUPPORTED_VERSION,
            api_keys=[
                ApiVersion(
                    api_key=ApiKey.API_VERSIONS,
                    min_version=supported.low,
                    max_version=supported.high,
                )
            ],
        )
        return encode_response(response, 0, header.correlation_id)

    def _start(
        self,
        response: Awaitable[Answer[Response]],
        header: RequestFrame,
        entries: list[list[Any]] | None = None,
    ) -> asyncio.Future[Reply]:
        parts: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        running = self._run(response, header, parts, entries)
        try:
            task = self._tasks.create_task(running)
        except RuntimeError:
            # Something else in the node has failed and ends it: its tasks take no more.
            running.close()
            _abandon(response)
            raise CloseConnectionError("the node is stopping") from None
        self._under_way[task] = None
        task.add_done_callback(partial(self._ended, response, parts))
        return parts

    def _ended(
        self, response: Awaitable[object], parts: asyncio.Future[Reply], task: asyncio.Task[None]
    ) -> None:
        del self._under_way[task]
        if task.cancelled():
            # Perhaps before it had begun, when `_run` cannot do this.
            parts.cancel()
            _abandon(response)

    async def _run(
        self,
        response: Awaitable[Answer[Response]],
        header: RequestFrame,
        parts: asyncio.Future[Reply],
        entries: list[list[Any]] | None,
    ) -> None:
        """Waits for the response; frees the entries of large requests and responses after it."""
        given: Reply
        try:
            answer = await response
            if isinstance(answer, Response) and is_long(answer):
                given = await encode_in_thread(self._services, answer, header)
                entries = [*(entries or ()), entries_of(answer)]
            else:
                given = self._parts(answer, header, entries)
        except CloseConnectionError as error:
            parts.set_exception(error)
        except Exception as error:  # noqa: BLE001  As above.
            parts.set_exception(CloseConnectionError(self._failed(header, error)))
        else:
            parts.set_result(given)
            if entries and not isinstance(given, Pending):
                del answer, given
                for some in entries:
                    await freed(some)

    def _failed(self, header: RequestFrame, error: Exception) -> str:
        where = error.__traceback__
        while where is not None and where.tb_next is not None:
            where = where.tb_next
        place = (
            "" if where is None else f" at {where.tb_frame.f_code.co_qualname}:{where.tb_lineno}"
        )
        text = f"{ApiKey(header.api_key).name} v{header.api_version} failed: {error!r}{place}"
        self._report(text)
        return text

    def cancel(self) -> None:
        """Ends what is still under way; the node is stopping."""
        for task in tuple(self._under_way):
            task.cancel()
