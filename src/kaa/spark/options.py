"""What a user may say about a source or a sink, checked before any broker is asked.

Names are those of Spark's connector for Kafka and are not case-sensitive. `kafka.*` goes to the
client with the names of Java's clients. Options of our own:

- `columns`: the columns to read, separated by commas (default: all).
- `isolationLevel`: `read_committed` or `read_uncommitted` (default: the latter).
- `maxBytesPerTrigger`: about so many stored bytes per batch of a stream (default: none).
- `startingOffsets`: also `group:<id>`: where a consumer group has got to.
- `groupFallback`: `earliest`, `latest` or `error`: partitions that the group has no
  offset of (default: error).
- `commitGroup`: progress is published as the offsets of this group (default: none).
- `localFiles`: closed segments are read from the broker's files, where they are on this machine
  (default: false).
- `tier`: `auto`: what is tiered is read from the store, the rest from brokers; `only` the store;
  `never` (default: auto).
- `tierStore`: the store of tiered segments, as a broker's `rsm.config.url` (default: none).
- `tierStore.*`: its settings, without secrets.
- `tierStoreFile`: a file on every machine with all that, and secrets (default: none).
- `exactlyOnce`: sink: rows are written in transactions (default: false).
- `transactionalIdPrefix`: sink: what names of transactions begin with (default: kaa-spark).
- `transactionTimeoutMs`: sink: how long a transaction may stay open (default: 900000).
- `txnAppId`, `txnVersion`: sink: a batch write with this pair is done once.

Where several options say where to begin, `startingTimestamp` is stronger than
`startingOffsetsByTimestamp`, and that is stronger than `startingOffsets`; likewise for the end.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from kaa.limits import SPARK_FETCH_BYTES
from kaa.spark.errors import OptionError
from kaa.spark.offsets import (
    EARLIEST,
    LATEST,
    parse_partition_numbers,
    parse_partitions,
)
from kaa.spark.option_names import FORMAT_OPTIONS, SINK, SOURCE, check_names
from kaa.spark.schema import columns_of
from kaa.spark.tier.stores import STORE_PREFIX, store_reference

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kaa.model.topics import TopicPartition
    from kaa.spark.offsets import (
        PartitionOffsets,
    )
    from kaa.spark.tier.stores import StoreReference

KAFKA: Final = "kafka."
BOOTSTRAP_SERVERS: Final = "bootstrap.servers"
_STRATEGIES: Final = ("assign", "subscribe", "subscribepattern")
_REFUSED_FOR_SOURCE: Final = {
    "auto.offset.reset": "use startingOffsets, which decides where a new query begins",
    "key.deserializer": "keys are always bytes; use DataFrame operations to read them",
    "value.deserializer": "values are always bytes; use DataFrame operations to read them",
    "enable.auto.commit": "offsets are kept in the checkpoint; commitGroup publishes them",
    "interceptor.classes": "there are no Java classes here",
}
_REFUSED_FOR_SINK: Final = {
    "key.serializer": "keys are strings or bytes; use DataFrame operations to make them",
    "value.serializer": "values are strings or bytes; use DataFrame operations to make them",
    "transactional.id": "use exactlyOnce=true, which names its transactions itself",
}
_ENDS: Final = ("endingtimestamp", "endingoffsetsbytimestamp", "endingoffsets")
_STREAM_ONLY: Final = (
    "maxoffsetspertrigger",
    "minoffsetspertrigger",
    "maxbytespertrigger",
    "commitgroup",
)
_UNITS_MS: Final = {
    "us": 0.001,
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}


class ClientSettings(dict[str, str]):
    """Settings of the client by Kafka's names. They may hold secrets, so they are never shown."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"ClientSettings({BOOTSTRAP_SERVERS}={self.get(BOOTSTRAP_SERVERS)!r}, ...)"

    __str__ = __repr__


@dataclass(frozen=True, slots=True)
class Topics:
    """Which partitions a query reads; exactly one of the three is given."""

    assigned: tuple[TopicPartition, ...] | None = None
    names: tuple[str, ...] | None = None
    pattern: str | None = None


@dataclass(frozen=True, slots=True)
class Bound:
    """Where a query begins or ends; exactly one of these is given.

    `offset` is EARLIEST or LATEST for all partitions, `offsets` has one for each.
    """

    offset: int | None = None
    offsets: PartitionOffsets | None = None
    timestamp_ms: int | None = None
    timestamps_ms: PartitionOffsets | None = None
    group: str | None = None
    option: str = ""


