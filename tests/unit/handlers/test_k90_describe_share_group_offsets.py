from __future__ import annotations

from kaa.wire.errors import Errors
from kaa.wire.messages.k90_describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from tests.unit.handlers.share_fetching import ready
from tests.unit.handlers.share_requests import set_offset, share_node


def test_offsets_of_named_topics_and_of_all() -> None:
    with share_node() as node:
        ready(node, 7)
        node.load_coordinators()
        set_offset(node, 3)
        topic = DescribeShareGroupOffsetsRequestTopic(topic_name="t", partitions=[0, 1])
        groups = [
            DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=[topic]),
            DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=None),
            DescribeShareGroupOffsetsRequestGroup(group_id="absent", topics=None),
        ]
        named, every, absent = node.ask(DescribeShareGroupOffsetsRequest(groups=groups)).groups
        found = [(one.start_offset, one.lag) for one in named.topics[0].partitions]
        assert found == [(3, 4), (-1, -1)]
        assert [one.partition_index for one in every.topics[0].partitions] == [0]
        assert (absent.error_code, absent.topics) == (Errors.NONE, [])
