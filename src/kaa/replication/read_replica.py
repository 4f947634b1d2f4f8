"""Which replica a consumer should read from (KIP-392).

With Kafka's RackAwareReplicaSelector a leader sends a consumer to a replica in its own rack: one
that is in sync and has the offset asked for; of several, the one that is furthest, and then the one
that was at the leader's end last. Where the leader is in that rack, or no such replica exists, the
leader serves. Without a selector it always does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kaa.replication.partition import Partition

RACK_AWARE_SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def preferred_replica(partition: Partition, rack: str, fetch_offset: int) -> int | None:
    """The follower that a consumer in the rack should ask; None for the leader."""
    leadership = partition.leadership
    if leadership is None or not rack:
        return None
    view = leadership.view
    own = view.broker(partition.node_id)
    if own is None or own.rack == rack:
        return None
    best: tuple[int, int, int] | None = None
    for broker_id, replica in leadership.replicas.items():
        broker = view.broker(broker_id)
        if (
            broker is not None
            and not broker.is_fenced
            and broker.rack == rack
            and broker_id in leadership.isr
            and replica.start_offset <= fetch_offset <= replica.end_offset
        ):
            candidate = (replica.end_offset, replica.caught_up_ms, broker_id)
            if best is None or candidate[:2] > best[:2]:
                best = candidate
    return None if best is None else best[2]
