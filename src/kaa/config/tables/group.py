"""Group settings."""

from kaa.config.tables.vocabulary import (
    BOOLEAN,
    INT,
    MEDIUM,
    STRING,
    at_least,
    key,
    one_of,
)
from kaa.config.validators import AutoOffsetReset

# fmt: off
KEYS = (
    key("consumer.session.timeout.ms", INT, 45_000, MEDIUM,
        "How long a member of this consumer group may be silent before it is removed.",
        at_least(1)),
    key("consumer.heartbeat.interval.ms", INT, 5000, MEDIUM,
        "Pause between two heartbeats of a member of this consumer group; below the session "
        "timeout.",
        at_least(1)),
    key("consumer.assignment.interval.ms", INT, 1000, MEDIUM,
        "Shortest time between two computations of the assignment of this consumer group.",
        at_least(0)),
    key("share.session.timeout.ms", INT, 45_000, MEDIUM,
        "How long a member of this share group may be silent before it is removed.",
        at_least(1)),
    key("share.heartbeat.interval.ms", INT, 5000, MEDIUM,
        "Pause between two heartbeats of a member of this share group; below the session "
        "timeout.",
        at_least(1)),
    key("share.assignment.interval.ms", INT, 1000, MEDIUM,
        "Shortest time between two computations of the assignment of this share group.",
        at_least(0)),
    key("share.record.lock.duration.ms", INT, 30_000, MEDIUM,
        "How long a consumer of this share group holds a record before it is offered to others.",
        at_least(1000)),
    key("share.delivery.count.limit", INT, 5, MEDIUM,
        "How often a record is handed out in this share group before it is given up.",
        at_least(2)),
    key("share.partition.max.record.locks", INT, 2000, MEDIUM,
        "Records of one partition that the members of this share group may hold at once.",
        at_least(100)),
    key("share.auto.offset.reset", STRING, "latest", MEDIUM,
        "Where this share group starts in a partition it has not read: `earliest`, `latest`, or "
        "`by_duration:` and an ISO 8601 duration back from now.",
        AutoOffsetReset(none_allowed=False)),
    key("share.isolation.level", STRING, "read_uncommitted", MEDIUM,
        "Whether this share group gets only the records of committed transactions "
        "(`read_committed`) or all of them (`read_uncommitted`).",
        one_of("read_committed", "read_uncommitted")),
    key("share.renew.acknowledge.enable", BOOLEAN, True, MEDIUM,
        "Whether consumers of this share group may extend the time they hold a record."),
    key("streams.session.timeout.ms", INT, 45_000, MEDIUM,
        "How long a member of this streams group may be silent before it is removed.",
        at_least(1)),
    key("streams.heartbeat.interval.ms", INT, 5000, MEDIUM,
        "Pause between two heartbeats of a member of this streams group; below the session "
        "timeout.",
        at_least(1)),
    key("streams.assignment.interval.ms", INT, 1000, MEDIUM,
        "Shortest time between two computations of the assignment of this streams group.",
        at_least(0)),
    key("streams.num.standby.replicas", INT, 0, MEDIUM,
        "Standby copies kept of each task of this streams group.",
        at_least(0)),
    key("streams.initial.rebalance.delay.ms", INT, 3000, MEDIUM,
        "How long the first rebalance of this streams group waits for more members.",
        at_least(0)),
)
# fmt: on
