from __future__ import annotations

from kaa.replication.read_replica import preferred_replica
from kaa.wire.messages.metadata_cluster import FenceBrokerRecord, RegisterBrokerRecord
from kaa.wire.messages.metadata_topics import PartitionChangeRecord
from tests.unit.log.batches import batch
from tests.unit.replication.support import NODE, TOPIC_ID, Replicas


class Case:
    """Broker 1 leads in rack a, 2 and 3 follow in b, 4 follows in c; the log ends at 10."""

    def __init__(self) -> None:
        self.now = 0
        self.replicas = Replicas(monotonic_ms=lambda: self.now)
        self.replicas.replay(
            *(
                RegisterBrokerRecord(broker_id=number, broker_epoch=number, fenced=False, rack=rack)
                for number, rack in ((1, "a"), (2, "b"), (3, "b"), (4, "c"))
            )
        )
        self.partition = self.replicas.create(replicas=(NODE, 2, 3, 4))
        self.partition.append(batch(10), now_ms=0)
        for broker_id, end in ((2, 8), (3, 9), (4, 10)):
            self.fetched(broker_id, end)

    def fetched(self, broker_id: int, end: int, start: int = 0) -> None:
        self.now += 1
        self.partition.replica_fetched(broker_id, end, start, broker_id)

    def preferred(self, rack: str, offset: int = 5) -> int | None:
        return preferred_replica(self.partition, rack, offset)


def test_one_in_the_same_rack_and_the_furthest_of_them() -> None:
    case = Case()
    assert case.preferred("b") == 3
    case.fetched(2, 10)
    assert case.preferred("b") == 2
    # Equally far: the one that was at the end last.
    case.fetched(3, 10)
    assert case.preferred("b") == 3
    assert case.preferred("c") == 4


def test_the_leader_where_nobody_is_nearer() -> None:
    case = Case()
    assert case.preferred("a") is None
    assert case.preferred("elsewhere") is None
    assert case.preferred("") is None


def test_only_one_that_has_the_offset() -> None:
    case = Case()
    assert case.preferred("b", 9) == 3
    assert case.preferred("b", 10) is None
    case.fetched(4, 10, 7)
    assert case.preferred("c", 6) is None
    assert case.preferred("c", 7) == 4


def test_only_one_that_is_live_and_in_sync() -> None:
    case = Case()
    case.replicas.replay(FenceBrokerRecord(id=3, epoch=3))
    assert case.preferred("b") == 2
    case.replicas.replay(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, isr=[1, 3, 4]))
    assert case.preferred("b") is None


def test_followers_send_nobody_away() -> None:
    case = Case()
    case.replicas.replay(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=2))
    assert case.preferred("b") is None
