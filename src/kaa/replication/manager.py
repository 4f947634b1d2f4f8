"""The partitions of this broker: found by name or id, made and ended as the metadata says.

Metadata reaches a broker as an image and what changed in it (`apply`). For each partition that
names this broker as a replica there is a `Partition` with a log; for one that does not any more,
the log goes. Making a log takes a millisecond of the disk, so that of a great many new partitions a
few are made per turn of the loop; one that somebody asks for before its turn is made at once, and
nobody notices. A partition whose directory is offline stays known and answers KAFKA_STORAGE_ERROR.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from kaa.limits import PARTITIONS_MADE_PER_TURN_MAX
from kaa.log.errors import LogError
from kaa.log.names import TopicPartition
from kaa.records.batch import CompressionType, TimestampType
from kaa.records.validate import AppendRules
from kaa.replication.partition import Partition
from kaa.wire.errors import Errors
from kaa.wire.primitives import UUID_ZERO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kaa.controller.image import ClusterImage, Delta, PartitionImage, TopicImage
    from kaa.log.config import LogConfig
    from kaa.log.log import UnifiedLog
    from kaa.log.manager import LogManager
    from kaa.wire.primitives import Uuid

INTERNAL_TOPICS: Final = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state"}
)
RESOURCE_TOPIC: Final = 2


class TopicRules(NamedTuple):
    """What the settings of a topic mean for appends, worked out once."""

    append: AppendRules
    min_insync_replicas: int


class ReplicaManager:
    """See the module's text."""

    def __init__(
        self,
        node_id: int,
        logs: LogManager,
        topic_config: Callable[[str], LogConfig],
        wall_ms: Callable[[], int],
        *,
        appended: Callable[[Partition], None] | None = None,
        leadership_changed: Callable[[Partition], None] = lambda _: None,
        call_soon: Callable[[Callable[[], None]], object] | None = None,
    ) -> None:
        """Without `call_soon` everything is made at once."""
        self.node_id = node_id
        self.logs = logs
        self._topic_config = topic_config
        self._wall_ms = wall_ms
        # Told of appends with group commit, when nothing counts before it is on stable storage.
        self._appended = appended
        # Told when this broker begins or ends to lead a partition, and of new leader epochs.
        self._leadership_changed = leadership_changed
        self._call_soon = call_soon
        self._image: ClusterImage | None = None
        # New partitions whose turn has not come yet.
        self._coming: dict[tuple[str, int], TopicImage] = {}
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._rules: dict[str, TopicRules] = {}

    def __iter__(self) -> Iterator[Partition]:
        for key in tuple(self._coming):
            self._make(key)
        return iter(self._partitions.values())

    # --- finding

    def find(self, topic: str, number: int) -> Partition | Errors:
        """The partition, or the error of a client that should not have asked here."""
        partition = self._partitions.get((topic, number))
        if partition is not None:
            return partition if partition.log is not None else Errors.KAFKA_STORAGE_ERROR
        if (topic, number) in self._coming:
            self._make((topic, number))
            return self.find(topic, number)
        image = None if self._image is None else self._image.topics.get(topic)
        if image is None or number not in image.partitions:
            return Errors.UNKNOWN_TOPIC_OR_PARTITION
        return Errors.NOT_LEADER_OR_FOLLOWER

    def find_by_id(self, topic_id: Uuid, number: int) -> Partition | Errors:
        image = None if self._image is None else self._image.topics_by_id.get(topic_id)
        if image is None:
            return Errors.UNKNOWN_TOPIC_ID
        return self.find(image.name, number)

    # --- settings

    def rules(self, topic: str) -> TopicRules:
        found = self._rules.get(topic)
        if found is None:
            found = self._rules[topic] = _rules(self._topic_config(topic))
        return found

    def append_rules(self, partition: Partition) -> AppendRules:
        return self.rules(partition.topic).append

    def has_enough_replicas(self, partition: Partition) -> bool:
        return partition.has_enough_replicas(self.rules(partition.topic).min_insync_replicas)

    def is_internal(self, topic: str) -> bool:
        return topic in INTERNAL_TOPICS

    # --- metadata

    def start(self, image: ClusterImage) -> None:
        """Takes over the whole image after the logs were loaded; logs it does not know are put
        aside.
        """
        self._image = image
        self.logs.mark_strays(self._is_ours, self._wall_ms())
        for topic in image.topics.values():
            for number, partition in topic.partitions.items():
                self._update(topic, number, partition)

    def _is_ours(self, partition: TopicPartition, topic_id: Uuid | None) -> bool:
        assert self._image is not None
        topic = self._image.topics.get(partition.topic)
        if topic is None or partition.partition not in topic.partitions:
            return False
        is_same = topic_id in {None, topic.id}
        return is_same and self.node_id in topic.partitions[partition.partition].replicas

    def apply(self, image: ClusterImage, delta: Delta) -> None:
        """Follows a change of the metadata."""
        self._image = image
        was_busy = bool(self._coming)
        for topic in delta.deleted_topics.values():
            self._end(topic)
        for topic_id, number in delta.partitions:
            topic = image.topics_by_id[topic_id]
            self._plan(topic, number)
        if self._coming and not was_busy and self._call_soon is not None:
            self._call_soon(self._next_turn)
        for resource_type, name in delta.configs:
            if resource_type == RESOURCE_TOPIC:
                self._config_changed(name)
            else:
                # A default of the brokers changed, and so may every topic that has no value of its
                # own.
                for topic in image.topics.values():
                    self._config_changed(topic.name)

    def _plan(self, topic: TopicImage, number: int) -> None:
        """Makes or changes a partition now, or leaves a new one for a turn of its own."""
        key = (topic.name, number)
        is_new = key not in self._partitions and self.node_id in topic.partitions[number].replicas
        if is_new and self._call_soon is not None:
            self._coming[key] = topic
        else:
            self._coming.pop(key, None)
            self._update(topic, number, topic.partitions[number])

    def _next_turn(self) -> None:
        assert self._call_soon is not None
        for key in tuple(islice(self._coming, PARTITIONS_MADE_PER_TURN_MAX)):
            self._make(key)
        if self._coming:
            self._call_soon(self._next_turn)

    def _make(self, key: tuple[str, int]) -> None:
        topic = self._coming.pop(key)
        self._update(topic, key[1], topic.partitions[key[1]])

    def _config_changed(self, topic: str) -> None:
        self._rules.pop(topic, None)
        self.logs.update_topic_config(topic)

    def _update(self, topic: TopicImage, number: int, image: PartitionImage) -> None:
        key = (topic.name, number)
        partition = self._partitions.get(key)
        if self.node_id not in image.replicas:
            if partition is not None:
                self._remove([key])
            return
        if partition is None:
            partition = Partition(topic.name, topic.id, number, self.node_id, image)
            partition.appended = self._appended
            partition.log = self._open(topic, number, image)
            self._partitions[key] = partition
        was_leader, epoch_before = partition.is_leader, partition.leader_epoch
        partition.update(image)
        if partition.is_leader != was_leader or (
            was_leader and partition.leader_epoch != epoch_before
        ):
            self._leadership_changed(partition)

    def _open(self, topic: TopicImage, number: int, image: PartitionImage) -> UnifiedLog | None:
        directory = UUID_ZERO
        if len(image.directories) == len(image.replicas):
            directory = image.directories[image.replicas.index(self.node_id)]
        try:
            return self.logs.get_or_create(
                TopicPartition(topic.name, number),
                topic.id,
                self._wall_ms(),
                directory_id=directory,
            )
        except LogError:
            # The directory is offline, and says so by itself.
            return None

    def _end(self, topic: TopicImage) -> None:
        self._rules.pop(topic.name, None)
        self._remove([(topic.name, number) for number in topic.partitions])

    def _remove(self, keys: list[tuple[str, int]]) -> None:
        for key in keys:
            self._coming.pop(key, None)
            partition = self._partitions.pop(key, None)
            if partition is not None:
                self._lose(partition)
        self.logs.delete([TopicPartition(*key) for key in keys], self._wall_ms())

    def directory_failed(self) -> None:
        """A directory went offline: its partitions are led no more."""
        for partition in self._partitions.values():
            if partition.log is not None and not partition.log.directory.is_online:
                self._lose(partition)

    def _lose(self, partition: Partition) -> None:
        """The log of the partition is gone, and so is its leadership."""
        was_leader = partition.is_leader
        partition.is_leader = False
        partition.log = None
        partition.progress()
        if was_leader:
            self._leadership_changed(partition)


def _rules(config: LogConfig) -> TopicRules:
    compression = None
    level = None
    if config.compression_type != "producer":
        name = "none" if config.compression_type == "uncompressed" else config.compression_type
        compression = CompressionType[name.upper()]
        level = getattr(config, f"compression_{name}_level", None)
    is_append_time = config.message_timestamp_type == "LogAppendTime"
    append = AppendRules(
        message_bytes_max=config.max_message_bytes,
        compression_type=compression,
        compression_level=level,
        timestamp_type=(
            TimestampType.LOG_APPEND_TIME if is_append_time else TimestampType.CREATE_TIME
        ),
        timestamp_before_max_ms=config.message_timestamp_before_max_ms,
        timestamp_after_max_ms=config.message_timestamp_after_max_ms,
        is_compacted=config.compact,
    )
    return TopicRules(append, config.min_insync_replicas)
