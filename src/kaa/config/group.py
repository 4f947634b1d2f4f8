"""The settings of a group: defaults and bounds come from the broker.

Each group setting has its default in the broker setting of the same name with `group.` in front,
except three of share groups. Many also have a lower and an upper bound among the broker's settings.
A change outside the bounds is refused; a stored value that lies outside, because the bounds moved
later, counts as the nearest bound.
"""

from collections.abc import Iterator, Mapping

from kaa.config.definition import (
    ConfigDef,
    ConfigProblem,
    ConfigValues,
    InvalidConfigError,
)
from kaa.config.tables.group import KEYS
from kaa.config.values import ConfigError, ConfigValue

GROUP = ConfigDef("group", KEYS)

_WITHOUT_SYNONYM = frozenset(
    {"share.auto.offset.reset", "share.isolation.level", "share.renew.acknowledge.enable"}
)

# Group setting -> the broker setting that gives its default.
BROKER_SYNONYMS: dict[str, str] = {
    key.name: f"group.{key.name}" for key in GROUP if key.name not in _WITHOUT_SYNONYM
}

# Group setting -> the broker settings that bound it from below and above.
_BOUNDS: dict[str, tuple[str | None, str]] = {
    **{
        f"{kind}.{what}": (f"group.{kind}.min.{what}", f"group.{kind}.max.{what}")
        for kind in ("consumer", "share", "streams")
        for what in ("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms")
    },
    **{
        f"share.{what}": (f"group.share.min.{what}", f"group.share.max.{what}")
        for what in (
            "record.lock.duration.ms",
            "delivery.count.limit",
            "partition.max.record.locks",
        )
    },
    "streams.num.standby.replicas": (None, "group.streams.max.standby.replicas"),
}


def group_defaults(broker: ConfigValues) -> dict[str, ConfigValue]:
    """What a group without settings of its own gets from its broker."""
    return {name: broker.value(synonym) for name, synonym in BROKER_SYNONYMS.items()}


def validate_group(broker: ConfigValues, overrides: Mapping[str, str]) -> ConfigValues:
    """Checks the whole set of overrides a group is about to have."""
    for name in overrides:
        if name not in GROUP:
            raise ConfigError(f"Unknown group config name: {name}")
    values = GROUP.parse(overrides, group_defaults(broker))
    problems = [*_bound_problems(broker, values, overrides), *_session_problems(values)]
    if problems:
        raise InvalidConfigError(problems)
    return values


def _bound_problems(
    broker: ConfigValues, values: ConfigValues, overrides: Mapping[str, str]
) -> Iterator[ConfigProblem]:
    for name, (lower, upper) in _BOUNDS.items():
        # The broker may change its own assignment intervals at run time, so only a group's are
        # checked.
        if name.endswith(".assignment.interval.ms") and name not in overrides:
            continue
        value = values.get_int(name)
        if lower is not None and value < broker.get_int(lower):
            message = f"{name} must be greater than or equal to {lower} ({broker.get_int(lower)})"
            yield ConfigProblem(name, message)
        elif value > broker.get_int(upper):
            message = f"{name} must be less than or equal to {upper} ({broker.get_int(upper)})"
            yield ConfigProblem(name, message)


def _session_problems(values: ConfigValues) -> Iterator[ConfigProblem]:
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if values.get_int(session) <= values.get_int(heartbeat):
            yield ConfigProblem(session, f"{session} must be greater than {heartbeat}")


def group_values(broker: ConfigValues, overrides: Mapping[str, str]) -> ConfigValues:
    """The settings a group works with: its own, moved within the broker's bounds, over the
    broker's.
    """
    values = GROUP.parse(overrides, group_defaults(broker)).as_dict()
    for name, (lower, upper) in _BOUNDS.items():
        value = values[name]
        if name in overrides and isinstance(value, int):
            low = value if lower is None else max(value, broker.get_int(lower))
            values[name] = low if low != value else min(value, broker.get_int(upper))
    return ConfigValues(values)