@dataclass(frozen=True, slots=True)
class TierOptions:
    """Where tiered ranges are read, and whether brokers are asked for the rest."""

    store: StoreReference
    is_only: bool


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Everything about a query that reads."""

    settings: ClientSettings
    topics: Topics
    start: Bound
    end: Bound
    columns: tuple[str, ...]
    fails_on_data_loss: bool
    is_read_committed: bool
    timestamp_strategy: Literal["error", "latest"]
    group_fallback: Literal["earliest", "latest", "error"]
    commit_group: str | None
    reads_local_files: bool
    # None where brokers alone are asked.
    tier: TierOptions | None
    min_partitions: int | None
    max_records_per_partition: int | None
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    max_bytes_per_trigger: int | None
    poll_timeout_ms: int
    offset_retries: int
    offset_retry_interval_ms: int
    metadata_ttl_ms: int
    fetch_bytes: int
    checks_crcs: bool
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Everything about a query that writes."""

    settings: ClientSettings
    topic: str | None
    is_exactly_once: bool
    transactional_id_prefix: str
    transaction_timeout_ms: int
    application_id: str | None
    application_version: int | None
    checkpoint_location: str | None
    warnings: tuple[str, ...] = ()


class _Given:
    """The options of a user by small letters, read by type."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = {name.lower(): value for name, value in options.items()}

    def names(self) -> Sequence[str]:
        return tuple(self._options)

    def text(self, name: str) -> str | None:
        value = self._options.get(name.lower())
        return None if value is None else value.strip()

    def integer(self, name: str, *, low: int | None = None) -> int | None:
        text = self.text(name)
        if text is None:
            return None
        try:
            number = int(text)
        except ValueError:
            raise OptionError(f"option {name}: {text!r} is not a whole number") from None
        if low is not None and number < low:
            raise OptionError(f"option {name} must be at least {low}, it is {number}")
        return number

    def flag(self, name: str, default: bool) -> bool:
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in {"true", "false"}:
            raise OptionError(f"option {name} must be true or false, it is {text!r}")
        return text.lower() == "true"

    def choice(self, name: str, choices: Sequence[str], default: str) -> str:
        text = (self.text(name) or default).lower()
        if text not in choices:
            raise OptionError(f"option {name} must be one of {', '.join(choices)}, it is {text!r}")
        return text

    def settings(self, refused: Mapping[str, str]) -> ClientSettings:
        settings = ClientSettings(
            {
                name.removeprefix(KAFKA): value
                for name, value in self._options.items()
                if name.startswith(KAFKA)
            }
        )
        for name, advice in refused.items():
            if name in settings:
                raise OptionError(f"option kafka.{name} is not supported: {advice}")
        if not settings.get(BOOTSTRAP_SERVERS, "").strip():
            raise OptionError(
                "option kafka.bootstrap.servers must be given, for example localhost:9092"
            )
        return settings


def source_options(options: Mapping[str, str], *, is_stream: bool) -> SourceOptions:
    """The options of a query that reads; raises OptionError."""
    given = _Given(options)
    notes = check_names(options, (*SOURCE, *FORMAT_OPTIONS), (STORE_PREFIX,))
    settings = given.settings(_REFUSED_FOR_SOURCE)
    isolation_level = _isolation_level(given, settings)
    start = _start(given, is_stream=is_stream)
    if is_stream:
        for name in _ENDS:
            if given.text(name) is not None:
                raise OptionError(f"option {name} is not valid in streaming queries")
    end = Bound(offset=LATEST) if is_stream else _end(given)
    least, most = (
        given.integer(name, low=1) for name in ("minOffsetsPerTrigger", "maxOffsetsPerTrigger")
    )
    if least is not None and most is not None and least > most:
        raise OptionError(
            f"option minOffsetsPerTrigger ({least}) is higher than maxOffsetsPerTrigger ({most})"
        )
    max_bytes = given.integer("maxBytesPerTrigger", low=1)
    poll_timeout_ms = given.integer("kafkaConsumer.pollTimeoutMs", low=0)
    metadata_ttl_ms = given.integer("partition.metadata.cache.ttl.ms", low=-1)
    retries = given.integer("fetchOffset.numRetries", low=0)
    interval_ms = given.integer("fetchOffset.retryIntervalMs", low=0)
    return SourceOptions(
        settings=settings,
        topics=_topics(given),
        start=start,
        end=end,
        columns=columns_of(
            given.text("columns"), include_headers=given.flag("includeHeaders", default=False)
        ),
        fails_on_data_loss=given.flag("failOnDataLoss", default=True),
        is_read_committed=isolation_level == "read_committed",
        timestamp_strategy=given.choice(  # type: ignore[arg-type]  # It is one of these two.
            "startingOffsetsByTimestampStrategy", ("error", "latest"), "error"
        ),
        group_fallback=given.choice(  # type: ignore[arg-type]  # It is one of these three.
            "groupFallback", ("earliest", "latest", "error"), "error"
        ),
        commit_group=_name(given, "commitGroup") if is_stream else None,
        reads_local_files=given.flag("localFiles", default=False),
        tier=_tier(given),
        min_partitions=given.integer("minPartitions", low=1),
        max_records_per_partition=given.integer("maxRecordsPerPartition", low=1),
        max_offsets_per_trigger=most,
        min_offsets_per_trigger=least,
        max_trigger_delay_ms=duration_ms("maxTriggerDelay", given.text("maxTriggerDelay") or "15m"),
        max_bytes_per_trigger=max_bytes,
        poll_timeout_ms=120_000 if poll_timeout_ms is None else poll_timeout_ms,
        offset_retries=3 if retries is None else retries,
        offset_retry_interval_ms=10 if interval_ms is None else interval_ms,
        metadata_ttl_ms=-1 if metadata_ttl_ms is None else metadata_ttl_ms,
        fetch_bytes=given.integer("kafka.max.partition.fetch.bytes", low=1) or SPARK_FETCH_BYTES,
        checks_crcs=given.flag("kafka.check.crcs", default=True),
        warnings=(*notes, *_without_effect(given, is_stream=is_stream)),
    )


def _tier(given: _Given) -> TierOptions | None:
    mode = given.choice("tier", ("auto", "only", "never"), "auto")
    small = STORE_PREFIX.lower()
    settings = {
        name.removeprefix(small): given.text(name) or ""
        for name in given.names()
        if name.startswith(small)
    }
    store = store_reference(_name(given, "tierStore"), settings, _name(given, "tierStoreFile"))
    if store is None and mode == "only":
        raise OptionError("option tier=only needs tierStore or tierStoreFile")
    return None if store is None or mode == "never" else TierOptions(store, mode == "only")


def _without_effect(given: _Given, *, is_stream: bool) -> list[str]:
    if is_stream:
        return []
    return [
        f"option {name} has no effect on a batch query"
        for name in _STREAM_ONLY
        if given.text(name) is not None
    ]


def sink_options(options: Mapping[str, str]) -> SinkOptions:
    """The options of a query that writes; raises OptionError."""
    given = _Given(options)
    notes = check_names(options, SINK)
    settings = given.settings(_REFUSED_FOR_SINK)
    application_id = _name(given, "txnAppId")
    application_version = given.integer("txnVersion", low=0)
    if (application_id is None) != (application_version is None):
        raise OptionError("options txnAppId and txnVersion must be given together")
    is_exactly_once = given.flag("exactlyOnce", default=False)
    if application_id is not None and not is_exactly_once:
        raise OptionError("options txnAppId and txnVersion need exactlyOnce=true")
    timeout_ms = given.integer("transactionTimeoutMs", low=1000)
    return SinkOptions(
        settings=settings,
        topic=_name(given, "topic"),
        is_exactly_once=is_exactly_once,
        transactional_id_prefix=_name(given, "transactionalIdPrefix") or "kaa-spark",
        transaction_timeout_ms=900_000 if timeout_ms is None else timeout_ms,
        application_id=application_id,
        application_version=application_version,
        checkpoint_location=given.text("checkpointLocation"),
        warnings=tuple(notes),
    )


def duration_ms(option: str, text: str) -> int:
    """Milliseconds of a time such as `15m`, as Spark writes times; plain numbers are ms."""
    match = re.fullmatch(r"(\d+)\s*([a-z]*)", text.strip().lower())
    unit = _UNITS_MS.get(match[2] or "ms") if match else None
    if match is None or unit is None:
        raise OptionError(f"option {option}: {text!r} is not a time; write it as 90s, 15m or 1h")
    return int(int(match[1]) * unit)


def _name(given: _Given, option: str) -> str | None:
    text = given.text(option)
    if text == "":
        raise OptionError(f"option {option} is empty")
    return text


def _topics(given: _Given) -> Topics:
    named = [name for name in _STRATEGIES if given.text(name) is not None]
    if not named:
        raise OptionError("one of the options subscribe, subscribePattern, assign must be given")
    if len(named) > 1:
        raise OptionError(
            "only one of the options subscribe, subscribePattern, assign may be given, "
            f"these are: {', '.join(named)}"
        )
    text = given.text(named[0]) or ""
    if named[0] == "assign":
        if not text.startswith("{"):
            raise OptionError(
                f"option assign names no partitions: {text!r}; "
                'write for example {"topicA":[0,1],"topicB":[2]}'
            )
        return Topics(assigned=tuple(parse_partitions("assign", text)))
    if named[0] == "subscribe":
        names = tuple(dict.fromkeys(one.strip() for one in text.split(",") if one.strip()))
        if not names:
            raise OptionError(f"option subscribe names no topics: {text!r}")
        return Topics(names=names)
    if not text:
        raise OptionError("option subscribePattern is empty")
    try:
        re.compile(text)
    except re.error as error:
        raise OptionError(f"option subscribePattern: {text!r} is not a pattern: {error}") from error
    return Topics(pattern=text)


def _start(given: _Given, *, is_stream: bool) -> Bound:
    bound = _bound(given, "starting", LATEST if is_stream else EARLIEST)
    if not is_stream and bound.option == "startingOffsets":
        if bound.offset == LATEST:
            raise OptionError("option startingOffsets cannot be latest in a batch query")
        _refuse(bound, LATEST, "latest")
    return bound


def _end(given: _Given) -> Bound:
    bound = _bound(given, "ending", LATEST)
    if bound.group is not None:
        raise OptionError("option endingOffsets cannot be a group")
    if bound.offset == EARLIEST:
        raise OptionError("option endingOffsets cannot be earliest")
    _refuse(bound, EARLIEST, "earliest")
    return bound


def _refuse(bound: Bound, offset: int, word: str) -> None:
    for partition, number in (bound.offsets or {}).items():
        if number == offset:
            raise OptionError(f"option {bound.option} for {partition} cannot be {word} ({offset})")


def _bound(given: _Given, side: str, default: int) -> Bound:
    option = f"{side}Timestamp"
    timestamp_ms = given.integer(option)
    if timestamp_ms is not None:
        if timestamp_ms < 0:
            raise OptionError(f"option {option} must be at least 0, it is {timestamp_ms}")
        return Bound(timestamp_ms=timestamp_ms, option=option)
    option = f"{side}OffsetsByTimestamp"
    text = given.text(option)
    if text is not None:
        times = parse_partition_numbers(option, text)
        if any(time < 0 for time in times.values()):
            raise OptionError(f"option {option} has a negative time: {text}")
        return Bound(timestamps_ms=times, option=option)
    option = f"{side}Offsets"
    text = given.text(option)
    if text is None:
        return Bound(offset=default)
    if text.lower() in {"earliest", "latest"}:
        return Bound(offset=EARLIEST if text.lower() == "earliest" else LATEST, option=option)
    if text.startswith("group:"):
        group = text.removeprefix("group:").strip()
        if not group:
            raise OptionError(f"option {option} names no group; write group:<id>")
        return Bound(group=group, option=option)
    offsets = parse_partition_numbers(option, text)
    if any(offset < EARLIEST for offset in offsets.values()):
        raise OptionError(f"option {option} has an offset below {EARLIEST}: {text}")
    return Bound(offsets=offsets, option=option)


def _isolation_level(given: _Given, settings: ClientSettings) -> str:
    choices = ("read_uncommitted", "read_committed")
    own = given.text("isolationLevel")
    passed = settings.get("isolation.level")
    if own is not None and passed is not None and own.lower() != passed.lower():
        raise OptionError(
            f"options isolationLevel ({own}) and kafka.isolation.level ({passed}) differ"
        )
    level = given.choice(
        "isolationLevel" if own is not None else "kafka.isolation.level", choices, choices[0]
    )
    settings["isolation.level"] = level
    return level
