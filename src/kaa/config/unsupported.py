"""Settings of Kafka that this version does not have, and what follows from that.

Ignoring a setting is honest only when nothing is lost by it. So there are four answers:

- what would weaken safety if ignored, or change what the cluster is, refuses the start
  (`refusals`);
- what only tunes Kafka's threads, JVM or plug-ins is accepted without effect (`INEFFECTIVE`);
- what belongs to a part that does not exist yet is accepted with a warning (`is_missing`);
- what Kafka itself has dropped is named, so that it can be deleted (`is_removed`).
"""

from collections.abc import Iterator

from kaa.config.definition import ConfigProblem, ConfigValues
from kaa.config.listeners import Listeners
from kaa.config.values import ConfigValue, shown, value_text
from kaa.model.nodes import SecurityProtocol

_DEFAULT_PRINCIPAL_BUILDER = (
    "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
)

_REPLICA_SELECTORS = frozenset(
    {
        "org.apache.kafka.common.replica.LeaderSelector",
        "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    }
)

# Name -> what does not exist yet. Set to anything but nothing, they refuse the start.
_REFUSED_WHEN_SET = {
    "authorizer.class.name": "an authorizer",
    "alter.config.policy.class.name": "policies for changes of settings",
    "create.topic.policy.class.name": "policies for new topics",
    "client.quota.callback.class": "quota plug-ins",
    "config.providers": "config providers",
}

# Where remote segments may be kept, and who may keep the list of them.
KAFKA_LOCAL_STORAGE = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
_REMOTE_STORES = ("kaa.tier.ObjectStore", KAFKA_LOCAL_STORAGE)
_REMOTE_LISTS = (
    "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
)

REFUSED_NAMES = (
    *_REFUSED_WHEN_SET,
    "principal.builder.class",
    "remote.log.metadata.manager.class.name",
    "remote.log.storage.manager.class.name",
    "replica.selector.class",
)
"""The settings that `refusals` reads."""

INEFFECTIVE = frozenset(
    {
        "background.threads",
        "controller.performance.always.log.threshold.ms",
        "controller.performance.sample.period.ms",
        "delete.records.purgatory.purge.interval.requests",
        "fetch.purgatory.purge.interval.requests",
        "group.coordinator.background.threads",
        "group.coordinator.cached.buffer.max.bytes",
        "group.coordinator.threads",
        "group.share.persister.class.name",
        "internal.metadata.delete.delay.millis",
        "internal.metadata.max.batch.size.in.bytes",
        "kafka.metrics.polling.interval.secs",
        "kafka.metrics.reporters",
        "log.cleaner.io.buffer.size",
        "log.cleaner.threads",
        "log.initial.task.delay.ms",
        "metric.reporters",
        "num.io.threads",
        "num.network.threads",
        "num.recovery.threads.per.data.dir",
        "producer.purgatory.purge.interval.requests",
        "queued.max.request.bytes",
        "queued.max.requests",
        "remote.log.index.file.cache.ttl.ms",
        "remote.log.manager.follower.thread.pool.size",
        "remote.log.manager.thread.pool.size",
        "remote.log.metadata.manager.class.path",
        "remote.log.storage.manager.class.path",
        "security.providers",
        "server.max.startup.time.ms",
        "share.coordinator.threads",
        "share.coordinator.cached.buffer.max.bytes",
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
# moves between directories, delegation tokens, quotas, metrics.
_MISSING_PREFIXES = (
    "delegation.token.",
    "metrics.",
    "quota.window.",
    "sasl.",
    "ssl.",
    "telemetry.",
)
_MISSING = frozenset(
    {
        "alter.log.dirs.replication.quota.window.num",
        "alter.log.dirs.replication.quota.window.size.seconds",
        "connection.failed.authentication.delay.ms",
        "connections.max.reauth.ms",
        "controller.quota.window.num",
        "controller.quota.window.size.seconds",
        "controller.socket.timeout.ms",
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
    return name not in INEFFECTIVE and (name in _MISSING or name.startswith(_MISSING_PREFIXES))


def is_removed(name: str) -> bool:
    """Whether older versions of Kafka had this setting and the pinned one does not."""
    return name in _REMOVED or name.startswith(_REMOVED_PREFIXES)


def refusals(values: ConfigValues) -> Iterator[ConfigProblem]:
    """What this version cannot honour and must not ignore, among the settings that parsed."""
    for name, missing in _REFUSED_WHEN_SET.items():
        if name in values and values.value(name):
            yield _refusal(name, values.value(name), missing)
    yield from _remote_refusals(values)
    if "principal.builder.class" in values:
        builder = values.get_string("principal.builder.class")
        if builder != _DEFAULT_PRINCIPAL_BUILDER:
            missing = "principal builders other than Kafka's own"
            yield _refusal("principal.builder.class", builder, missing)
    if "replica.selector.class" in values:
        selector = values.get_optional_string("replica.selector.class")
        if selector and selector not in _REPLICA_SELECTORS:
            missing = "replica selectors other than Kafka's own"
            yield _refusal("replica.selector.class", selector, missing)


def _remote_refusals(values: ConfigValues) -> Iterator[ConfigProblem]:
    """Classes of remote storage that are not there, if it is used at all."""
    enabled = "remote.log.storage.system.enable"
    if enabled not in values or not values.get_boolean(enabled):
        return
    for name, known in (
        ("remote.log.storage.manager.class.name", _REMOTE_STORES),
        ("remote.log.metadata.manager.class.name", _REMOTE_LISTS),
    ):
        given = values.get_optional_string(name) if name in values else None
        if given is not None and given not in known:
            yield ConfigProblem(
                name,
                f"{name}={shown(given)}: Kaa runs no Java classes; use {' or '.join(known)}, or "
                "remove the setting for the first of them.",
            )


def listener_refusals(listeners: Listeners) -> Iterator[ConfigProblem]:
    """Listeners that would be open to everyone if their security were ignored."""
    secured = [
        f"{endpoint.listener} ({SecurityProtocol(endpoint.security_protocol).name})"
        for endpoint in listeners.all
        if endpoint.security_protocol != SecurityProtocol.PLAINTEXT
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
