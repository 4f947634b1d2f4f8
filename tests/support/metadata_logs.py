"""The metadata logs of several nodes, as they lie on their disks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.records.batch import LOG_OVERHEAD, LOG_OVERHEAD_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def batches(data_dir: Path) -> dict[int, bytes]:
    """A metadata log by base offset. One of a node that was sent a snapshot begins after it."""
    place = data_dir / "__cluster_metadata-0"
    data = b"".join(path.read_bytes() for path in sorted(place.glob("*.log")))
    found, position = {}, 0
    while len(data) - position >= LOG_OVERHEAD_BYTES:
        base_offset, size = LOG_OVERHEAD.unpack_from(data, position)
        end = position + LOG_OVERHEAD_BYTES + size
        found[base_offset] = data[position:end]
        position = end
    return found


def check_one_log(data_dirs: Iterable[Path]) -> None:
    """The metadata logs are equal as far as all of them go. The last batch may be half written."""
    logs = [batches(data_dir) for data_dir in data_dirs]
    first, last = max(map(min, logs)), min(map(max, logs))
    assert first < last
    common = [{base: batch for base, batch in log.items() if first <= base < last} for log in logs]
    assert common == [common[0]] * len(logs), "the metadata logs differ"
