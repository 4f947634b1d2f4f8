from __future__ import annotations

from kaa.quorum.effects import Effect, LeaderChanged, TruncateLog
from kaa.quorum.values import Value

LOG_CHANGES = {
    "AppendLeaderChange",
    "AppendVoters",
    "AppendAsLeader",
    "AppendAsFollower",
    "TruncateLog",
    "InstallSnapshot",
}


def test_effects_are_comparable_values() -> None:
    assert all(issubclass(kind, Value) for kind in Effect.__args__)
    assert TruncateLog(1, 5) == TruncateLog(write_id=1, offset=5)
    assert LeaderChanged(3, None).epoch_start_offset is None


def test_what_changes_the_log_has_a_number_to_report() -> None:
    numbered = {kind.__name__ for kind in Effect.__args__ if "write_id" in kind.fields}
    assert numbered == LOG_CHANGES
