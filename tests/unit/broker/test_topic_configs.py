from __future__ import annotations

from kaa.broker.topic_configs import log_config, log_manager_config
from tests.unit.broker.support import config


def test_topic_has_its_own_values_over_those_of_the_broker() -> None:
    settings = config("log.retention.ms=5000", "log.segment.bytes=2097152")
    found = log_config(settings, {"cleanup.policy": "compact,delete", "segment.bytes": "3145728"})
    assert found.retention_ms == 5000
    assert found.segment_bytes == 3_145_728
    assert found.cleanup_policy == {"compact", "delete"}


def test_small_segments_for_tests() -> None:
    assert log_config(config(), {"internal.segment.bytes": "1000"}).segment_bytes == 1000


def test_settings_of_storage_carry_the_names_of_the_broker() -> None:
    settings = config(
        "log.cleaner.dedupe.buffer.size=77777777", "log.retention.check.interval.ms=99"
    )
    found = log_manager_config(settings, log_config(settings, {}))
    assert found.log_cleaner_dedupe_buffer_size == 77_777_777
    assert found.log_retention_check_interval_ms == 99
