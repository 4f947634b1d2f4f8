from __future__ import annotations

from kaa.broker.topic_configs import LogConfigs, log_config, log_manager_config
from kaa.limits import LOG_CONFIGS_KEPT_MAX
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


def test_logs_with_the_same_settings_share_them() -> None:
    configs, settings = LogConfigs(), config("log.retention.ms=5000")
    own = {"segment.bytes": "3145728"}
    assert configs.get(settings, {}) is configs.get(settings, {})
    assert configs.get(settings, own) is configs.get(settings, dict(own))
    assert configs.get(settings, own).segment_bytes == 3_145_728


def test_new_settings_of_the_broker_count_at_once() -> None:
    configs = LogConfigs()
    assert configs.get(config("log.retention.ms=5000"), {}).retention_ms == 5000
    assert configs.get(config("log.retention.ms=6000"), {}).retention_ms == 6000


def test_kept_settings_are_bounded() -> None:
    configs, settings = LogConfigs(), config()
    for number in range(LOG_CONFIGS_KEPT_MAX + 5):
        assert configs.get(settings, {"retention.ms": str(number)}).retention_ms == number
    assert len(configs._known) <= LOG_CONFIGS_KEPT_MAX
