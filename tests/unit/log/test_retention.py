"""Retention by age, by size and by the start of the log."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kaa.log import retention
from kaa.log.append import append_as_leader
from kaa.log.config import LogConfig
from kaa.log.errors import LogError
from kaa.log.log import UnifiedLog
from kaa.log.retention import delete_old_segments
from kaa.log.sim_files import CrashError, SimFiles
from kaa.log.truncation import truncate_to
from kaa.wire.errors import Errors
from tests.unit.log.batches import batch
from tests.unit.log.logs import (
    PARTITION,
    SMALL,
    new_disk,
    new_log,
    purge,
    reload,
    stored_batches,
)

FOREVER = replace(SMALL, retention_ms=-1)


def _filled(config: LogConfig, files: SimFiles | None = None) -> UnifiedLog:
    """Four segments of six batches of two records: 0, 12, 24, 36; timestamps 0, 10, ..."""
    log = new_log(files or new_disk(), config)
    for n in range(24):
        append_as_leader(log, batch(2, timestamp=10 * n), leader_epoch=0, now_ms=n)
    log.update_high_watermark(48)
    assert log.segments.base_offsets == [0, 12, 24, 36]
    if config.remote_storage_enable:
        log.flush(0)
    return log


def _starts(log: UnifiedLog) -> tuple[int, list[int]]:
    return log.log_start_offset, log.segments.base_offsets


def test_segments_expire_by_their_greatest_timestamp() -> None:
    log = _filled(replace(SMALL, retention_ms=1000))
    assert delete_old_segments(log, now_ms=1051) == 0
    assert delete_old_segments(log, now_ms=1052) == 1
    assert _starts(log) == (12, [12, 24, 36])
    assert delete_old_segments(log, now_ms=1172) == 2
    assert _starts(log) == (36, [36])


def test_very_many_segments_go_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "SEGMENTS_REMOVED_PER_TURN_MAX", 2)
    log = _filled(replace(SMALL, retention_ms=1000))
    log.increment_log_start_offset(13)
    assert delete_old_segments(log, now_ms=10**6) == 2
    assert _starts(log) == (24, [24, 36])
    assert delete_old_segments(log, now_ms=10**6) == 2
    assert _starts(log) == (48, [48])
    assert delete_old_segments(log, now_ms=10**6) == 0


def test_the_active_segment_expires_too() -> None:
    log = _filled(replace(SMALL, retention_ms=1000))
    assert delete_old_segments(log, now_ms=10**6) == 4
    assert _starts(log) == (48, [48])
    assert delete_old_segments(log, now_ms=10**7) == 0
    append_as_leader(log, batch(1, timestamp=10**7), leader_epoch=0, now_ms=0)
    assert stored_batches(log)[0].base_offset == 48


def test_size() -> None:
    log = _filled(replace(FOREVER, retention_bytes=3 * 594))
    assert delete_old_segments(log, now_ms=0) == 1
    assert _starts(log) == (12, [12, 24, 36])
    log.config = replace(FOREVER, retention_bytes=3 * 594 - 1)
    assert delete_old_segments(log, now_ms=0) == 0
    log.config = replace(FOREVER, retention_bytes=0)
    assert delete_old_segments(log, now_ms=0) == 3


def test_nothing_at_or_above_the_high_watermark_goes() -> None:
    log = _filled(replace(SMALL, retention_ms=0))
    log.update_high_watermark(23)
    assert delete_old_segments(log, now_ms=10**6) == 1
    log.update_high_watermark(24)
    assert delete_old_segments(log, now_ms=10**6) == 1
    assert _starts(log) == (24, [24, 36])


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_what_lies_below_the_start_of_the_log_goes_under_any_policy(policy: str) -> None:
    log = _filled(replace(FOREVER, cleanup_policy=frozenset({policy})))
    log.increment_log_start_offset(24)
    assert delete_old_segments(log, now_ms=0) == 2
    assert _starts(log) == (24, [24, 36])
    log.increment_log_start_offset(37)
    assert delete_old_segments(log, now_ms=0) == 1
    assert _starts(log) == (37, [36])


def test_compacted_logs_ignore_age_and_size() -> None:
    config = replace(
        SMALL, cleanup_policy=frozenset({"compact"}), retention_ms=0, retention_bytes=0
    )
    assert delete_old_segments(_filled(config), now_ms=10**9) == 0


def test_snapshots_and_files_go_with_their_segments() -> None:
    files = new_disk()
    log = _filled(replace(SMALL, retention_ms=0), files)
    delete_old_segments(log, now_ms=0)
    delete_old_segments(log, now_ms=161)
    assert log.snapshots.offsets == [24, 36]
    purge(log, 161 + 60_000)
    names = {name[:20] for name in files.list_directory("/data/topic-0") if name[0] == "0"}
    assert names == {f"{base:020d}" for base in (24, 36)}


def test_a_crash_at_every_step_leaves_a_suffix_of_the_log() -> None:
    config = replace(SMALL, retention_ms=1000)
    for crash_at in range(100):
        files = new_disk()
        log = _filled(config, files)
        log.flush(now_ms=0)
        log.directory.checkpoint_recovery_points()
        files.crash_at = len(files.history) + crash_at
        try:
            delete_old_segments(log, now_ms=1172)
            purge(log, 10**6)
            finished = True
        except CrashError:
            finished = False
        for mode, seed in (("kill", 0), ("lost", 0), ("torn", crash_at), ("torn", crash_at + 1)):
            after = files.restart(mode, seed=seed)  # type: ignore[arg-type]
            found = reload(after, config)
            assert found.log_end_offset == 48
            assert found.log_start_offset in {0, 12, 24, 36}
            expected = list(range(found.log_start_offset, 48, 2))
            assert [b.base_offset for b in stored_batches(found)] == expected
            names = after.list_directory("/data/topic-0")
            assert not [name for name in names if name.endswith(".deleted")]
        if finished:
            return
    pytest.fail("the deletion never finished")


# --- tiered logs


TIERED = replace(FOREVER, remote_storage_enable=True)


def test_a_tiered_log_keeps_what_was_not_copied() -> None:
    log = _filled(replace(TIERED, local_retention_bytes=0))
    assert delete_old_segments(log, now_ms=0) == 0
    log.copied_offset = 23
    assert delete_old_segments(log, now_ms=0) == 2
    # The log starts where it did; its local part does not.
    assert (log.log_start_offset, log.local_log_start_offset) == (0, 24)
    assert log.segments.base_offsets == [24, 36]
    for offset in (0, 23):
        with pytest.raises(LogError) as raised:
            log.read(offset, bytes_max=1)
        assert raised.value.error is Errors.OFFSET_MOVED_TO_TIERED_STORAGE
    assert log.read(24, bytes_max=1).region is not None
    assert log.leader_epochs.entries[0].start_offset == 0


def test_what_is_not_on_stable_storage_stays() -> None:
    log = _filled(replace(TIERED, local_retention_bytes=0))
    log.copied_offset = 47
    log.recovery_point = 20
    assert delete_old_segments(log, now_ms=0) == 1
    assert log.local_log_start_offset == 12


def test_without_a_policy_all_is_kept_but_not_on_this_disk() -> None:
    log = _filled(replace(TIERED, local_retention_bytes=0, cleanup_policy=frozenset()))
    log.copied_offset = 23
    assert delete_old_segments(log, now_ms=0) == 2
    assert (log.log_start_offset, log.local_log_start_offset) == (0, 24)


def test_local_retention_by_age() -> None:
    log = _filled(replace(TIERED, local_retention_ms=1_000, retention_ms=10**9))
    log.copied_offset = 35
    assert delete_old_segments(log, now_ms=1052) == 1
    assert log.local_log_start_offset == 12
    # Without a setting of its own the local part is kept as long as all of it.
    log.config = replace(TIERED, retention_ms=10**9)
    assert delete_old_segments(log, now_ms=10**6) == 0


def test_the_active_segment_stays_until_it_was_copied() -> None:
    log = _filled(replace(TIERED, local_retention_ms=1_000))
    log.copied_offset = 35
    assert delete_old_segments(log, now_ms=10**6) == 3
    assert log.segments.base_offsets == [36]
    log.roll(0)
    log.copied_offset = 47
    assert delete_old_segments(log, now_ms=10**6) == 1
    assert log.local_log_start_offset == 48


def test_with_copying_disabled_it_is_kept_as_any_log() -> None:
    log = _filled(replace(TIERED, remote_log_copy_disable=True, retention_ms=1_000))
    assert delete_old_segments(log, now_ms=1052) == 1
    assert _starts(log) == (12, [12, 24, 36])


def test_the_start_of_a_tiered_log_survives_a_restart() -> None:
    files = new_disk()
    log = _filled(replace(TIERED, local_retention_bytes=0), files)
    log.copied_offset = 35
    delete_old_segments(log, now_ms=0)
    assert log.directory.log_start_offsets() == {PARTITION: 0}
    log.close_cleanly(0)
    again = reload(files, TIERED, clean=True)
    assert (again.log_start_offset, again.local_log_start_offset) == (0, 36)
    # Truncation below the local start forgets what was copied beyond it.
    again.copied_offset = 35
    truncate_to(again, 20, 0)
    assert again.copied_offset == 19
