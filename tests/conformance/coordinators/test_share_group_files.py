"""Share groups in the files of Kaa and of a real Kafka node: the same records, and either goes on
with what the other wrote.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kaa.coordinators.group.kinds import RECORD_TYPES
from kaa.records.batch import iter_batches
from kaa.records.record import iter_records
from kaa.wire.errors import Errors
from kaa.wire.messages import k78_share_fetch as k78
from kaa.wire.messages import k90_describe_share_group_offsets as k90
from kaa.wire.messages import k91_alter_share_group_offsets as k91
from kaa.wire.messages import k92_delete_share_group_offsets as k92
from kaa.wire.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from kaa.wire.messages.k10_find_coordinator import FindCoordinatorRequest
from kaa.wire.messages.k42_delete_groups import DeleteGroupsRequest
from kaa.wire.messages.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kaa.wire.messages.k76_share_group_heartbeat import ShareGroupHeartbeatRequest
from kaa.wire.messages.k77_share_group_describe import DescribedGroup, ShareGroupDescribeRequest
from kaa.wire.messages.offsets_share import ShareGroupTargetAssignmentMetadataValue
from kaa.wire.primitives import Uuid
from tests.clients.librdkafka import create_topic, produce
from tests.clients.samples import Sample
from tests.oracle.environment import wait_until
from tests.support.broker_process import BrokerProcess
from tests.support.ids import uuid
from tests.support.pace import PATIENCE_SECONDS
from tests.support.raw import RawClient
from tests.support.real_node import RealNode

if TYPE_CHECKING:
    from pathlib import Path

    from tests.oracle import Oracle

pytestmark = pytest.mark.oracle

GROUP, TOPIC = "workers", "work"
_GROUP_CONFIG, _SET = 32, 0
ACCEPT, RELEASE, REJECT = 1, 2, 3
# No member is lost while the nodes take turns, however long that takes on a busy machine; and all
# records of the group are in one file.
SETTINGS = {
    "group.share.session.timeout.ms": "60000",
    "group.share.assignment.interval.ms": "0",
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "2",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}


def ask(bootstrap: str, request: Any) -> Any:
    with RawClient(bootstrap) as client:
        return client.ask(request)


class Member:
    """A member of the group, with what it knows of itself from one node to the next."""

    def __init__(self, number: int) -> None:
        self.name = str(uuid(number))
        self.epoch = 0
        self.partitions: list[int] = []

    def beat(self, bootstrap: str) -> Errors:
        answer = ask(
            bootstrap,
            ShareGroupHeartbeatRequest(
                group_id=GROUP,
                member_id=self.name,
                member_epoch=self.epoch,
                subscribed_topic_names=None if self.epoch else [TOPIC],
            ),
        )
        if answer.error_code == Errors.NONE:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                assigned = answer.assignment.topic_partitions
                self.partitions = sorted(number for one in assigned for number in one.partitions)
        return Errors.of(answer.error_code)

    def leave(self, bootstrap: str) -> None:
        self.epoch = -1
        assert self.beat(bootstrap) is Errors.NONE
        self.epoch = 0


def settle(bootstrap: str, members: list[Member], count: int) -> None:
    """Members send heartbeats until each partition is somebody's, and each member has some."""

    def is_settled() -> bool:
        errors = {member.beat(bootstrap) for member in members}
        owned = {number for member in members for number in member.partitions}
        is_shared = all(member.partitions for member in members)
        return errors == {Errors.NONE} and is_shared and owned == set(range(count))

    assert wait_until(is_settled, PATIENCE_SECONDS), [member.partitions for member in members]


def prepare(bootstrap: str, partitions: int) -> Uuid:
    """A topic, and a group that begins at its start; the id of the topic."""
    create_topic(bootstrap, TOPIC, partitions=partitions)
    config = AlterableConfig(
        name="share.auto.offset.reset", config_operation=_SET, value="earliest"
    )
    resource = AlterConfigsResource(
        resource_type=_GROUP_CONFIG, resource_name=GROUP, configs=[config]
    )
    answer = ask(bootstrap, IncrementalAlterConfigsRequest(resources=[resource]))
    assert answer.responses[0].error_code == Errors.NONE
    topic_id: Uuid = Uuid(bytes(16))

    def is_ready() -> bool:
        nonlocal topic_id
        topic = MetadataRequestTopic(name=TOPIC)
        (found,) = ask(bootstrap, MetadataRequest(topics=[topic])).topics
        topic_id = found.topic_id
        # The question makes the topics of the coordinators, where there are none.
        keys = {0: GROUP, 2: f"{GROUP}:{topic_id}:0"}
        errors = [
            ask(bootstrap, FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]))
            .coordinators[0]
            .error_code
            for kind, key in keys.items()
        ]
        return not any(errors) and found.error_code == Errors.NONE

    assert wait_until(is_ready, PATIENCE_SECONDS)
    return topic_id


