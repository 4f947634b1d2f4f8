from __future__ import annotations

from kaa.cli.directory_plan import Overfull, balance, overfull
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
    total: int = -1,
    usable: int = -1,
) -> LogDir:
    replicas = [
        LogDirReplica(TopicPartition("t", first + number), size, 0, is_future=False)
        for number, size in enumerate(sizes)
    ]
    replicas += [
        LogDirReplica(TopicPartition("t", number), 1, 9, is_future=True) for number in future
    ]
    return LogDir(broker_id, path, error, total, usable, tuple(replicas), is_cordoned)


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


GIB = 2**30


def test_no_disk_gets_more_than_it_has_room_for() -> None:
    big = directory("/big", *[100 * GIB] * 10, total=4000 * GIB, usable=3000 * GIB)
    small = directory("/small", total=300 * GIB, usable=290 * GIB)
    assert [move.target for move in balance([big, small])] == ["/small"] * 2
    # Something stays free, and what is on its way has its place already.
    tight = directory("/small", total=300 * GIB, usable=209 * GIB)
    assert len(balance([big, tight])) == 1
    coming = directory("/small", future=(0,), total=300 * GIB, usable=290 * GIB)
    assert len(balance([big, coming])) == 1
    full = directory("/small", total=300 * GIB, usable=5 * GIB)
    assert balance([big, full]) == []


def test_disk_that_is_full_leaves_the_rest_to_others() -> None:
    big = directory("/a", *[10] * 8, total=1000, usable=900)
    dirs = [big, directory("/b", total=20, usable=11), directory("/c", total=1000, usable=900)]
    moves = balance(dirs)
    assert sorted(move.target for move in moves) == ["/b", "/c", "/c", "/c"]


def test_moves_that_do_not_fit_are_told() -> None:
    source = directory("/a", 60, 60, 60, total=1000, usable=900)
    target = directory("/b", first=2, future=(0,), total=100, usable=100)
    wanted = {(1, TopicPartition("t", number)): "/b" for number in range(3)}
    # The first is on its way already, of which 59 are still to come; 5 stay free.
    assert overfull([source, target], wanted) == [Overfull(1, "/b", 120, 36)]
    assert overfull([source, target], {}) == []
    assert overfull([source, directory("/b")], wanted) == []
