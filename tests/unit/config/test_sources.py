"""Precedence of the sources, and where each setting was found."""

import pytest

from kaa.config.properties import Property
from kaa.config.sources import Setting, SettingSource, file_settings, merge_settings, parse_override
from kaa.config.values import ConfigError


def test_the_stronger_source_wins() -> None:
    settings = merge_settings(
        development={"a": "dev", "b": "dev", "c": "dev", "d": "dev"},
        file=[Property("b", "file", 1), Property("c", "file", 2), Property("d", "file", 3)],
        file_name="server.properties",
        environment={"KAFKA_C": "env", "KAFKA_D": "env"},
        overrides=["d=line", "e=x=y"],
    )
    assert settings == {
        "a": Setting("a", "dev", SettingSource.DEVELOPMENT, "a development default"),
        "b": Setting("b", "file", SettingSource.FILE, "server.properties line 1"),
        "c": Setting("c", "env", SettingSource.ENVIRONMENT, "KAFKA_C"),
        "d": Setting("d", "line", SettingSource.COMMAND_LINE, "the command line"),
        "e": Setting("e", "x=y", SettingSource.COMMAND_LINE, "the command line"),
    }


def test_overrides_are_name_and_value() -> None:
    assert parse_override(" a = b ") == ("a", " b ")
    assert parse_override("a=") == ("a", "")
    for text in ("a", "=b", " =b", ""):
        with pytest.raises(ConfigError, match="name=value"):
            parse_override(text)


def test_a_file_by_itself() -> None:
    settings = file_settings(b"a=1\n\na=2\n", "f")
    assert settings == {"a": Setting("a", "2", SettingSource.FILE, "f line 3")}


def test_settings_have_a_limit() -> None:
    with pytest.raises(ConfigError, match="limit"):
        merge_settings(environment={f"KAFKA_X{i}": "" for i in range(20_001)})
