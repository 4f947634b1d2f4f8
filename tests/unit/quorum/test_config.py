from __future__ import annotations

from kaa.quorum.config import QuorumConfig


def test_the_defaults_are_kafkas_and_nothing_lingers() -> None:
    config = QuorumConfig()
    assert config == QuorumConfig(
        election_timeout_ms=1000,
        fetch_timeout_ms=2000,
        election_backoff_max_ms=1000,
        request_timeout_ms=2000,
        retry_backoff_ms=20,
        append_linger_ms=0,
        fetch_max_bytes=1_048_576,
        fetch_snapshot_max_bytes=1_048_576,
        fetch_max_wait_ms=500,
    )


def test_what_follows_from_the_fetch_timeout() -> None:
    config = QuorumConfig(fetch_timeout_ms=2001)
    assert config.check_quorum_timeout_ms == 3001
    assert config.begin_quorum_epoch_timeout_ms == 1000
