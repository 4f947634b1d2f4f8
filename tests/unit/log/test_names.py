"""File and folder names of a log directory."""

from __future__ import annotations

import pytest

from kaa.log.names import (
    DELETE_FOLDER_SUFFIX,
    LOG_SUFFIX,
    FolderName,
    base_offset_of,
    file_name,
    folder_name,
    marked_folder_name,
    parse_folder_name,
)
from kaa.model.topics import TopicPartition
from kaa.wire.primitives import Uuid

UNIQUE = Uuid.fromhex("0123456789abcdef0123456789abcdef")


def test_segment_files_start_with_twenty_digits() -> None:
    assert file_name(8366, LOG_SUFFIX) == "00000000000000008366.log"
    assert base_offset_of("00000000000000008366.timeindex") == 8366
    assert base_offset_of("00000000000000008366.log.swap") == 8366


@pytest.mark.parametrize("name", ["leader-epoch-checkpoint", "123.log", "", "\u0660" * 20 + ".log"])
def test_other_files_have_no_offset(name: str) -> None:
    assert base_offset_of(name) is None


def test_folders_are_parsed_back() -> None:
    partition = TopicPartition("my-topic.1", 12)
    assert folder_name(partition) == "my-topic.1-12"
    assert parse_folder_name("my-topic.1-12") == FolderName(partition, "")
    name = marked_folder_name(partition, UNIQUE, DELETE_FOLDER_SUFFIX)
    assert name == "my-topic.1-12.0123456789abcdef0123456789abcdef-delete"
    assert parse_folder_name(name) == FolderName(partition, "delete")
    assert parse_folder_name(name.replace("delete", "stray")) == FolderName(partition, "stray")
    assert parse_folder_name(name.replace("delete", "future")) == FolderName(partition, "future")


def test_a_long_topic_is_cut_to_a_legal_name() -> None:
    partition = TopicPartition("t" * 249, 1000)
    name = marked_folder_name(partition, UNIQUE, DELETE_FOLDER_SUFFIX)
    assert len(name) == 255
    parsed = parse_folder_name(name)
    assert parsed is not None
    assert parsed.mark == "delete"
    assert parsed.partition.partition == 1000


@pytest.mark.parametrize("name", ["lost+found", "topic", "topic-", "-1", "a b-1", "topic-1x", ""])
def test_foreign_folders_are_nothing_of_ours(name: str) -> None:
    assert parse_folder_name(name) is None
