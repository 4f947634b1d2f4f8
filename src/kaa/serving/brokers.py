"""What brokers ask of each other for transactions, by the id of the broker.

A coordinator has markers written by the leaders of partitions, and a leader asks the coordinator
whether a transaction is open; a broker gets producer ids from the controller. All are requests of
the protocol. To this broker itself they are calls; another is reached over a connection, which is
kept and opened again when it broke.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kaa.client.connection import Connection, ConnectionSettings
from kaa.client.errors import ClientError
from kaa.controller.port import ControllerPort
from kaa.serving.addition_batches import AdditionBatches, refused_partitions
from kaa.serving.transaction_additions import add_partitions
from kaa.serving.transaction_markers import write_markers
from kaa.wire.messages.k24_add_partitions_to_txn import AddPartitionsToTxnRequest

if TYPE_CHECKING:
    from typing import Any

    from kaa.controller.state import RequestContext
    from kaa.serving.addition_batches import AdditionErrors
    from kaa.serving.services import Services
    from kaa.wire.messages.k24_add_partitions_to_txn import (
        AddPartitionsToTxnResponse,
        AddPartitionsToTxnTransaction,
    )
    from kaa.wire.messages.k27_write_txn_markers import (
        WriteTxnMarkersRequest,
        WriteTxnMarkersResponse,
    )
    from kaa.wire.schema import Request


class BrokerPort(Protocol):
    """One broker. ConnectionError if it cannot be reached."""

    async def write_markers(self, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse: ...

    async def add_partitions(self, transaction: AddPartitionsToTxnTransaction) -> AdditionErrors:
        """The partitions that cannot be part of the transaction, or are not."""
        ...


class LocalBroker:
    """This broker."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def write_markers(self, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        return await write_markers(self._services, request)

    async def add_partitions(self, transaction: AddPartitionsToTxnTransaction) -> AdditionErrors:
        # Nothing is gained by waiting for others: their records share a batch anyway.
        request = AddPartitionsToTxnRequest(transactions=[transaction])
        version = AddPartitionsToTxnRequest.valid_versions.high
        return refused_partitions(
            transaction, await add_partitions(self._services, request, version)
        )


class RemoteNode:
    """Another node, over a connection that is opened when it is needed."""

    def __init__(self, host: str, port: int, settings: ConnectionSettings) -> None:
        self.address = (host, port)
        self._settings = settings
        self._connection: Connection | None = None

    async def request(self, request: Request, version: int | None = None) -> Any:
        """ConnectionError if there is no answer."""
        try:
            connection = self._connection
            if connection is None:
                connection = await Connection.open(*self.address, self._settings)
                self._connection = connection
            return await connection.request(request, version=version)
        except ClientError as error:
            self.close()
            raise ConnectionError(str(error)) from error

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class RemoteBroker(RemoteNode):
    """Another broker."""

    def __init__(self, host: str, port: int, settings: ConnectionSettings) -> None:
        super().__init__(host, port, settings)
        self._additions = AdditionBatches(self._add_partitions)

    async def write_markers(self, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        response: WriteTxnMarkersResponse = await self.request(request)
        return response

    async def add_partitions(self, transaction: AddPartitionsToTxnTransaction) -> AdditionErrors:
        return await self._additions.ask(transaction)

    async def _add_partitions(
        self, request: AddPartitionsToTxnRequest
    ) -> AddPartitionsToTxnResponse:
        response: AddPartitionsToTxnResponse = await self.request(request)
        return response


class RemoteController(ControllerPort):
    """A controller on another node, for what brokers ask it themselves: blocks of producer ids."""

    def __init__(self, node: RemoteNode) -> None:
        self._node = node

    async def submit(self, request: Request, context: RequestContext) -> Any:
        return await self._node.request(request, context.api_version)


class Brokers:
    """The brokers of the cluster, as its metadata names them."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._local = LocalBroker(services)
        self._remote: dict[int, RemoteBroker] = {}

    def port(self, broker_id: int) -> BrokerPort:
        """ConnectionError if the broker is not known or has no address for brokers."""
        services = self._services
        if broker_id == services.node_id:
            return self._local
        broker = services.image.brokers.get(broker_id)
        name = services.config.listeners.inter_broker_name
        endpoint = None if broker is None else broker.endpoint(name)
        if endpoint is None:
            raise ConnectionError(f"broker {broker_id} has no address for brokers")
        known = self._remote.get(broker_id)
        if known is None or known.address != (endpoint.host, endpoint.port):
            if known is not None:
                known.close()
            settings = ConnectionSettings(
                client_id=f"broker-{services.node_id}",
                request_timeout_ms=services.config.get_int("request.timeout.ms"),
            )
            known = RemoteBroker(endpoint.host, endpoint.port, settings)
            self._remote[broker_id] = known
        return known

    def close(self) -> None:
        for remote in self._remote.values():
            remote.close()

    # --- markers

    def leader(self, name: tuple[str, int]) -> int | None:
        """The broker that leads the partition, -1 if none does, None if it does not exist."""
        topic = self._services.image.topics.get(name[0])
        partition = None if topic is None else topic.partitions.get(name[1])
        return None if partition is None else partition.leader

    async def write_markers(
        self, broker_id: int, request: WriteTxnMarkersRequest
    ) -> WriteTxnMarkersResponse:
        return await self.port(broker_id).write_markers(request)
