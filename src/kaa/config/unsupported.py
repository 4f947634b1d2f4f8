"""Settings of Kafka that this version does not have, and what follows from that.

Ignoring a setting is honest only when nothing is lost by it. So there are four answers:

- what would weaken safety if ignored, or change what the cluster is, refuses the start
  (``refusals``);
- what only tunes Kafka's threads, JVM or plug-ins is accepted without effect (``INEFFECTIVE``);
- what belongs to a part that does not exist yet is accepted with a warning (``is_missing``);
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
        "controller.performance.always.log.threshold.ms",
        "controller.performance.sample.period.ms",
        "controller.quorum.append.linger.ms",
        "delete.records.purgatory.purge.interval.requests",
        "fetch.purgatory.purge.interval.requests",
        "group.coordinator.background.threads",
        "group.coordinator.cached.buffer.max.bytes",
        "group.coordinator.threads",
        "group.share.persister.class.name",
        "initial.broker.registration.timeout.ms",
        "internal.metadata.delete.delay.millis",
        "internal.metadata.log.segment.bytes",
        "internal.metadata.max.batch.size.in.bytes",
        "kafka.metrics.polling.interval.secs",
        "kafka.metrics.reporters",
        "log.cleaner.io.buffer.size",
        "log.cleaner.threads",
        "log.dir.failure.timeout.ms",
        "log.initial.task.delay.ms",
        "metric.reporters",
        "num.io.threads",
        "num.network.threads",
        "num.recovery.threads.per.data.dir",
        "producer.purgatory.purge.interval.requests",
        "queued.max.request.bytes",
        "queued.max.requests",
        "security.providers",
        "server.max.startup.time.ms",
        "share.coordinator.threads",
        "share.fetch.purgatory.purge.interval.requests",
        "ssl.engine.factory.class",
        "ssl.keymanager.algorithm",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
        "unstable.feature.versions.enable",
    }
)

# Settings of parts that this version does not have: security of listeners, several brokers and
# moves between directories, remote storage, delegation tokens, quotas, metrics, share and streams
# groups.
_MISSING_PREFIXES = (
    "delegation.token.",
    "group.share.",
    "group.streams.",
    "metrics.",
    "quota.window.",
    "remote.",
    "replica.fetch.",
    "replica.lag.",
    "replica.selector.",
    "replica.socket.",
    "replication.quota.",
    "sasl.",
    "share.coordinator.",
    "ssl.",
    "telemetry.",
)
# Every server.properties that comes with Kafka sets these, on nodes that never see a share group.
_SHARE_TOPIC_PREFIX = "share.coordinator.state.topic."
_MISSING = frozenset(
    {
        "alter.log.dirs.replication.quota.window.num",
        "alter.log.dirs.replication.quota.window.size.seconds",
        "connection.failed.authentication.delay.ms",
        "connections.max.reauth.ms",
        "controller.quorum.fetch.max.bytes",
        "controller.quorum.fetch.snapshot.max.bytes",
        "controller.quota.window.num",
        "controller.quota.window.size.seconds",
        "controller.socket.timeout.ms",
        "follower.fetch.last.tiered.offset.enable",
        "follower.replication.throttled.rate",
        "leader.replication.throttled.rate",
        "num.replica.alter.log.dirs.threads",
        "num.replica.fetchers",
        "replica.alter.log.dirs.io.max.bytes.per.second",
        "socket.connection.setup.timeout.max.ms",
        "socket.connection.setup.timeout.ms",
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


def is_missing(name: str) -> bool:
    """Whether the setting belongs to a part that this version does not have."""
    if name in INEFFECTIVE or name.startswith(_SHARE_TOPIC_PREFIX):
        return False
    return name in _MISSING or name.startswith(_MISSING_PREFIXES)


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
