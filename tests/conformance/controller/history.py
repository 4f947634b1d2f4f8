"""Random histories of a cluster's controller: requests of brokers and people, and the clock.

A history is made while Kaa's machine goes through it, so that most requests fit what is there: they
name leaders, epochs and replicas that exist, and now and then some that do not.
"""

from __future__ import annotations

from random import Random
from typing import Any

from kaa.controller.brokers import fence_stale_broker
from kaa.controller.elections import balance_leaders, elect_unclean_leaders
from kaa.controller.feature_table import METADATA_VERSION_MAX, record_version
from kaa.controller.framing import encode_record
from kaa.controller.image import PartitionImage, TopicImage
from kaa.controller.result import ControllerError
from kaa.model.nodes import NO_LEADER
from kaa.model.pieces import in_pieces
from kaa.wire.messages.k43_elect_leaders import ElectLeadersRequest, TopicPartitions
from kaa.wire.messages.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kaa.wire.messages.k56_alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from kaa.wire.messages.k62_broker_registration import BrokerRegistrationRequest
from kaa.wire.messages.k63_broker_heartbeat import BrokerHeartbeatRequest
from kaa.wire.messages.k64_unregister_broker import UnregisterBrokerRequest
from kaa.wire.messages.k73_assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    RequestDirectoryData,
)
from kaa.wire.messages.k73_assign_replicas_to_dirs import (
    RequestPartitionData as PartitionOfDirectory,
)
from kaa.wire.messages.k73_assign_replicas_to_dirs import RequestTopicData as TopicOfDirectory
from kaa.wire.messages.metadata_settings import ConfigRecord
from kaa.wire.schema import MetadataRecord, Request
from tests.unit.controller.cluster import CLUSTER_ID, NODE_ID, Cluster, directory, uuid

BROKERS = 6
SESSION_MS = 9_000
STEPS = 150
# What is asked for, as often as it is named.
OPS = (
    ("heartbeat",) * 8
    + ("alter",) * 8
    + ("register",) * 2
    + ("reassign",) * 3
    + (
        "elect",
        "elect",
        "directories",
        "unregister",
        "balance",
        "unclean",
        "expire",
        "min_isr",
    )
)
_PERIODIC = {
    "balance": balance_leaders,
    "unclean": elect_unclean_leaders,
    "expire": fence_stale_broker,
}


