"""Which APIs a listener serves, and the way of a frame to its handler and back.

A handler is a module named by key and API (`k03_metadata`) with a function `handle(services,
request, context)`. It returns

- a response: the answer is sent at once;
- None: the request has no answer (Produce with acks=0);
- an awaitable: the answer comes later, and the connection's next request waits for it;
- `Parked`: the answer comes later, and the connection goes on.

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

from kaa.handlers.context import Parked, RequestContext
from kaa.net.connection import CloseConnectionError, Later
from kaa.wire.errors import Errors
from kaa.wire.frames import encode_response, read_request_header
from kaa.wire.messages.k18_api_versions import ApiVersion, ApiVersionsResponse
from kaa.wire.primitives import WireError
from kaa.wire.registry import ApiKey, api
from kaa.wire.schema import Response

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from kaa.net.connection import Connection
    from kaa.wire.frames import RequestFrame
    from kaa.wire.primitives import Versions
    from kaa.wire.registry import Api

BROKER_APIS: Final = (
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.METADATA,
    ApiKey.SASL_HANDSHAKE,
    ApiKey.API_VERSIONS,
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_RECORDS,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.DESCRIBE_ACLS,
    ApiKey.CREATE_ACLS,
    ApiKey.DELETE_ACLS,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.DESCRIBE_LOG_DIRS,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    ApiKey.DESCRIBE_CLIENT_QUOTAS,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.DESCRIBE_PRODUCERS,
    ApiKey.LIST_CONFIG_RESOURCES,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
)
CONTROLLER_APIS: Final = (
    ApiKey.SASL_HANDSHAKE,
    ApiKey.API_VERSIONS,
    ApiKey.CREATE_TOPICS,
    ApiKey.DESCRIBE_ACLS,
    ApiKey.CREATE_ACLS,
    ApiKey.DELETE_ACLS,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    ApiKey.DESCRIBE_CLUSTER,
)


class Served(NamedTuple):
    """An API as one listener serves it."""

    api: Api
    handle: Callable[[Any, Any, RequestContext], Any]
    versions: Versions
    advertised: Versions


def load_handlers(keys: tuple[ApiKey, ...], *, unstable: bool = False) -> dict[int, Served]:
    """The handlers of a listener by key."""
    served = {}
    for key in keys:
        module = import_module(f"kaa.handlers.k{key.value:02d}_{key.name.lower()}")
        found = api(key)
        narrowed: Versions | None = getattr(module, "VERSIONS", None)
        served[key.value] = Served(
            found,
            module.handle,
            narrowed or found.served_versions(unstable=unstable),
            narrowed or found.advertised_versions(unstable=unstable),
        )
    return served


def advertised_versions(handlers: dict[int, Served]) -> list[ApiVersion]:
    """The list of ApiVersions, in the order of the keys."""
    return [
        ApiVersion(api_key=key, min_version=low, max_version=high)
        for key, (_, _, _, (low, high)) in sorted(handlers.items())
    ]


class Router:
    """The dispatcher of one kind of listener."""

    def __init__(self, services: Any, handlers: dict[int, Served]) -> None:
        self.handlers = handlers
        self._services = services
        # Tasks of requests under way, held so that they are neither lost nor left running at the
        # end.
        self._tasks: set[asyncio.Task[Any]] = set()

    def __call__(self, connection: Connection, frame: memoryview) -> list[Any] | Later:
        try:
            header = read_request_header(frame)
            served = self.handlers.get(header.api_key)
            if served is None or header.api_version not in served.versions:
                return self._unsupported(header)
            codec = served.api.request.codec(header.api_version)
            request, _ = codec.decode_prefix(frame[header.body_position :])
        except WireError as error:
            raise CloseConnectionError(f"malformed request: {error}") from None
        context = RequestContext(header, connection)
        result = served.handle(self._services, request, context)
        if isinstance(result, Response):
            return encode_response(result, header.api_version, header.correlation_id)
        if result is None:
            return []
        if isinstance(result, Parked):
            return Later(self._start(_awaited(result.response), header), is_parked=True)
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

    def _start(self, result: Coroutine[Any, Any, Any], header: RequestFrame) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(_encoded(result, header))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def cancel(self) -> None:
        """Ends what is still under way; the node is stopping."""
        for task in tuple(self._tasks):
            task.cancel()


async def _awaited(future: asyncio.Future[Any]) -> Any:
    return await future


async def _encoded(result: Coroutine[Any, Any, Any], header: RequestFrame) -> list[Any]:
    response = await result
    if response is None:
        return []
    return encode_response(response, header.api_version, header.correlation_id)
