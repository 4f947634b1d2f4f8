"""The cluster as its metadata says it is: what remains when every record is applied in order.

An image changes only by `replay`, and `records` gives the records that make an equal one, which is
what a snapshot holds. Values inside (a broker, a partition, a client quota) are immutable and
replaced as a whole, and so are the settings of a resource. A topic changes in place only in the
image that owns it; any other copies it first. So a copy of an image is cheap: it shares all values,
and neither of the two owns a topic. A node has one image of committed records, which everyone
reads, and an active controller has a second one that is ahead of it by what it has written and not
yet committed.

`take_delta` tells what changed since it was last asked, so that a broker can act on just that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from kaa.limits import (
    PUBLISHED_CHANGES_PER_TURN_MAX,
    PUBLISHED_PARTITIONS_PER_TURN_MAX,
    RECORDS_PER_PIECE,
)
from kaa.model.kinds import ResourceType
from kaa.model.nodes import Endpoint, VersionRange
from kaa.model.ordered import OrderedSet
from kaa.model.pieces import finish
from kaa.wire.messages.metadata_cluster import (
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from kaa.wire.messages.metadata_settings import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from kaa.wire.messages.metadata_topics import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kaa.model.pieces import Pieces
    from kaa.wire.messages.metadata_cluster import (
        BrokerEndpoint,
        BrokerFeature,
        ControllerEndpoint,
        ControllerFeature,
    )
    from kaa.wire.messages.metadata_settings import (
        EntityData,
    )
    from kaa.wire.primitives import Uuid
    from kaa.wire.schema import MetadataRecord

# The dictionaries of an image.
COLLECTIONS = (
    "features",
    "brokers",
    "controllers",
    "topics",
    "topics_by_id",
    "configs",
    "quotas",
    "acls",
    "scram_credentials",
    "delegation_tokens",
)
_LEADER_UNCHANGED = -2


Key = TypeVar("Key")
Value = TypeVar("Value")


class BrokerImage(NamedTuple):
    """A registered broker."""

    id: int
    epoch: int
    incarnation_id: Uuid
    endpoints: tuple[Endpoint, ...]
    features: dict[str, VersionRange]
    rack: str | None
    # A fenced broker leads nothing and is not shown to clients.
    is_fenced: bool
    is_in_controlled_shutdown: bool
    directories: tuple[Uuid, ...]
    cordoned_directories: tuple[Uuid, ...] | None

    def endpoint(self, listener_name: str) -> Endpoint | None:
        return next((found for found in self.endpoints if found.listener == listener_name), None)


class ControllerImage(NamedTuple):
    """A registered controller."""

    id: int
    incarnation_id: Uuid
    zk_migration_ready: bool
    endpoints: tuple[Endpoint, ...]
    features: dict[str, VersionRange]


class PartitionImage(NamedTuple):
    """A partition: who holds it, who is in sync, who leads."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    leader_recovery_state: int = 0
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    directories: tuple[Uuid, ...] = ()
    eligible_leader_replicas: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()

    def changed(self, record: PartitionChangeRecord) -> PartitionImage:
        """The partition after a change; what the record leaves out stays."""
        changes: dict[str, Any] = {"partition_epoch": self.partition_epoch + 1}
        for name in _PARTITION_LISTS:
            value = getattr(record, name)
            if value is not None:
                changes[name] = tuple(value)
        if record.leader != _LEADER_UNCHANGED:
            changes["leader"] = record.leader
            changes["leader_epoch"] = self.leader_epoch + 1
        if record.leader_recovery_state >= 0:
            changes["leader_recovery_state"] = record.leader_recovery_state
        return self._replace(**changes)


class TopicImage:
    """A topic and its partitions by number."""

    __slots__ = ("id", "name", "owner", "partitions")

    def __init__(self, name: str, topic_id: Uuid, owner: object = None) -> None:
        self.name = name
        self.id = topic_id
        # What the one image has that may change it in place.
        self.owner = owner
        self.partitions: dict[int, PartitionImage] = {}

    def copy(self, owner: object) -> TopicImage:
        other = TopicImage(self.name, self.id, owner)
        other.partitions = dict(self.partitions)
        return other


