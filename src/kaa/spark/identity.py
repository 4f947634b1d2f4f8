"""Producer ids: of a producer without transactions, for one task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.client.errors import check
from kaa.wire.messages.k22_init_producer_id import InitProducerIdRequest

if TYPE_CHECKING:
    from kaa.client.cluster import Cluster

_TRANSACTION_TIMEOUT_MS = 60_000


async def new_producer(cluster: Cluster, timeout_ms: int) -> tuple[int, int]:
    """A producer id and its epoch; any broker gives them."""

    async def attempt() -> tuple[int, int]:
        connection = await cluster.any_connection()
        request = InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=_TRANSACTION_TIMEOUT_MS
        )
        response = await connection.request(request)
        check(response.error_code, "cannot get a producer id", node=connection.address)
        return response.producer_id, response.producer_epoch

    identity: tuple[int, int] = await cluster.repeat(attempt, "producer id", timeout_ms)
    return identity
