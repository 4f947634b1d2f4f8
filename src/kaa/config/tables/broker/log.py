"""Broker settings: log directories, segments, retention, flushing, compaction, record limits."""

from kaa.config.tables.vocabulary import (
    ANY_LIST_OR_NULL,
    BOOLEAN,
    CLASS,
    CLUSTER_WIDE,
    DOUBLE,
    DOUBLE_MAX,
    FILLED_LIST,
    FILLED_LIST_OR_NULL,
    HIGH,
    INT,
    LIST,
    LONG,
    LONG_MAX,
    LOW,
    MEDIUM,
    PER_BROKER,
    STRING,
    GzipLevel,
    ValidList,
    at_least,
    between,
    key,
    one_of,
)

# fmt: off
KEYS = (
    key("num.partitions", INT, 1, MEDIUM,
        "Partitions of a topic that is created without saying how many, automatically or by "
        "request with -1.",
        at_least(1)),
    key("log.dir", LIST, ("/tmp/kafka-logs",), HIGH,  # noqa: S108 # Kafka's own default.
        "Directories that hold the data when `log.dirs` is not set, separated by commas.",
        FILLED_LIST),
    key("log.dirs", LIST, None, HIGH,
        "Directories that hold the data, separated by commas. Unset, `log.dir` is used.",
        FILLED_LIST_OR_NULL),
    key("cordoned.log.dirs", LIST, (), MEDIUM,
        "Directories that take no new partitions, out of those in `log.dirs`; `*` names all of "
        "them.",
        ANY_LIST_OR_NULL, update_mode=PER_BROKER),
    key("log.segment.bytes", INT, 1_073_741_824, HIGH,
        "Size at which a segment file is closed and a new one begun. Topic setting: "
        "`segment.bytes`.",
        at_least(1_048_576), update_mode=CLUSTER_WIDE),
    key("log.roll.ms", LONG, None, HIGH,
        "Age at which a segment is closed even if it is not full. Unset, `log.roll.hours` "
        "decides. Topic setting: `segment.ms`.",
        update_mode=CLUSTER_WIDE),
    key("log.roll.hours", INT, 168, HIGH,
        "Age in hours at which a segment is closed even if it is not full; `log.roll.ms` comes "
        "first.",
        at_least(1)),
    key("log.roll.jitter.ms", LONG, None, HIGH,
        "Up to this much is taken off the age at which a segment is closed, at random, so that "
        "partitions do not all roll at once. Unset, `log.roll.jitter.hours` decides.",
        update_mode=CLUSTER_WIDE),
    key("log.roll.jitter.hours", INT, 0, HIGH,
        "Random share, in hours, taken off the age at which a segment is closed; "
        "`log.roll.jitter.ms` comes first.",
        at_least(0)),
    key("log.retention.ms", LONG, None, HIGH,
        "How long closed segments are kept under the `delete` policy; -1 keeps them for ever. "
        "Unset, `log.retention.minutes` decides. Topic setting: `retention.ms`.",
        update_mode=CLUSTER_WIDE),
    key("log.retention.minutes", INT, None, HIGH,
        "How many minutes closed segments are kept, when `log.retention.ms` is unset. Unset as "
        "well, `log.retention.hours` decides."),
    key("log.retention.hours", INT, 168, HIGH,
        "How many hours closed segments are kept, when neither `log.retention.ms` nor "
        "`log.retention.minutes` is set."),
    key("log.retention.bytes", LONG, -1, HIGH,
        "Size that one partition may reach before its oldest segments are deleted under the "
        "`delete` policy; -1 sets no bound. Topic setting: `retention.bytes`.",
        update_mode=CLUSTER_WIDE),
    key("log.retention.check.interval.ms", LONG, 300_000, MEDIUM,
        "Pause between two searches for segments that retention allows to delete.",
        at_least(1)),
    key("log.cleanup.policy", LIST, ("delete",), MEDIUM,
        "What happens to old data: `delete` drops it by age and size, `compact` keeps the "
        "newest record of each key, both together do both, and an empty list keeps everything. "
        "Topic setting: `cleanup.policy`.",
        ValidList(("compact", "delete")), update_mode=CLUSTER_WIDE),
    key("log.index.size.max.bytes", INT, 10_485_760, MEDIUM,
        "Bytes reserved for each offset index. Topic setting: `segment.index.bytes`.",
        at_least(4), update_mode=CLUSTER_WIDE),
    key("log.index.interval.bytes", INT, 4096, MEDIUM,
        "Bytes of records between two entries of the offset index. A smaller distance finds "
        "offsets faster and makes the index larger. Topic setting: `index.interval.bytes`.",
        at_least(0), update_mode=CLUSTER_WIDE),
    key("log.flush.interval.messages", LONG, LONG_MAX, HIGH,
        "Records that may be appended to a partition before it is forced to disk. 1 makes every "
        "append durable before it is answered. Topic setting: `flush.messages`.",
        at_least(1), update_mode=CLUSTER_WIDE),
    key("log.flush.interval.ms", LONG, None, HIGH,
        "Time for which appended records may stay unforced. Unset, "
        "`log.flush.scheduler.interval.ms` decides. Topic setting: `flush.ms`.",
        update_mode=CLUSTER_WIDE),
    key("log.flush.scheduler.interval.ms", LONG, LONG_MAX, HIGH,
        "Pause between two searches for partitions whose records are due to be forced to disk."),
    key("log.flush.offset.checkpoint.interval.ms", INT, 60_000, HIGH,
        "Pause between two writes of the recovery points, which say from where a log must be "
        "checked after a crash.",
        at_least(0)),
    key("log.flush.start.offset.checkpoint.interval.ms", INT, 60_000, HIGH,
        "Pause between two writes of the log start offsets, so that deleted records stay "
        "deleted after a crash.",
        at_least(0)),
    key("log.segment.delete.delay.ms", LONG, 60_000, HIGH,
        "Time between taking a segment out of its log and removing its files, so that readers "
        "can finish. Topic setting: `file.delete.delay.ms`.",
        at_least(0), update_mode=CLUSTER_WIDE),
    key("log.preallocate", BOOLEAN, False, MEDIUM,
        "Whether a new segment file takes its full size on disk at once. Topic setting: "
        "`preallocate`.",
        update_mode=CLUSTER_WIDE),
    key("num.recovery.threads.per.data.dir", INT, 2, HIGH,
        "How many logs of one directory are recovered at the same time at start, and flushed at "
        "the same time at shutdown.",
        at_least(1), update_mode=CLUSTER_WIDE),
    key("auto.create.topics.enable", BOOLEAN, True, HIGH,
        "Whether a metadata request for an unknown topic creates it."),
    key("min.insync.replicas", INT, 1, HIGH,
        "Replicas in sync, the leader included, that a write with acks=all needs. With fewer "
        "the write is refused, and records become visible to consumers only once this many have "
        "them. Topic setting of the same name.",
        at_least(1), update_mode=CLUSTER_WIDE),
    key("log.message.timestamp.type", STRING, "CreateTime", MEDIUM,
        "Whether a record carries the time its producer gave (`CreateTime`) or the time of its "
        "append (`LogAppendTime`). Topic setting: `message.timestamp.type`.",
        one_of("CreateTime", "LogAppendTime"), update_mode=CLUSTER_WIDE),
    key("log.message.timestamp.before.max.ms", LONG, LONG_MAX, MEDIUM,
        "How far a producer's timestamp may lie in the past; older records are refused. Ignored "
        "with LogAppendTime. Topic setting: `message.timestamp.before.max.ms`.",
        at_least(0), update_mode=CLUSTER_WIDE),
    key("log.message.timestamp.after.max.ms", LONG, 3_600_000, MEDIUM,
        "How far a producer's timestamp may lie in the future; records beyond it are refused. "
        "Ignored with LogAppendTime. Topic setting: `message.timestamp.after.max.ms`.",
        at_least(0), update_mode=CLUSTER_WIDE),
    key("create.topic.policy.class.name", CLASS, None, LOW,
        "Java class that may refuse new topics. Kaa loads no Java classes and refuses to start "
        "with one, rather than create topics that the policy would forbid."),
    key("alter.config.policy.class.name", CLASS, None, LOW,
        "Java class that may refuse changes of settings. Kaa loads no Java classes and refuses "
        "to start with one, rather than allow what the policy would forbid."),
    key("log.dir.failure.timeout.ms", LONG, 30_000, LOW,
        "A broker that lost a directory and cannot reach the controller for this long stops "
        "itself.",
        at_least(1)),
    key("log.initial.task.delay.ms", LONG, 30_000, LOW,
        "Pause after start before background work on logs (retention, flushing, checkpoints) "
        "begins; for tests.",
        at_least(0), internal=True),
    key("log.cleaner.threads", INT, 1, MEDIUM,
        "Compactions that run at the same time.",
        at_least(0), update_mode=CLUSTER_WIDE),
    key("log.cleaner.io.max.bytes.per.second", DOUBLE, DOUBLE_MAX, MEDIUM,
        "Bytes that compaction reads and writes per second, all together.",
        update_mode=CLUSTER_WIDE),
    key("log.cleaner.dedupe.buffer.size", LONG, 134_217_728, MEDIUM,
        "Memory in which all compactions together remember the newest offset of each key; at "
        "least 1 MiB for each of `log.cleaner.threads`.",
        update_mode=CLUSTER_WIDE),
    key("log.cleaner.io.buffer.size", INT, 524_288, MEDIUM,
        "Memory in which all compactions together hold records on their way.",
        at_least(0), update_mode=CLUSTER_WIDE),
    key("log.cleaner.io.buffer.load.factor", DOUBLE, 0.9, MEDIUM,
        "How full the table of keys may get before a compaction makes another pass. Fuller "
        "handles more keys at once with more collisions.",
        update_mode=CLUSTER_WIDE),
    key("log.cleaner.backoff.ms", LONG, 15_000, MEDIUM,
        "Pause before looking again when no log needs compaction.",
        at_least(0), update_mode=CLUSTER_WIDE),
    key("log.cleaner.min.cleanable.ratio", DOUBLE, 0.5, MEDIUM,
        "Share of not yet compacted bytes at which a log is worth compacting. Smaller wastes "
        "less space and compacts more often. Topic setting: `min.cleanable.dirty.ratio`.",
        between(0, 1), update_mode=CLUSTER_WIDE),
    key("log.cleaner.enable", BOOLEAN, True, MEDIUM,
        "Whether logs with the `compact` policy are compacted at all. Should stay true: without "
        "it the offsets topic grows without end."),
    key("log.cleaner.delete.retention.ms", LONG, 86_400_000, MEDIUM,
        "How long a tombstone stays after compaction, so that a consumer reading from the start "
        "still sees the deletion. Topic setting: `delete.retention.ms`.",
        at_least(0), update_mode=CLUSTER_WIDE),
    key("log.cleaner.min.compaction.lag.ms", LONG, 0, MEDIUM,
        "How long a record is safe from compaction. Topic setting: `min.compaction.lag.ms`.",
        at_least(0), update_mode=CLUSTER_WIDE),
    key("log.cleaner.max.compaction.lag.ms", LONG, LONG_MAX, MEDIUM,
        "How long a record may wait until its log becomes due for compaction. Topic setting: "
        "`max.compaction.lag.ms`.",
        at_least(1), update_mode=CLUSTER_WIDE),
    key("producer.id.expiration.ms", INT, 86_400_000, LOW,
        "How long a partition remembers an idempotent producer that stopped writing. After that "
        "its retries could be stored twice; values below the clients' delivery.timeout.ms are "
        "dangerous.",
        at_least(1), update_mode=CLUSTER_WIDE),
    key("producer.id.expiration.check.interval.ms", INT, 600_000, LOW,
        "Pause between two searches for forgotten idempotent producers.",
        at_least(1), internal=True),
    key("message.max.bytes", INT, 1_048_588, HIGH,
        "Largest record batch a producer may append, after compression. Followers and consumers "
        "still make progress on a larger one. Topic setting: `max.message.bytes`.",
        at_least(0), update_mode=CLUSTER_WIDE),
    key("compression.type", STRING, "producer", HIGH,
        "Codec in which batches are stored: `producer` keeps what arrives, `uncompressed` and "
        "the codec names recompress. Topic setting of the same name.",
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        update_mode=CLUSTER_WIDE),
    key("compression.gzip.level", INT, -1, MEDIUM,
        "Effort of gzip when `compression.type` is gzip; -1 is the library's default.",
        GzipLevel(), update_mode=CLUSTER_WIDE),
    key("compression.lz4.level", INT, 9, MEDIUM,
        "Effort of LZ4 when `compression.type` is lz4.",
        between(1, 17), update_mode=CLUSTER_WIDE),
    key("compression.zstd.level", INT, 3, MEDIUM,
        "Effort of Zstandard when `compression.type` is zstd.",
        between(-131_072, 22), update_mode=CLUSTER_WIDE),
)
# fmt: on
