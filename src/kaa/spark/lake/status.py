"""How far a table is: offset, lag and last commit, partition by partition."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kaa.spark.lookup import Lookup
from kaa.spark.options import source_options

if TYPE_CHECKING:
    from kaa.spark.lake.table import LakeTable


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """One partition of the topic, as the table has it."""

    partition: int
    offset: int | None
    end_offset: int
    lag: int


@dataclass(frozen=True, slots=True)
class TableStatus:
    """A table and its partitions."""

    version: str
    mode: str
    committed_ms: int | None
    files: int
    rows: int
    size_bytes: int
    partitions: list[PartitionStatus]
    # Why the table cannot be gone on with.
    problem: str | None = None

    @property
    def lag(self) -> int:
        return sum(one.lag for one in self.partitions)

    @property
    def seconds_since_commit(self) -> float | None:
        return None if self.committed_ms is None else time.time() - self.committed_ms / 1000


def table_status(table: LakeTable) -> TableStatus:
    """Asks the table and the brokers."""
    lookup = Lookup(source_options(table.settings.source(), is_stream=False))
    partitions = lookup.partitions().partitions
    ends = lookup.latest(partitions)
    starts = lookup.earliest(partitions)
    state = table.load()
    files = table.files()
    return TableStatus(
        version=state.version,
        mode=state.mode,
        committed_ms=state.committed_ms,
        files=len(files),
        rows=sum(one.rows for one in files),
        size_bytes=sum(one.size_bytes for one in files),
        partitions=[
            PartitionStatus(
                one.partition,
                state.offsets.get(one.partition),
                ends[one],
                max(0, ends[one] - state.offsets.get(one.partition, starts[one])),
            )
            for one in partitions
        ],
        problem=state.problem,
    )
