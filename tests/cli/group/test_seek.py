from __future__ import annotations

import pytest

from kaa.cli.group.seek import SeekError, parse_target, read_targets, read_topics
from kaa.cli.offset_range import Point


def test_topics_with_partitions() -> None:
    assert read_topics(["a", "b:0,2", "b:5"]) == {"a": None, "b": [0, 2, 5]}
    assert read_topics(["a:0-2,5"]) == {"a": [0, 1, 2, 5]}
    for wrong in ("a:", ":1", "a:x", "a:1,", "a:3-2", "a:1,1", ""):
        with pytest.raises(SeekError, match=r"write|named twice"):
            read_topics([wrong])
    for twice in (["a", "a:1"], ["a:1", "a"], ["a:1", "a:1"], ["a", "a"]):
        with pytest.raises(SeekError, match="name it once"):
            read_topics(twice)


def test_files_of_this_program_and_of_kafkas() -> None:
    expected = {("orders", 0): 7, ("orders", 1): 9}
    ours = "topic,partition,committed,offset,end_offset\norders,0,1,7,8\norders,1,,9,9\n"
    assert read_targets(ours) == expected
    assert read_targets('"orders",0,7\n"orders",1,9\n') == expected
    assert read_targets("") == {}
    for wrong in ("orders,0\n", "orders,0,x\n", "a,b\norders,0\n"):
        with pytest.raises(SeekError, match="has no topic, partition and offset"):
            read_targets(wrong)
    with pytest.raises(SeekError, match="names a partition again"):
        read_targets("orders,0,7\norders,0,8\n")


def test_points() -> None:
    assert parse_target("latest", 0) == Point("end")
    assert parse_target("+3", 0) == Point("start", 3)
    with pytest.raises(SeekError, match="is a range"):
        parse_target("1:2", 0)
    with pytest.raises(SeekError, match="is not an offset"):
        parse_target("soon", 0)
