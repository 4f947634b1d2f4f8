"""A few records of the topics of a query: the oldest and the newest of some partitions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import kaa
from kaa.limits import (
    FORMAT_SAMPLE_BYTES_MAX,
    FORMAT_SAMPLE_ROWS,
    FORMAT_SAMPLED_PARTITIONS_MAX,
    SPARK_SAMPLE_BYTES,
)
from kaa.spark.lookup import Lookup
from kaa.spark.plan import OffsetRange
from kaa.spark.range_reader import RangeReader, Task

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaa.spark.formats.options import Side
    from kaa.spark.options import SourceOptions


def sample(options: SourceOptions, side: Side = "value") -> Iterator[bytes | None]:
    """Values, or keys, of what the topics hold now, wherever the query begins."""
    quick = replace(
        options,
        fails_on_data_loss=False,
        reads_local_files=False,
        tier=None,
        fetch_bytes=SPARK_SAMPLE_BYTES,
    )
    lookup = Lookup(quick)
    found = lookup.partitions().partitions
    # Some of each topic, where there are several.
    chosen = sorted(found, key=lambda one: one.partition)[:FORMAT_SAMPLED_PARTITIONS_MAX]
    earliest, latest = lookup.earliest(chosen), lookup.latest(chosen)
    ranges: list[OffsetRange] = []
    rows = max(1, FORMAT_SAMPLE_ROWS // max(1, 2 * len(chosen)))
    for one in chosen:
        first, end = earliest[one], latest[one]
        middle = min(first + rows, end)
        ranges += [OffsetRange(one, first, middle), OffsetRange(one, max(middle, end - rows), end)]
    wanted = [piece for piece in ranges if piece.size > 0]
    for piece in wanted:
        yield from _read(quick, piece, side, FORMAT_SAMPLE_BYTES_MAX // len(wanted))


def _read(
    options: SourceOptions, wanted: OffsetRange, side: Side, bytes_max: int
) -> Iterator[bytes | None]:
    left = bytes_max
    for batch in RangeReader(options, Task(wanted, None, kaa.__version__), (side,)).batches():
        for value in batch.column(0).to_pylist():
            yield value
            left -= len(value or b"")
            if left <= 0:
                return
