"""KAFKA_* variables as settings."""

import pytest

from kaa.config.environment import (
    RESERVED,
    EnvironmentSetting,
    environment_settings,
    setting_name,
)


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("KAFKA_LOG_RETENTION_HOURS", "log.retention.hours"),
        ("KAFKA_NODE_ID", "node.id"),
        ("KAFKA_LISTENER_NAME_MY__LISTENER_SSL_PROTOCOL", "listener.name.my_listener.ssl.protocol"),
        (
            "KAFKA_LISTENER_NAME_MY___LISTENER_SSL_PROTOCOL",
            "listener.name.my-listener.ssl.protocol",
        ),
        ("KAFKA_A____B", "a-.b"),
        ("KAFKA_lower_CASE", "lower.case"),
        ("KAFKA_", ""),
        ("PATH", None),
        ("kafka_node_id", None),
        ("XKAFKA_NODE_ID", None),
    ],
)
def test_names(variable: str, name: str | None) -> None:
    assert setting_name(variable) == name


def test_reserved_names_are_no_settings() -> None:
    assert len(RESERVED) == 11
    assert environment_settings(dict.fromkeys(RESERVED, "x")) == []


def test_settings_come_in_a_fixed_order_with_their_variable() -> None:
    environment = {"KAFKA_NODE_ID": "1", "HOME": "x", "KAFKA_": "y", "KAFKA_LOG_DIRS": "/d"}
    assert environment_settings(environment) == [
        EnvironmentSetting("log.dirs", "/d", "KAFKA_LOG_DIRS"),
        EnvironmentSetting("node.id", "1", "KAFKA_NODE_ID"),
    ]
