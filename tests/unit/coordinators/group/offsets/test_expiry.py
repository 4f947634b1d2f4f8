"""Offsets of consumer groups; how those of classic groups expire is in `test_committed`."""

from __future__ import annotations

from kaa.coordinators.group.offsets.expiry import expired_offsets
from kaa.coordinators.machine import NewRecord
from kaa.limits import RECORDS_PER_PIECE
from kaa.model.pieces import finish
from tests.unit.coordinators.group.consumer.bench import ConsumerBench

RETENTION_MS = 1_000_000


def test_offsets_of_topics_that_are_not_read_expire() -> None:
    bench = ConsumerBench()
    bench.beat("a")
    for topic in ("t", "u"):
        bench.commit_offset(topic, member_id="a", generation=2, version=9)
    group, offsets = bench.consumer_group(), bench.machine.offsets
    now = bench.now.wall_ms

    def expired(now_ms: int) -> tuple[list[NewRecord], bool]:
        return finish(expired_offsets(group, offsets, now_ms, RETENTION_MS))

    assert expired(now + RETENTION_MS - 1) == ([], False)
    records, is_nothing_left = expired(now + RETENTION_MS)
    assert ([record.key.topic for record in records], is_nothing_left) == (["u"], False)  # type: ignore[attr-defined]


def test_an_empty_group_ends_with_its_last_offset() -> None:
    bench = ConsumerBench(offsets_retention_ms=RETENTION_MS)
    bench.beat("a")
    bench.commit_offset(member_id="a", generation=2, version=9)
    bench.beat("a", -1)
    bench.advance(600_000)
    assert bench.group is not None
    bench.advance(600_000)
    assert bench.group is None


def test_a_group_with_many_offsets_is_looked_at_in_pieces() -> None:
    bench = ConsumerBench()
    bench.beat("a")
    for number in range(2 * RECORDS_PER_PIECE):
        bench.commit_offset("t", number, member_id="a", generation=2, version=9)
    group, offsets = bench.consumer_group(), bench.machine.offsets
    pieces = expired_offsets(group, offsets, bench.now.wall_ms, RETENTION_MS)
    assert sum(1 for _ in pieces) == 2
