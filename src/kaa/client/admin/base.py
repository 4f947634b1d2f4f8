"""What all parts of the admin client share: the cluster, time limits, and the form of answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Self

from kaa.client.cluster import Cluster
from kaa.client.errors import KafkaError
from kaa.client.settings import client_values
from kaa.config.client import ADMIN, admin_values
from kaa.wire.errors import Errors
from kaa.wire.registry import ApiKey

if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random

    from kaa.model.seams import Clock
    from kaa.wire.schema import Request

Outcome = dict[str, KafkaError | None]
"""By name: None where it was done, else why not."""

# The first version of DeleteTopics that has a list of names and ids in place of names.
_DELETE_BY_ID_VERSION: Final = 6


class AdminBase:
    """The connections of an admin client; its parts derive from it."""

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        *,
        random: Random | None = None,
        clock: Clock | None = None,
        **named: object,
    ) -> None:
        self.values, _ = client_values(ADMIN, admin_values, settings, named)
        self.cluster = Cluster(self.values, random, clock)
        self._timeout_ms = self.values.get_int("default.api.timeout.ms")

    async def start(self) -> Self:
        """Begins to work; for those who do not write `async with`, which calls it."""
        return await self.__aenter__()

    async def close(self) -> None:
        """Closes the connections, as the end of `async with`."""
        self.cluster.close()

    async def __aenter__(self) -> Self:
        await self.cluster.__aenter__()
        return self

    async def __aexit__(self, *exception: object) -> None:
        self.cluster.close()

    async def _change(self, request: Request, what: str) -> tuple[Any, str]:
        """A request for the controller; it is repeated only if it cannot have had an effect."""

        async def connect() -> Any:
            return await self.cluster.controller_connection()

        connection = await self.cluster.repeat(connect, what, self._timeout_ms)
        highest = None
        if request.api_key == ApiKey.DELETE_TOPICS:
            highest = connection.version_of(request.api_key)
            if highest < _DELETE_BY_ID_VERSION:
                request.topics = []  # type: ignore[attr-defined]
        response = await connection.request(request, version=highest, timeout_ms=self._timeout_ms)
        return response, connection.address

    async def _node_ids(self) -> list[int]:
        """All brokers, by their ids."""

        async def attempt() -> list[int]:
            await self.cluster.fetch_metadata([])
            return sorted(self.cluster.metadata.brokers)

        node_ids: list[int] = await self.cluster.repeat(attempt, "metadata", self._timeout_ms)
        return node_ids


def outcome(answer: Any, what: str, node: str) -> KafkaError | None:
    """The error in one row of an answer."""
    if not answer.error_code:
        return None
    message = getattr(answer, "error_message", None)
    return KafkaError(Errors.of(answer.error_code), what, message=message, node=node)
