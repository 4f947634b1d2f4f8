"""Rules of a broker that tie several settings together. Each is checked only when its settings
parsed.

A rule is the names it reads and a generator of problems. Kafka stops at the first broken rule; here
all are reported, so that an operator edits once.
"""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from kaa.config.definition import ConfigProblem, ConfigValues
from kaa.config.directories import cordoned_problems, nesting_problems
from kaa.config.topic import compaction_problems, topic_default
from kaa.config.values import ConfigError, parse_pairs, shown

_CLEANER_BUFFER_BYTES_MIN = 1 << 20
_HOST = r"[0-9a-zA-Z\-%._:]*\Z"
_INTEGER = r"[+-]?[0-9]{1,10}\Z"
_CODECS = range(5)
_RECORDING_LEVELS = frozenset({"INFO", "DEBUG", "TRACE"})

# Names under which Kafka knows its own assignors, and what Kaa calls them.
CONSUMER_ASSIGNORS = {
    "uniform": "uniform",
    "range": "range",
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
}
SHARE_ASSIGNORS = {
    "simple": "simple",
    "org.apache.kafka.coordinator.group.assignor.SimpleAssignor": "simple",
}


class Rule(NamedTuple):
    """A check over the settings it names."""

    names: tuple[str, ...]
    problems: Callable[[ConfigValues], Iterator[ConfigProblem]]


def _at_most(smaller: str, larger: str) -> Rule:
    """One setting may not exceed another."""

    def problems(values: ConfigValues) -> Iterator[ConfigProblem]:
        if values.get_int(smaller) > values.get_int(larger):
            yield ConfigProblem(
                smaller,
                f"{smaller} ({values.get_int(smaller)}) must not exceed "
                f"{larger} ({values.get_int(larger)}): lower the first or raise the second.",
            )

    return Rule((smaller, larger), problems)


def _below(smaller: str, larger: str) -> Rule:
    """One setting must stay below another."""

    def problems(values: ConfigValues) -> Iterator[ConfigProblem]:
        if values.get_int(smaller) >= values.get_int(larger):
            yield ConfigProblem(
                smaller,
                f"{smaller} ({values.get_int(smaller)}) must be below "
                f"{larger} ({values.get_int(larger)}): lower the first or raise the second.",
            )

    return Rule((smaller, larger), problems)


def _bounded(value: str, lower: str, upper: str) -> tuple[Rule, Rule, Rule]:
    """A setting lies between two others, which are in order."""
    return _at_most(lower, upper), _at_most(lower, value), _at_most(value, upper)


def _group_rules() -> Iterator[Rule]:
    for kind in ("consumer", "share", "streams"):
        for what in ("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms"):
            lower, upper = f"group.{kind}.min.{what}", f"group.{kind}.max.{what}"
            yield from _bounded(f"group.{kind}.{what}", lower, upper)
        yield _below(f"group.{kind}.heartbeat.interval.ms", f"group.{kind}.session.timeout.ms")
    for what in ("delivery.count.limit", "partition.max.record.locks", "record.lock.duration.ms"):
        yield _at_most(f"group.share.min.{what}", f"group.share.{what}")
        yield _at_most(f"group.share.{what}", f"group.share.max.{what}")
    yield _at_most("group.share.max.size", "group.share.max.share.sessions")
    yield _at_most("group.streams.num.standby.replicas", "group.streams.max.standby.replicas")


def _node_id(values: ConfigValues) -> Iterator[ConfigProblem]:
    if values.get_int("node.id") != values.get_int("broker.id"):
        yield ConfigProblem(
            "broker.id",
            f"broker.id ({values.get_int('broker.id')}) must equal node.id "
            f"({values.get_int('node.id')}): remove broker.id.",
        )


def _roll_and_retention(values: ConfigValues) -> Iterator[ConfigProblem]:
    for topic_name, name, lowest in (
        ("segment.ms", "log.roll.ms", 1),
        ("segment.jitter.ms", "log.roll.jitter.ms", 0),
    ):
        value = topic_default(values, topic_name)
        assert isinstance(value, int)
        if value < lowest:
            yield ConfigProblem(name, f"{name} ({value}) must be at least {lowest}.")
    if topic_default(values, "retention.ms") == 0:
        yield ConfigProblem(
            "log.retention.ms",
            "Retention of 0 would delete everything: set log.retention.ms, .minutes or .hours to "
            "at least 1, or to -1 to keep records for ever.",
        )


