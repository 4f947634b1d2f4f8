"""A partition log in the hands of Kafka's own log layer.

The folder, named topic-partition, lies where the test wants it, so the test reads the files that
Kafka wrote, or lets Kafka open files that Kaa wrote. The clock stands still unless a call sets it,
and what Kafka would do in the background is done at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tests.oracle.jvm import Jvm
from tests.oracle.model import binary, snake_fields


@dataclass(frozen=True, slots=True)
class Appended:
    """What Kafka says about an append."""

    first_offset: int
    last_offset: int
    last_leader_epoch: int | None
    max_timestamp: int
    log_append_time: int
    log_start_offset: int
    source_compression: str
    valid_bytes: int


@dataclass(frozen=True, slots=True)
class ProducerState:
    """What a log remembers about a producer."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_timestamp: int
    # First sequence, last sequence, first offset, last offset.
    batches: tuple[tuple[int, int, int, int], ...]
    current_transaction_first_offset: int | None = None


@dataclass(frozen=True, slots=True)
class LogState:
    """Where a log stands."""

    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    last_stable_offset: int
    recovery_point: int
    # Base offsets.
    segments: tuple[int, ...]
    # Leader epoch and its start offset.
    epochs: tuple[tuple[int, int], ...]
    producers: tuple[ProducerState, ...]


class JavaLog:
    """One open log."""

    def __init__(
        self,
        jvm: Jvm,
        folder: Path,
        config: Mapping[str, str] | None = None,
        *,
        now: int = 0,
        clean: bool = True,
        start_offset: int = 0,
        recovery_point: int = 0,
    ) -> None:
        """Open a new or an existing log; one that was not shut down cleanly is recovered."""
        self.folder = folder
        self._jvm = jvm
        self._id = jvm.call_one(
            "log.open",
            {
                "folder": str(folder),
                "config": dict(config or {}),
                "now": now,
                "clean": clean,
                "startOffset": start_offset,
                "recoveryPoint": recovery_point,
            },
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> LogState:
        """Close the log as a clean shutdown does, and tell where it stood."""
        return self._state("close")

    def append(
        self,
        data: bytes,
        *,
        leader_epoch: int = 0,
        origin: str = "CLIENT",
        follower: bool = False,
        transaction_version: int = 0,
        now: int | None = None,
    ) -> Appended:
        """Append as the leader, or as a follower; a refusal is a JavaError."""
        row = self._call(
            "append",
            bytes=data,
            leaderEpoch=leader_epoch,
            origin=origin,
            follower=follower,
            transactionVersion=transaction_version,
            now=now,
        )
        return Appended(**snake_fields(Appended, row))

    def read(
        self,
        offset: int,
        max_bytes: int = 2**31 - 1,
        *,
        isolation: str = "LOG_END",
        min_one_message: bool = True,
    ) -> tuple[bytes, list[tuple[int, int]]]:
        """The bytes of whole batches, and (producer id, first offset) of aborted transactions.

        The isolation is LOG_END, HIGH_WATERMARK or TXN_COMMITTED.
        """
        row = self._call(
            "read",
            offset=offset,
            maxBytes=max_bytes,
            isolation=isolation,
            minOneMessage=min_one_message,
        )
        return binary(row["bytes"]) or b"", [(one, first) for one, first in row["aborted"]]

    def offset_by_timestamp(self, timestamp: int) -> tuple[int, int] | None:
        """The (timestamp, offset) that a ListOffsets request is answered with."""
        row = self._call("timestamp", timestamp=timestamp)
        return None if row is None else (row["timestamp"], row["offset"])

    def clean(
        self,
        first_dirty_offset: int = 0,
        first_uncleanable_offset: int | None = None,
        *,
        map_bytes: int = 1 << 20,
        now: int | None = None,
    ) -> int:
        """Compact once; the answer is the next first dirty offset."""
        row = self._call(
            "clean",
            firstDirtyOffset=first_dirty_offset,
            firstUncleanableOffset=first_uncleanable_offset,
            mapBytes=map_bytes,
            now=now,
        )
        return int(row["firstDirtyOffset"])

    def roll(self, now: int | None = None) -> LogState:
        """Begin a new segment."""
        return self._state("roll", now=now)

    def truncate(self, offset: int) -> LogState:
        """Drop everything from the offset on."""
        return self._state("truncate", offset=offset)

    def set_high_watermark(self, offset: int) -> LogState:
        """Move the high watermark."""
        return self._state("high_watermark", offset=offset)

    def set_start_offset(self, offset: int) -> LogState:
        """Move the start of the log, as DeleteRecords does."""
        return self._state("start_offset", offset=offset)

    def delete_old_segments(self, now: int | None = None) -> LogState:
        """Apply the retention settings."""
        return self._state("delete_old_segments", now=now)

    def state(self) -> LogState:
        """Where the log stands."""
        return self._state("state")

    def _call(self, operation: str, **item: Any) -> Any:
        plain = {name: value for name, value in item.items() if value is not None}
        return self._jvm.call_one(f"log.{operation}", {"log": self._id, **plain})

    def _state(self, operation: str, **item: Any) -> LogState:
        row = self._call(operation, **item)
        return LogState(
            **snake_fields(
                LogState,
                row,
                segments=tuple(row["segments"]),
                epochs=tuple((epoch, offset) for epoch, offset in row["epochs"]),
                producers=tuple(_producer(producer) for producer in row["producers"]),
            )
        )


def _producer(row: dict[str, Any]) -> ProducerState:
    # An entry without batches keeps a place with no sequence in it.
    batches = tuple(tuple(batch) for batch in row["batches"])
    return ProducerState(**snake_fields(ProducerState, row, batches=batches))
