"""Record batches: what producers send, brokers store and consumers fetch.

A broker touches batches, not records: it looks at 61 bytes of header through a view, checks every
record of a produced batch once, patches an offset, and from then on moves bytes. The modules, in
the order data meets them:

| module | what it owns |
|---|---|
| `batch` | the byte table of magic 2; `RecordBatch`, a view; `iter_batches` |
| `record` | the byte table of records; `Record`, `iter_records`, `encode_record` |
| `compress` | gzip, snappy, lz4 and zstd as bounded chunks; one module per codec beside it |
| `validate` | what may enter the log, with Kafka's error codes: `validate_produced` |
| `rewrite` | another codec for a batch whose topic has its own `compression.type` |
| `analyze` | what a follower learns of fetched batches before it appends them |
| `build` | `BatchBuilder`, which writes batches as Java does |
| `control` | transaction markers and the control records of the metadata quorum |
| `legacy` | messages of magic 0 and 1 in old segments |
| `arrow` | batches to and from Arrow columns, many at a time |
| `compaction` | which records of a compacted log stay |
| `partitioner` | the partition of a key, as Java clients choose it |
| `kernel` | chooses between the compiled loops (`_kernel`) and their Python twins (`_pure_*`) |
| `arrow_encode` | Arrow columns as record batches |
| `arrow_pyarrow` | pyarrow batches from and to the raw columns of `arrow` and `arrow_encode` |
| `checksum` | CRC-32C |
| `errors` | what can be wrong with record bytes |
| `varint` | zig-zag varints of records, the Python form of `_kernel_varint.pxi` |

Nothing here does IO, reads a clock or keeps state between calls. Bad bytes raise `RecordsError`
or one of its kinds, and nothing else; only `validate` answers with a `Refusal` instead.

"""

from kaa.model.topics import NO_TIMESTAMP
from kaa.records.analyze import AppendableExtent, analyze_raft_leader, analyze_replicated
from kaa.records.batch import (
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC_V2,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    Buffer,
    CompressionType,
    RecordBatch,
    TimestampType,
    decrement_sequence,
    increment_sequence,
    iter_batches,
)
from kaa.records.build import BatchBuilder, assemble_batch, batch_attributes
from kaa.records.compress import (
    Compressor,
    compress,
    compressor,
    decompress_all,
    decompress_chunks,
)
from kaa.records.control import (
    ControlRecordType,
    EndTransactionMarker,
    build_control_batch,
    build_end_transaction_batch,
    decode_control_key,
    read_end_transaction_marker,
)
from kaa.records.errors import (
    CompressionError,
    CorruptRecordsError,
    InvalidRecordError,
    RecordsError,
)
from kaa.records.kernel import KERNEL_NAME
from kaa.records.legacy import LegacyBatch, iter_any_batches, iter_legacy_records, upgrade_batch
from kaa.records.record import Header, Record, encode_record, iter_records
from kaa.records.validate import (
    AppendRules,
    RecordError,
    Refusal,
    Validated,
    parse_produced,
    validate_batch,
    validate_produced,
)

__all__ = [
    "HEADER_BYTES",
    "KERNEL_NAME",
    "LOG_OVERHEAD_BYTES",
    "MAGIC_V2",
    "NO_PARTITION_LEADER_EPOCH",
    "NO_PRODUCER_EPOCH",
    "NO_PRODUCER_ID",
    "NO_SEQUENCE",
    "NO_TIMESTAMP",
    "AppendRules",
    "AppendableExtent",
    "BatchBuilder",
    "Buffer",
    "CompressionError",
    "CompressionType",
    "Compressor",
    "ControlRecordType",
    "CorruptRecordsError",
    "EndTransactionMarker",
    "Header",
    "InvalidRecordError",
    "LegacyBatch",
    "Record",
    "RecordBatch",
    "RecordError",
    "RecordsError",
    "Refusal",
    "TimestampType",
    "Validated",
    "analyze_raft_leader",
    "analyze_replicated",
    "assemble_batch",
    "batch_attributes",
    "build_control_batch",
    "build_end_transaction_batch",
    "compress",
    "compressor",
    "decode_control_key",
    "decompress_all",
    "decompress_chunks",
    "decrement_sequence",
    "encode_record",
    "increment_sequence",
    "iter_any_batches",
    "iter_batches",
    "iter_legacy_records",
    "iter_records",
    "parse_produced",
    "read_end_transaction_marker",
    "upgrade_batch",
    "validate_batch",
    "validate_produced",
]
