"""How much of everything: `quick` is for every day, `full` for the record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Scale:
    name: str
    box_seconds: float
    rounds: int
    # Bytes of one produce run, and of what a consume run reads.
    bytes_max: int
    records_max: int
    # How long a run at a fixed rate, or with one request in flight, lasts.
    seconds: float
    # How long a run that has so many bytes to move may take at most.
    seconds_max: float
    # When a driver that does not end is ended.
    driver_seconds_max: float
    catch_up_bytes: int
    restart_bytes: int
    end_to_end_records: int

    def records(self, record_bytes: int, bytes_max: int | None = None) -> int:
        """How many records of this size a throughput run moves."""
        return max(100, min(self.records_max, (bytes_max or self.bytes_max) // record_bytes))


QUICK: Final = Scale(
    name="quick",
    # The environment, the jars and the report have their time too.
    box_seconds=14 * 60,
    rounds=3,
    bytes_max=160 * MIB,
    records_max=400_000,
    seconds=1.5,
    seconds_max=10.0,
    driver_seconds_max=45.0,
    catch_up_bytes=256 * MIB,
    restart_bytes=1024 * MIB,
    end_to_end_records=1_000,
)
FULL: Final = Scale(
    name="full",
    box_seconds=2.8 * 3600,
    rounds=3,
    bytes_max=512 * MIB,
    records_max=2_000_000,
    seconds=8.0,
    seconds_max=60.0,
    driver_seconds_max=300.0,
    catch_up_bytes=1024 * MIB,
    restart_bytes=5 * 1024 * MIB,
    end_to_end_records=5_000,
)