# A configured resource: its type, as in Kafka's ConfigResource, and its name.
Resource = tuple[int, str]
# What a client quota applies to: pairs of entity type and name, None for the default; sorted.
QuotaEntity = tuple[tuple[str, str | None], ...]


class Delta:
    """What changed between two moments, in the order in which it did."""

    __slots__ = (
        "brokers",
        "configs",
        "controllers",
        "deleted_topics",
        "features",
        "partitions",
        "quotas",
    )

    def __init__(self) -> None:
        # Topic id and partition number of each partition that is new or changed; of those that are
        # gone since, some may be left, and `take` passes over them.
        self.partitions: OrderedSet[tuple[Uuid, int]] = OrderedSet()
        self.deleted_topics: dict[Uuid, TopicImage] = {}
        self.brokers: OrderedSet[int] = OrderedSet()
        self.controllers: OrderedSet[int] = OrderedSet()
        self.configs: OrderedSet[Resource] = OrderedSet()
        self.quotas: OrderedSet[QuotaEntity] = OrderedSet()
        self.features: OrderedSet[str] = OrderedSet()

    def __bool__(self) -> bool:
        """Whether anything changed."""
        return any(getattr(self, name) for name in self.__slots__)

    def add(self, later: Delta) -> None:
        """Takes a later change in."""
        for name in self.__slots__:
            getattr(self, name).update(getattr(later, name))

    def take(self, image: ClusterImage) -> Delta:
        """Takes a part out that is small enough for one turn: nodes and features all, deleted
        topics, settings and quotas as many as fit, and when none of these is left, so many
        partitions that the image still has.
        """
        part = Delta()
        for name in ("brokers", "controllers", "features"):
            setattr(part, name, getattr(self, name))
            setattr(self, name, OrderedSet())
        left = PUBLISHED_CHANGES_PER_TURN_MAX
        while self.deleted_topics and left > 0:
            topic_id, topic = self.deleted_topics.popitem()
            part.deleted_topics[topic_id] = topic
            left -= 1 + len(topic.partitions)
        while self.configs and left > 0:
            part.configs.add(self.configs.pop())
            left -= 1
        while self.quotas and left > 0:
            part.quotas.add(self.quotas.pop())
            left -= 1
        if left <= 0:
            return part
        left = PUBLISHED_PARTITIONS_PER_TURN_MAX
        while self.partitions and left > 0:
            topic_id, number = self.partitions.pop()
            found = image.topics_by_id.get(topic_id)
            if found is not None and number in found.partitions:
                part.partitions.add((topic_id, number))
                left -= 1
        return part


_REPLAYS: dict[type[MetadataRecord], Callable[[ClusterImage, Any], None]] = {}

Replay = TypeVar("Replay", bound="Callable[[ClusterImage, Any], None]")


def _replays(record_class: type[MetadataRecord]) -> Callable[[Replay], Replay]:
    """Marks the method that applies a kind of record."""

    def mark(replay: Replay) -> Replay:
        _REPLAYS[record_class] = replay
        return replay

    return mark


def _partition_image(record: PartitionRecord) -> PartitionImage:
    return PartitionImage(
        replicas=tuple(record.replicas),
        isr=tuple(record.isr),
        leader=record.leader,
        leader_epoch=record.leader_epoch,
        partition_epoch=record.partition_epoch,
        leader_recovery_state=record.leader_recovery_state,
        removing_replicas=tuple(record.removing_replicas),
        adding_replicas=tuple(record.adding_replicas),
        directories=tuple(record.directories),
        eligible_leader_replicas=tuple(record.eligible_leader_replicas or ()),
        last_known_elr=tuple(record.last_known_elr or ()),
    )


