"""Admin settings."""

from kaa.config.tables.vocabulary import (
    ANY_LIST,
    BOOLEAN,
    HIGH,
    INT,
    INT_MAX,
    LIST,
    LONG,
    LOW,
    MEDIUM,
    STRING,
    at_least,
    between,
    key,
)

# fmt: off
KEYS = (
    key("bootstrap.servers", LIST, (), HIGH,
        "Brokers to ask first, as host:port entries. They only serve to find the cluster; a few "
        "are enough.",
        ANY_LIST),
    key("bootstrap.controllers", LIST, (), HIGH,
        "Controllers to ask first, as host:port entries, to administer the cluster without its "
        "brokers. Set this or `bootstrap.servers`, not both.",
        ANY_LIST),
    key("client.id", STRING, "", MEDIUM,
        "Name of this client in the logs, metrics and quotas of the broker."),
    key("receive.buffer.bytes", INT, 65_536, MEDIUM,
        "Kernel receive buffer of each connection; -1 keeps the choice of the operating system.",
        at_least(-1)),
    key("retries", INT, INT_MAX, LOW,
        "How often a failed request is repeated. The time limit of the call usually ends it "
        "first.",
        between(0, INT_MAX)),
    key("default.api.timeout.ms", INT, 60_000, MEDIUM,
        "Time limit of a call for which the caller gives none.",
        at_least(0)),
    key("connections.max.idle.ms", LONG, 300_000, MEDIUM,
        "A connection without traffic for this long is closed."),
    key("enable.metrics.push", BOOLEAN, False, LOW,
        "Whether this client pushes its metrics to brokers that ask for them."),
)
# fmt: on
