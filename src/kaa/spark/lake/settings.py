"""What a user may say about a table that is made of a topic."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from kaa.limits import (
    LAKE_FILE_BYTES,
    LAKE_ROUND_ROWS,
    LAKE_ROUND_SECONDS,
    LAKE_UPSERT_ROUND_SECONDS,
)
from kaa.spark.formats.options import NAMES as FORMAT_OPTIONS
from kaa.spark.lake.partitioning import parse_terms
from kaa.spark.lake.store import OPTIONS as STORE_OPTIONS
from kaa.spark.lake.store import Store
from kaa.spark.lake.table import LakeError
from kaa.spark.tier.stores import STORE_PREFIX

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaa.spark.lake.partitioning import Term

Layout = Literal["iceberg", "parquet"]
Mode = Literal["append", "upsert"]
Maintenance = Literal["auto", "off"]
COLUMNS: Final = (
    "topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers",
)  # fmt: skip
TIER: Final = ("tier", "tierStore", "tierStoreFile")
UPSERT_COLUMNS: Final = ("partition", "offset", "timestamp", "key")
DEFAULT_WAREHOUSE: Final = "kaa-data/lake"


@dataclass(frozen=True)
class LakeSettings:
    """A table: its topic, where it is kept and how."""

    topic: str
    table: str
    kafka: Mapping[str, str] = field(repr=False)
    store: Store
    layout: Layout = "iceberg"
    mode: Mode = "append"
    catalog: Mapping[str, str] = field(default_factory=dict, repr=False)
    terms: tuple[Term, ...] = ()
    formats: Mapping[str, str] = field(default_factory=dict, repr=False)
    columns: tuple[str, ...] = COLUMNS
    starting: Literal["earliest", "latest"] = "earliest"
    round_rows: int = LAKE_ROUND_ROWS
    file_bytes: int = LAKE_FILE_BYTES
    compression: str = "zstd"
    buckets: int = 16
    # Between two rounds that read all there is.
    interval_seconds: float = LAKE_ROUND_SECONDS
    fails_on_data_loss: bool = True
    # Whether a committer looks after the table between its rounds.
    maintenance: Maintenance = "auto"
    # False for a table that a query fills, or that is only read.
    has_topic: bool = True
    # Where tiered ranges are read from, as the options of a query.
    tier: Mapping[str, str] = field(default_factory=dict, repr=False)
    # The options as they were said, to be compared with what the table keeps.
    given: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)

    @property
    def namespace(self) -> str:
        return self.table.rpartition(".")[0] or "kaa"

    @property
    def name(self) -> str:
        return self.table.rpartition(".")[2]

    def source(self) -> dict[str, str]:
        """The options of the reader: what is committed, all columns that are kept."""
        wanted = list(self.columns)
        needed = ["partition", "offset"]
        if self.formats or self.mode == "upsert":
            # Bad records are kept whole in the dead-letter table.
            needed += ["topic", "timestamp", "key", "value"]
        wanted += [one for one in needed if one not in wanted]
        return {
            **{f"kafka.{name}": value for name, value in self.kafka.items()},
            "subscribe": self.topic,
            "isolationLevel": "read_committed",
            "failOnDataLoss": str(self.fails_on_data_loss).lower(),
            "columns": ",".join(wanted),
            **self.tier,
        }


_KNOWN: Final = {
    "topic", "table", "layout", "mode", "warehouse", "partitionBy", "columns", "startingOffsets",
    "maxRecordsPerRound", "targetFileBytes", "compression", "buckets", "failOnDataLoss",
    "intervalSeconds", "maintenance", *TIER,
}  # fmt: skip


def lake_settings(options: Mapping[str, Any], *, has_topic: bool = True) -> LakeSettings:
    """The settings from flat options: those above, `kafka.*`, `catalog.*`, `store.*` and the
    options of formats. Without a topic the table is named by `table` alone.
    """
    given = {name: str(value) for name, value in options.items() if value is not None}
    formats = {name.lower() for name in FORMAT_OPTIONS}
    unknown = [
        name
        for name in given
        if name not in _KNOWN
        and name.lower() not in formats
        and not name.startswith(("kafka.", "catalog.", "store.", STORE_PREFIX))
    ]
    if unknown:
        raise LakeError(f"unknown options of a table: {', '.join(sorted(unknown))}")
    topic = given.get("topic") or (_missing("topic") if has_topic else given.get("table", ""))
    layout = _choice(given, "layout", ("iceberg", "parquet"))
    mode = _choice(given, "mode", ("append", "upsert"))
    kafka = _prefixed(given, "kafka.")
    if has_topic and not kafka.get("bootstrap.servers"):
        _missing("kafka.bootstrap.servers")
    columns = _columns(given, mode)
    terms = parse_terms(given.get("partitionBy", ""))
    buckets = _integer(given, "buckets", 16)
    if mode == "upsert":
        if terms:
            raise LakeError("an upsert table is divided by key; partitionBy cannot be chosen")
        terms = parse_terms(f"bucket({buckets}, key)")
    starting = _choice(given, "startingOffsets", ("earliest", "latest"))
    return LakeSettings(
        topic=topic,
        table=given.get("table") or topic.replace(".", "_").replace("-", "_"),
        kafka=kafka,
        store=Store(
            given.get("warehouse", DEFAULT_WAREHOUSE),
            _prefixed(given, "store."),
        ),
        layout=layout,
        mode=mode,
        catalog=_prefixed(given, "catalog."),
        terms=terms,
        formats={name: value for name, value in given.items() if name.lower() in formats},
        columns=columns,
        starting=starting,
        round_rows=_integer(given, "maxRecordsPerRound", LAKE_ROUND_ROWS),
        file_bytes=_integer(given, "targetFileBytes", LAKE_FILE_BYTES),
        compression=given.get("compression", "zstd"),
        buckets=buckets,
        interval_seconds=_seconds(given, mode),
        fails_on_data_loss=given.get("failOnDataLoss", "true").lower() != "false",
        maintenance=_choice(given, "maintenance", ("auto", "off")),
        has_topic=has_topic,
        tier={
            name: value
            for name, value in given.items()
            if name in TIER or name.startswith(STORE_PREFIX)
        },
        given=given,
    )


def normal_columns(text: str, mode: str) -> tuple[str, ...]:
    """The columns of a list; a table with one row per key needs some."""
    columns = tuple(one.strip() for one in text.split(",") if one.strip())
    if mode == "upsert":
        columns = tuple(dict.fromkeys((*columns, *UPSERT_COLUMNS)))
    return columns


def _columns(given: Mapping[str, str], mode: str) -> tuple[str, ...]:
    """The columns of records that the table keeps; a value that is decoded need not stay raw."""
    if "columns" in given:
        columns = normal_columns(given["columns"], mode)
    else:
        decoded = {
            side for side in ("key", "value")
            if any(name.lower() == f"{side}format" for name in given)
        }  # fmt: skip
        kept = [one for one in COLUMNS if one not in decoded]
        columns = normal_columns(",".join(kept), mode)
    wrong = [one for one in columns if one not in COLUMNS]
    if wrong:
        raise LakeError(f"no column of a record: {', '.join(wrong)}; {', '.join(COLUMNS)} are")
    return columns


def _missing(name: str) -> str:
    raise LakeError(f"a table needs the option {name}")


def _prefixed(given: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {
        name.removeprefix(prefix): value for name, value in given.items() if name.startswith(prefix)
    }


def _choice(given: Mapping[str, str], name: str, choices: tuple[str, ...]) -> Any:
    value = given.get(name, choices[0])
    if value not in choices:
        raise LakeError(f"{name} is {' or '.join(choices)}, not {value!r}")
    return value


def _integer(given: Mapping[str, str], name: str, default: int) -> int:
    text = given.get(name, str(default))
    if not text.isdecimal() or int(text) < 1:
        raise LakeError(f"{name} is a number above 0, not {text!r}")
    return int(text)


def _seconds(given: Mapping[str, str], mode: str) -> float:
    default = LAKE_UPSERT_ROUND_SECONDS if mode == "upsert" else LAKE_ROUND_SECONDS
    text = given.get("intervalSeconds", str(default))
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise LakeError(f"intervalSeconds is a number of seconds, not {text!r}")
    return seconds


__all__ = ["COLUMNS", "STORE_OPTIONS", "LakeSettings", "Layout", "Mode", "lake_settings"]
