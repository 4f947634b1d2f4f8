"""Which partitions are found at which address of an application (interactive queries).

A member may say where its process answers queries. Whenever what such a member runs changes, the
endpoint epoch of the group goes up, and members that do not know it get the partitions of all
input topics by endpoint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.coordinators.group.java_order import integer_hash, java_string_order, map_order
from kaa.wire.messages.k88_streams_group_heartbeat import (
    Endpoint,
    EndpointToPartitions,
    TopicPartition,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kaa.coordinators.group.streams.member import StreamsMember
    from kaa.coordinators.group.streams.topology import ConfiguredTopology
    from kaa.coordinators.group.topics import GroupTopics


def partitions_by_endpoint(
    members: Iterable[StreamsMember], configured: ConfiguredTopology, topics: GroupTopics
) -> list[EndpointToPartitions]:
    found = []
    for member in members:
        endpoint = member.user_endpoint
        if endpoint is not None:
            found.append(
                EndpointToPartitions(
                    user_endpoint=Endpoint(host=endpoint.host, port=endpoint.port),
                    active_partitions=_partitions(member.assigned.active, configured, topics),
                    standby_partitions=_partitions(member.assigned.standby, configured, topics),
                )
            )
    return found


def _partitions(
    tasks: Mapping[str, Iterable[int]], configured: ConfiguredTopology, topics: GroupTopics
) -> list[TopicPartition]:
    """Of topics that have fewer partitions than a member has tasks, the first ones."""
    found = []
    for name in sorted(tasks, key=java_string_order):
        subtopology = (configured.subtopologies or {}).get(name)
        if subtopology is None:
            continue
        numbers = map_order(tasks[name], integer_hash)
        for topic in subtopology.input_topics:
            topic_id = topics.topic_id(topic)
            if topic_id is None:
                continue
            count = topics.partition_count(topic_id)
            some = sorted(numbers)[:count] if count < len(numbers) else numbers
            found.append(TopicPartition(topic=topic, partitions=some))
    return found
