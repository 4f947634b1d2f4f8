from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kaa.cli.client import EXIT_NOT_FOUND, EXIT_UNREACHABLE, EXIT_USAGE, load_settings
from kaa.cli.profiles import profiles_path
from kaa.cli.root import root
from tests.support.ports import LOOPBACK, free_port


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KAA_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.delenv("KAA_BOOTSTRAP_SERVERS", raising=False)
    return tmp_path


def profile(*arguments: str) -> Result:
    return CliRunner().invoke(root, ["profile", *arguments])


def test_life_of_a_profile(folder: Path) -> None:
    assert "there is no profile yet" in profile("list").stderr
    made = profile("create", "local", "-b", "localhost:1")
    assert made.exit_code == 0, made.output
    assert "profile local is in use" in made.stderr
    file = folder / "client.properties"
    file.write_text("security.protocol=SSL\nssl.key.password=secret\n")
    made = profile("create", "work", "--from-file", str(file), "-X", "retries=3")
    assert "kaa profile use work" in made.stderr
    assert "secret" not in made.stdout
    rows = json.loads(profile("list", "-o", "json").stdout)
    assert [(row["name"], row["current"]) for row in rows] == [("local", True), ("work", False)]
    assert profile("use", "work").exit_code == 0
    shown = json.loads(profile("print", "-o", "json").stdout)
    assert shown == {
        "name": "work",
        "settings": {"retries": "3", "security.protocol": "SSL", "ssl.key.password": "[hidden]"},
    }
    assert profile("edit", "work", "retries=4", "--unset", "security.protocol").exit_code == 0
    assert profile("rename", "work", "office").exit_code == 0
    assert profile("prompt").stdout == "office"
    assert load_settings(None, [], None, None)["retries"] == "4"
    assert load_settings(None, [], None, None, "local")["bootstrap.servers"] == "localhost:1"
    assert load_settings("b:2", [], None, None, "local")["bootstrap.servers"] == "b:2"
    assert profile("clear").exit_code == 0
    assert profile("print").exit_code == EXIT_NOT_FOUND
    assert profile("delete", "office").exit_code == 0
    assert profile("list", "-o", "name").stdout == "local\n"


def test_wrong_use() -> None:
    assert profile("use", "nosuch").exit_code == EXIT_NOT_FOUND
    assert profile("create", "none").exit_code == EXIT_USAGE
    profile("create", "a")
    profile("create", "b")
    again = profile("create", "a")
    assert again.exit_code == EXIT_NOT_FOUND
    assert "--force replaces it" in again.stderr
    assert profile("rename", "a", "b").exit_code == EXIT_NOT_FOUND
    profiles_path().write_text("no toml")
    assert profile("list").exit_code == EXIT_USAGE
    broken = CliRunner().invoke(root, ["topic", "list"])
    assert broken.exit_code == EXIT_USAGE
    assert "is not a file of profiles" in broken.stderr


def test_commands_take_the_profile_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    address = f"{LOOPBACK}:{free_port()}"
    profile("create", "here", "-b", address, "-X", "default.api.timeout.ms=300")
    answer = CliRunner().invoke(root, ["topic", "list"])
    assert answer.exit_code == EXIT_UNREACHABLE
    assert f"cannot connect to {address}" in answer.stderr
    monkeypatch.setenv("KAA_PROFILE", "nosuch")
    assert CliRunner().invoke(root, ["topic", "list"]).exit_code == EXIT_USAGE