# --- the records of the group


def group_records(data_dir: Path) -> list[tuple[bytes, bytes | None]]:
    """Keys and values in the order of the log, without the time of assignments."""
    found = []
    for segment in sorted(data_dir.glob("__consumer_offsets-*/*.log")):
        for batch in iter_batches(segment.read_bytes()):
            for record in iter_records(batch):
                key = bytes(record.key or b"")
                value = None if record.value is None else bytes(record.value)
                found.append((key, _timeless(key, value)))
    return found


def _timeless(key: bytes, value: bytes | None) -> bytes | None:
    decoded = RECORD_TYPES.decode(key, value)
    assert decoded is not None
    found = decoded[1]
    if value is not None and isinstance(found, ShareGroupTargetAssignmentMetadataValue):
        assert found.assignment_timestamp > 0
        found.assignment_timestamp = 0
        return value[:2] + found.encode(int.from_bytes(value[:2], "big"))
    return value


def alter(bootstrap: str, *numbers: int) -> None:
    partitions = [
        k91.AlterShareGroupOffsetsRequestPartition(partition_index=number, start_offset=0)
        for number in numbers
    ]
    topic = k91.AlterShareGroupOffsetsRequestTopic(topic_name=TOPIC, partitions=partitions)
    answer = ask(bootstrap, k91.AlterShareGroupOffsetsRequest(group_id=GROUP, topics=[topic]))
    errors = {one.error_code for found in answer.responses for one in found.partitions}
    assert (answer.error_code, errors) == (Errors.NONE, {Errors.NONE})


def live(bootstrap: str) -> None:
    """A group from its first member to its end."""
    first, second = Member(1), Member(2)
    settle(bootstrap, [first], 3)
    settle(bootstrap, [first, second], 3)
    second.leave(bootstrap)
    settle(bootstrap, [first], 3)
    first.leave(bootstrap)
    alter(bootstrap, 0, 2)
    topic = k92.DeleteShareGroupOffsetsRequestTopic(topic_name=TOPIC)
    gone = ask(bootstrap, k92.DeleteShareGroupOffsetsRequest(group_id=GROUP, topics=[topic]))
    assert [one.error_code for one in gone.responses] == [Errors.NONE]
    alter(bootstrap, 1)
    deleted = ask(bootstrap, DeleteGroupsRequest(groups_names=[GROUP]))
    assert deleted.results[0].error_code == Errors.NONE


def test_the_records_of_a_group_are_kafkas(oracle: Oracle, tmp_path: Path) -> None:
    """The same group lives twice over the same topic, at Kaa and then at Kafka."""
    settings = [f"{name}={value}" for name, value in SETTINGS.items()]
    with BrokerProcess(tmp_path / "node", *settings) as ours:
        prepare(ours.bootstrap_servers, 3)
        live(ours.bootstrap_servers)
        ours.stop()
    written = group_records(ours.data_dir)
    assert len(written) > 20
    with RealNode(tmp_path / "jvm", ours.data_dir, **SETTINGS) as kafka:
        live(kafka.bootstrap_servers)
    found = group_records(ours.data_dir)
    assert found[: len(written)] == written
    assert found[len(written) :] == written


# --- one directory, served by turns


