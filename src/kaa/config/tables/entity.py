"""Settings of client metrics subscriptions, users, clients and IP addresses."""

from kaa.config.tables.vocabulary import (
    ANY_LIST,
    DOUBLE,
    INT,
    INT_MAX,
    LIST,
    LONG,
    LONG_MAX,
    MEDIUM,
    STRING,
    at_least,
    key,
)

# fmt: off
CLIENT_METRICS_KEYS = (
    key("metrics", LIST, (), MEDIUM,
        "Prefixes of the metrics that matching clients push; `*` asks for all of them, an empty "
        "list for none.",
        ANY_LIST),
    key("interval.ms", INT, 300_000, MEDIUM,
        "Pause between two pushes of a client, from 100 ms to one hour."),
    key("match", LIST, (), MEDIUM,
        "Which clients are asked, as name=pattern entries that must all match; names are "
        "client_instance_id, client_id, client_software_name, client_software_version, "
        "client_source_address and client_source_port. Empty means every client.",
        ANY_LIST),
)
# fmt: on

# fmt: off
USER_KEYS = (
    key("SCRAM-SHA-256", STRING, None, MEDIUM,
        "Stored SCRAM-SHA-256 credential of the user."),
    key("SCRAM-SHA-512", STRING, None, MEDIUM,
        "Stored SCRAM-SHA-512 credential of the user."),
    key("consumer_byte_rate", LONG, LONG_MAX, MEDIUM,
        "Bytes per second that the user or client may fetch."),
    key("producer_byte_rate", LONG, LONG_MAX, MEDIUM,
        "Bytes per second that the user or client may produce."),
    key("request_percentage", DOUBLE, float(INT_MAX), MEDIUM,
        "Share of request handling time that the user or client may take, in percent of one "
        "thread."),
    key("controller_mutation_rate", DOUBLE, float(INT_MAX), MEDIUM,
        "Partitions per second that the user or client may create, add or delete."),
)
# fmt: on

# fmt: off
IP_KEYS = (
    key("connection_creation_rate", INT, INT_MAX, MEDIUM,
        "Connections per second that one IP address may open.",
        at_least(0)),
)
# fmt: on
