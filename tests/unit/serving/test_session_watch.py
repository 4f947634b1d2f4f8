from __future__ import annotations

from kaa.replication.partition import Awaited
from kaa.serving.fetch_sessions import PartitionKey
from kaa.serving.session_watch import SessionWatch
from tests.unit.log.batches import batch
from tests.unit.replication.support import NODE, TOPIC_ID, Replicas

A, B = (PartitionKey("", TOPIC_ID, number) for number in range(2))


def test_what_happens_to_a_partition_makes_it_due() -> None:
    watch = SessionWatch()
    partition = Replicas().create(replicas=(NODE, 2))
    woken: list[int] = []
    watch.wait(lambda: woken.append(1), Awaited.LOG_END)
    watch.watch(A, partition)
    watch.watch(A, partition)
    assert watch.take_due() == []
    partition.append(batch(1), now_ms=0)
    assert (watch.take_due(), len(woken)) == ([A], 1)
    # The high watermark and the start go out with the next answer, which nobody is woken for.
    partition.replica_fetched(2, 1, 0)
    assert (watch.take_due(), len(woken)) == ([A], 1)
    partition.stop_leading()
    assert (watch.take_due(), len(woken)) == ([A], 2)


def test_everything_is_due_now_and_then() -> None:
    watch = SessionWatch()
    assert watch.take([A, B], 1_000, 500) == [A, B]
    assert watch.take([A, B], 1_499, 500) == []
    watch.note(B)
    assert watch.take([A, B], 1_499, 500) == [B]
    assert watch.take([A, B], 1_500, 500) == [A, B]


def test_a_partition_that_was_made_anew() -> None:
    watch = SessionWatch()
    old, new = Replicas().create(), Replicas().create()
    watch.watch(A, old)
    watch.watch(A, new)
    old.append(batch(1), now_ms=0)
    assert watch.take_due() == []
    new.append(batch(1), now_ms=0)
    assert watch.take_due() == [A]


def test_nothing_is_left_behind() -> None:
    watch = SessionWatch()
    partition = Replicas().create()
    watch.watch(A, partition)
    watch.watch(B, partition)
    watch.leave(A)
    watch.close()
    partition.append(batch(1), now_ms=0)
    assert watch.take_due() == []
    assert not any(partition._waiters)


def test_those_who_do_not_wait_any_more_are_not_woken() -> None:
    watch = SessionWatch()
    partition = Replicas().create()
    watch.watch(A, partition)
    woken: list[int] = []

    def waiter() -> None:
        woken.append(1)

    watch.wait(waiter, Awaited.LOG_END)
    watch.forget(waiter)
    partition.append(batch(1), now_ms=0)
    assert woken == []
