"""Broker settings: transactions and delegation tokens."""

from kaa.config.tables.vocabulary import (
    BOOLEAN,
    CLUSTER_WIDE,
    HIGH,
    INT,
    LONG,
    LOW,
    MEDIUM,
    PASSWORD,
    SHORT,
    at_least,
    key,
)

# fmt: off
KEYS = (
    key("transactional.id.expiration.ms", INT, 604_800_000, HIGH,
        "How long a transactional id without an open transaction is remembered. After that its "
        "producer has to be initialised again.",
        at_least(1)),
    key("transaction.max.timeout.ms", INT, 900_000, HIGH,
        "Longest time for which a client may ask to keep a transaction open; more is refused.",
        at_least(1)),
    key("transaction.two.phase.commit.enable", BOOLEAN, False, LOW,
        "Whether a producer may take part in two-phase commit, where its transactions never "
        "time out."),
    key("transaction.state.log.min.isr", INT, 2, HIGH,
        "Replicas in sync that a write of transaction state needs.",
        at_least(1)),
    key("transaction.state.log.load.buffer.size", INT, 5_242_880, HIGH,
        "Bytes read at a time while the state of a partition of the transaction log is loaded.",
        at_least(1)),
    key("transaction.state.log.replication.factor", SHORT, 3, HIGH,
        "Replicas of the transaction log. The topic is not created until that many brokers are "
        "there.",
        at_least(1)),
    key("transaction.state.log.num.partitions", INT, 50, HIGH,
        "Partitions of the transaction log. Must not change once it exists.",
        at_least(1)),
    key("transaction.state.log.segment.bytes", INT, 104_857_600, HIGH,
        "Segment size of the transaction log. Small segments are compacted sooner and loaded "
        "faster.",
        at_least(1)),
    key("transaction.abort.timed.out.transaction.cleanup.interval.ms", INT, 10_000, LOW,
        "Pause between two searches for transactions that ran out of time.",
        at_least(1)),
    key("transaction.remove.expired.transaction.cleanup.interval.ms", INT, 3_600_000, LOW,
        "Pause between two searches for transactional ids to forget.",
        at_least(1)),
    key("transaction.partition.verification.enable", BOOLEAN, True, LOW,
        "Whether the leader of a partition asks the coordinator that a transaction is really "
        "open before it stores its records.",
        update_mode=CLUSTER_WIDE),
    key("add.partitions.to.txn.retry.backoff.ms", INT, 20, HIGH,
        "First pause before the check of an open transaction is repeated.",
        at_least(1)),
    key("add.partitions.to.txn.retry.backoff.max.ms", INT, 100, HIGH,
        "Upper bound of the growing pause before the check of an open transaction is repeated.",
        at_least(0)),
    key("delegation.token.secret.key", PASSWORD, None, MEDIUM,
        "Secret with which delegation tokens are signed; the same on every node. Unset, there "
        "are no tokens."),
    key("delegation.token.max.lifetime.ms", LONG, 604_800_000, MEDIUM,
        "Age at which a delegation token ends, however often it was renewed.",
        at_least(1)),
    key("delegation.token.expiry.time.ms", LONG, 86_400_000, MEDIUM,
        "How long a delegation token is good without being renewed.",
        at_least(1)),
    key("delegation.token.expiry.check.interval.ms", LONG, 3_600_000, LOW,
        "Pause between two searches for delegation tokens that ended.",
        at_least(1)),
)
# fmt: on
