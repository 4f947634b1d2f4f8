"""Broker settings: listeners, connections, sockets and request queues."""

from kaa.config.tables.vocabulary import (
    ANY_LIST_OR_NULL,
    CLUSTER_WIDE,
    FILLED_LIST,
    FILLED_LIST_OR_NULL,
    HIGH,
    INT,
    INT_MAX,
    LIST,
    LONG,
    LOW,
    MEDIUM,
    PER_BROKER,
    STRING,
    at_least,
    key,
    one_of,
)

# fmt: off
KEYS = (
    key("listeners", LIST, ("PLAINTEXT://:9092",), HIGH,
        "Addresses on which this node accepts connections, as NAME://host:port entries. An "
        "empty host binds every interface, port 0 takes any free port, and each name and port "
        "may occur once (an IPv4 and an IPv6 address may share a port).",
        FILLED_LIST, update_mode=PER_BROKER),
    key("advertised.listeners", LIST, None, HIGH,
        "Addresses that clients and other nodes are given, when they differ from "
        "`listeners`. Only names from `listeners` may occur; 0.0.0.0 and :: are refused because "
        "nobody could connect to it.",
        FILLED_LIST_OR_NULL),
    key("listener.security.protocol.map", STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        LOW,
        "Security protocol of every listener name, as NAME:PROTOCOL pairs. While it is unset "
        "and no listener is named after TLS or SASL, controller listeners are taken as "
        "PLAINTEXT.",
        update_mode=PER_BROKER),
    key("inter.broker.listener.name", STRING, None, MEDIUM,
        "Listener over which brokers talk to each other. Unset, it is the listener named after "
        "`security.inter.broker.protocol`; only one of the two may be set."),
    key("security.inter.broker.protocol", STRING, "PLAINTEXT", MEDIUM,
        "Security protocol between brokers, used to pick the listener of the same name. Leave "
        "it unset when `inter.broker.listener.name` is set.",
        one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")),
    key("early.start.listeners", LIST, None, HIGH,
        "Listeners that accept connections before the authorizer is ready. Unset, these are the "
        "controller listeners; anyone else named here must be trusted by the network itself.",
        ANY_LIST_OR_NULL),
    key("socket.send.buffer.bytes", INT, 102_400, HIGH,
        "Kernel send buffer of each accepted connection. -1 keeps the choice of the operating "
        "system."),
    key("socket.receive.buffer.bytes", INT, 102_400, HIGH,
        "Kernel receive buffer of each accepted connection. -1 keeps the choice of the "
        "operating system."),
    key("socket.listen.backlog.size", INT, 50, MEDIUM,
        "How many connections the kernel may queue on a listener before they are accepted. The "
        "operating system may cap it (net.core.somaxconn on Linux).",
        at_least(1)),
    key("socket.request.max.bytes", INT, 104_857_600, HIGH,
        "Largest request a connection may send. A longer one closes the connection before any "
        "memory is set aside for it.",
        at_least(1)),
    key("socket.connection.setup.timeout.ms", LONG, 10_000, MEDIUM,
        "First time limit for opening a connection to another node. It doubles with every "
        "failure in a row, up to `socket.connection.setup.timeout.max.ms`."),
    key("socket.connection.setup.timeout.max.ms", LONG, 30_000, MEDIUM,
        "Upper bound of the growing time limit for opening a connection to another node."),
    key("max.connections", INT, INT_MAX, MEDIUM,
        "Connections this broker accepts at once over all listeners. When it is reached, the "
        "listener for brokers still gets in: the connection idle for longest makes room. A "
        "listener can have its own bound with the `listener.name.<name>.` prefix.",
        at_least(0), update_mode=CLUSTER_WIDE),
    key("max.connections.per.ip", INT, INT_MAX, MEDIUM,
        "Connections accepted from one IP address at once. Zero is allowed only when "
        "`max.connections.per.ip.overrides` grants some addresses more.",
        at_least(0), update_mode=CLUSTER_WIDE),
    key("max.connections.per.ip.overrides", STRING, "", MEDIUM,
        "Bounds for single addresses or host names that replace `max.connections.per.ip`, as "
        "host:count pairs, such as `127.0.0.1:200,backup.example:50`.",
        update_mode=CLUSTER_WIDE),
    key("max.connection.creation.rate", INT, INT_MAX, MEDIUM,
        "New connections accepted per second over the whole broker; more have to wait. A "
        "listener can have its own rate with the `listener.name.<name>.` prefix.",
        at_least(0), update_mode=CLUSTER_WIDE),
    key("connections.max.idle.ms", LONG, 600_000, MEDIUM,
        "A connection without traffic for this long is closed."),
    key("connection.failed.authentication.delay.ms", INT, 100, LOW,
        "How long a connection stays open, silent, after it failed to authenticate, so that "
        "guessing costs time. Must be below `connections.max.idle.ms`.",
        at_least(0)),
    key("num.network.threads", INT, 3, HIGH,
        "Threads that read and write sockets in Kafka. Kaa moves all bytes on one event loop, "
        "so the value is accepted and has no effect.",
        at_least(1), update_mode=CLUSTER_WIDE),
    key("num.io.threads", INT, 8, HIGH,
        "Threads that handle requests in Kafka. Kaa handles requests on its event loop and "
        "sizes its disk pools itself, so the value is accepted and has no effect.",
        at_least(1), update_mode=CLUSTER_WIDE),
    key("queued.max.requests", INT, 500, HIGH,
        "Requests that may wait for handling before reading from connections pauses.",
        at_least(1)),
    key("queued.max.request.bytes", LONG, -1, MEDIUM,
        "Bytes of requests that may wait for handling before reading from connections pauses. "
        "-1 sets no bound; otherwise at least `socket.request.max.bytes`."),
    key("request.timeout.ms", INT, 30_000, HIGH,
        "How long this node waits for the answer to a request it sent to another node before it "
        "gives up or tries again."),
)
# fmt: on
