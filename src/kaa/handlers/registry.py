"""Which APIs a listener serves, and the way of a frame to its handler and back.

A handler is a module named by key and API (`k03_metadata`) with a function `handle(services,
request, context)`. It returns

- a response: the answer is sent at once;
- None: the request has no answer (Produce with acks=0);
- an awaitable: the answer comes later, and the connection's next request waits for it; it gives a
  response, or one that was encoded already;
- `Parked`: the answer comes later, and the connection goes on;
- `KeepsFrame`: an awaitable that reads the buffers of the request while others are served, and
  gives a response, or `Parked` when it has read them.

What a listener serves is the two tables below, and the versions are those of the message classes
unless the module narrows them with `VERSIONS`. ApiVersions is answered from the same tables, so
that nothing is advertised that is not served, or served that is not advertised. As in Kafka, a
request with an unknown key or version closes its connection, except ApiVersions itself, which is
answered in version 0 with what is supported.
"""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kaa.handlers.context import KeepsFrame, Parked, RequestContext
from kaa.net.connection import CloseConnectionError, Later
from kaa.wire.errors import Errors
from kaa.wire.frames import decode_request, encode_response, read_request_header
from kaa.wire.messages.k18_api_versions import ApiVersion, ApiVersionsResponse
from kaa.wire.primitives import WireError
from kaa.wire.registry import ApiKey, api
from kaa.wire.schema import Response

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kaa.net.connection import Connection
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
)


class Served(NamedTuple):
    """An API as one listener serves it."""

    api: Api
    handle: Callable[[Any, Any, RequestContext], Any]
    versions: Versions
    advertised: Versions


def load_handlers(
    apis: tuple[ApiKey | tuple[ApiKey, str], ...],
    *,
    unstable: bool = False,
    opened: frozenset[ApiKey] = frozenset(),
) -> dict[int, Served]:
    """The handlers of a listener by key. `opened` are served in versions that may still change,
    whatever `unstable` says.
    """
    served = {}
    for each in apis:
        key, name = each if isinstance(each, tuple) else (each, module_name(each))
        module = import_module(f"kaa.handlers.{name}")
        found = api(key)
        narrowed: Versions | None = getattr(module, "VERSIONS", None)
        is_open = unstable or key in opened
        served[key.value] = Served(
            found,
            module.handle,
            narrowed or found.served_versions(unstable=is_open),
            narrowed or found.advertised_versions(unstable=is_open),
        )
    return served


def module_name(key: ApiKey) -> str:
    return f"k{key.value:02d}_{key.name.lower()}"


def advertised_versions(handlers: dict[int, Served]) -> list[ApiVersion]:
    """The list of ApiVersions, in the order of the keys."""
    return [
        ApiVersion(api_key=key, min_version=low, max_version=high)
        for key, (_, _, _, (low, high)) in sorted(handlers.items())
    ]


class Router:
    """The dispatcher of one kind of listener.

    A handler that fails costs its own client the connection and is reported; nobody else notices.
    """

    def __init__(
        self,
        services: Any,
        handlers: dict[int, Served],
        tasks: asyncio.TaskGroup,
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.handlers = handlers
        self._services = services
        # Where requests under way live, so that none is lost or left running at the end.
        self._tasks = tasks
        self._under_way: set[asyncio.Task[None]] = set()
        self._report = report

    def __call__(self, connection: Connection, frame: memoryview) -> list[Any] | Later:
        try:
            header = read_request_header(frame)
            served = self.handlers.get(header.api_key)
            if served is None or header.api_version not in served.versions:
                return self._unsupported(header)
            request = decode_request(frame, header)
        except WireError as error:
            raise CloseConnectionError(f"malformed request: {error}") from None
        try:
            result = served.handle(self._services, request, RequestContext(header, connection))
            if isinstance(result, Response):
                return encode_response(result, header.api_version, header.correlation_id)
        except CloseConnectionError:
            raise
        except Exception as error:
            raise CloseConnectionError(self._failed(header, error)) from error
        if result is None:
            return []
        if isinstance(result, Parked):
            encode = self._encoder(result, header)
            if result.done.done():
                return encode(result.done)
            return Later(result.done, is_parked=True, encode=encode)
        if isinstance(result, KeepsFrame):
            freed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            parts = self._start(result.response, header, freed)
            return Later(parts, keeps_frame=True, freed=freed)
        return Later(self._start(result, header))

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
        result: Awaitable[Any],
        header: RequestFrame,
        freed: asyncio.Future[None] | None = None,
    ) -> asyncio.Future[list[Any]]:
        answer: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        task = self._tasks.create_task(self._answer(result, header, answer, freed))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return answer

    async def _answer(
        self,
        result: Awaitable[Any],
        header: RequestFrame,
        answer: asyncio.Future[list[Any]],
        freed: asyncio.Future[None] | None,
    ) -> None:
        try:
            response = await result
            if isinstance(response, Parked):
                _free(freed)
                response = await response
            parts = []
            if isinstance(response, list):
                parts = response
            elif response is not None:
                parts = encode_response(response, header.api_version, header.correlation_id)
        except asyncio.CancelledError:
            answer.cancel()
            raise
        except Exception as error:  # noqa: BLE001  As above.
            answer.set_exception(CloseConnectionError(self._failed(header, error)))
        else:
            answer.set_result(parts)
        finally:
            _free(freed)

    def _encoder(
        self, parked: Parked, header: RequestFrame
    ) -> Callable[[asyncio.Future[Any]], list[Any]]:
        """Makes the parts of an answer that was parked; needs no task of its own."""

        def encode(done: asyncio.Future[Any]) -> list[Any]:
            try:
                response = parked.respond(done)
                return encode_response(response, header.api_version, header.correlation_id)
            except Exception as error:
                raise CloseConnectionError(self._failed(header, error)) from error

        return encode

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


def _free(freed: asyncio.Future[None] | None) -> None:
    if freed is not None and not freed.done():
        freed.set_result(None)
