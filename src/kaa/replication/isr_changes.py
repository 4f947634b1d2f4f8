"""Proposals of leaders on their way to the controller (AlterPartition), and its answers back.

Proposals of many partitions travel in one request, and there is one request at a time: while it is
under way, the next ones gather. Each partition has at most one proposal, since its leader makes no
other before the answer. A request that failed as a whole is sent again after a pause, with what is
still wanted then: a partition that learned from the metadata meanwhile has dropped its proposal.
"""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import TYPE_CHECKING, Final

from kaa.controller.port import ControllerRequestContext
from kaa.limits import ISR_CHANGES_PER_REQUEST_MAX, ISR_RETRY_MS
from kaa.model.words import count_text
from kaa.wire.errors import Errors
from kaa.wire.messages.k56_alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.controller.port import ControllerPort
    from kaa.replication.leader import IsrProposal
    from kaa.replication.partition import Partition
    from kaa.wire.messages.k56_alter_partition import AlterPartitionResponse
    from kaa.wire.primitives import Uuid

ALTER_PARTITION_VERSION: Final = 3

# A proposal under its topic's id and its partition's number.
_Batch = dict[tuple["Uuid", int], tuple["Partition", "IsrProposal"]]


class IsrChanges:
    """Sends proposed in-sync sets to the controller and hands its answers to the partitions.
    `propose` returns at once; `run` sends.
    """

    def __init__(
        self,
        node_id: int,
        broker_epoch: Callable[[], int],
        controller: ControllerPort,
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._controller = controller
        self._report = report
        self._unsent: _Batch = {}
        self._is_wanted = asyncio.Event()
        # For observers: requests that were sent, and proposals that were refused.
        self.request_count = 0
        self.refused_count = 0

    def propose(self, partition: Partition, proposal: IsrProposal) -> None:
        self._unsent[partition.topic_id, partition.number] = (partition, proposal)
        self._is_wanted.set()

    async def run(self) -> None:
        """Sends what was proposed, for as long as the broker runs."""
        while True:
            await self._is_wanted.wait()
            if not await self.send_next():
                await asyncio.sleep(ISR_RETRY_MS / 1000)

    async def send_next(self) -> bool:
        """Sends a batch; False if it, or a part of it, has to be sent again after a pause."""
        batch = self._take()
        if not batch:
            self._is_wanted.clear()
            return True
        self.request_count += 1
        try:
            response: AlterPartitionResponse = await self._controller.submit(
                self._request(batch), ControllerRequestContext(ALTER_PARTITION_VERSION)
            )
        except Exception as error:  # noqa: BLE001  Whatever it is, they are proposed again.
            return self._failed(batch, str(error) or repr(error))
        if response.error_code != Errors.NONE:
            # An old broker epoch is mended by registering again, a controller that is not one
            # by finding the next one; others do that.
            return self._failed(batch, Errors.of(response.error_code).name)
        return self._answered(batch, response)

    def _take(self) -> _Batch:
        batch: _Batch = {}
        for key in tuple(islice(self._unsent, ISR_CHANGES_PER_REQUEST_MAX)):
            partition, proposal = self._unsent.pop(key)
            leadership = partition.leadership
            if leadership is not None and leadership.proposal is proposal:
                batch[key] = (partition, proposal)
        return batch

    def _request(self, batch: _Batch) -> AlterPartitionRequest:
        topics: dict[Uuid, RequestTopicData] = {}
        for (topic_id, number), (_, proposal) in batch.items():
            topic = topics.get(topic_id)
            if topic is None:
                topic = topics[topic_id] = RequestTopicData(topic_id=topic_id, partitions=[])
            topic.partitions.append(
                RequestPartitionData(
                    partition_index=number,
                    leader_epoch=proposal.leader_epoch,
                    new_isr_with_epochs=[
                        BrokerState(broker_id=member.broker_id, broker_epoch=member.broker_epoch)
                        for member in proposal.isr
                    ],
                    # A leader has recovered its log before it proposes anything.
                    leader_recovery_state=0,
                    partition_epoch=proposal.partition_epoch,
                )
            )
        return AlterPartitionRequest(
            broker_id=self._node_id,
            broker_epoch=self._broker_epoch(),
            topics=list(topics.values()),
        )

    def _failed(self, batch: _Batch, reason: str) -> bool:
        self._report(
            f"changes of the in-sync replicas of {count_text(len(batch), 'partition')} could not "
            f"be made and are tried again: {reason}"
        )
        for key, value in batch.items():
            self._unsent.setdefault(key, value)
        return False

    def _answered(self, batch: _Batch, response: AlterPartitionResponse) -> bool:
        is_done = True
        for topic in response.topics:
            for answer in topic.partitions:
                found = batch.pop((topic.topic_id, answer.partition_index), None)
                if found is None:
                    continue
                partition, proposal = found
                if answer.error_code == Errors.NONE:
                    partition.isr_accepted(
                        proposal,
                        tuple(answer.isr),
                        answer.leader_epoch,
                        answer.partition_epoch,
                        answer.leader_recovery_state,
                    )
                    continue
                self.refused_count += 1
                if partition.isr_refused(proposal, Errors.of(answer.error_code)):
                    self.propose(partition, proposal)
                    is_done = False
        for (topic_id, number), (partition, proposal) in batch.items():
            # The answer left it out, so that nothing is known of it.
            if partition.isr_refused(proposal, Errors.UNKNOWN_SERVER_ERROR):
                self._unsent.setdefault((topic_id, number), (partition, proposal))
                is_done = False
        return is_done
