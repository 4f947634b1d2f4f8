"""Settings of Kafka that this version does not have, and what follows from that.

Ignoring a setting is honest only when nothing is lost by it. So there are three answers:

- what would weaken safety if ignored, or change what the cluster is, refuses the start
  (``refusals``);
- what only tunes Kafka's threads, JVM or plug-ins is accepted without effect (``INEFFECTIVE``);
- what Kafka itself has dropped is named, so that it can be deleted (``is_removed``).
"""

from collections.abc import Iterator

from kaa.config.addresses import SecurityProtocol
from kaa.config.definition import ConfigProblem, ConfigValues
from kaa.config.listeners import Listeners
from kaa.config.values import ConfigValue, shown, value_text

_DEFAULT_PRINCIPAL_BUILDER = (
    "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
)

# Name -> what does not exist yet. Set to anything but nothing, they refuse the start.
_REFUSED_WHEN_SET = {
    "authorizer.class.name": "an authorizer",
    "alter.config.policy.class.name": "policies for changes of settings",
    "create.topic.policy.class.name": "policies for new topics",
    "client.quota.callback.class": "quota plug-ins",
    "config.providers": "config providers",
}
_REFUSED_WHEN_TRUE = {
    "remote.log.storage.system.enable": "remote storage",
    "controller.quorum.auto.join.enable": "quorums that grow",
}

REFUSED_NAMES = (
    *_REFUSED_WHEN_SET,
    *_REFUSED_WHEN_TRUE,
    "principal.builder.class",
    "process.roles",
    "controller.quorum.voters",
    "controller.quorum.bootstrap.servers",
)
"""The settings that ``refusals`` reads."""

INEFFECTIVE = frozenset(
    {
        "background.threads",
        "delete.records.purgatory.purge.interval.requests",
        "fetch.purgatory.purge.interval.requests",
        "group.coordinator.background.threads",
        "group.coordinator.threads",
        "group.share.persister.class.name",
        "kafka.metrics.polling.interval.secs",
        "kafka.metrics.reporters",
        "metric.reporters",
        "num.io.threads",
        "num.network.threads",
        "producer.purgatory.purge.interval.requests",
        "security.providers",
        "share.coordinator.threads",
        "share.fetch.purgatory.purge.interval.requests",
        "ssl.engine.factory.class",
        "ssl.keymanager.algorithm",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
    }
)

_REMOVED_PREFIXES = ("zookeeper.", "password.encoder.")
_REMOVED = frozenset(
    {
        "advertised.host.name",
        "advertised.port",
        "auto.include.jmx.reporter",
        "broker.id.generation.enable",
        "control.plane.listener.name",
        "controlled.shutdown.max.retries",
        "controlled.shutdown.retry.backoff.ms",
        "delegation.token.master.key",
        "group.coordinator.new.enable",
        "host.name",
        "inter.broker.protocol.version",
        "leader.imbalance.per.broker.percentage",
        "log.message.downconversion.enable",
        "log.message.format.version",
        "log.message.timestamp.difference.max.ms",
        "offsets.commit.required.acks",
        "port",
        "quota.consumer.default",
        "quota.producer.default",
        "reserved.broker.max.id",
        "unstable.metadata.versions.enable",
    }
)


def is_removed(name: str) -> bool:
    """Whether older versions of Kafka had this setting and the pinned one does not."""
    return name in _REMOVED or name.startswith(_REMOVED_PREFIXES)


def refusals(values: ConfigValues) -> Iterator[ConfigProblem]:
    """What this version cannot honour and must not ignore, among the settings that parsed."""
    for name, missing in _REFUSED_WHEN_SET.items():
        if name in values and values.value(name):
            yield _refusal(name, values.value(name), missing)
    for name, missing in _REFUSED_WHEN_TRUE.items():
        if name in values and values.get_boolean(name):
            yield _refusal(name, True, missing)
    if "principal.builder.class" in values:
        builder = values.get_string("principal.builder.class")
        if builder != _DEFAULT_PRINCIPAL_BUILDER:
            missing = "principal builders other than Kafka's own"
            yield _refusal("principal.builder.class", builder, missing)
    if "process.roles" in values:
        roles = values.get_list("process.roles")
        if set(roles) != {"broker", "controller"}:
            missing = f"nodes with the role {', '.join(roles)} alone"
            yield _refusal("process.roles", roles, missing, "set broker,controller")
    for name in ("controller.quorum.voters", "controller.quorum.bootstrap.servers"):
        if name in values and len(values.get_list(name)) > 1:
            yield _refusal(name, values.get_list(name), "several controllers", "name this one")


def listener_refusals(listeners: Listeners) -> Iterator[ConfigProblem]:
    """Listeners that would be open to everyone if their security were ignored."""
    secured = [
        f"{endpoint.listener} ({endpoint.security_protocol.value})"
        for endpoint in listeners.all
        if endpoint.security_protocol is not SecurityProtocol.PLAINTEXT
    ]
    if secured:
        yield ConfigProblem(
            "listeners",
            f"The listeners {', '.join(secured)} use TLS or SASL, which this version of Kaa does "
            "not have yet. Use PLAINTEXT in a network that you trust, or remove them.",
        )


def _refusal(
    name: str, value: ConfigValue, missing: str, remedy: str = "remove the setting to run without"
) -> ConfigProblem:
    return ConfigProblem(
        name,
        f"{name}={shown(value_text(value))}: this version of Kaa does not have {missing} yet, so "
        f"it refuses to start; {remedy}.",
    )