class Reader:
    """A share session of a member on one connection."""

    def __init__(self, bootstrap: str, member: Member, topic_id: Uuid) -> None:
        self._client = RawClient(bootstrap)
        self._member = member
        self._topic_id = topic_id
        self._epoch = 0

    def fetch(self, *said: tuple[int, int, int]) -> list[tuple[int, int, int]]:
        """What is handed out: first and last offset, and how often it was delivered."""
        partition = k78.FetchPartition(
            partition_index=0,
            acknowledgement_batches=[
                k78.AcknowledgementBatch(
                    first_offset=first, last_offset=last, acknowledge_types=[kind]
                )
                for first, last, kind in said
            ],
        )
        answer = self._client.ask(
            k78.ShareFetchRequest(
                group_id=GROUP,
                member_id=self._member.name,
                share_session_epoch=self._epoch,
                max_wait_ms=1_000,
                min_bytes=1,
                max_records=500,
                batch_size=500,
                topics=[k78.FetchTopic(topic_id=self._topic_id, partitions=[partition])],
            )
        )
        assert answer.error_code == Errors.NONE
        self._epoch += 1
        parts = [one for topic in answer.responses for one in topic.partitions]
        assert not any(one.acknowledge_error_code for one in parts)
        return [
            (one.first_offset, one.last_offset, one.delivery_count)
            for part in parts
            for one in part.acquired_records
        ]

    def first(self) -> list[tuple[int, int, int]]:
        """What is handed out once the state is loaded."""
        found: list[tuple[int, int, int]] = []

        def has_something() -> bool:
            found.extend(self.fetch())
            return bool(found)

        assert wait_until(has_something, PATIENCE_SECONDS)
        return found

    def close(self) -> None:
        """Ends the session, which gives back what it holds."""
        self._epoch = -1
        self.fetch()
        self._client.close()


def described(bootstrap: str) -> tuple[DescribedGroup, Any]:
    """The group and its offsets as a broker describes them, once it has loaded them."""
    group: list[DescribedGroup] = []
    offsets: list[Any] = []
    topic = k90.DescribeShareGroupOffsetsRequestTopic(topic_name=TOPIC, partitions=[0])
    wanted = k90.DescribeShareGroupOffsetsRequestGroup(group_id=GROUP, topics=[topic])

    def is_there() -> bool:
        group[:] = ask(bootstrap, ShareGroupDescribeRequest(group_ids=[GROUP])).groups
        offsets[:] = ask(bootstrap, k90.DescribeShareGroupOffsetsRequest(groups=[wanted])).groups
        errors = [one.error_code for found in offsets[0].topics for one in found.partitions]
        return not any([group[0].error_code, offsets[0].error_code, *errors])

    assert wait_until(is_there, PATIENCE_SECONDS), (group, offsets)
    # It rises with each node that leads the partition.
    offsets[0].topics[0].partitions[0].leader_epoch = 0
    return group[0], offsets[0]


def test_share_groups_go_from_one_to_the_other(oracle: Oracle, tmp_path: Path) -> None:
    """Nothing acknowledged comes again, and what was given back comes with its count."""
    member = Member(1)
    settings = [f"{name}={value}" for name, value in SETTINGS.items()]
    with BrokerProcess(tmp_path / "node", *settings) as ours:
        bootstrap = ours.bootstrap_servers
        topic_id = prepare(bootstrap, 1)
        produce(bootstrap, TOPIC, [Sample(None, b"%d" % one, 1_000 + one) for one in range(10)])
        settle(bootstrap, [member], 1)
        reader = Reader(bootstrap, member, topic_id)
        assert sum(last - first + 1 for first, last, _ in reader.first()) == 10
        reader.fetch((0, 2, ACCEPT), (5, 5, REJECT))
        reader.close()
        before = described(bootstrap)
        ours.stop()
    assert before[0].group_state == "Stable"
    with RealNode(tmp_path / "jvm", ours.data_dir, **SETTINGS) as kafka:
        bootstrap = kafka.bootstrap_servers
        assert described(bootstrap) == before
        settle(bootstrap, [member], 1)
        reader = Reader(bootstrap, member, topic_id)
        assert _counts(reader.first()) == {3: 2, 4: 2, 6: 2, 7: 2, 8: 2, 9: 2}
        reader.fetch((3, 3, ACCEPT), (8, 9, ACCEPT))
        reader.close()
        between = described(bootstrap)
    with ours:
        bootstrap = ours.bootstrap_servers
        assert described(bootstrap) == between
        settle(bootstrap, [member], 1)
        reader = Reader(bootstrap, member, topic_id)
        assert _counts(reader.first()) == {4: 3, 6: 3, 7: 3}
        assert reader.fetch((4, 4, ACCEPT), (6, 7, REJECT)) == []
        produce(bootstrap, TOPIC, [Sample(None, b"new", 9_000)])
        assert reader.first() == [(10, 10, 1)]
        reader.close()
        ours.stop()


def _counts(acquired: list[tuple[int, int, int]]) -> dict[int, int]:
    """How often each offset was delivered."""
    return {offset: count for first, last, count in acquired for offset in range(first, last + 1)}
