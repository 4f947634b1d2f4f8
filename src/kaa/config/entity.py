"""Settings of client metrics subscriptions, users, clients and IP addresses."""

import re
from collections.abc import Iterator, Mapping

from kaa.config.definition import (
    ConfigDef,
    ConfigProblem,
    ConfigValues,
    InvalidConfigError,
)
from kaa.config.tables.entity import CLIENT_METRICS_KEYS, IP_KEYS, USER_KEYS
from kaa.config.values import ConfigError, shown, trimmed

CLIENT_METRICS = ConfigDef("client metrics", CLIENT_METRICS_KEYS)
USER = ConfigDef("user and client", USER_KEYS)
IP = ConfigDef("IP address", IP_KEYS)

_INTERVAL_MS_MIN = 100
_INTERVAL_MS_MAX = 3_600_000
_MATCHED = frozenset(
    {
        "client_id",
        "client_instance_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)


def validate_client_metrics(overrides: Mapping[str, str]) -> ConfigValues:
    """Checks the whole set of settings a metrics subscription is about to have."""
    for name in overrides:
        if name not in CLIENT_METRICS:
            raise ConfigError(f"Unknown client metrics configuration: {name}")
    values = CLIENT_METRICS.parse(overrides)
    problems = list(_client_metrics_problems(values))
    if problems:
        raise InvalidConfigError(problems)
    return values


def _client_metrics_problems(values: ConfigValues) -> Iterator[ConfigProblem]:
    interval_ms = values.get_int("interval.ms")
    if not _INTERVAL_MS_MIN <= interval_ms <= _INTERVAL_MS_MAX:
        yield ConfigProblem(
            "interval.ms",
            f"Invalid value {interval_ms} for interval.ms, it must lie between "
            f"{_INTERVAL_MS_MIN} and {_INTERVAL_MS_MAX}",
        )
    for entry in values.get_list("match"):
        if not _is_match(entry):
            yield ConfigProblem(
                "match",
                f"Illegal client matching pattern: {shown(entry)}. Write name=pattern with one of "
                f"the names {', '.join(sorted(_MATCHED))}.",
            )


def _is_match(entry: str) -> bool:
    """Whether an entry is `name=pattern` with a known name and a pattern that compiles."""
    parts = entry.rstrip("=").split("=")
    if len(parts) != 2 or trimmed(parts[0]) not in _MATCHED:
        return False
    try:
        re.compile(trimmed(parts[1]))
    except (re.error, OverflowError, RecursionError):
        return False
    return True
