"""The active controller as a machine: commands in, records and answers out.

It decides on the newest image, which is ahead of the committed one by what it has written and what
is not yet committed. A decision changes nothing of it; `replay` applies its records when they are
in the log. What it changes at once is what no log has and every new controller finds out again:
when brokers were heard of, and how far they have followed. If the records cannot be written, or
when another node leads, the newest image is dropped, and the next active controller starts from the
committed one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kaa.controller import (
    brokers,
    configs,
    elections,
    features,
    isr,
    partitions,
    producer_ids,
    quotas,
    reassignments,
    replica_directories,
    topics,
)
from kaa.controller.bootstrap import activation_records
from kaa.controller.state import ControllerState
from kaa.limits import RECORDS_PER_PIECE
from kaa.model.pieces import in_pieces
from kaa.wire.messages import (
    k19_create_topics,
    k20_delete_topics,
    k33_alter_configs,
    k37_create_partitions,
    k43_elect_leaders,
    k44_incremental_alter_configs,
    k45_alter_partition_reassignments,
    k49_alter_client_quotas,
    k56_alter_partition,
    k57_update_features,
    k62_broker_registration,
    k63_broker_heartbeat,
    k64_unregister_broker,
    k67_allocate_producer_ids,
    k70_controller_registration,
    k73_assign_replicas_to_dirs,
)
from kaa.wire.messages.metadata_cluster import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from kaa.wire.messages.metadata_topics import ClearElrRecord, RemoveTopicRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kaa.controller.image import ClusterImage
    from kaa.controller.port import ControllerRequestContext
    from kaa.controller.result import ControllerResult
    from kaa.controller.state import ControllerSettings, QuorumView
    from kaa.model.pieces import Pieces
    from kaa.model.seams import RandomSource
    from kaa.wire.schema import MetadataRecord, Request

COMMANDS: Final[
    dict[type[Request], Callable[..., ControllerResult[Any] | Pieces[ControllerResult[Any]]]]
] = {
    k19_create_topics.CreateTopicsRequest: topics.create_topics,
    k20_delete_topics.DeleteTopicsRequest: topics.delete_topics,
    k33_alter_configs.AlterConfigsRequest: configs.alter_configs,
    k37_create_partitions.CreatePartitionsRequest: partitions.create_partitions,
    k43_elect_leaders.ElectLeadersRequest: elections.elect_leaders,
    k44_incremental_alter_configs.IncrementalAlterConfigsRequest: (
        configs.incremental_alter_configs
    ),
    k45_alter_partition_reassignments.AlterPartitionReassignmentsRequest: (
        reassignments.alter_partition_reassignments
    ),
    k49_alter_client_quotas.AlterClientQuotasRequest: quotas.alter_client_quotas,
    k56_alter_partition.AlterPartitionRequest: isr.alter_partition,
    k57_update_features.UpdateFeaturesRequest: features.update_features,
    k62_broker_registration.BrokerRegistrationRequest: brokers.register_broker,
    k63_broker_heartbeat.BrokerHeartbeatRequest: brokers.heartbeat,
    k64_unregister_broker.UnregisterBrokerRequest: brokers.unregister_broker,
    k67_allocate_producer_ids.AllocateProducerIdsRequest: producer_ids.allocate_producer_ids,
    k70_controller_registration.ControllerRegistrationRequest: brokers.register_controller,
    k73_assign_replicas_to_dirs.AssignReplicasToDirsRequest: (
        replica_directories.assign_replicas_to_dirs
    ),
}
"""What decides about each request."""


class ControllerMachine:
    """Decides for the cluster. `decide` changes no image: its records are appended first, and then
    replayed here.
    """

    def __init__(
        self, settings: ControllerSettings, random: RandomSource, quorum: QuorumView
    ) -> None:
        self.settings = settings
        self._random = random
        self._quorum = quorum
        # None unless this node is the active controller.
        self._state: ControllerState | None = None

    @property
    def is_active(self) -> bool:
        return self._state is not None

    @property
    def state(self) -> ControllerState:
        assert self._state is not None, "the controller is not active"
        return self._state

    def activate(
        self,
        committed: ClusterImage,
        bootstrap: list[MetadataRecord],
        *,
        is_transaction_open: bool,
        now_ms: int,
        registration_offsets: Mapping[int, int] | None = None,
    ) -> Pieces[ControllerResult[None]]:
        """Starts from the committed image, and from where the registrations of brokers stand in
        the log; returns what to write before anything else.
        """
        state = ControllerState(committed.copy(), self.settings, self._random, self._quorum)
        state.registration_offsets.update(registration_offsets or {})
        for broker in committed.brokers.values():
            if not broker.is_fenced:
                state.heartbeats.expect(broker.id, broker.epoch, now_ms)
        yield from state.partitions.build(state.image)
        self._state = state
        return activation_records(state, bootstrap, is_transaction_open=is_transaction_open)

    def deactivate(self) -> None:
        self._state = None

    def decide(
        self, request: Request, context: ControllerRequestContext, *, now_ms: int, next_offset: int
    ) -> Pieces[ControllerResult[Any]]:
        """What a request comes to if it is written at `next_offset`; ControllerError refuses."""
        state = self.state
        state.now_ms, state.next_offset = now_ms, next_offset
        return (yield from in_pieces(COMMANDS[type(request)](state, request, context)))

    def replay(self, records: Iterable[MetadataRecord]) -> Pieces[None]:
        """Applies records that were written."""
        image, heartbeats = self.state.image, self.state.heartbeats
        partitions = self.state.partitions
        for number, record in enumerate(records, 1):
            if number % RECORDS_PER_PIECE == 0:
                yield
            if isinstance(record, RemoveTopicRecord):
                yield from partitions.remove(image.topics_by_id[record.topic_id])
            if isinstance(record, ClearElrRecord):
                yield from image.clear_elr(record)
            partitions.replay(record, image)
            if isinstance(record, UnregisterBrokerRecord):
                self.state.registration_offsets.pop(record.broker_id, None)
            if isinstance(record, RegisterBrokerRecord | UnregisterBrokerRecord):
                heartbeats.forget(record.broker_id)
            elif isinstance(record, BrokerRegistrationChangeRecord):
                is_fenced = image.brokers[record.broker_id].is_fenced
                heartbeats.registration_changed(record.broker_id, is_fenced=is_fenced)

    def written(self, result: ControllerResult[Any], last_offset: int) -> None:
        """The records of a decision are replayed, and the last one is at this offset."""
        if result.stopping_broker is not None:
            progress = self.state.heartbeats.progress(result.stopping_broker)
            progress.controlled_shutdown_offset = last_offset