class ClusterImage:
    """The metadata of the cluster up to one offset. Changed by `replay` alone; values in it may be
    kept, since they are replaced and never changed.
    """

    def __init__(self) -> None:
        self.features: dict[str, int] = {}
        self.brokers: dict[int, BrokerImage] = {}
        self.controllers: dict[int, ControllerImage] = {}
        self.topics: dict[str, TopicImage] = {}
        # The same topics by id.
        self.topics_by_id: dict[Uuid, TopicImage] = {}
        self.configs: dict[Resource, dict[str, str]] = {}
        self.quotas: dict[QuotaEntity, dict[str, float]] = {}
        self.next_producer_id = 0
        # Kept for snapshots and for the security stage; nothing here interprets them.
        self.acls: dict[Uuid, AccessControlEntryRecord] = {}
        self.scram_credentials: dict[tuple[str, int], UserScramCredentialRecord] = {}
        self.delegation_tokens: dict[str, DelegationTokenRecord] = {}
        self.producer_ids_record: ProducerIdsRecord | None = None
        self._delta = Delta()
        self._changes = 0
        # Topics that are marked with it belong to no other image.
        self._owner = object()

    @property
    def changes(self) -> int:
        """How often this image was changed: what was made of it stands while this does."""
        return self._changes

    def copy(self) -> ClusterImage:
        """An image that can go its own way; its delta starts empty."""
        other = ClusterImage()
        for name in COLLECTIONS:
            setattr(other, name, dict(getattr(self, name)))
        other.next_producer_id = self.next_producer_id
        other.producer_ids_record = self.producer_ids_record
        # The topics are shared from now on.
        self._owner = object()
        return other

    def take_delta(self) -> Delta:
        delta, self._delta = self._delta, Delta()
        return delta

    def replace(self, before: ClusterImage, delta: Delta) -> None:
        """Takes the place of another image, which differs by the delta, and owes those who follow
        it what that one had not announced yet.
        """
        self._delta = before.take_delta()
        self._owe(delta)

    def adopt(self, draft: ClusterImage) -> None:
        """Becomes what a draft of this image is, in one quick step."""
        for name in COLLECTIONS:
            setattr(self, name, getattr(draft, name))
        self.next_producer_id = draft.next_producer_id
        self.producer_ids_record = draft.producer_ids_record
        self._changes += 1
        self._owe(draft.take_delta())

    def _owe(self, delta: Delta) -> None:
        if self._delta:
            self._delta.add(delta)
        else:
            self._delta = delta

    def replay(self, record: MetadataRecord) -> None:
        """Applies one record; those that change no state, such as NoOpRecord, are passed over."""
        replay = _REPLAYS.get(type(record))
        if replay is not None:
            self._changes += 1
            replay(self, record)

    def records(self) -> Iterator[MetadataRecord]:
        """Records that make an equal image, in an order in which they can be replayed."""
        from kaa.controller.image_records import records_of

        return records_of(self)

    def _topic_to_change(self, topic_id: Uuid) -> TopicImage:
        """A topic whose partitions are about to change."""
        topic = self.topics_by_id[topic_id]
        if topic.owner is not self._owner:
            self._leave(topic)
            topic = topic.copy(self._owner)
            self.topics[topic.name] = self.topics_by_id[topic_id] = topic
        return topic

    # --- what a draft does in its own way

    def _leave(self, thing: object) -> None:
        """The image does not have this any more, if it is not None."""

    # --- nodes and features

    @_replays(FeatureLevelRecord)
    def _replay_feature(self, record: FeatureLevelRecord) -> None:
        self._delta.features.add(record.name)
        if record.feature_level:
            self.features[record.name] = record.feature_level
        else:
            self.features.pop(record.name, None)

    @_replays(RegisterBrokerRecord)
    def _replay_register_broker(self, record: RegisterBrokerRecord) -> None:
        cordoned = record.cordoned_log_dirs
        self.brokers[record.broker_id] = BrokerImage(
            id=record.broker_id,
            epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            endpoints=_endpoints(record.end_points),
            features=_ranges(record.features),
            rack=record.rack,
            is_fenced=record.fenced,
            is_in_controlled_shutdown=record.in_controlled_shutdown,
            directories=tuple(record.log_dirs),
            cordoned_directories=None if cordoned is None else tuple(cordoned),
        )
        self._delta.brokers.add(record.broker_id)

    @_replays(UnregisterBrokerRecord)
    def _replay_unregister_broker(self, record: UnregisterBrokerRecord) -> None:
        self.brokers.pop(record.broker_id, None)
        self._delta.brokers.add(record.broker_id)

    @_replays(FenceBrokerRecord)
    def _replay_fence(self, record: FenceBrokerRecord) -> None:
        self._change_broker(record.id, is_fenced=True)

    @_replays(UnfenceBrokerRecord)
    def _replay_unfence(self, record: UnfenceBrokerRecord) -> None:
        self._change_broker(record.id, is_fenced=False)

    @_replays(BrokerRegistrationChangeRecord)
    def _replay_broker_change(self, record: BrokerRegistrationChangeRecord) -> None:
        changes: dict[str, Any] = {}
        # In each of the two, 1 sets, -1 clears and 0 leaves as it is.
        if record.fenced:
            changes["is_fenced"] = record.fenced > 0
        if record.in_controlled_shutdown:
            changes["is_in_controlled_shutdown"] = record.in_controlled_shutdown > 0
        if record.log_dirs:
            changes["directories"] = tuple(record.log_dirs)
        if record.cordoned_log_dirs is not None:
            changes["cordoned_directories"] = tuple(record.cordoned_log_dirs)
        self._change_broker(record.broker_id, **changes)

    def _change_broker(self, broker_id: int, **changes: Any) -> None:
        self.brokers[broker_id] = self.brokers[broker_id]._replace(**changes)
        self._delta.brokers.add(broker_id)

    @_replays(RegisterControllerRecord)
    def _replay_register_controller(self, record: RegisterControllerRecord) -> None:
        self.controllers[record.controller_id] = ControllerImage(
            id=record.controller_id,
            incarnation_id=record.incarnation_id,
            zk_migration_ready=record.zk_migration_ready,
            endpoints=_endpoints(record.end_points),
            features=_ranges(record.features),
        )
        self._delta.controllers.add(record.controller_id)

    @_replays(ProducerIdsRecord)
    def _replay_producer_ids(self, record: ProducerIdsRecord) -> None:
        self.next_producer_id = record.next_producer_id
        self.producer_ids_record = record

    # --- topics

    @_replays(TopicRecord)
    def _replay_topic(self, record: TopicRecord) -> None:
        topic = TopicImage(record.name, record.topic_id, self._owner)
        self.topics[record.name] = self.topics_by_id[record.topic_id] = topic

    @_replays(RemoveTopicRecord)
    def _replay_remove_topic(self, record: RemoveTopicRecord) -> None:
        topic = self.topics_by_id.pop(record.topic_id)
        del self.topics[topic.name]
        self._delta.deleted_topics[topic.id] = topic
        for number in topic.partitions:
            self._delta.partitions.discard((topic.id, number))
        settings = self.configs.pop((ResourceType.TOPIC, topic.name), None)
        if settings is not None:
            self._leave(settings)
            self._delta.configs.add((ResourceType.TOPIC, topic.name))

    @_replays(PartitionRecord)
    def _replay_partition(self, record: PartitionRecord) -> None:
        topic = self._topic_to_change(record.topic_id)
        before = topic.partitions.get(record.partition_id)
        if before is not None:
            self._leave(before)
        topic.partitions[record.partition_id] = _partition_image(record)
        self._delta.partitions.add((topic.id, record.partition_id))

    @_replays(PartitionChangeRecord)
    def _replay_partition_change(self, record: PartitionChangeRecord) -> None:
        topic = self._topic_to_change(record.topic_id)
        before = topic.partitions[record.partition_id]
        self._leave(before)
        topic.partitions[record.partition_id] = before.changed(record)
        self._delta.partitions.add((topic.id, record.partition_id))

    @_replays(ClearElrRecord)
    def _replay_clear_elr(self, record: ClearElrRecord) -> None:
        finish(self.clear_elr(record))

    def clear_elr(self, record: ClearElrRecord) -> Pieces[None]:
        """The same in pieces, since it may change every partition there is."""
        left = RECORDS_PER_PIECE
        for name in [record.topic_name] if record.topic_name else list(self.topics):
            topic = self.topics[name]
            left -= 1
            for number, partition in list(topic.partitions.items()):
                if partition.eligible_leader_replicas or partition.last_known_elr:
                    self._leave(partition)
                    self._topic_to_change(topic.id).partitions[number] = partition._replace(
                        eligible_leader_replicas=(), last_known_elr=()
                    )
                    self._delta.partitions.add((topic.id, number))
                    left -= 1
                if left <= 0:
                    left = RECORDS_PER_PIECE
                    yield

    # --- settings

    @_replays(ConfigRecord)
    def _replay_config(self, record: ConfigRecord) -> None:
        resource = (record.resource_type, record.resource_name)
        self._delta.configs.add(resource)
        self._set_value(self.configs, resource, record.name, record.value)

    @_replays(ClientQuotaRecord)
    def _replay_quota(self, record: ClientQuotaRecord) -> None:
        entity = quota_entity(record.entity)
        self._delta.quotas.add(entity)
        value = None if record.remove else record.value
        self._set_value(self.quotas, entity, record.key, value)

    def _set_value(
        self, collection: dict[Key, dict[str, Value]], key: Key, name: str, value: Value | None
    ) -> None:
        """Sets one, or removes it if there is no value, and with the last of them the key."""
        before = collection.get(key)
        self._leave(before)
        values = {} if before is None else dict(before)
        if value is None:
            values.pop(name, None)
        else:
            values[name] = value
        if values:
            collection[key] = values
        else:
            collection.pop(key, None)

    def _put(self, collection: dict[Key, Value], key: Key, value: Value) -> None:
        self._leave(collection.get(key))
        collection[key] = value

    @_replays(AccessControlEntryRecord)
    def _replay_acl(self, record: AccessControlEntryRecord) -> None:
        self._put(self.acls, record.id, record)

    @_replays(RemoveAccessControlEntryRecord)
    def _replay_remove_acl(self, record: RemoveAccessControlEntryRecord) -> None:
        self._leave(self.acls.pop(record.id, None))

    @_replays(UserScramCredentialRecord)
    def _replay_scram(self, record: UserScramCredentialRecord) -> None:
        self._put(self.scram_credentials, (record.name, record.mechanism), record)

    @_replays(RemoveUserScramCredentialRecord)
    def _replay_remove_scram(self, record: RemoveUserScramCredentialRecord) -> None:
        self._leave(self.scram_credentials.pop((record.name, record.mechanism), None))

    @_replays(DelegationTokenRecord)
    def _replay_token(self, record: DelegationTokenRecord) -> None:
        self._put(self.delegation_tokens, record.token_id, record)

    @_replays(RemoveDelegationTokenRecord)
    def _replay_remove_token(self, record: RemoveDelegationTokenRecord) -> None:
        self._leave(self.delegation_tokens.pop(record.token_id, None))


_PARTITION_LISTS = (
    "isr",
    "replicas",
    "removing_replicas",
    "adding_replicas",
    "directories",
    "eligible_leader_replicas",
    "last_known_elr",
)


def quota_entity(entity: list[EntityData]) -> QuotaEntity:
    return tuple(sorted(((part.entity_type, part.entity_name) for part in entity), key=str))


def _endpoints(found: list[BrokerEndpoint] | list[ControllerEndpoint]) -> tuple[Endpoint, ...]:
    return tuple(
        Endpoint(point.name, point.host, point.port, point.security_protocol) for point in found
    )


def _ranges(found: list[BrokerFeature] | list[ControllerFeature]) -> dict[str, VersionRange]:
    return {
        feature.name: VersionRange(feature.min_supported_version, feature.max_supported_version)
        for feature in found
    }
