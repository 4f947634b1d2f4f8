"""The way to the active controller: what handlers call, wherever that controller is.

A port takes a request and gives the response, and never raises for a refusal: the response says it.
On the active controller's own node the port is the controller (``kaa.controller.local``); on any
other it will forward the request (Envelope), which is why a command is the message of its API.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from kaa.controller.state import RequestContext
    from kaa.wire.messages.k19_create_topics import CreateTopicsRequest, CreateTopicsResponse
    from kaa.wire.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
    from kaa.wire.messages.k33_alter_configs import AlterConfigsRequest, AlterConfigsResponse
    from kaa.wire.messages.k37_create_partitions import (
        CreatePartitionsRequest,
        CreatePartitionsResponse,
    )
    from kaa.wire.messages.k43_elect_leaders import ElectLeadersRequest, ElectLeadersResponse
    from kaa.wire.messages.k44_incremental_alter_configs import (
        IncrementalAlterConfigsRequest,
        IncrementalAlterConfigsResponse,
    )
    from kaa.wire.messages.k45_alter_partition_reassignments import (
        AlterPartitionReassignmentsRequest,
        AlterPartitionReassignmentsResponse,
    )
    from kaa.wire.messages.k46_list_partition_reassignments import (
        ListPartitionReassignmentsRequest,
        ListPartitionReassignmentsResponse,
    )
    from kaa.wire.messages.k49_alter_client_quotas import (
        AlterClientQuotasRequest,
        AlterClientQuotasResponse,
    )
    from kaa.wire.messages.k56_alter_partition import AlterPartitionRequest, AlterPartitionResponse
    from kaa.wire.messages.k57_update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
    from kaa.wire.messages.k62_broker_registration import (
        BrokerRegistrationRequest,
        BrokerRegistrationResponse,
    )
    from kaa.wire.messages.k63_broker_heartbeat import (
        BrokerHeartbeatRequest,
        BrokerHeartbeatResponse,
    )
    from kaa.wire.messages.k64_unregister_broker import (
        UnregisterBrokerRequest,
        UnregisterBrokerResponse,
    )
    from kaa.wire.messages.k67_allocate_producer_ids import (
        AllocateProducerIdsRequest,
        AllocateProducerIdsResponse,
    )
    from kaa.wire.messages.k70_controller_registration import (
        ControllerRegistrationRequest,
        ControllerRegistrationResponse,
    )
    from kaa.wire.messages.k73_assign_replicas_to_dirs import (
        AssignReplicasToDirsRequest,
        AssignReplicasToDirsResponse,
    )
    from kaa.wire.schema import Request


class ControllerPort(ABC):
    """See the module. Implementations have ``submit``; the rest gives it types."""

    @abstractmethod
    async def submit(self, request: Request, context: RequestContext) -> Any:
        """The response to a request, when what it changed is committed."""

    async def create_topics(
        self, request: CreateTopicsRequest, context: RequestContext
    ) -> CreateTopicsResponse:
        return cast("CreateTopicsResponse", await self.submit(request, context))

    async def delete_topics(
        self, request: DeleteTopicsRequest, context: RequestContext
    ) -> DeleteTopicsResponse:
        return cast("DeleteTopicsResponse", await self.submit(request, context))

    async def alter_configs(
        self, request: AlterConfigsRequest, context: RequestContext
    ) -> AlterConfigsResponse:
        return cast("AlterConfigsResponse", await self.submit(request, context))

    async def incremental_alter_configs(
        self, request: IncrementalAlterConfigsRequest, context: RequestContext
    ) -> IncrementalAlterConfigsResponse:
        return cast("IncrementalAlterConfigsResponse", await self.submit(request, context))

    async def register_broker(
        self, request: BrokerRegistrationRequest, context: RequestContext
    ) -> BrokerRegistrationResponse:
        return cast("BrokerRegistrationResponse", await self.submit(request, context))

    async def heartbeat(
        self, request: BrokerHeartbeatRequest, context: RequestContext
    ) -> BrokerHeartbeatResponse:
        return cast("BrokerHeartbeatResponse", await self.submit(request, context))

    async def unregister_broker(
        self, request: UnregisterBrokerRequest, context: RequestContext
    ) -> UnregisterBrokerResponse:
        return cast("UnregisterBrokerResponse", await self.submit(request, context))

    async def register_controller(
        self, request: ControllerRegistrationRequest, context: RequestContext
    ) -> ControllerRegistrationResponse:
        return cast("ControllerRegistrationResponse", await self.submit(request, context))

    async def create_partitions(
        self, request: CreatePartitionsRequest, context: RequestContext
    ) -> CreatePartitionsResponse:
        return cast("CreatePartitionsResponse", await self.submit(request, context))

    async def elect_leaders(
        self, request: ElectLeadersRequest, context: RequestContext
    ) -> ElectLeadersResponse:
        return cast("ElectLeadersResponse", await self.submit(request, context))

    async def alter_partition_reassignments(
        self, request: AlterPartitionReassignmentsRequest, context: RequestContext
    ) -> AlterPartitionReassignmentsResponse:
        return cast("AlterPartitionReassignmentsResponse", await self.submit(request, context))

    async def list_partition_reassignments(
        self, request: ListPartitionReassignmentsRequest, context: RequestContext
    ) -> ListPartitionReassignmentsResponse:
        return cast("ListPartitionReassignmentsResponse", await self.submit(request, context))

    async def alter_client_quotas(
        self, request: AlterClientQuotasRequest, context: RequestContext
    ) -> AlterClientQuotasResponse:
        return cast("AlterClientQuotasResponse", await self.submit(request, context))

    async def alter_partition(
        self, request: AlterPartitionRequest, context: RequestContext
    ) -> AlterPartitionResponse:
        return cast("AlterPartitionResponse", await self.submit(request, context))

    async def update_features(
        self, request: UpdateFeaturesRequest, context: RequestContext
    ) -> UpdateFeaturesResponse:
        return cast("UpdateFeaturesResponse", await self.submit(request, context))

    async def allocate_producer_ids(
        self, request: AllocateProducerIdsRequest, context: RequestContext
    ) -> AllocateProducerIdsResponse:
        return cast("AllocateProducerIdsResponse", await self.submit(request, context))

    async def assign_replicas_to_dirs(
        self, request: AssignReplicasToDirsRequest, context: RequestContext
    ) -> AssignReplicasToDirsResponse:
        return cast("AssignReplicasToDirsResponse", await self.submit(request, context))
