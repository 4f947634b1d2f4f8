"""What is wrong with the replicas of partitions, the worst first.

| problem | meaning |
|---|---|
| offline | nobody leads it: no reads, no writes |
| under min ISR | fewer replicas are in sync than `min.insync.replicas`: no writes with acks=all |
| under-replicated | a replica is not in sync: one more failure may stop it |
| not served | its leader answers with an error, such as that the log is gone: ask it to know |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaa.client.admin.admin import Admin
    from kaa.client.metadata import Partition, Topic

NOT_SERVED: Final = "not served"
_MIN_ISR = "min.insync.replicas"


def problem_of(partition: Partition, min_insync_replicas: int) -> str | None:
    """One of the kinds above that metadata tell; None if all replicas are in sync."""
    from kaa.client.metadata import NO_NODE

    if partition.leader_id == NO_NODE:
        return "offline"
    if len(partition.isr) < min(min_insync_replicas, len(partition.replicas)):
        return "under min ISR"
    return "under-replicated" if len(partition.isr) < len(partition.replicas) else None


async def min_insync_replicas(admin: Admin, topics: Iterable[Topic]) -> dict[str, int]:
    """By topic, for those of which a replica is not in sync: for others it does not matter."""
    from kaa.client.errors import KafkaError
    from kaa.model.kinds import ResourceType

    found: dict[str, int] = {}
    for topic in topics:
        if all(len(one.isr) == len(one.replicas) for one in topic.partitions):
            continue
        try:
            entries = await admin.describe_configs(ResourceType.TOPIC, topic.name, [_MIN_ISR])
        except KafkaError:
            # Anyone who may not see settings still sees who leads.
            continue
        for entry in entries:
            if entry.value is not None:
                found[topic.name] = int(entry.value)
    return found
