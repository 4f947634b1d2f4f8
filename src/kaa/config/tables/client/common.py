"""Client settings that producers, consumers and admin clients have in common."""

from kaa.config.tables.vocabulary import (
    ANY_LIST,
    INT,
    LIST,
    LONG,
    LOW,
    MEDIUM,
    STRING,
    at_least,
    key,
    one_of,
    one_of_any_case,
)

# fmt: off
COMMON_KEYS = (
    key("client.dns.lookup", STRING, "use_all_dns_ips", MEDIUM,
        "What a name in the bootstrap list stands for: `use_all_dns_ips` tries all its "
        "addresses in turn, `resolve_canonical_bootstrap_servers_only` replaces it by the names "
        "that these addresses have.",
        one_of("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")),
    key("metadata.max.age.ms", LONG, 300_000, LOW,
        "Age at which metadata is fetched again even if nothing asks for it, to see new brokers "
        "and partitions.",
        at_least(0)),
    key("metadata.recovery.strategy", STRING, "rebootstrap", LOW,
        "What to do when no known broker answers: `rebootstrap` starts again from the "
        "bootstrap list, `none` gives up.",
        one_of_any_case("REBOOTSTRAP", "NONE")),
    key("metadata.recovery.rebootstrap.trigger.ms", LONG, 300_000, LOW,
        "How long fetching metadata may fail before the client starts again from the bootstrap "
        "list.",
        at_least(0)),
    key("send.buffer.bytes", INT, 131_072, MEDIUM,
        "Kernel send buffer of each connection; -1 keeps the choice of the operating system.",
        at_least(-1)),
    key("reconnect.backoff.ms", LONG, 50, LOW,
        "First pause before connecting again to a broker that failed.",
        at_least(0)),
    key("reconnect.backoff.max.ms", LONG, 1000, LOW,
        "Upper bound of the growing pause before connecting again to a broker that keeps "
        "failing.",
        at_least(0)),
    key("retry.backoff.ms", LONG, 100, LOW,
        "First pause before a failed request is repeated.",
        at_least(0)),
    key("retry.backoff.max.ms", LONG, 1000, LOW,
        "Upper bound of the growing pause before a request that keeps failing is repeated.",
        at_least(0)),
    key("request.timeout.ms", INT, 30_000, MEDIUM,
        "How long the client waits for an answer before it takes the request as failed.",
        at_least(0)),
    key("socket.connection.setup.timeout.ms", LONG, 10_000, MEDIUM,
        "First time limit for opening a connection. It doubles with every failure in a row, up "
        "to `socket.connection.setup.timeout.max.ms`."),
    key("socket.connection.setup.timeout.max.ms", LONG, 30_000, MEDIUM,
        "Upper bound of the growing time limit for opening a connection."),
    key("security.protocol", STRING, "PLAINTEXT", MEDIUM,
        "How to talk to the brokers: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.",
        one_of_any_case("SASL_SSL", "PLAINTEXT", "SSL", "SASL_PLAINTEXT")),
    key("sasl.mechanism", STRING, "GSSAPI", MEDIUM,
        "SASL mechanism of this client, such as PLAIN, SCRAM-SHA-512 or OAUTHBEARER."),
    key("metric.reporters", LIST, ("org.apache.kafka.common.metrics.JmxReporter",), LOW,
        "Java classes that report metrics. Kaa loads no Java classes.",
        ANY_LIST),
    key("metrics.num.samples", INT, 2, LOW,
        "Samples kept for each average or rate.",
        at_least(1)),
    key("metrics.sample.window.ms", LONG, 30_000, LOW,
        "Length of one sample of a metric.",
        at_least(0)),
    key("metrics.recording.level", STRING, "INFO", LOW,
        "Least important sensors that are recorded: INFO, DEBUG or TRACE.",
        one_of("INFO", "DEBUG", "TRACE")),
    key("config.providers", LIST, (), LOW,
        "Names of providers that fill in ${name:path:key} references in settings.",
        ANY_LIST),
    key("security.providers", STRING, None, LOW,
        "Java classes that provide security algorithms. It means nothing outside a JVM."),
)
# fmt: on
