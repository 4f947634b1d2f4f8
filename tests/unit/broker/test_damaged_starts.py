"""A start on damaged files ends in one line: which file, what is wrong with it, what to do."""

from __future__ import annotations

import asyncio
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from kaa.broker import Broker, running
from kaa.cli.broker import failures_of
from kaa.config.development import development_settings
from kaa.config.server import load_broker_config
from kaa.log.files import RealFiles
from tests.support.ports import LOOPBACK

METADATA = "__cluster_metadata-0"
SNAPSHOT = f"{METADATA}/*.checkpoint"
SEGMENT = f"{METADATA}/00000000000000000000"
GARBAGE = b"garbled\x00\xff" * 50

Damage = Callable[[Path], None]


def broker_at(data_dir: Path, *overrides: str) -> Broker:
    listeners = f"listeners=PLAINTEXT://{LOOPBACK}:0"
    settings = development_settings(str(data_dir), overrides=[listeners, *overrides])
    config = load_broker_config(settings).config
    return Broker(config, files=RealFiles(), formats_empty=True)


def start(data_dir: Path, *overrides: str) -> list[str]:
    """What a node says that does not start; nothing if it does."""

    async def main() -> None:
        async with running(broker_at(data_dir, *overrides)):
            pass

    try:
        asyncio.run(main())
    except ExceptionGroup as group:
        lines = failures_of(group)
        if lines is None:
            raise
        return lines
    return []


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a node that ran once."""
    data_dir = tmp_path_factory.mktemp("stopped") / "data"
    assert start(data_dir) == []
    return data_dir


@pytest.fixture
def data_dir(stopped: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(stopped, tmp_path / "data"))


def garbage(path: Path) -> None:
    path.write_bytes(GARBAGE)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def missing(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def directory(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


def file(path: Path) -> None:
    shutil.rmtree(path)
    path.write_bytes(GARBAGE)


def link(path: Path) -> None:
    path.rename(path.with_suffix(".moved"))
    path.symlink_to(path.with_suffix(".moved"))


def replaced(old: str, new: str) -> Damage:
    def damage(path: Path) -> None:
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    return damage


BACKUP = "restore it from a backup"
AWAY = "move the directory that is in the place of the file away, then start again"


@pytest.mark.parametrize(
    ("name", "damage", "wrong", "next_step"),
    [
        ("meta.properties", garbage, "has no version", "restore the file"),
        ("meta.properties", empty, "has no version", "restore the file"),
        ("meta.properties", missing, "is missing", "restore the file from a backup"),
        ("meta.properties", directory, "Is a directory", AWAY),
        ("meta.properties", link, "symbolic links", "put the file itself in the place"),
        (f"{METADATA}/quorum-state", garbage, "is not the JSON", "written again"),
        (f"{METADATA}/quorum-state", empty, "is not the JSON", "kaa cluster quorum add"),
        (f"{METADATA}/quorum-state", directory, "Is a directory", AWAY),
        (SNAPSHOT, garbage, "below that of an empty batch", BACKUP),
        (SNAPSHOT, empty, "no header", "kaa cluster quorum add"),
        (SNAPSHOT, directory, "Is a directory", AWAY),
        ("bootstrap.checkpoint", garbage, "below that of an empty batch", "the first start"),
        ("bootstrap.checkpoint", empty, "no header", "the first start"),
        (f"{SEGMENT}.log", directory, "Is a directory", AWAY),
        (f"{SEGMENT}.index", directory, "Is a directory", AWAY),
        (f"{METADATA}/leader-epoch-checkpoint", directory, "Is a directory", AWAY),
        (METADATA, file, "File exists", "in the place of a directory away"),
        (".lock", directory, "Is a directory", AWAY),
        (".kafka_cleanshutdown", directory, "Is a directory", AWAY),
        ("recovery-point-offset-checkpoint", directory, "Is a directory", AWAY),
    ],
)
def test_files_that_a_node_cannot_do_without(
    data_dir: Path, name: str, damage: Damage, wrong: str, next_step: str
) -> None:
    paths = list(data_dir.glob(name)) or [data_dir / name]
    for path in paths:
        damage(path)
    (line,) = start(data_dir)
    assert any(str(path) in line for path in paths)
    assert wrong in line
    assert next_step in line.partition(wrong)[2]
    assert "Errno" not in line


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        (f"{METADATA}/quorum-state", missing),
        ("bootstrap.checkpoint", missing),
        (f"{SEGMENT}.index", garbage),
        (f"{SEGMENT}.index", missing),
        (f"{SEGMENT}.timeindex", garbage),
        (f"{METADATA}/leader-epoch-checkpoint", garbage),
        (f"{METADATA}/partition.metadata", garbage),
        ("recovery-point-offset-checkpoint", garbage),
        ("replication-offset-checkpoint", garbage),
        ("log-start-offset-checkpoint", garbage),
        (".kafka_cleanshutdown", garbage),
    ],
)
def test_files_that_are_written_again(data_dir: Path, name: str, damage: Damage) -> None:
    damage(data_dir / name)
    assert start(data_dir) == []
    assert start(data_dir) == []


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (
            "node.id=1",
            "node.id=7",
            "{path} belongs to node 7, but node.id is 1; set node.id or log.dirs to match",
        ),
        ("version=1", "version=9", "{path} was written by a newer version (9); use that one"),
    ],
)
def test_directories_of_others(data_dir: Path, old: str, new: str, line: str) -> None:
    replaced(old, new)(data_dir / "meta.properties")
    assert start(data_dir) == [line.format(path=data_dir)]


def test_a_directory_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"")
    (line,) = start(tmp_path / "data")
    assert line.startswith(f"cannot use {tmp_path / 'data'}")
    assert "(Not a directory); move the file" in line
    assert line.endswith(", or name another directory")


def test_a_port_that_is_in_use(data_dir: Path) -> None:
    with socket.create_server((LOOPBACK, 0)) as other:
        address = f"{LOOPBACK}:{other.getsockname()[1]}"
        (line,) = start(data_dir, f"listeners=PLAINTEXT://{address}")
    assert line == (
        f"cannot listen on {address} (Address already in use); "
        "set listeners to another address or port"
    )