def _compaction_lag(values: ConfigValues) -> Iterator[ConfigProblem]:
    prefix = "log.cleaner."
    return compaction_problems(
        values, f"{prefix}min.compaction.lag.ms", f"{prefix}max.compaction.lag.ms"
    )


def _cleaner_memory(values: ConfigValues) -> Iterator[ConfigProblem]:
    threads = values.get_int("log.cleaner.threads")
    if threads < 1:
        yield ConfigProblem("log.cleaner.threads", "log.cleaner.threads must be at least 1.")
    elif values.get_int("log.cleaner.dedupe.buffer.size") // threads <= _CLEANER_BUFFER_BYTES_MIN:
        yield ConfigProblem(
            "log.cleaner.dedupe.buffer.size",
            "log.cleaner.dedupe.buffer.size must be above "
            f"{threads * _CLEANER_BUFFER_BYTES_MIN}, 1 MiB for each of log.cleaner.threads.",
        )


def _queue_bytes(values: ConfigValues) -> Iterator[ConfigProblem]:
    queued = values.get_int("queued.max.request.bytes")
    largest = values.get_int("socket.request.max.bytes")
    if 0 < queued < largest:
        yield ConfigProblem(
            "queued.max.request.bytes",
            f"queued.max.request.bytes ({queued}) must be at least socket.request.max.bytes "
            f"({largest}), or -1.",
        )


def connection_overrides(values: ConfigValues) -> dict[str, int]:
    """`max.connections.per.ip.overrides` as host to count."""
    name = "max.connections.per.ip.overrides"
    overrides = {}
    for host, count in parse_pairs(name, values.get_string(name)).items():
        if not re.match(_HOST, host) or not re.match(_INTEGER, count):
            entry = shown(f"{host}:{count}")
            raise ConfigError(f"Cannot read the entry {entry} of {name}: write host:count pairs.")
        overrides[host] = int(count)
    return overrides


def _connections_per_ip(values: ConfigValues) -> Iterator[ConfigProblem]:
    try:
        overrides = connection_overrides(values)
    except ConfigError as error:
        yield ConfigProblem("max.connections.per.ip.overrides", str(error))
        return
    if values.get_int("max.connections.per.ip") == 0 and not overrides:
        yield ConfigProblem(
            "max.connections.per.ip",
            "max.connections.per.ip=0 refuses every connection: raise it, or name addresses in "
            "max.connections.per.ip.overrides.",
        )


def _authentication_delay(values: ConfigValues) -> Iterator[ConfigProblem]:
    name = "connection.failed.authentication.delay.ms"
    idle_ms = values.get_int("connections.max.idle.ms")
    if 0 <= idle_ms <= values.get_int(name):
        yield ConfigProblem(
            name,
            f"{name} ({values.get_int(name)}) must be below connections.max.idle.ms ({idle_ms}).",
        )


def _quorum(values: ConfigValues) -> Iterator[ConfigProblem]:
    voters = values.get_list("controller.quorum.voters")
    if not voters and not values.get_list("controller.quorum.bootstrap.servers"):
        yield ConfigProblem(
            "controller.quorum.bootstrap.servers",
            "Set controller.quorum.bootstrap.servers to the host:port of the controllers, or "
            "controller.quorum.voters to their id@host:port.",
        )
    node_id = values.get_int("node.id")
    is_named = node_id in {int(entry.partition("@")[0]) for entry in voters}
    if is_named and "controller" not in values.get_list("process.roles"):
        yield ConfigProblem(
            "controller.quorum.voters",
            f"controller.quorum.voters ({shown(','.join(voters))}) has the node.id {node_id} of "
            "this node, which is only a broker: give the node another id.",
        )
    elif voters and not is_named and "controller" in values.get_list("process.roles"):
        yield ConfigProblem(
            "controller.quorum.voters",
            f"controller.quorum.voters ({shown(','.join(voters))}) must have the node.id {node_id} "
            "of this controller.",
        )


