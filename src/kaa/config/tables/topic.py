"""Topic settings."""

from kaa.config.tables.vocabulary import (
    BOOLEAN,
    DOUBLE,
    INT,
    LIST,
    LONG,
    LONG_MAX,
    MEDIUM,
    STRING,
    GzipLevel,
    ThrottledReplicas,
    ValidList,
    at_least,
    between,
    key,
    one_of,
)

# fmt: off
KEYS = (
    key("segment.bytes", INT, 1_073_741_824, MEDIUM,
        "Size at which a segment file is closed and a new one begun. Retention and compaction "
        "work on whole segments, so larger files are coarser and fewer.",
        at_least(1_048_576)),
    key("segment.ms", LONG, 604_800_000, MEDIUM,
        "Age at which a segment is closed even if it is not full, so that its records can "
        "expire or be compacted.",
        at_least(1)),
    key("segment.jitter.ms", LONG, 0, MEDIUM,
        "Up to this much is taken off `segment.ms` at random, so that partitions do not all "
        "roll at once.",
        at_least(0)),
    key("segment.index.bytes", INT, 10_485_760, MEDIUM,
        "Bytes reserved for the offset index of each segment; what is unused is cut off when "
        "the segment is closed.",
        at_least(4)),
    key("flush.messages", LONG, LONG_MAX, MEDIUM,
        "Records that may be appended before the log is forced to disk. 1 makes every append "
        "durable before it is answered; the default leaves it to the operating system and to "
        "replication.",
        at_least(1)),
    key("flush.ms", LONG, LONG_MAX, MEDIUM,
        "Time for which appended records may stay unforced. The default leaves it to the "
        "operating system and to replication.",
        at_least(0)),
    key("retention.bytes", LONG, -1, MEDIUM,
        "Size that each partition may reach before its oldest segments are deleted under the "
        "`delete` policy; -1 sets no bound."),
    key("retention.ms", LONG, 604_800_000, MEDIUM,
        "How long closed segments are kept under the `delete` policy; -1 keeps them for ever.",
        at_least(-1)),
    key("remote.storage.enable", BOOLEAN, False, MEDIUM,
        "Whether closed segments of this topic are kept in remote storage. Turning it off again "
        "also needs `remote.log.delete.on.disable`."),
    key("local.retention.ms", LONG, -2, MEDIUM,
        "How long a segment that is safe in remote storage also stays on local disk; -2 means "
        "as long as `retention.ms`, and it may not be longer.",
        at_least(-2)),
    key("local.retention.bytes", LONG, -2, MEDIUM,
        "Size that the segments on local disk may reach before those safe in remote storage are "
        "removed; -2 means `retention.bytes`, and it may not be larger.",
        at_least(-2)),
    key("remote.log.copy.disable", BOOLEAN, False, MEDIUM,
        "Whether no more segments are copied to remote storage. What is there stays readable "
        "until it expires."),
    key("remote.log.delete.on.disable", BOOLEAN, False, MEDIUM,
        "Whether the remote segments are deleted when `remote.storage.enable` is turned off."),
    key("max.message.bytes", INT, 1_048_588, MEDIUM,
        "Largest record batch that may be appended, after compression. Consumers still make "
        "progress on a larger one that is already there.",
        at_least(0)),
    key("index.interval.bytes", INT, 4096, MEDIUM,
        "Bytes of records between two entries of the offset index. A smaller distance finds "
        "offsets faster and makes the index larger.",
        at_least(0)),
    key("file.delete.delay.ms", LONG, 60_000, MEDIUM,
        "Time between taking a segment out of the log and removing its files, so that readers "
        "can finish.",
        at_least(0)),
    key("delete.retention.ms", LONG, 86_400_000, MEDIUM,
        "How long a tombstone stays after compaction. A consumer that reads from the start "
        "within this time sees every deletion.",
        at_least(0)),
    key("min.compaction.lag.ms", LONG, 0, MEDIUM,
        "How long a record is safe from compaction.",
        at_least(0)),
    key("max.compaction.lag.ms", LONG, LONG_MAX, MEDIUM,
        "How long a record may wait until the log becomes due for compaction.",
        at_least(1)),
    key("min.cleanable.dirty.ratio", DOUBLE, 0.5, MEDIUM,
        "Share of not yet compacted bytes at which the log is worth compacting. Smaller wastes "
        "less space and compacts more often.",
        between(0, 1)),
    key("cleanup.policy", LIST, ("delete",), MEDIUM,
        "What happens to old data: `delete` drops it by age and size, `compact` keeps the "
        "newest record of each key, both together do both, and an empty list keeps everything.",
        ValidList(("compact", "delete"))),
    key("unclean.leader.election.enable", BOOLEAN, False, MEDIUM,
        "Whether a replica that was out of sync may lead when no other is left. Keeps the "
        "partition writable and may lose acknowledged records."),
    key("min.insync.replicas", INT, 1, MEDIUM,
        "Replicas in sync, the leader included, that a write with acks=all needs. With fewer "
        "the write is refused.",
        at_least(1)),
    key("compression.type", STRING, "producer", MEDIUM,
        "Codec in which batches are stored: `producer` keeps what arrives, `uncompressed` and "
        "the codec names recompress.",
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")),
    key("compression.gzip.level", INT, -1, MEDIUM,
        "Effort of gzip when `compression.type` is gzip; -1 is the library's default.",
        GzipLevel()),
    key("compression.lz4.level", INT, 9, MEDIUM,
        "Effort of LZ4 when `compression.type` is lz4.",
        between(1, 17)),
    key("compression.zstd.level", INT, 3, MEDIUM,
        "Effort of Zstandard when `compression.type` is zstd.",
        between(-131_072, 22)),
    key("preallocate", BOOLEAN, False, MEDIUM,
        "Whether a new segment file takes its full size on disk at once."),
    key("message.timestamp.type", STRING, "CreateTime", MEDIUM,
        "Whether a record carries the time its producer gave (`CreateTime`) or the time of its "
        "append (`LogAppendTime`).",
        one_of("CreateTime", "LogAppendTime")),
    key("message.timestamp.before.max.ms", LONG, LONG_MAX, MEDIUM,
        "How far a producer's timestamp may lie in the past; older records are refused. Ignored "
        "with LogAppendTime.",
        at_least(0)),
    key("message.timestamp.after.max.ms", LONG, 3_600_000, MEDIUM,
        "How far a producer's timestamp may lie in the future; records beyond it are refused. "
        "Ignored with LogAppendTime.",
        at_least(0)),
    key("leader.replication.throttled.replicas", LIST, (), MEDIUM,
        "Replicas whose leader is throttled during reassignment, as partition:broker entries, "
        "or `*` for all of the topic.",
        ThrottledReplicas()),
    key("follower.replication.throttled.replicas", LIST, (), MEDIUM,
        "Replicas that fetch throttled during reassignment, as partition:broker entries, or `*` "
        "for all of the topic.",
        ThrottledReplicas()),
    key("internal.segment.bytes", INT, None, MEDIUM,
        "Replaces `segment.bytes` without its lower bound; for tests.",
        internal=True),
)
# fmt: on
