"""Settings of a log that follow from others."""

from __future__ import annotations

from dataclasses import replace

from kaa.log.config import LogConfig


def test_policies() -> None:
    default = LogConfig()
    assert (default.delete, default.compact) == (True, False)
    both = replace(default, cleanup_policy=frozenset({"compact", "delete"}))
    assert (both.delete, both.compact) == (True, True)


def test_compacted_logs_roll_in_time_for_compaction() -> None:
    delete = LogConfig(segment_ms=1000, max_compaction_lag_ms=10)
    assert delete.segment_age_ms_max == 1000
    compact = replace(delete, cleanup_policy=frozenset({"compact"}))
    assert compact.segment_age_ms_max == 10
    assert replace(compact, max_compaction_lag_ms=0).segment_age_ms_max == 1000
