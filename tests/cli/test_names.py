from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from kaa.cli import names
from kaa.cli.names import cache_folder, connection_arguments, known_names
from tests.support.ports import LOOPBACK, free_port


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KAA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("KAA_CONFIG_DIR", str(tmp_path / "config"))
    return tmp_path


def test_options_so_far_say_which_cluster() -> None:
    parameters = {"servers": "a:1", "profile": None, "properties": ("x=y",), "names": ()}
    assert connection_arguments(parameters) == ["-b", "a:1", "-X", "x=y"]


def test_names_come_from_the_cluster_and_then_from_the_file(
    bootstrap: str, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from click.testing import CliRunner

    from kaa.cli.root import root

    assert CliRunner().invoke(root, ["topic", "create", topic_name, "-b", bootstrap]).exit_code == 0
    monkeypatch.setattr(names, "_WAIT_SECONDS", 60)
    found = known_names("topic", {"servers": bootstrap})
    assert topic_name in found
    (file,) = cache_folder().iterdir()
    file.write_text("from-the-file\n")
    assert known_names("topic", {"servers": bootstrap}) == ["from-the-file"]
    assert known_names("topic", {"servers": "elsewhere:1", "properties": ("x",)}) == []
    # An old file still serves while it is refreshed.
    os.utime(file, (1, 1))
    assert known_names("topic", {"servers": bootstrap}) == ["from-the-file"]
    deadline = time.monotonic() + 60
    while topic_name not in file.read_text() and time.monotonic() < deadline:
        os.sched_yield()
    assert topic_name in file.read_text()


def test_nobody_there_means_no_names() -> None:
    started = time.monotonic()
    assert known_names("topic", {"servers": f"{LOOPBACK}:{free_port()}"}) == []
    assert time.monotonic() - started < 5
    assert known_names("profile", {}) == []
