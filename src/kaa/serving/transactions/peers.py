"""What brokers ask of each other, by the id of the broker, over the connection that is kept to it.

A transaction coordinator has markers written by the leaders of partitions, and a leader asks the
coordinator whether a transaction is open; the state of share groups is asked for as well. All are
requests of the protocol. What this broker would ask of itself is a call: see `markers`, `additions`
and `kaa.serving.share.persister`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from kaa.client.errors import ClientError
from kaa.serving.transactions.addition_batches import AdditionBatches

if TYPE_CHECKING:
    from kaa.client.peer import Peer, Peers
    from kaa.serving.transactions.addition_batches import AdditionErrors
    from kaa.serving.view import NodeView
    from kaa.wire.messages.k24_add_partitions_to_txn import AddPartitionsToTxnTransaction
    from kaa.wire.schema import Request

Answer = TypeVar("Answer")


class RemoteBroker:
    """Another broker. ConnectionError if it cannot be reached."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self._additions = AdditionBatches(self.ask)

    async def add_partitions(self, transaction: AddPartitionsToTxnTransaction) -> AdditionErrors:
        """The partitions that cannot be part of the transaction, or are not."""
        return await self._additions.ask(transaction)

    async def ask(self, request: Request[Answer]) -> Answer:
        try:
            return await self.peer.request(request)
        except ClientError as error:
            raise ConnectionError(str(error)) from error


class RemoteBrokers:
    """The brokers of the cluster, as its metadata names them."""

    def __init__(self, view: NodeView, peers: Peers) -> None:
        self._view = view
        self._peers = peers
        self._known: dict[int, RemoteBroker] = {}

    def at(self, broker_id: int) -> RemoteBroker:
        """ConnectionError if the broker is not known or has no address for brokers."""
        broker = self._view.image.brokers.get(broker_id)
        name = self._view.config.listeners.inter_broker_name
        endpoint = None if broker is None else broker.endpoint(name)
        if endpoint is None:
            raise ConnectionError(f"broker {broker_id} has no address for brokers")
        peer = self._peers.at(broker_id, endpoint.host, endpoint.port)
        known = self._known.get(broker_id)
        if known is None or known.peer is not peer:
            known = self._known[broker_id] = RemoteBroker(peer)
        return known

    def leader(self, name: tuple[str, int]) -> int | None:
        """The broker that leads the partition, -1 if none does, None if it does not exist."""
        topic = self._view.image.topics.get(name[0])
        partition = None if topic is None else topic.partitions.get(name[1])
        return None if partition is None else partition.leader

    def close(self) -> None:
        self._peers.close()