def _codecs(values: ConfigValues) -> Iterator[ConfigProblem]:
    for name in (
        "offsets.topic.compression.codec",
        "share.coordinator.state.topic.compression.codec",
    ):
        if values.get_int(name) not in _CODECS:
            yield ConfigProblem(
                name,
                f"{name} ({values.get_int(name)}) must be 0 (none), 1 (gzip), 2 (snappy), 3 (lz4) "
                "or 4 (zstd).",
            )


def _recording_level(values: ConfigValues) -> Iterator[ConfigProblem]:
    if values.get_string("metrics.recording.level").upper() not in _RECORDING_LEVELS:
        yield ConfigProblem(
            "metrics.recording.level", "metrics.recording.level must be INFO, DEBUG or TRACE."
        )


def _group_protocols(values: ConfigValues) -> Iterator[ConfigProblem]:
    name = "group.coordinator.rebalance.protocols"
    if "classic" not in values.get_list(name):
        yield ConfigProblem(name, f"{name} must have classic, which cannot be turned off.")


def _assignors(values: ConfigValues) -> Iterator[ConfigProblem]:
    share = values.get_list("group.share.assignors")
    if len(share) != 1:
        yield ConfigProblem("group.share.assignors", "group.share.assignors must have one entry.")
    for name, known in (
        ("group.consumer.assignors", CONSUMER_ASSIGNORS),
        ("group.share.assignors", SHARE_ASSIGNORS),
    ):
        foreign = [entry for entry in values.get_list(name) if entry not in known]
        if foreign:
            choice = " and ".join(dict.fromkeys(known.values()))
            yield ConfigProblem(
                name,
                f"{name} has {shown(', '.join(foreign))}: this version has the built-in {choice}.",
            )


RULES: tuple[Rule, ...] = (
    Rule(("node.id", "broker.id"), _node_id),
    Rule(
        (
            "log.roll.ms",
            "log.roll.hours",
            "log.roll.jitter.ms",
            "log.roll.jitter.hours",
            "log.retention.ms",
            "log.retention.minutes",
            "log.retention.hours",
        ),
        _roll_and_retention,
    ),
    Rule(
        ("log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"),
        _compaction_lag,
    ),
    Rule(("log.cleaner.dedupe.buffer.size", "log.cleaner.threads"), _cleaner_memory),
    Rule(("cordoned.log.dirs", "log.dirs", "log.dir"), cordoned_problems),
    Rule(("log.dirs", "log.dir", "metadata.log.dir"), nesting_problems),
    _at_most("replica.fetch.wait.max.ms", "replica.socket.timeout.ms"),
    _at_most("replica.fetch.wait.max.ms", "replica.lag.time.max.ms"),
    Rule(("queued.max.request.bytes", "socket.request.max.bytes"), _queue_bytes),
    Rule(("max.connections.per.ip", "max.connections.per.ip.overrides"), _connections_per_ip),
    Rule(
        ("connection.failed.authentication.delay.ms", "connections.max.idle.ms"),
        _authentication_delay,
    ),
    Rule(
        (
            "process.roles",
            "node.id",
            "controller.quorum.voters",
            "controller.quorum.bootstrap.servers",
        ),
        _quorum,
    ),
    Rule(
        (
            "offsets.topic.compression.codec",
            "share.coordinator.state.topic.compression.codec",
        ),
        _codecs,
    ),
    Rule(("metrics.recording.level",), _recording_level),
    Rule(("group.coordinator.rebalance.protocols",), _group_protocols),
    Rule(("group.consumer.assignors", "group.share.assignors"), _assignors),
    *_group_rules(),
)


def rule_problems(values: ConfigValues) -> Iterator[ConfigProblem]:
    """Problems of every rule whose settings are all among the values."""
    for rule in RULES:
        if all(name in values for name in rule.names):
            yield from rule.problems(values)


def tied_to(name: str) -> frozenset[str]:
    """The settings that some rule reads together with this one, itself among them."""
    return frozenset({name}).union(*(rule.names for rule in RULES if name in rule.names))
