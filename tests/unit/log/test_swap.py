"""Replacing segments: the order of steps that recovery relies on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kaa.log.append import append_as_leader
from kaa.log.segment import Segment
from kaa.log.swap import replace_segments
from tests.unit.log.batches import batch
from tests.unit.log.logs import SMALL, new_disk, new_log, purge, stored_batches

if TYPE_CHECKING:
    from kaa.log.log import UnifiedLog
    from kaa.log.sim_files import SimFiles

COMPACTED = replace(SMALL, cleanup_policy=frozenset({"compact"}))


def _prepared() -> tuple[SimFiles, UnifiedLog, Segment]:
    """A log of three segments and an empty successor of its first two."""
    files = new_disk()
    log = new_log(files, COMPACTED)
    for n in range(16):
        append_as_leader(log, batch(2, timestamp=n), leader_epoch=0, now_ms=0)
    cleaned = Segment.create(files, log.folder, 0, COMPACTED, suffix=".cleaned")
    cleaned.seal()
    return files, log, cleaned


def test_the_successor_takes_the_place_of_its_sources() -> None:
    files, log, cleaned = _prepared()
    bases = log.segments.base_offsets
    assert len(bases) == 3
    replace_segments(log, cleaned, list(log.segments)[:2], now_ms=0)
    assert log.segments.first is cleaned
    assert log.segments.base_offsets == [0, bases[2]]
    assert stored_batches(log)[0].base_offset == bases[2]
    assert log.snapshots.offsets == [bases[2]], "that of the second source went with it"
    purge(log, 60_000)
    assert sorted({name[:20] for name in files.list_directory(log.folder) if name[0] == "0"}) == [
        f"{base:020d}" for base in (0, bases[2])
    ]


def test_steps_come_in_the_order_that_recovery_expects() -> None:
    files, log, cleaned = _prepared()
    before = len(files.history)
    replace_segments(log, cleaned, list(log.segments)[:2], now_ms=0)
    steps = [(operation, path.rpartition(".")[2]) for operation, path in files.history[before:]]
    kinds = [suffix for operation, suffix in steps if operation == "rename"]
    swaps, deletions = kinds.count("swap"), kinds.count("deleted")
    assert kinds[:swaps] == ["swap"] * swaps
    assert kinds[swaps : swaps + deletions] == ["deleted"] * deletions
    assert kinds[swaps + deletions] == "log"
    assert steps[-1][0] == "sync_directory"
