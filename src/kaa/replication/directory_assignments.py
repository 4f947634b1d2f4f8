"""Telling the controller in which directories the replicas of this broker are (KIP-858).

The controller needs it to move leaderships off a directory that fails. A replica is reported when
its log is made, moved, or found in another directory than the metadata has. Reports are sent in
requests of at most `DIRECTORY_ASSIGNMENTS_PER_REQUEST_MAX` replicas, one request at a time; what
was not accepted is sent again with growing pauses until it is accepted or out of date. A newer
report of a replica replaces the older one, also while that is under way.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from kaa.limits import (
    DIRECTORY_ASSIGNMENTS_PER_REQUEST_MAX,
    DIRECTORY_ASSIGNMENTS_RETRY_MS_MAX,
    DIRECTORY_ASSIGNMENTS_RETRY_MS_MIN,
)
from kaa.wire.errors import Errors
from kaa.wire.messages.k73_assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    RequestDirectoryData,
    RequestPartitionData,
    RequestTopicData,
)

if TYPE_CHECKING:
    from kaa.wire.messages.k73_assign_replicas_to_dirs import AssignReplicasToDirsResponse
    from kaa.wire.primitives import Uuid

# The controller knows, or the replica or its topic is gone: nothing is left to tell.
_DONE: Final = frozenset(
    {
        Errors.NONE,
        Errors.NOT_LEADER_OR_FOLLOWER,
        Errors.UNKNOWN_TOPIC_ID,
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
    }
)


class DirectoryAssignments:
    """Which replicas still have to be reported, and in which directories. Its driver sends what
    `next_request` gives, and says how it ended.
    """

    def __init__(self) -> None:
        # By topic id and partition what is to be reported, oldest first.
        self.wanted: dict[tuple[Uuid, int], Uuid] = {}
        # What the request under way reports; empty if there is none.
        self._sent: dict[tuple[Uuid, int], Uuid] = {}
        self._failures = 0
        self._retry_at_ms: int | None = None

    def __len__(self) -> int:
        return len(self.wanted)

    def note(self, topic_id: Uuid, number: int, directory: Uuid) -> None:
        """The replica is in `directory`, other than the metadata says."""
        self.wanted[topic_id, number] = directory

    def forget(self, topic_id: Uuid, number: int) -> None:
        """The metadata is right, or the replica is gone."""
        self.wanted.pop((topic_id, number), None)

    def wait_ms(self, now_ms: int) -> int | None:
        """How long until there is a request to send; None while there is nothing to tell."""
        if not self.wanted or self._sent:
            return None
        if self._retry_at_ms is None:
            return 0
        return max(0, self._retry_at_ms - now_ms)

    def next_request(
        self, broker_id: int, broker_epoch: int, now_ms: int
    ) -> AssignReplicasToDirsRequest | None:
        if self.wait_ms(now_ms) != 0:
            return None
        self._sent = dict(islice(self.wanted.items(), DIRECTORY_ASSIGNMENTS_PER_REQUEST_MAX))
        tree: dict[Uuid, dict[Uuid, list[RequestPartitionData]]] = {}
        for (topic_id, number), directory in self._sent.items():
            partitions = tree.setdefault(directory, {}).setdefault(topic_id, [])
            partitions.append(RequestPartitionData(partition_index=number))
        return AssignReplicasToDirsRequest(
            broker_id=broker_id,
            broker_epoch=broker_epoch,
            directories=[
                RequestDirectoryData(
                    id=directory,
                    topics=[
                        RequestTopicData(topic_id=topic_id, partitions=partitions)
                        for topic_id, partitions in topics.items()
                    ],
                )
                for directory, topics in tree.items()
            ],
        )

    def answered(self, response: AssignReplicasToDirsResponse, now_ms: int) -> None:
        if response.error_code != Errors.NONE:
            self.failed(now_ms)
            return
        sent, self._sent = self._sent, {}
        for directory in response.directories:
            for topic in directory.topics:
                for partition in topic.partitions:
                    key = topic.topic_id, partition.partition_index
                    if partition.error_code not in _DONE:
                        continue
                    reported = sent.pop(key, None)
                    if self.wanted.get(key) == reported:
                        self.wanted.pop(key, None)
        # What is left was not accepted, or not even answered.
        if not sent:
            self._failures = 0
            self._retry_at_ms = None
        else:
            self._back_off(now_ms)

    def failed(self, now_ms: int) -> None:
        """There was no answer, or one that refuses the whole request."""
        self._sent = {}
        self._back_off(now_ms)

    def _back_off(self, now_ms: int) -> None:
        self._failures += 1
        pause_ms = min(
            DIRECTORY_ASSIGNMENTS_RETRY_MS_MIN << min(self._failures - 1, 10),
            DIRECTORY_ASSIGNMENTS_RETRY_MS_MAX,
        )
        self._retry_at_ms = now_ms + pause_ms
