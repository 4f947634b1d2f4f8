from __future__ import annotations

from kaa.model import topics
from kaa.model.topics import TopicPartition


def test_a_partition_is_written_as_its_folder_is_named() -> None:
    assert str(TopicPartition("a-b", 3)) == "a-b-3"


def test_a_partition_is_equal_to_a_plain_pair() -> None:
    assert {("a", 1): "here"}[TopicPartition("a", 1)] == "here"


def test_the_metadata_log_is_not_among_the_internal_topics() -> None:
    assert topics.CONSUMER_OFFSETS in topics.INTERNAL_TOPICS
    assert topics.CLUSTER_METADATA not in topics.INTERNAL_TOPICS
