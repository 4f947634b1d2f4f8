from __future__ import annotations

import pytest

from kaa.broker.directories import StartError, read_identity
from kaa.log.properties import MetaProperties, write_meta_properties
from kaa.log.sim_files import SimFiles
from tests.support.ids import uuid

FIRST, SECOND = uuid(1), uuid(2)


def files_with(**identities: MetaProperties) -> SimFiles:
    files = SimFiles()
    for name, identity in identities.items():
        files.make_directory(f"/{name}")
        write_meta_properties(files, f"/{name}", identity, "test")
    return files


def test_directories_that_agree() -> None:
    files = files_with(a=MetaProperties(1, "c", FIRST), b=MetaProperties(1, "c", SECOND))
    identity = read_identity(files, ["/a", "/b"], "/a", 1)
    assert identity.cluster_id == "c"
    assert identity.metadata_directory_id == FIRST


@pytest.mark.parametrize(
    ("second", "words"),
    [
        (MetaProperties(1, "other", SECOND), "one cluster"),
        (MetaProperties(2, "c", SECOND), "node.id"),
        (MetaProperties(1, "c", SECOND, version=9), "newer version"),
    ],
)
def test_directories_that_do_not_belong_together(second: MetaProperties, words: str) -> None:
    files = files_with(a=MetaProperties(1, "c", FIRST), b=second)
    with pytest.raises(StartError, match=words):
        read_identity(files, ["/a", "/b"], "/a", 1)


def test_damaged_identity_is_named() -> None:
    files = SimFiles()
    files.make_directory("/a")
    files.create("/a/meta.properties").write([b"nonsense"], 0)
    with pytest.raises(StartError, match=r"meta\.properties"):
        read_identity(files, ["/a"], "/a", 1)


def test_nothing_formatted_tells_the_command() -> None:
    with pytest.raises(StartError, match="kaa storage format"):
        read_identity(SimFiles(), ["/a"], "/a", 1)
