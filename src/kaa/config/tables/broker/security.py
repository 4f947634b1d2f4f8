"""Broker settings: TLS, SASL and principals."""

from kaa.config.tables.security.sasl import SASL_KEYS
from kaa.config.tables.security.ssl import SSL_KEYS
from kaa.config.tables.vocabulary import (
    ANY_LIST,
    BOOLEAN,
    CLASS,
    HIGH,
    INT,
    LIST,
    LONG,
    LOW,
    MEDIUM,
    PER_BROKER,
    STRING,
    ConfigKey,
    key,
    one_of,
)

# fmt: off
OWN_KEYS = (
    key("security.providers", STRING, None, LOW,
        "Java classes that provide security algorithms. It means nothing outside a JVM."),
    key("principal.builder.class", CLASS,
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        MEDIUM,
        "Java class that turns a connection into a principal. Kaa has the rules of Kafka's own "
        "class and no other.",
        update_mode=PER_BROKER),
    key("connections.max.reauth.ms", LONG, 0, MEDIUM,
        "Longest session of a SASL connection; a client has to authenticate again before. 0 "
        "sets no bound."),
    key("sasl.server.max.receive.size", INT, 524_288, MEDIUM,
        "Largest SASL message accepted before a connection is authenticated."),
    key("sasl.mechanism.inter.broker.protocol", STRING, "GSSAPI", MEDIUM,
        "SASL mechanism between brokers; one of `sasl.enabled.mechanisms`.",
        update_mode=PER_BROKER),
    key("sasl.mechanism.controller.protocol", STRING, "GSSAPI", HIGH,
        "SASL mechanism between this node and the controllers."),
    key("sasl.enabled.mechanisms", LIST, ("GSSAPI",), MEDIUM,
        "SASL mechanisms that clients may use, such as SCRAM-SHA-512 or OAUTHBEARER.",
        ANY_LIST, update_mode=PER_BROKER),
    key("sasl.server.callback.handler.class", CLASS, None, MEDIUM,
        "Java class that checks SASL credentials. Kaa loads no Java classes."),
    key("sasl.kerberos.principal.to.local.rules", LIST, ("DEFAULT",), MEDIUM,
        "Rules that turn Kerberos principals into user names; the first that matches counts.",
        ANY_LIST, update_mode=PER_BROKER),
    key("ssl.client.auth", STRING, "none", MEDIUM,
        "Whether clients must show a certificate: `required`, `requested` or `none`.",
        one_of("required", "requested", "none"), update_mode=PER_BROKER),
    key("ssl.principal.mapping.rules", STRING, "DEFAULT", LOW,
        "Rules that turn the name in a client certificate into a user name; the first that "
        "matches counts, DEFAULT keeps the whole name."),
    key("ssl.allow.dn.changes", BOOLEAN, False, LOW,
        "Whether a key store loaded at run time may name another subject."),
    key("ssl.allow.san.changes", BOOLEAN, False, LOW,
        "Whether a key store loaded at run time may drop alternative names."),
)
# fmt: on

# On a broker these matter more than in a client, and Kafka checks no range for them there.
_MEDIUM_ON_BROKER = frozenset(
    {
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.ticket.renew.window.factor",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "ssl.cipher.suites",
        "ssl.key.password",
        "ssl.keymanager.algorithm",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.trustmanager.algorithm",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
    }
)
_SASL_PER_BROKER = ("sasl.jaas.config", "sasl.kerberos.", "sasl.login.refresh.")


def _on_broker(shared: ConfigKey) -> ConfigKey:
    """A shared setting as a broker has it."""
    per_broker = shared.name.startswith(("ssl.", *_SASL_PER_BROKER))
    refresh = shared.name.startswith("sasl.login.refresh.")
    return ConfigKey(
        shared.name,
        shared.type,
        shared.default,
        MEDIUM if shared.name in _MEDIUM_ON_BROKER else shared.importance,
        shared.documentation,
        None if refresh else shared.validator,
        PER_BROKER if per_broker else shared.update_mode,
    )


KEYS = (*OWN_KEYS, *map(_on_broker, SSL_KEYS), *map(_on_broker, SASL_KEYS))
