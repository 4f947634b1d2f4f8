"""Broker settings: replication between brokers, leadership, throttles."""

from kaa.config.tables.vocabulary import (
    BOOLEAN,
    CLUSTER_WIDE,
    HIGH,
    INT,
    LONG,
    LONG_MAX,
    MEDIUM,
    STRING,
    at_least,
    key,
)

# fmt: off
KEYS = (
    key("default.replication.factor", INT, 1, MEDIUM,
        "Replicas of a topic that is created without saying how many."),
    key("controller.socket.timeout.ms", INT, 30_000, MEDIUM,
        "How long a broker waits for an answer from the controller."),
    key("replica.lag.time.max.ms", LONG, 30_000, HIGH,
        "A follower that has not caught up with the leader for this long leaves the in-sync "
        "replicas."),
    key("replica.socket.timeout.ms", INT, 30_000, HIGH,
        "How long a follower waits for an answer from the leader; at least "
        "`replica.fetch.wait.max.ms`."),
    key("replica.socket.receive.buffer.bytes", INT, 65_536, HIGH,
        "Kernel receive buffer of the connections over which a follower fetches."),
    key("replica.fetch.max.bytes", INT, 1_048_576, MEDIUM,
        "Bytes a follower asks for per partition. A first batch that is larger is still sent.",
        at_least(0)),
    key("replica.fetch.wait.max.ms", INT, 500, HIGH,
        "How long the leader may hold back a follower's fetch while there is too little to "
        "send; at most `replica.lag.time.max.ms`."),
    key("replica.fetch.backoff.ms", INT, 1000, MEDIUM,
        "Pause of a follower after a fetch of a partition failed.",
        at_least(0)),
    key("replica.fetch.min.bytes", INT, 1, HIGH,
        "Bytes the leader should have before it answers a follower, unless "
        "`replica.fetch.wait.max.ms` runs out first."),
    key("replica.fetch.response.max.bytes", INT, 10_485_760, MEDIUM,
        "Bytes a follower asks for in one fetch over all partitions. A first batch that is "
        "larger is still sent.",
        at_least(0)),
    key("num.replica.fetchers", INT, 1, HIGH,
        "Connections a follower opens to each leader, with the partitions shared out among "
        "them.",
        at_least(1), update_mode=CLUSTER_WIDE),
    key("num.replica.alter.log.dirs.threads", INT, None, HIGH,
        "How many moves between directories of this broker run at the same time. Unset, as many "
        "as there are directories."),
    key("replica.high.watermark.checkpoint.interval.ms", LONG, 5000, HIGH,
        "Pause between two writes of the high watermarks to disk."),
    key("replica.selector.class", STRING, None, MEDIUM,
        "Which replica a consumer is sent to: unset means the leader; Kafka's "
        "RackAwareReplicaSelector means one in the consumer's rack."),
    key("auto.leader.rebalance.enable", BOOLEAN, True, HIGH,
        "Whether the controller moves leadership back to the preferred replicas by itself."),
    key("leader.imbalance.check.interval.seconds", LONG, 300, HIGH,
        "Pause between two searches for partitions that are not led by their preferred replica.",
        at_least(1)),
    key("unclean.leader.election.enable", BOOLEAN, False, HIGH,
        "Whether a replica that was out of sync may lead when no other is left. Keeps the "
        "partition writable and may lose acknowledged records. Topic setting of the same name.",
        update_mode=CLUSTER_WIDE),
    key("follower.fetch.last.tiered.offset.enable", BOOLEAN, False, MEDIUM,
        "Whether a new follower of a tiered topic starts after the last offset in remote "
        "storage instead of copying what is there.",
        update_mode=CLUSTER_WIDE),
    key("producer.purgatory.purge.interval.requests", INT, 1000, MEDIUM,
        "Waiting produce requests that may be finished and not yet dropped from Kafka's list. "
        "Kaa drops them at once, so the value has no effect."),
    key("fetch.purgatory.purge.interval.requests", INT, 1000, MEDIUM,
        "Waiting fetch requests that may be finished and not yet dropped from Kafka's list. Kaa "
        "drops them at once, so the value has no effect."),
    key("delete.records.purgatory.purge.interval.requests", INT, 1, MEDIUM,
        "Waiting record deletions that may be finished and not yet dropped from Kafka's list. "
        "Kaa drops them at once, so the value has no effect."),
)
# fmt: on

# fmt: off
DYNAMIC_KEYS = (
    key("leader.replication.throttled.rate", LONG, LONG_MAX, MEDIUM,
        "Bytes per second that the leaders on this broker send to throttled followers. Set at "
        "run time, used during reassignment.",
        at_least(0), update_mode=CLUSTER_WIDE),
    key("follower.replication.throttled.rate", LONG, LONG_MAX, MEDIUM,
        "Bytes per second that throttled followers on this broker fetch. Set at run time, used "
        "during reassignment.",
        at_least(0), update_mode=CLUSTER_WIDE),
    key("replica.alter.log.dirs.io.max.bytes.per.second", LONG, LONG_MAX, MEDIUM,
        "Bytes per second for moves of replicas between directories of this broker. Set at run "
        "time.",
        at_least(0), update_mode=CLUSTER_WIDE),
)
# fmt: on