class History:
    """Goes through random steps with Kaa's machine; `steps` and `answers` are what happened."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.steps: list[dict[str, Any]] = []
        self.answers: list[dict[str, Any]] = []
        level = self.random.choice((METADATA_VERSION_MAX.level,) * 4 + (17, 11))
        levels = {"eligible.leader.replicas.version": 0} if self.random.random() < 0.3 else None
        self.cluster = Cluster(0, metadata_version=level, levels=levels)
        self._replayed(self.cluster.written, offset=1)
        self.incarnation = 100
        # Broker and epoch, to the time of the last heartbeat.
        self.contacts: dict[tuple[int, int], int] = {(-1, -1): 1 << 40}
        for broker_id in range(BROKERS):
            self.cluster.now_ms += 1
            self._register(broker_id)
            self._heartbeat(
                broker_id,
                broker_epoch=self.cluster.epochs[broker_id],
                current_metadata_offset=self.cluster.next_offset - 1,
                want_fence=False,
                want_shut_down=False,
                offline_log_dirs=[],
            )
        for number in range(3):
            self._create(f"t{number}")
        for _ in range(STEPS):
            self._step()

    def asked(self) -> dict[str, Any]:
        return {
            "node": NODE_ID,
            "cluster": CLUSTER_ID,
            "session_ms": SESSION_MS,
            "steps": self.steps,
        }

    # --- both sides of a step

    def _replayed(self, records: list[MetadataRecord], offset: int) -> None:
        """What only Kaa decided; Kafka follows it."""
        frames = self._frames(records)
        self._note({"op": "replay", "records": frames}, offset, {"records": frames})

    def _note(self, step: dict[str, Any], offset: int, answer: dict[str, Any]) -> None:
        self.steps.append({**step, "offset": offset, "now": self.cluster.now_ms})
        self.answers.append(answer)

    def _frames(self, records: list[MetadataRecord]) -> list[bytes]:
        features = self.cluster.image.features
        return [encode_record(record, record_version(record, features)) for record in records]

    def _send(self, op: str, request: Request, version: int, **facts: Any) -> Any:
        cluster, offset = self.cluster, self.cluster.next_offset
        data = type(request).codec(version).encode(request)
        step = {"op": op, "request": data, "version": version, **facts}
        try:
            response = cluster.send(request, version)
        except ControllerError as refusal:
            self._note(step, offset, {"error": int(refusal.error), "records": []})
            return None
        self._note(step, offset, {"records": self._frames(cluster.written)})
        return response

    # --- brokers

    def _register(self, broker_id: int) -> None:
        random, cluster = self.random, self.cluster
        known = cluster.image.brokers.get(broker_id)
        is_same = known is not None and random.random() < 0.2
        self.incarnation += 1
        is_clean = known is not None and random.random() < 0.5
        request = cluster.registration(
            broker_id,
            incarnation_id=known.incarnation_id if known and is_same else uuid(self.incarnation),
            previous_broker_epoch=known.epoch if known and is_clean else -1,
            count=1 + broker_id % 2,
        )
        assert isinstance(request, BrokerRegistrationRequest)
        version = random.choice((2, 3, 4))
        response = self._send("register", request, version)
        if response is not None:
            cluster.epochs[broker_id] = response.broker_epoch
            self.answers[-1]["epoch"] = response.broker_epoch

    def _heartbeat(self, broker_id: int, **facts: Any) -> None:
        random, cluster = self.random, self.cluster
        epoch = cluster.epochs.get(broker_id, 0)
        drawn: dict[str, Any] = {
            "broker_id": broker_id,
            "broker_epoch": epoch if random.random() < 0.97 else epoch + 1,
            "current_metadata_offset": random.choice(
                (cluster.next_offset - 1, cluster.next_offset - 1, epoch - 1, epoch, epoch + 1)
            ),
            "want_fence": random.random() < 0.1,
            "want_shut_down": random.random() < 0.15,
            "offline_log_dirs": (
                [directory(broker_id, random.randrange(2))] if random.random() < 0.03 else []
            ),
        }
        request = BrokerHeartbeatRequest(**(drawn | facts))
        self.contacts[broker_id, request.broker_epoch] = cluster.now_ms
        response = self._send("heartbeat", request, 1, broker=broker_id)
        if response is None:
            return
        self.answers[-1] |= {
            "caught_up": response.is_caught_up,
            "fenced": response.is_fenced,
            "shutting_down": cluster.state.heartbeats.progress(broker_id).is_shutting_down,
            "should_shut_down": response.should_shut_down,
        }

    # --- partitions

    def _create(self, name: str) -> None:
        random, offset = self.random, self.cluster.next_offset
        replicas = [
            random.sample(range(BROKERS), random.choice((1, 2, 3, 3, 4)))
            for _ in range(random.randint(1, 4))
        ]
        replicas = [one[: len(replicas[0])] for one in replicas]
        if len({len(one) for one in replicas}) > 1:
            replicas = replicas[:1]
        self.cluster.create(
            name,
            replicas=replicas,
            configs={
                "min.insync.replicas": str(random.randint(1, 3)),
                "unclean.leader.election.enable": str(random.random() < 0.3).lower(),
            },
        )
        self._replayed(self.cluster.written, offset)

    def _partition(self) -> tuple[TopicImage, int, PartitionImage]:
        topic = self.random.choice(list(self.cluster.image.topics.values()))
        number = self.random.choice(list(topic.partitions))
        return topic, number, topic.partitions[number]

    def _alter(self) -> None:
        random, image = self.random, self.cluster.image
        topic, number, partition = self._partition()
        leader = partition.leader if random.random() < 0.95 else random.randrange(BROKERS)
        if leader == NO_LEADER:
            leader = random.choice(partition.replicas)
        others = [one for one in partition.replicas if one != leader]
        isr = [leader, *random.sample(others, random.randint(0, len(others)))]
        if random.random() < 0.7:
            isr = [
                one
                for one in isr
                if one == leader
                or (
                    one in image.brokers
                    and not image.brokers[one].is_fenced
                    and not image.brokers[one].is_in_controlled_shutdown
                )
            ]
        if random.random() < 0.05:
            isr = random.sample(range(BROKERS), random.randint(0, 3))
        epochs = {one: image.brokers[one].epoch for one in isr if one in image.brokers}
        data = RequestPartitionData(
            partition_index=number if random.random() < 0.98 else 9,
            leader_epoch=partition.leader_epoch + self._slip(),
            new_isr=isr,
            new_isr_with_epochs=[
                BrokerState(
                    broker_id=one,
                    broker_epoch=epochs.get(one, 5) if random.random() < 0.9 else -1,
                )
                for one in isr
            ],
            leader_recovery_state=(
                partition.leader_recovery_state
                if random.random() < 0.5
                else random.choice((0, 0, 0, 1))
            ),
            partition_epoch=partition.partition_epoch + self._slip(),
        )
        version = random.choice((2, 3, 3))
        if version == 2:
            data.new_isr_with_epochs = []
        else:
            data.new_isr = []
        request = AlterPartitionRequest(
            broker_id=leader,
            broker_epoch=self.cluster.epochs.get(leader, 0),
            topics=[
                RequestTopicData(
                    topic_id=topic.id if random.random() < 0.98 else uuid(5), partitions=[data]
                )
            ],
        )
        response = self._send("alter", request, version)
        if response is not None:
            self.answers[-1]["response"] = type(response).codec(version).encode(response)

    def _slip(self) -> int:
        return self.random.choice((-1, 1)) if self.random.random() < 0.04 else 0

    def _reassign(self) -> None:
        random = self.random
        topic, number, partition = self._partition()
        replicas: list[int] | None = None
        if random.random() < 0.75:
            count = (
                len(partition.replicas) if random.random() < 0.6 else random.choice((0, 1, 2, 3, 4))
            )
            replicas = random.sample(range(BROKERS), min(count, BROKERS))
            if random.random() < 0.05:
                replicas.append(random.choice((*replicas, 9)))
        request = AlterPartitionReassignmentsRequest(
            allow_replication_factor_change=random.random() < 0.7,
            topics=[
                ReassignableTopic(
                    name=topic.name if random.random() < 0.97 else "none",
                    partitions=[ReassignablePartition(partition_index=number, replicas=replicas)],
                )
            ],
        )
        response = self._send("reassign", request, 1)
        if response is not None:
            self.answers[-1]["errors"] = [
                int(one.error_code) for each in response.responses for one in each.partitions
            ]

    def _elect(self) -> None:
        random = self.random
        wanted = None
        if random.random() < 0.8:
            topic, number, _ = self._partition()
            wanted = [TopicPartitions(topic=topic.name, partitions=[number])]
            if random.random() < 0.1:
                wanted.append(TopicPartitions(topic="none", partitions=[0]))
        request = ElectLeadersRequest(election_type=random.randrange(2), topic_partitions=wanted)
        response = self._send("elect", request, 2)
        if response is not None:
            self.answers[-1]["elections"] = {
                f"{each.topic}-{one.partition_id}": int(one.error_code)
                for each in response.replica_election_results
                for one in each.partition_result
            }

    def _directories(self) -> None:
        topic, number, partition = self._partition()
        broker_id = self.random.choice(partition.replicas)
        request = AssignReplicasToDirsRequest(
            broker_id=broker_id,
            broker_epoch=self.cluster.epochs.get(broker_id, 0),
            directories=[
                RequestDirectoryData(
                    id=directory(broker_id, self.random.randrange(2)),
                    topics=[
                        TopicOfDirectory(
                            topic_id=topic.id,
                            partitions=[PartitionOfDirectory(partition_index=number)],
                        )
                    ],
                )
            ],
        )
        self._send("directories", request, 0)

    # --- one step

    def _step(self) -> None:
        random, cluster = self.random, self.cluster
        op = random.choice(OPS)
        if self._move_clock(random.choice((1, 10, 500, 2_000))):
            self._by_the_clock("expire")
        elif op == "register":
            self._register(random.randrange(BROKERS))
        elif op == "heartbeat":
            self._heartbeat(random.randrange(BROKERS))
        elif op == "unregister":
            if random.random() < 0.3:
                broker_id = random.randrange(BROKERS)
                request = UnregisterBrokerRequest(broker_id=broker_id)
                self._send("unregister", request, 0, broker=broker_id)
        elif op == "min_isr":
            topic, _, _ = self._partition()
            record = ConfigRecord(
                resource_type=2,
                resource_name=topic.name,
                name="min.insync.replicas",
                value=str(random.randint(1, 3)),
            )
            offset = cluster.next_offset
            cluster.write([record])
            self._replayed([record], offset)
        elif op in _PERIODIC:
            self._by_the_clock(op)
        else:
            {
                "alter": self._alter,
                "reassign": self._reassign,
                "elect": self._elect,
                "directories": self._directories,
            }[op]()

    def _move_clock(self, passed_ms: int) -> bool:
        """Lets time pass, but only until the first session ends: Kafka takes several in the order
        of a map. Tells whether one has ended.
        """
        wanted = self.cluster.now_ms + passed_ms
        oldest = min(self.contacts, key=self.contacts.__getitem__)
        ends = self.contacts[oldest] + SESSION_MS + 1
        self.cluster.now_ms = min(wanted, ends)
        if wanted < ends:
            return False
        del self.contacts[oldest]
        return True

    def _by_the_clock(self, op: str) -> None:
        cluster, offset = self.cluster, self.cluster.next_offset
        cluster.state.now_ms = cluster.now_ms
        cluster.state.next_offset = offset
        more = cluster.run(in_pieces(_PERIODIC[op](cluster.state)))
        answer: dict[str, Any] = {"records": self._frames(cluster.written)}
        if op == "expire":
            answer["more"] = more
        self._note({"op": op}, offset, answer)
