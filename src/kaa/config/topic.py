"""The settings of a topic: where their defaults come from, and which combinations are refused.

A topic has its own settings (the overrides stored in the cluster) on top of the broker's. Almost
every topic setting has a synonym on the broker that gives its default; four of them have several,
and the first that is set counts:

| topic | broker, in order |
|---|---|
| `segment.ms` | `log.roll.ms`, `log.roll.hours` |
| `segment.jitter.ms` | `log.roll.jitter.ms`, `log.roll.jitter.hours` |
| `retention.ms` | `log.retention.ms`, `log.retention.minutes`, `log.retention.hours` |
| `flush.ms` | `log.flush.interval.ms`, `log.flush.scheduler.interval.ms` |
"""

from collections.abc import Iterator, Mapping

from kaa.config.definition import (
    ConfigDef,
    ConfigProblem,
    ConfigValues,
    InvalidConfigError,
)
from kaa.config.tables.topic import KEYS
from kaa.config.values import ConfigError, ConfigValue

TOPIC = ConfigDef("topic", KEYS)

_MINUTE_MS = 60_000
_HOUR_MS = 60 * _MINUTE_MS
_SAME_AS_TOTAL = -2

# Topic setting -> (broker setting, how many of the topic's units one of the broker's is), in order.
BROKER_SYNONYMS: dict[str, tuple[tuple[str, int], ...]] = {
    "segment.bytes": (("log.segment.bytes", 1),),
    "segment.ms": (("log.roll.ms", 1), ("log.roll.hours", _HOUR_MS)),
    "segment.jitter.ms": (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", _HOUR_MS)),
    "segment.index.bytes": (("log.index.size.max.bytes", 1),),
    "flush.messages": (("log.flush.interval.messages", 1),),
    "flush.ms": (("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)),
    "retention.bytes": (("log.retention.bytes", 1),),
    "retention.ms": (
        ("log.retention.ms", 1),
        ("log.retention.minutes", _MINUTE_MS),
        ("log.retention.hours", _HOUR_MS),
    ),
    "max.message.bytes": (("message.max.bytes", 1),),
    "index.interval.bytes": (("log.index.interval.bytes", 1),),
    "delete.retention.ms": (("log.cleaner.delete.retention.ms", 1),),
    "min.compaction.lag.ms": (("log.cleaner.min.compaction.lag.ms", 1),),
    "max.compaction.lag.ms": (("log.cleaner.max.compaction.lag.ms", 1),),
    "file.delete.delay.ms": (("log.segment.delete.delay.ms", 1),),
    "min.cleanable.dirty.ratio": (("log.cleaner.min.cleanable.ratio", 1),),
    "cleanup.policy": (("log.cleanup.policy", 1),),
    "unclean.leader.election.enable": (("unclean.leader.election.enable", 1),),
    "min.insync.replicas": (("min.insync.replicas", 1),),
    "compression.type": (("compression.type", 1),),
    "compression.gzip.level": (("compression.gzip.level", 1),),
    "compression.lz4.level": (("compression.lz4.level", 1),),
    "compression.zstd.level": (("compression.zstd.level", 1),),
    "preallocate": (("log.preallocate", 1),),
    "message.timestamp.type": (("log.message.timestamp.type", 1),),
    "message.timestamp.before.max.ms": (("log.message.timestamp.before.max.ms", 1),),
    "message.timestamp.after.max.ms": (("log.message.timestamp.after.max.ms", 1),),
    "local.retention.ms": (("log.local.retention.ms", 1),),
    "local.retention.bytes": (("log.local.retention.bytes", 1),),
}


def topic_defaults(broker: ConfigValues) -> dict[str, ConfigValue]:
    """What a topic without settings of its own gets from its broker."""
    return {name: topic_default(broker, name) for name in BROKER_SYNONYMS}


def topic_default(broker: ConfigValues, topic_name: str) -> ConfigValue:
    """What the broker gives for one topic setting: the first of its synonyms that is set."""
    for broker_name, factor in BROKER_SYNONYMS[topic_name]:
        value = broker.value(broker_name)
        if isinstance(value, int) and topic_name == "retention.ms":
            # However the broker writes "for ever", the topic says -1.
            return max(value * factor, -1)
        if value is not None:
            return value * factor if isinstance(value, int) and factor != 1 else value
    raise AssertionError(f"no broker setting gives {topic_name} a value")


def topic_values(broker: ConfigValues, overrides: Mapping[str, str]) -> ConfigValues:
    """The settings a topic works with, under Kafka's topic names: its own over the broker's.

    Names that are not topic settings are left out: another version of the cluster may have stored
    them.
    """
    return TOPIC.parse(overrides, topic_defaults(broker))


def validate_topic(
    broker: ConfigValues,
    overrides: Mapping[str, str],
    existing: Mapping[str, str] | None = None,
    *,
    remote_storage_enabled: bool = False,
) -> ConfigValues:
    """Checks the whole set of overrides a topic is about to have; `existing` are those it has
    now.
    """
    for name in overrides:
        if name not in TOPIC:
            raise ConfigError(f"Unknown topic config name: {name}")
    values = topic_values(broker, overrides)
    problems = [
        *compaction_problems(values, "min.compaction.lag.ms", "max.compaction.lag.ms"),
        *_remote_problems(values, existing or {}, remote_storage_enabled=remote_storage_enabled),
    ]
    if problems:
        raise InvalidConfigError(problems)
    return values


def compaction_problems(
    values: ConfigValues, min_name: str, max_name: str
) -> Iterator[ConfigProblem]:
    """A record cannot be due for compaction before it may be compacted."""
    min_lag_ms, max_lag_ms = values.get_int(min_name), values.get_int(max_name)
    if min_lag_ms > max_lag_ms:
        yield ConfigProblem(
            min_name, f"{min_name} ({min_lag_ms}) must not exceed {max_name} ({max_lag_ms})"
        )


def _remote_problems(
    values: ConfigValues, existing: Mapping[str, str], *, remote_storage_enabled: bool
) -> Iterator[ConfigProblem]:
    if not values.get_boolean("remote.storage.enable"):
        was_enabled = existing.get("remote.storage.enable", "").upper() == "TRUE"
        if was_enabled and not values.get_boolean("remote.log.delete.on.disable"):
            yield ConfigProblem(
                "remote.storage.enable",
                "remote.storage.enable cannot be turned off while remote data is kept. Set "
                "remote.log.delete.on.disable=true to delete it, or keep "
                "remote.storage.enable=true and set remote.log.copy.disable=true to stop copying.",
            )
        return
    if not remote_storage_enabled:
        yield ConfigProblem(
            "remote.storage.enable",
            "remote.storage.enable=true needs a broker with remote.log.storage.system.enable=true",
        )
    if values.get_list("cleanup.policy") not in {(), ("delete",)}:
        yield ConfigProblem(
            "cleanup.policy",
            "cleanup.policy must be delete or empty where remote.storage.enable is true",
        )
    copy_disabled = values.get_boolean("remote.log.copy.disable")
    for unit in ("bytes", "ms"):
        total = values.get_int(f"retention.{unit}")
        local = values.get_int(f"local.retention.{unit}")
        if local == _SAME_AS_TOTAL:
            continue
        if total > -1 and not -1 < local <= total:
            message = f"Value must not exceed retention.{unit} ({total}), and -1 exceeds it"
            problem = ConfigError.invalid(f"local.retention.{unit}", local, message)
            yield ConfigProblem(f"local.retention.{unit}", str(problem))
        elif copy_disabled and local != total:
            yield ConfigProblem(
                f"local.retention.{unit}",
                f"local.retention.{unit} must equal retention.{unit} ({total}) or be -2 while "
                "remote.log.copy.disable is true",
            )
