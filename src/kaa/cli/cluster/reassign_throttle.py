"""Throttles of reassignments (KIP-73), as settings of brokers and topics.

The rate, in bytes per second, is a setting of each broker, one for what its leaders send and one
for what its followers fetch. Which replicas count is a setting of each topic: a list of
PARTITION:BROKER for the leaders' side, and one for the followers'.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kaa.client.admin.admin import Admin
    from kaa.model.topics import TopicPartition

_RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
_LISTS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


async def set_throttle(
    admin: Admin,
    present: Mapping[TopicPartition, Sequence[int]],
    wanted: Mapping[TopicPartition, Sequence[int]],
    rate: int,
) -> None:
    """Leaders throttle what they send to new replicas, and those what they fetch."""
    from kaa.client.admin.admin import ConfigChange, ResourceType

    leaders: dict[str, list[str]] = {}
    followers: dict[str, list[str]] = {}
    brokers: set[int] = set()
    for name, replicas in wanted.items():
        before = present.get(name, ())
        new = [broker for broker in replicas if broker not in before]
        brokers.update(before, new)
        leaders.setdefault(name.topic, []).extend(f"{name.partition}:{one}" for one in before)
        followers.setdefault(name.topic, []).extend(f"{name.partition}:{one}" for one in new)
    for topic, leading in leaders.items():
        lists = (",".join(leading), ",".join(followers[topic]))
        changes = [ConfigChange(*one) for one in zip(_LISTS, lists, strict=True)]
        await admin.alter_configs(ResourceType.TOPIC, topic, changes)
    alive = {one.node_id for one in (await admin.describe_cluster()).brokers}
    for broker in sorted(brokers & alive):
        rates = [ConfigChange(name, str(rate)) for name in _RATES]
        await admin.alter_configs(ResourceType.BROKER, str(broker), rates)


async def unthrottle(admin: Admin) -> None:
    """Takes away what is there of both."""
    from kaa.client.admin.admin import ConfigChange, ConfigOperation, ConfigSource, ResourceType

    topics = [topic.name for topic in await admin.list_topics(internal=True)]
    brokers = [str(one.node_id) for one in (await admin.describe_cluster()).brokers]
    for kind, names, settings, source in (
        (ResourceType.BROKER, brokers, _RATES, ConfigSource.DYNAMIC_BROKER_CONFIG),
        (ResourceType.TOPIC, topics, _LISTS, ConfigSource.DYNAMIC_TOPIC_CONFIG),
    ):
        for name in names:
            entries = await admin.describe_configs(kind, name)
            there = [one.name for one in entries if one.name in settings and one.source is source]
            if there:
                changes = [
                    ConfigChange(each, None, operation=ConfigOperation.DELETE) for each in there
                ]
                await admin.alter_configs(kind, name, changes)
