"""Broker settings: node identity, roles, the controller quorum and the metadata log."""

from kaa.config.tables.vocabulary import (
    BOOLEAN,
    FILLED_LIST,
    HIGH,
    INT,
    LIST,
    LONG,
    LONG_MAX,
    LOW,
    MEDIUM,
    REQUIRED,
    STRING,
    HostPorts,
    QuorumVoters,
    ValidList,
    at_least,
    key,
)

# fmt: off
KEYS = (
    key("process.roles", LIST, REQUIRED, HIGH,
        "Roles of this node: `broker`, `controller`, or both separated by a comma.",
        ValidList(("broker", "controller"), empty_allowed=False)),
    key("node.id", INT, REQUIRED, HIGH,
        "Number of this node, unique in the cluster and never reused. Needed wherever "
        "`process.roles` is set.",
        at_least(0)),
    key("broker.id", INT, -1, HIGH,
        "Older name of `node.id`. When both are given they must be equal."),
    key("controller.listener.names", LIST, REQUIRED, HIGH,
        "Names of the listeners that serve the controller. The first one is also used to reach "
        "other controllers; each must occur in `listeners` of a node with the controller role.",
        FILLED_LIST),
    key("controller.quorum.voters", LIST, (), HIGH,
        "Fixed set of controllers that vote, as id@host:port entries. Leave it unset with a "
        "quorum whose voters were chosen when the storage was formatted, and set "
        "`controller.quorum.bootstrap.servers` instead.",
        QuorumVoters()),
    key("controller.quorum.bootstrap.servers", LIST, (), HIGH,
        "Controllers to ask first, as host:port entries, when the voters are recorded in the "
        "metadata itself.",
        HostPorts()),
    key("controller.quorum.election.timeout.ms", INT, 1000, HIGH,
        "How long a voter waits for an election to end before it starts another.",
        at_least(0)),
    key("controller.quorum.fetch.timeout.ms", INT, 2000, HIGH,
        "How long a follower goes without an answer from the leader before it stands for "
        "election; also how long a leader goes without hearing from a majority before it "
        "resigns.",
        at_least(0)),
    key("controller.quorum.election.backoff.max.ms", INT, 1000, HIGH,
        "Longest random pause before a voter that lost an election tries again.",
        at_least(0)),
    key("controller.quorum.append.linger.ms", INT, 25, MEDIUM,
        "How long the leader gathers metadata records before it syncs them to disk together. It "
        "counts where it is set; otherwise records that come while the disk works share its next "
        "sync, and none waits.",
        at_least(0)),
    key("controller.quorum.request.timeout.ms", INT, 2000, MEDIUM,
        "How long a controller waits for the answer of another before it sends its request "
        "again.",
        at_least(0)),
    key("controller.quorum.retry.backoff.ms", INT, 20, LOW,
        "Pause before a failed request between controllers is repeated.",
        at_least(0)),
    key("controller.quorum.auto.join.enable", BOOLEAN, False, LOW,
        "Whether a controller that is not a voter asks to become one by itself."),
    key("controller.quorum.fetch.snapshot.max.bytes", INT, 1_048_576, LOW,
        "Bytes of a metadata snapshot asked for in one request.",
        at_least(1)),
    key("controller.quorum.fetch.max.bytes", INT, 1_048_576, LOW,
        "Bytes of metadata records asked for in one fetch. At least one batch is always "
        "returned.",
        at_least(1)),
    key("broker.session.timeout.ms", INT, 9000, MEDIUM,
        "How long a broker may be silent before the controller fences it. Read by the "
        "controller."),
    key("broker.heartbeat.interval.ms", INT, 2000, MEDIUM,
        "Pause between two heartbeats of a broker to the controller; at most half of "
        "`broker.session.timeout.ms`."),
    key("initial.broker.registration.timeout.ms", INT, 60_000, MEDIUM,
        "How long a starting broker tries to register with the controller before it gives up."),
    key("server.max.startup.time.ms", LONG, LONG_MAX, MEDIUM,
        "How long the whole start may take before the process gives up.",
        at_least(0), internal=True),
    key("controller.performance.sample.period.ms", LONG, 60_000, MEDIUM,
        "Length of the periods over which the controller reports its slowest work in the log.",
        at_least(100), internal=True),
    key("controller.performance.always.log.threshold.ms", LONG, 2000, MEDIUM,
        "A piece of controller work that takes longer than this is always logged.",
        at_least(0), internal=True),
    key("metadata.log.dir", STRING, None, HIGH,
        "Directory of the metadata log. Unset, it is the first directory of `log.dirs`."),
    key("metadata.log.max.record.bytes.between.snapshots", LONG, 20_971_520, HIGH,
        "Bytes of new metadata records after which a snapshot is written.",
        at_least(1)),
    key("metadata.log.max.snapshot.interval.ms", LONG, 3_600_000, HIGH,
        "Time after which a snapshot is written if there are new metadata records; 0 leaves "
        "only the size rule.",
        at_least(0)),
    key("metadata.log.segment.bytes", INT, 1_073_741_824, HIGH,
        "Size at which a segment of the metadata log is closed.",
        at_least(8_388_608)),
    key("metadata.log.segment.ms", LONG, 604_800_000, HIGH,
        "Age at which a segment of the metadata log is closed."),
    key("metadata.max.retention.bytes", LONG, 104_857_600, HIGH,
        "Size that the metadata log and its snapshots may reach before the oldest parts covered "
        "by a snapshot are deleted."),
    key("metadata.max.retention.ms", LONG, 604_800_000, HIGH,
        "Age at which parts of the metadata log that are covered by a snapshot are deleted."),
    key("metadata.max.idle.interval.ms", INT, 500, LOW,
        "How often the active controller writes an empty record while nothing happens, so that "
        "followers can tell a quiet leader from a dead one; 0 writes none.",
        at_least(0)),
    key("internal.metadata.log.segment.bytes", INT, None, LOW,
        "Replaces `metadata.log.segment.bytes` without its lower bound; for tests.",
        internal=True),
    key("internal.metadata.max.batch.size.in.bytes", INT, 8_388_608, LOW,
        "Largest batch of metadata records the controller writes; for tests.",
        internal=True),
    key("internal.metadata.delete.delay.millis", LONG, 60_000, LOW,
        "Time between taking a metadata segment out of the log and removing its file; for "
        "tests.",
        internal=True),
    key("unclean.leader.election.interval.ms", LONG, 300_000, MEDIUM,
        "Pause between two searches for partitions without a leader that may elect one out of "
        "sync.",
        at_least(1), internal=True),
)
# fmt: on
