from __future__ import annotations

from kaa.cli.directory_plan import balance
from kaa.client.admin.cluster import LogDir, LogDirReplica
from kaa.model.topics import TopicPartition
from kaa.wire.errors import Errors


def directory(
    path: str,
    *sizes: int,
    first: int = 0,
    broker_id: int = 1,
    error: Errors = Errors.NONE,
    future: tuple[int, ...] = (),
    is_cordoned: bool = False,
) -> LogDir:
    replicas = [
        LogDirReplica(TopicPartition("t", first + number), size, 0, is_future=False)
        for number, size in enumerate(sizes)
    ]
    replicas += [
        LogDirReplica(TopicPartition("t", number), 1, 9, is_future=True) for number in future
    ]
    return LogDir(broker_id, path, error, -1, -1, tuple(replicas), is_cordoned)


def loads_after(*dirs: LogDir) -> dict[str, int]:
    loads = {one.path: sum(replica.size_bytes for replica in one.replicas) for one in dirs}
    for move in balance(dirs):
        loads[move.source] -= move.size_bytes
        loads[move.target] += move.size_bytes
    return loads


def test_bytes_come_as_close_as_replicas_allow() -> None:
    assert loads_after(directory("/a", 50, 30, 20), directory("/b")) == {"/a": 50, "/b": 50}
    assert loads_after(
        directory("/a", 10, 10, 10, 10, 10, 10), directory("/b"), directory("/c")
    ) == {
        "/a": 20,
        "/b": 20,
        "/c": 20,
    }


def test_even_and_indivisible_loads_stay() -> None:
    assert balance([directory("/a", 100), directory("/b")]) == []
    assert balance([directory("/a", 10, 10), directory("/b", 10, 10, first=5)]) == []
    assert balance([directory("/a", 0, 0), directory("/b")]) == []
    assert balance([directory("/a", 10, 10)]) == []


def test_replica_moves_within_its_broker_alone() -> None:
    dirs = [directory("/a", 10, 10), directory("/a", broker_id=2), directory("/b", broker_id=2)]
    assert balance(dirs) == []


def test_offline_directory_keeps_its_broker_from_moving_and_cordoned_ones_only_give() -> None:
    full = directory("/a", 10, 10, 10, 10)
    offline = directory("/c", error=Errors.KAFKA_STORAGE_ERROR)
    elsewhere = [directory("/a", 10, 10, broker_id=2), directory("/b", broker_id=2)]
    assert [move.broker_id for move in balance([full, directory("/b"), offline, *elsewhere])] == [2]
    assert balance([full, directory("/b", is_cordoned=True)]) == []
    cordoned = directory("/a", 10, 10, 10, 10, is_cordoned=True)
    assert len(balance([cordoned, directory("/b")])) == 2


def test_what_is_on_its_way_counts_where_it_goes_to() -> None:
    dirs = [directory("/a", 10, 10, 10, 10), directory("/b", future=(0, 1))]
    assert balance(dirs) == []
