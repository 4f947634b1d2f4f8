from __future__ import annotations

from errno import EROFS

import pytest

from kaa.broker.directories import Identity, StartError, read_identity
from kaa.controller.directories import LOST
from kaa.log.properties import MetaProperties, read_meta_properties, write_meta_properties
from kaa.log.sim_files import Fault, SimFiles
from tests.support.ids import uuid

FIRST, SECOND = uuid(101), uuid(102)


def files_with(**identities: MetaProperties) -> SimFiles:
    files = SimFiles()
    for name, identity in identities.items():
        files.make_directory(f"/{name}")
        write_meta_properties(files, f"/{name}", identity, "test")
    return files


def identity(
    files: SimFiles, *paths: str, metadata: str = "/a", may_vote: bool = False
) -> Identity:
    return read_identity(files, paths, metadata, 1, lambda: uuid(177), may_vote=may_vote)


def test_directories_that_agree() -> None:
    files = files_with(a=MetaProperties(1, "c", FIRST), b=MetaProperties(1, "c", SECOND))
    found = identity(files, "/a", "/b")
    assert found.cluster_id == "c"
    assert found.metadata_directory_id == FIRST
    assert not found.unusable


@pytest.mark.parametrize(
    ("second", "words"),
    [
        (MetaProperties(1, "other", SECOND), "belongs to cluster other"),
        (MetaProperties(2, "c", SECOND), "node.id"),
        (MetaProperties(1, "c", SECOND, version=9), "newer version"),
        (MetaProperties(1, "c", LOST), "which no directory has"),
    ],
)
def test_directory_that_does_not_belong_to_the_node_is_left_out(
    second: MetaProperties, words: str
) -> None:
    files = files_with(a=MetaProperties(1, "c", FIRST), b=second)
    found = identity(files, "/a", "/b")
    assert list(found.directories) == ["/a"]
    assert words in found.unusable["/b"]


@pytest.mark.parametrize(
    ("first", "words"),
    [
        (MetaProperties(2, "c", FIRST), "node.id"),
        (MetaProperties(1, "c", FIRST, version=9), "newer version"),
        (MetaProperties(1, "c", LOST), "which no directory has"),
    ],
)
def test_metadata_of_somebody_else_is_refused(first: MetaProperties, words: str) -> None:
    files = files_with(a=first, b=MetaProperties(1, "c", SECOND))
    with pytest.raises(StartError, match=words):
        identity(files, "/a", "/b")


def test_missing_metadata_directory_is_refused() -> None:
    files = files_with(b=MetaProperties(1, "c", SECOND))
    with pytest.raises(StartError, match=r"metadata\.log\.dir"):
        identity(files, "/a", "/b")


def test_directories_before_ids_get_one() -> None:
    files = files_with(a=MetaProperties(1, "c", None))
    assert identity(files, "/a").metadata_directory_id == uuid(177)
    assert read_meta_properties(files, "/a") == MetaProperties(1, "c", uuid(177))


def test_directory_that_cannot_be_given_an_id_is_left_out() -> None:
    files = files_with(a=MetaProperties(1, "c", None), b=MetaProperties(1, "c", None))
    files.faults = [Fault("create", "/b/", errno=EROFS)]
    found = identity(files, "/a", "/b")
    assert found.directories.keys() == {"/a"}
    assert "/b/meta.properties" in found.unusable["/b"]
    files.faults = [Fault("create", "/b/", errno=EROFS)]
    with pytest.raises(StartError, match=r"cannot write /b/meta\.properties"):
        identity(files, "/a", "/b", metadata="/b")


def test_copy_of_a_directory_is_refused() -> None:
    files = files_with(a=MetaProperties(1, "c", FIRST), b=MetaProperties(1, "c", FIRST))
    with pytest.raises(StartError, match="copy"):
        identity(files, "/a", "/b")


def test_damaged_identity_is_named() -> None:
    files = SimFiles()
    files.make_directory("/a")
    files.create("/a/meta.properties").write([b"nonsense"], 0)
    with pytest.raises(StartError, match=r"meta\.properties"):
        identity(files, "/a")


def test_nothing_formatted_tells_the_command() -> None:
    """With what Kafka's tool asks of a controller of a dynamic quorum, and refuses of others."""
    with pytest.raises(StartError, match="kaa storage format -t") as told:
        identity(SimFiles(), "/a")
    assert "--standalone" not in str(told.value)
    with pytest.raises(StartError, match=r"kaa storage format --standalone -t \$\(kaa storage"):
        identity(SimFiles(), "/a", may_vote=True)


def test_a_new_disk_is_formatted_beside_the_others() -> None:
    files = files_with(a=MetaProperties(1, "c", FIRST))
    told = identity(files, "/a", "/b").unusable["/b"]
    assert "by: kaa storage format --ignore-formatted -t c -c" in told
    told = identity(files, "/a", "/b", may_vote=True).unusable["/b"]
    assert "by: kaa storage format --ignore-formatted --no-initial-controllers -t c -c" in told


@pytest.mark.parametrize("is_formatted", [True, False])
def test_metadata_log_in_another_directory_is_refused(is_formatted: bool) -> None:
    files = files_with(a=MetaProperties(1, "c", FIRST))
    folder = "/b/__cluster_metadata-0"
    files.make_directory(folder)
    if is_formatted:
        write_meta_properties(files, "/b", MetaProperties(1, "c", SECOND), "test")
    identity(files, "/a", "/b")
    files.create(f"{folder}/00000000000000000000.log").close()
    with pytest.raises(StartError, match=r"set metadata\.log\.dir=/b;"):
        identity(files, "/a", "/b")


def test_metadata_log_of_another_node_is_left_alone() -> None:
    files = files_with(a=MetaProperties(1, "c", FIRST), b=MetaProperties(2, "c", SECOND))
    files.make_directory("/b/__cluster_metadata-0")
    files.create("/b/__cluster_metadata-0/00000000000000000000.log").close()
    assert "node.id" in identity(files, "/a", "/b").unusable["/b"]
