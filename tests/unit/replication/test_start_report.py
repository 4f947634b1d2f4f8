from __future__ import annotations

from kaa.log.lost import LogExtent, Outdone
from kaa.replication.start_report import (
    begun_beside_text,
    begun_empty_text,
    missing_copy_text,
    missing_text,
    outdone_text,
    stray_text,
)


def test_partitions_are_named_and_many_are_counted() -> None:
    assert "found of t-0, t-1, which" in missing_text([("t", 0), ("t", 1)])
    many = [("t", number) for number in range(8)]
    assert "t-4 and 3 more" in missing_text(many)
    assert "t-4 and 3 more" in begun_empty_text(many)


def test_texts_say_what_to_do() -> None:
    assert "Delete the folder" in stray_text("/a/t-0.stray")
    beside = begun_beside_text("/a/t-0.1-stray", "t-0")
    assert "Delete the folder if it is of an earlier topic" in beside
    assert "put the id of the topic into the file" in beside
    alone = missing_text([("t", 0)])
    assert "Bring the disk back that they are on and restart" in alone
    assert "delete and create the topics" in alone.partition("Only if it is gone for good")[2]
    whole = missing_copy_text([("t", 0)])
    assert "kaa storage format --ignore-formatted" in whole
    # The other replicas are good: nobody should be led to delete them.
    assert "delete" not in whole


def test_log_that_had_to_yield_is_not_called_one_of_a_partition_that_is_gone() -> None:
    text = outdone_text("/a/t-0.stray", Outdone(LogExtent(3, 20, 5), "/b/t-0", LogExtent(4, 9, 0)))
    assert "served from /b/t-0" in text
    assert "offsets 5 to 20 (the end), the last of leader epoch 3" in text
    assert "offsets 0 to 9 (the end), the last of leader epoch 4" in text
