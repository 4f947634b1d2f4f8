"""Identity files, against the bytes that Kafka writes."""

from __future__ import annotations

import pytest

from kaa.log.errors import CorruptFileError
from kaa.log.files import read_whole
from kaa.log.properties import (
    MetaProperties,
    find_topic_id,
    read_clean_shutdown,
    read_meta_properties,
    read_stopped_directories,
    read_topic_id,
    remove_clean_shutdown,
    write_clean_shutdown,
    write_meta_properties,
    write_topic_id,
)
from kaa.log.sim_files import SimFiles
from kaa.wire.primitives import Uuid
from tests.support.ids import uuid

KAFKA_META = b"""#
#Sun Nov 15 22:18:04 UTC 2026
node.id=1
directory.id=5J6L0MVnWQaAW_LIBm5POA
version=1
cluster.id=n53sArB6TG2hTv5AHy__bA
"""


def _files(**contents: bytes) -> SimFiles:
    files = SimFiles()
    files.make_directory("/d")
    for name, content in contents.items():
        _write(files, "/d/" + name, content)
    return files


def _write(files: SimFiles, path: str, content: bytes) -> None:
    file = files.create(path)
    file.write([content], 0)
    file.close()


def test_kafkas_meta_properties_are_read() -> None:
    files = _files()
    _write(files, "/d/meta.properties", KAFKA_META)
    assert read_meta_properties(files, "/d") == MetaProperties(
        node_id=1,
        cluster_id="n53sArB6TG2hTv5AHy__bA",
        directory_id=Uuid.parse("5J6L0MVnWQaAW_LIBm5POA"),
    )


def test_version_0_has_a_broker_id() -> None:
    files = _files()
    _write(files, "/d/meta.properties", b"version=0\nbroker.id=7\ncluster.id=x\n")
    assert read_meta_properties(files, "/d") == MetaProperties(7, "x", None, 0)


def test_meta_properties_are_read_back() -> None:
    files = _files()
    properties = MetaProperties(3, "cluster", uuid(5))
    assert read_meta_properties(files, "/d") is None
    write_meta_properties(files, "/d", properties, "now")
    assert read_meta_properties(files, "/d") == properties


@pytest.mark.parametrize(
    "content", [b"", b"version=1\n", b"version=x\nnode.id=1\n", b"version=1\nnode.id=1\n"]
)
def test_incomplete_meta_properties_are_corrupt(content: bytes) -> None:
    files = _files()
    _write(files, "/d/meta.properties", content)
    with pytest.raises(CorruptFileError):
        read_meta_properties(files, "/d")


def test_partition_metadata_bytes_are_kafkas() -> None:
    files = _files()
    assert read_topic_id(files, "/d") is None
    write_topic_id(files, "/d", Uuid.parse("V_LrTKgvTQuiw0fIqCOqyQ"))
    content = read_whole(files, "/d/partition.metadata")
    assert content == b"version: 0\ntopic_id: V_LrTKgvTQuiw0fIqCOqyQ"
    assert read_topic_id(files, "/d") == Uuid.parse("V_LrTKgvTQuiw0fIqCOqyQ")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"version: 1\ntopic_id: V_LrTKgvTQuiw0fIqCOqyQ",
        b"version: 0\ntopic_id: short",
        b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
        b"\xff",
    ],
)
def test_broken_partition_metadata_is_corrupt(content: bytes) -> None:
    files = _files()
    _write(files, "/d/partition.metadata", content)
    with pytest.raises(CorruptFileError):
        read_topic_id(files, "/d")


def test_clean_shutdown_marker() -> None:
    files = _files()
    assert read_clean_shutdown(files, "/d") is None
    write_clean_shutdown(files, "/d", 15)
    content = read_whole(files, "/d/.kafka_cleanshutdown")
    assert content == b'{"version":0,"brokerEpoch":15}'
    assert read_clean_shutdown(files, "/d") == 15
    remove_clean_shutdown(files, "/d")
    remove_clean_shutdown(files, "/d")
    assert read_clean_shutdown(files.restart("lost"), "/d") is None


@pytest.mark.parametrize(
    "content",
    [b"", b'{"brokerEpoch":Infinity}', b'{"brokerEpoch":NaN}', b"[" * 100_000],
    ids=["empty", "infinite", "not a number", "deep"],
)
def test_a_marker_without_a_number_is_a_clean_stop_of_unknown_epoch(content: bytes) -> None:
    files = _files()
    _write(files, "/d/.kafka_cleanshutdown", content)
    assert read_clean_shutdown(files, "/d") == -1


def test_a_clean_shutdown_marker_names_the_directories_of_the_broker() -> None:
    files = _files()
    assert read_stopped_directories(files, "/d") == set()
    write_clean_shutdown(files, "/d", 15, [uuid(1), uuid(2)])
    assert read_clean_shutdown(files, "/d") == 15
    assert read_stopped_directories(files, "/d") == {str(uuid(1)), str(uuid(2))}


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b'{"version":0,"brokerEpoch":15}', b"[" * 100_000],
    ids=["empty", "no object", "Kafka's", "deep"],
)
def test_a_marker_of_others_names_no_directories(content: bytes) -> None:
    files = _files()
    _write(files, "/d/.kafka_cleanshutdown", content)
    assert read_stopped_directories(files, "/d") == set()


def test_a_damaged_topic_id_is_as_good_as_none() -> None:
    files = _files()
    assert find_topic_id(files, "/d") is None
    write_topic_id(files, "/d", uuid(7))
    assert find_topic_id(files, "/d") == uuid(7)
    files.open("/d/partition.metadata").truncate(3)
    assert find_topic_id(files, "/d") is None
