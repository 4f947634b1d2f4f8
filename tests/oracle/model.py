"""What is asked of the oracle and what it answers, as plain values."""

import base64
from dataclasses import dataclass, field, fields
from typing import Any, Self

Headers = tuple[tuple[str, bytes | None], ...]


class JavaError(Exception):
    """An exception of Kafka's: its class, its message, and the error code that answers it."""

    def __init__(
        self,
        class_name: str,
        message: str | None,
        code: int,
        record_errors: tuple[tuple[int, str | None], ...] = (),
        counters: dict[str, int] | None = None,
    ) -> None:
        super().__init__(f"{class_name}: {message}")
        self.class_name = class_name
        self.message = message
        self.code = code
        # Which records of a refused batch are at fault, and why.
        self.record_errors = record_errors
        # Which meters of the broker the refused batch has moved.
        self.counters = counters or {}

    @property
    def simple_name(self) -> str:
        """The class name without its package."""
        return self.class_name.rpartition(".")[2]

    @classmethod
    def from_json(cls, error: dict[str, Any]) -> Self:
        """An error as it comes over the socket."""
        record_errors = tuple((index, text) for index, text in error.get("recordErrors", ()))
        return cls(
            error["class"], error["message"], error["code"], record_errors, error.get("counters")
        )


@dataclass(frozen=True, slots=True)
class MessageBytes:
    """A message to read: the simple name of its Java class, a version, and the bytes."""

    name: str
    version: int
    data: bytes | bytearray | memoryview

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "version": self.version, "bytes": self.data}


@dataclass(frozen=True, slots=True)
class MessageJson:
    """A message to write: the simple name of its Java class, a version, and its fields."""

    name: str
    version: int
    json: Any

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "version": self.version, "json": self.json}


@dataclass(frozen=True, slots=True)
class MessageRead:
    """A message as Java understood it."""

    json: Any
    # The same message as Java writes it.
    data: bytes
    # Bytes after the message that Java did not read.
    remaining: int


@dataclass(frozen=True, slots=True)
class MessageClass:
    """A class that Kafka generates from a schema."""

    name: str
    package: str
    lowest: int
    highest: int
    api_key: int | None


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """One member of Java's error enum."""

    code: int
    name: str
    retriable: bool
    message: str


@dataclass(frozen=True, slots=True)
class HeaderVersions:
    """The header versions that go with one version of an API."""

    version: int
    request: int
    response: int
    deprecated: bool


@dataclass(frozen=True, slots=True)
class ApiKeyRow:
    """One member of Java's API key enum; a key that is not served has no versions."""

    id: int
    name: str
    schema: str
    cluster_action: bool
    forwardable: bool
    requires_delayed_allocation: bool
    served: bool
    # BROKER, CONTROLLER.
    listeners: tuple[str, ...]
    oldest: int | None = None
    latest: int | None = None
    latest_stable: int | None = None
    headers: tuple[HeaderVersions, ...] = ()
    # Listener to the (lowest, highest) version in an ApiVersions answer.
    advertised: dict[str, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NewRecord:
    """A record to put into a batch; without an offset it takes the next one."""

    key: bytes | None = None
    value: bytes | None = None
    timestamp: int = 0
    headers: Headers = ()
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class NewBatch:
    """A batch to build with Kafka's own builder."""

    records: tuple[NewRecord, ...] = ()
    magic: int = 2
    compression: str = "none"
    level: int | None = None
    # CREATE_TIME or LOG_APPEND_TIME, which needs log_append_time.
    timestamp_type: str = "CREATE_TIME"
    log_append_time: int = -1
    base_offset: int = 0
    partition_leader_epoch: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    transactional: bool = False
    control: bool = False
    delete_horizon_ms: int = -1


@dataclass(frozen=True, slots=True)
class NewMarker:
    """A batch with the one control record that ends a transaction."""

    # COMMIT or ABORT.
    marker: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    base_offset: int = 0
    timestamp: int = 0
    partition_leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class Record:
    """A record as Java reads it."""

    offset: int
    timestamp: int
    sequence: int
    size_in_bytes: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    control_type: str | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch as Java reads it."""

    base_offset: int
    last_offset: int
    next_offset: int
    size_in_bytes: int
    partition_leader_epoch: int
    magic: int
    checksum: int
    valid: bool
    compression: str
    timestamp_type: str
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    last_sequence: int
    transactional: bool
    control: bool
    # Absent for the formats before version 2, as is the base timestamp.
    count: int | None
    records: tuple[Record, ...]
    base_timestamp: int | None = None
    delete_horizon_ms: int | None = None
    # Why the records after those listed cannot be read.
    error: JavaError | None = None


@dataclass(frozen=True, slots=True)
class RecordsRead:
    """Batches up to the end of the bytes, or up to the first that cannot be read."""

    batches: tuple[Batch, ...]
    valid_bytes: int | None = None
    error: JavaError | None = None


@dataclass(frozen=True, slots=True)
class Produced:
    """Record bytes to be judged, with the settings of the topic and of the broker they come to."""

    data: bytes | bytearray | memoryview
    now: int = 0
    first_offset: int = 0
    # The topic's compression.type, and its level.
    compression: str = "producer"
    level: int | None = None
    # What the broker takes to be the producer's codec; by default it looks into the batches.
    source_compression: str | None = None
    compacted: bool = False
    timestamp_type: str = "CREATE_TIME"
    timestamp_before_max_ms: int = 2**63 - 1
    timestamp_after_max_ms: int = 2**63 - 1
    partition_leader_epoch: int = 0
    magic: int = 2
    # CLIENT, COORDINATOR, RAFT_LEADER or REPLICATION.
    origin: str = "CLIENT"
    # Apply first what a broker checks on a produce request of this version.
    produce_version: int | None = None
    topic: str = "topic"
    partition: int = 0


@dataclass(frozen=True, slots=True)
class Validated:
    """Records that the broker would append, and what it learned about them."""

    data: bytes
    next_offset: int
    log_append_time_ms: int
    max_timestamp_ms: int
    message_size_maybe_changed: bool
    records_converted: int
    counters: dict[str, int]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """How a command-line tool ended and what it printed."""

    code: int
    out: str
    err: str


def camel(name: str) -> str:
    """A field name of ours in Java's spelling."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def camel_fields(value: Any) -> dict[str, Any]:
    """The fields of a question, as the oracle expects them; what is None stays unsaid."""
    pairs = ((item.name, getattr(value, item.name)) for item in fields(value))
    return {camel(name): content for name, content in pairs if content is not None}


def snake_fields(kind: Any, row: dict[str, Any], **replaced: Any) -> dict[str, Any]:
    """The constructor arguments of an answer; `replaced` are the fields that are not plain."""
    plain = {item.name: row[camel(item.name)] for item in fields(kind) if camel(item.name) in row}
    return plain | replaced


def binary(text: str | None) -> bytes | None:
    """Bytes that travelled as base64."""
    return None if text is None else base64.b64decode(text)
