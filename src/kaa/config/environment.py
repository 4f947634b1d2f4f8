"""`KAFKA_*` environment variables as settings, by the rule of the Apache image.

The prefix goes, the rest becomes small letters, and then, in this order: every `_` becomes `.`,
every three dots become `-`, every two dots become `_`.

| variable | setting |
|---|---|
| `KAFKA_LOG_RETENTION_HOURS` | `log.retention.hours` |
| `KAFKA_LISTENER_NAME_MY__LISTENER_SSL_PROTOCOL` | `listener.name.my_listener.ssl.protocol` |
| `KAFKA_LISTENER_NAME_MY___LISTENER_SSL_PROTOCOL` | `listener.name.my-listener.ssl.protocol` |

Variables that steer the JVM or the image itself are skipped.
"""

from collections.abc import Mapping
from typing import NamedTuple

PREFIX = "KAFKA_"

RESERVED = frozenset(
    {
        "KAFKA_GC_LOG_OPTS",
        "KAFKA_HEAP_OPTS",
        "KAFKA_JMX_HOSTNAME",
        "KAFKA_JMX_OPTS",
        "KAFKA_JVM_PERFORMANCE_OPTS",
        "KAFKA_LOG4J_LOGGERS",
        "KAFKA_LOG4J_OPTS",
        "KAFKA_LOG4J_ROOT_LOGLEVEL",
        "KAFKA_OPTS",
        "KAFKA_TOOLS_LOG4J_LOGLEVEL",
        "KAFKA_VERSION",
    }
)


class EnvironmentSetting(NamedTuple):
    """A setting and the variable it came from."""

    name: str
    value: str
    variable: str


def setting_name(variable: str) -> str | None:
    """The setting a variable stands for; `None` when it stands for none."""
    if not variable.startswith(PREFIX) or variable in RESERVED:
        return None
    dotted = variable.removeprefix(PREFIX).lower().replace("_", ".")
    return dotted.replace("...", "-").replace("..", "_")


def environment_settings(environment: Mapping[str, str]) -> list[EnvironmentSetting]:
    """The settings in an environment, in the order of the variables' names."""
    settings = []
    for variable in sorted(environment):
        name = setting_name(variable)
        if name:
            settings.append(EnvironmentSetting(name, environment[variable], variable))
    return settings
