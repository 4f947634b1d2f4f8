"""The broker's table as a whole, and every table's documentation."""

import pytest

from kaa.config import ConfigDef, ConfigType, Password, UpdateMode
from kaa.config.broker import BROKER, DYNAMIC_BROKER
from kaa.config.client import ADMIN, CONSUMER, PRODUCER
from kaa.config.definition import Required
from kaa.config.entity import CLIENT_METRICS, IP, USER
from kaa.config.group import GROUP
from kaa.config.topic import TOPIC

TABLES = [BROKER, DYNAMIC_BROKER, TOPIC, GROUP, PRODUCER, CONSUMER, ADMIN, CLIENT_METRICS, USER, IP]

PYTHON_TYPES: dict[ConfigType, type | tuple[type, ...]] = {
    ConfigType.BOOLEAN: bool,
    ConfigType.STRING: str,
    ConfigType.INT: int,
    ConfigType.SHORT: int,
    ConfigType.LONG: int,
    ConfigType.DOUBLE: float,
    ConfigType.LIST: tuple,
    ConfigType.CLASS: str,
    ConfigType.PASSWORD: Password,
}


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.scope)
def test_rows_are_sound(table: ConfigDef) -> None:
    for key in table:
        assert key.name.strip() == key.name
        assert key.documentation.endswith(".")
        assert key.documentation[0].isupper()
        assert 20 <= len(key.documentation) <= 400, key.name
        if isinstance(key.default, Required):
            continue
        assert key.default is None or isinstance(key.default, PYTHON_TYPES[key.type]), key.name
        if key.validator is not None:
            key.validator.check(key.name, key.default)
        if key.default_text is not None:
            assert key.parse(key.default_text) == key.default, key.name


def test_settings_named_in_the_documentation_exist() -> None:
    known = {name for table in TABLES for name in table.names()}
    words = {"earliest", "latest", "none", "classic", "consumer", "share", "streams", "delete"}
    for table in TABLES:
        for key in table:
            for quoted in key.documentation.split("`")[1::2]:
                if "." in quoted and " " not in quoted and ":" not in quoted:
                    assert quoted in known | words or quoted.startswith("listener.name."), quoted


def test_dynamic_settings() -> None:
    assert "log.retention.ms" in DYNAMIC_BROKER
    assert "log.dirs" not in DYNAMIC_BROKER
    assert BROKER["listeners"].update_mode is UpdateMode.PER_BROKER
    assert BROKER["num.io.threads"].update_mode is UpdateMode.CLUSTER_WIDE
    assert "leader.replication.throttled.rate" in DYNAMIC_BROKER
    assert "leader.replication.throttled.rate" not in BROKER


def test_our_own_settings_have_our_prefix() -> None:
    assert [name for name in BROKER.names() if name.startswith("kaa.")] == [
        "kaa.log.group.commit.enable"
    ]
