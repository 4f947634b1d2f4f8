"""Who coordinates a group or a transactional id, and calls to that broker.

FindCoordinator names the broker; it is remembered until the broker says that it is not, or no
longer, the one. Members of groups and transactional producers hold on to their coordinator through
a connection of its own (`coordinator_node`), as Java's clients do: a JoinGroup may wait for
minutes, and a fetch for half a second, and both would hold up what is sent after them.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kaa.client.arguments import names_of
from kaa.client.errors import (
    ClientError,
    DisconnectedError,
    KafkaError,
    RequestTimeoutError,
    UnreachableError,
)
from kaa.client.metadata import Broker
from kaa.wire.errors import Errors
from kaa.wire.messages.k10_find_coordinator import FindCoordinatorRequest
from kaa.wire.registry import ApiKey

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from kaa.client.cluster import Cluster
    from kaa.client.connection import Connection

Answer = TypeVar("Answer")

# The first version of FindCoordinator that asks for several keys.
_SEVERAL_KEYS_VERSION: Final = 4
MOVED: Final = frozenset({Errors.NOT_COORDINATOR, Errors.COORDINATOR_NOT_AVAILABLE})
"""Answers after which the coordinator has to be looked up again."""
NOT_READY: Final = MOVED | {Errors.COORDINATOR_LOAD_IN_PROGRESS}
"""Answers after which the same request is sent again."""
COORDINATOR_NODES_FIRST: Final = 1 << 30
"""From here on, numbers of nodes stand for connections to them as coordinators."""
_NODES_LAST: Final = (1 << 31) - 1


class CoordinatorType(IntEnum):
    """What is coordinated."""

    GROUP = 0
    TRANSACTION = 1


class Coordinators:
    """The coordinators that a client knows; written by `find` and `forget` alone."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._nodes: dict[tuple[CoordinatorType, str], int] = {}

    async def find(self, kind: CoordinatorType, keys: Iterable[str]) -> dict[str, int | KafkaError]:
        """The nodes that coordinate these keys; raises KafkaError where there is none yet."""
        found: dict[str, int | KafkaError] = {}
        unknown: list[str] = []
        for key in keys:
            node_id = self._nodes.get((kind, key))
            if node_id is None:
                unknown.append(key)
            else:
                found[key] = node_id
        if unknown:
            connection = await self._cluster.any_connection()
            if connection.version_of(ApiKey.FIND_COORDINATOR) >= _SEVERAL_KEYS_VERSION:
                await self._ask(connection, kind, unknown, found)
            else:
                for key in unknown:
                    await self._ask_for_one(connection, kind, key, found)
        return found

    async def node(self, kind: CoordinatorType, key: str) -> int:
        """The node that coordinates one key."""
        answer = (await self.find(kind, [key]))[key]
        if isinstance(answer, KafkaError):
            raise answer
        return answer

    async def connection(self, kind: CoordinatorType, key: str) -> Connection:
        """The connection that is kept for the coordinator of a key alone.

        A coordinator that cannot be reached is looked up again: another broker may be it now.
        """
        node_id = await self.node(kind, key)
        try:
            return await self._cluster.connection(coordinator_node(node_id))
        except ClientError:
            self.forget(kind, key)
            raise

    def forget(self, kind: CoordinatorType, key: str) -> None:
        """Looks the coordinator up again when it is needed next."""
        self._nodes.pop((kind, key), None)

    async def _ask(
        self,
        connection: Connection,
        kind: CoordinatorType,
        keys: list[str],
        found: dict[str, int | KafkaError],
    ) -> None:
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=keys)
        response = await connection.request(request)
        for answer in response.coordinators:
            self._take(kind, answer.key, answer, connection.address, found)

    async def _ask_for_one(
        self,
        connection: Connection,
        kind: CoordinatorType,
        key: str,
        found: dict[str, int | KafkaError],
    ) -> None:
        version = connection.version_of(ApiKey.FIND_COORDINATOR)
        request = FindCoordinatorRequest(key=key, key_type=kind)
        response = await connection.request(request, version=version)
        self._take(kind, key, response, connection.address, found)

    def _take(
        self,
        kind: CoordinatorType,
        key: str,
        answer: Any,
        address: str,
        found: dict[str, int | KafkaError],
    ) -> None:
        if not answer.error_code:
            self._cluster.metadata.learn(Broker(answer.node_id, answer.host, answer.port))
            self._nodes[kind, key] = found[key] = answer.node_id
            return
        what = f"coordinator of {kind.name.lower()} {key!r}"
        error = KafkaError(
            Errors.of(answer.error_code), what, message=answer.error_message, node=address
        )
        if error.retriable:
            raise error
        found[key] = error


def coordinator_node(node_id: int) -> int:
    """The number under which the connection to a node as coordinator is kept."""
    return _NODES_LAST - node_id


async def ask_coordinators(
    cluster: Cluster,
    kind: CoordinatorType,
    keys: Iterable[str],
    what: str,
    timeout_ms: int,
    ask: Callable[[Connection, list[str]], Awaitable[dict[str, Answer | KafkaError]]],
) -> dict[str, Answer | KafkaError]:
    """Asks about keys at their coordinators, those of one broker together.

    `ask` gives an answer or the error of each key; keys whose coordinator moved or is not ready
    are asked for again until the time is up.
    """
    wanted = names_of(keys, "group" if kind is CoordinatorType.GROUP else "transactional id")
    done: dict[str, Answer | KafkaError] = {}

    async def attempt() -> None:
        by_node: dict[int, list[str]] = {}
        left = [key for key in wanted if key not in done]
        for key, node_id in (await cluster.coordinators.find(kind, left)).items():
            if isinstance(node_id, KafkaError):
                done[key] = node_id
            else:
                by_node.setdefault(node_id, []).append(key)
        moved: KafkaError | None = None
        for node_id, some in by_node.items():
            try:
                answers = await ask(await cluster.connection(node_id), some)
            except (UnreachableError, DisconnectedError, RequestTimeoutError):
                for key in some:
                    cluster.coordinators.forget(kind, key)
                raise
            for key, answer in answers.items():
                if isinstance(answer, KafkaError) and answer.error in NOT_READY:
                    cluster.coordinators.forget(kind, key)
                    moved = answer
                else:
                    done[key] = answer
        if moved is not None:
            raise moved

    await cluster.repeat(attempt, what, timeout_ms)
    return done


async def ask_coordinator(
    cluster: Cluster,
    kind: CoordinatorType,
    key: str,
    what: str,
    timeout_ms: int,
    ask: Callable[[Connection], Awaitable[Answer | KafkaError]],
) -> Answer:
    """As `ask_coordinators` for one key, whose error is raised."""

    async def one(connection: Connection, keys: list[str]) -> dict[str, Answer | KafkaError]:
        return {keys[0]: await ask(connection)}

    answer = (await ask_coordinators(cluster, kind, [key], what, timeout_ms, one))[key]
    if isinstance(answer, KafkaError):
        raise answer
    return answer
