"""The partitions of this broker: found by name or id, made and ended as the metadata says.

Metadata reaches a broker as an image and what changed in it (`apply`). For each partition that
names this broker as a replica there is a `Partition` with a log; for one that does not any more,
the log goes. A change may touch every partition there is, and making a log takes a millisecond of
the disk: so of a great many changes a few are made per turn of the loop. What counts at its turn is
the image as it is then. A topic that was deleted and made again before that has its old logs ended
in one turn and its new ones made in another; in between their names are held, until checkpoints are
written without the old ones, off the loop and once for all of them. A partition that somebody asks
for before its turn is changed at once, and nobody notices; who asks for many waits for their turns
(`kaa.serving.applied`). Settings follow in turns too. A partition whose directory is offline stays
known and answers KAFKA_STORAGE_ERROR; `log_placement` opens the logs.
"""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol

from kaa.controller.directories import LOST
from kaa.limits import (
    ISR_CHECKS_PER_TURN_MAX,
    PARTITIONS_CHANGED_PER_TURN_MAX,
    PARTITIONS_ENDED_PER_TURN_MAX,
    PARTITIONS_MADE_PER_TURN_MAX,
    TOPIC_CONFIGS_PER_TURN_MAX,
)
from kaa.log.properties import NO_BROKER_EPOCH
from kaa.model.kinds import ResourceType
from kaa.model.topics import TopicPartition
from kaa.model.words import count_text
from kaa.replication.log_placement import ReplicaLogs, assigned_directory, has_other_copy
from kaa.replication.partition import Partition
from kaa.replication.throttle import ReplicationThrottle
from kaa.replication.topic_rules import topic_rules
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kaa.controller.image import (
        BrokerImage,
        ClusterImage,
        Delta,
        PartitionImage,
        TopicImage,
    )
    from kaa.log.config import LogConfig
    from kaa.log.manager import LogManager
    from kaa.model.topics import PartitionName
    from kaa.replication.leader import IsrProposal
    from kaa.replication.moves import LogDirectoryMoves
    from kaa.replication.topic_rules import TopicRules
    from kaa.wire.primitives import Uuid

LAG_MS_MAX_DEFAULT: Final = 30_000


class Followers(Protocol):
    """Those who copy partitions from their leaders."""

    def update(self, partition: Partition) -> None:
        """The metadata of the partition changed: follow its leader, or nobody."""
        ...

    def unfollow(self, partition: Partition) -> None: ...


class RemoteObserver(Protocol):
    """Tiered storage, which follows the partitions of this broker."""

    def update(self, partition: Partition) -> None:
        """The partition, its leader or its settings changed."""
        ...

    def lose(self, partition: Partition, *, is_deleted: bool) -> None:
        """This broker no longer has it; called while the partition still knows whether it led."""
        ...


class ReplicaManager:
    """Holds the partitions of this broker. `find` gives the partition or the error that a client
    gets; `apply` follows the metadata.
    """

    def __init__(
        self,
        node_id: int,
        logs: LogManager,
        topic_config: Callable[[str], LogConfig],
        wall_ms: Callable[[], int],
        *,
        request_flush: Callable[[Partition], None] | None = None,
        leadership_changed: Callable[[Partition], None] = lambda _: None,
        call_soon: Callable[[Callable[[], None]], object] | None = None,
        forget_deleted: Callable[[], None] | None = None,
        sync_folders: Callable[[], None] | None = None,
        assigned: Callable[[Uuid, int, Uuid | None], None] = lambda *_: None,
        report: Callable[[str], None] = lambda _: None,
        monotonic_ms: Callable[[], int] = lambda: 0,
        lag_ms_max: Callable[[], int] = lambda: LAG_MS_MAX_DEFAULT,
        broker_epoch: Callable[[], int] = lambda: NO_BROKER_EPOCH,
        propose: Callable[[Partition, IsrProposal], None] = lambda *_: None,
    ) -> None:
        """Without `call_soon` everything is made at once. `forget_deleted` has the work of
        `LogManager.forget_deleted` done, and `names_freed` called after it; without it checkpoints
        are written when a log is made. `sync_folders` has that of `LogManager.sync_folders` done,
        and `folders_synced` called; without it a folder is durable with the first flush.
        """
        self.node_id = node_id
        self.logs = logs
        self._topic_config = topic_config
        self._wall_ms = wall_ms
        # Called for appends with group commit, when nothing counts before it is on stable storage.
        self._request_flush = request_flush
        # Called when this broker begins or ends to lead a partition, and of new leader epochs.
        self._leadership_changed = leadership_changed
        self._call_soon = call_soon
        self._forget_deleted = forget_deleted
        self._sync_folders = sync_folders
        # Given the directory of a replica where the metadata has another, None where it is right.
        self._assigned = assigned
        self._report = report
        self._replica_logs = ReplicaLogs(node_id, logs, wall_ms, report)
        self.monotonic_ms = monotonic_ms
        self._lag_ms_max = lag_ms_max
        self.broker_epoch = broker_epoch
        # Sends the in-sync sets that leaders propose to the controller.
        self.propose = propose
        # What leaders send to followers, and what followers here fetch.
        self.leader_throttle = ReplicationThrottle(monotonic_ms)
        self.follower_throttle = ReplicationThrottle(monotonic_ms)
        # None on a node that follows nobody.
        self.followers: Followers | None = None
        # None without tiered storage.
        self.remote: RemoteObserver | None = None
        # None on a node that moves nothing.
        self.moves: LogDirectoryMoves | None = None
        self._image: ClusterImage | None = None
        # Partitions that are not yet what the image says, in the order of their turns.
        self._unapplied: dict[PartitionName, None] = {}
        # New partitions whose names checkpoints still have, and who waits until they have not.
        self._held: dict[PartitionName, None] = {}
        self._freed: list[Callable[[], None]] = []
        # Partitions whose directories are reported once their new folders are durable.
        self._unreported: dict[PartitionName, None] = {}
        # Topics whose settings have changed, and whose turn has not come yet.
        self._reconfigured: dict[str, None] = {}
        self._is_turn_asked_for = False
        self._partitions: dict[PartitionName, Partition] = {}
        # Partitions that have not looked at changed brokers yet.
        self._unchecked: dict[PartitionName, None] = {}
        self._rules: dict[str, TopicRules] = {}

    def __iter__(self) -> Iterator[Partition]:
        for key in (*self._unapplied, *self._held):
            self._apply_one(key)
        return iter(self._partitions.values())

    # --- finding

    def find(self, topic: str, number: int) -> Partition | Errors:
        """The partition, or the error of a client that should not have asked here."""
        if self._unapplied and (topic, number) in self._unapplied:
            self._apply_one((topic, number))
        partition = self._partitions.get((topic, number))
        if partition is not None:
            if partition.log is None and (topic, number) in self._replica_logs.short:
                self._apply_one((topic, number))
            return partition if partition.log is not None else Errors.KAFKA_STORAGE_ERROR
        if (topic, number) in self._held:
            self._apply_one((topic, number))
            return self.find(topic, number)
        image = None if self._image is None else self._image.topics.get(topic)
        if image is None or number not in image.partitions:
            return Errors.UNKNOWN_TOPIC_OR_PARTITION
        return Errors.NOT_LEADER_OR_FOLLOWER

    def find_by_id(self, topic_id: Uuid, number: int) -> Partition | Errors:
        image = None if self._image is None else self._image.topics_by_id.get(topic_id)
        if image is None:
            return Errors.UNKNOWN_TOPIC_ID
        found = self.find(image.name, number)
        if isinstance(found, Partition) and found.topic_id != topic_id:
            # The image is ahead of what was published: this is the topic that was deleted.
            return Errors.UNKNOWN_TOPIC_ID
        return found

    # --- turns

    @property
    def has_unapplied(self) -> bool:
        """Whether any partition is not yet what the image says."""
        return bool(self._unapplied or self._held)

    def is_unapplied(self, topic: str, number: int) -> bool:
        """Whether a partition is not yet what the image says, so that to find it takes long."""
        return (topic, number) in self._unapplied or (topic, number) in self._held

    def make_ready(self, topic: str, number: int) -> bool:
        """Does what has to be done a turn before a partition is made; whether it can be made now,
        or else after `when_freed`.
        """
        key = (topic, number)
        if key in self._unapplied:
            if self._is_gone(key):
                self._end(key)
            if self._is_new(key):
                self._hold(key)
        return key not in self._held

    def when_freed(self, call: Callable[[], None]) -> None:
        """Calls once the names that are held now are free."""
        self._freed.append(call)

    @property
    def can_free_names(self) -> bool:
        """Whether checkpoints are written off the loop; without that, by those who need it."""
        return self._forget_deleted is not None

    def free_names(self, call: Callable[[], None]) -> None:
        """Has checkpoints written without deleted logs, off the loop, and calls then."""
        assert self._forget_deleted is not None
        self._freed.append(call)
        self._forget_deleted()

    def names_freed(self) -> None:
        """Checkpoints are written without the logs that had been deleted when that began."""
        self._unapplied = {**self._held, **self._unapplied}
        self._held.clear()
        calls, self._freed = self._freed, []
        for call in calls:
            call()
        self._take_turn(makes=False)

    def _is_new(self, key: PartitionName) -> bool:
        return key not in self._partitions and self._image_of(key) is not None

    def _is_gone(self, key: PartitionName) -> bool:
        """Whether there is a partition that the image does not have, or has of another topic."""
        partition, found = self._partitions.get(key), self._image_of(key)
        return partition is not None and (found is None or found[0].id != partition.topic_id)

    def _hold(self, key: PartitionName) -> bool:
        """Lets a new partition wait if checkpoints may still have its name; whether they may."""
        if self._forget_deleted is None or not self.logs.is_stale(TopicPartition(*key)):
            return False
        self._unapplied.pop(key, None)
        self._held[key] = None
        self._forget_deleted()
        return True

    # --- the cluster around, for leaders

    @property
    def lag_ms_max(self) -> int:
        return self._lag_ms_max()

    def broker(self, broker_id: int) -> BrokerImage | None:
        return None if self._image is None else self._image.brokers.get(broker_id)

    def _brokers_changed(self) -> None:
        """Leaders look at their replicas again, in turns of the loop if they are many."""
        if self._call_soon is None:
            for key, partition in self._partitions.items():
                self._attempt(key, partition.brokers_changed)
            return
        is_under_way = bool(self._unchecked)
        self._unchecked.update(dict.fromkeys(self._partitions))
        if not is_under_way and self._unchecked:
            self._call_soon(self._check_next)

    def _check_next(self) -> None:
        assert self._call_soon is not None
        for key in tuple(islice(self._unchecked, ISR_CHECKS_PER_TURN_MAX)):
            del self._unchecked[key]
            partition = self._partitions.get(key)
            if partition is not None:
                self._attempt(key, partition.brokers_changed)
        if self._unchecked:
            self._call_soon(self._check_next)

    def shrink_isr(self) -> Iterator[None]:
        """Proposes sets without the replicas that fell behind; pauses now and then."""
        # The keys alone: ten thousand new pairs would have the collector look for garbage.
        for number, key in enumerate(tuple(self._partitions), 1):
            partition = self._partitions.get(key)
            if partition is not None:
                self._attempt(key, partition.shrink_isr)
            if number % ISR_CHECKS_PER_TURN_MAX == 0:
                yield

    def _attempt(self, key: tuple[str | int, ...], step: Callable[[], None]) -> None:
        """Takes the step of a partition or a topic in a turn of many: one that fails costs none of
        the others theirs. It is not tried again; the next change of the same may mend it.
        """
        try:
            step()
        except Exception as error:  # noqa: BLE001 - whatever it is, the others have their turns.
            name = "-".join(map(str, key))
            self._report(
                f"{name} could not follow a change of the metadata: {error!r}; restart the broker "
                "if it is not served"
            )

    # --- settings

    def rules(self, topic: str) -> TopicRules:
        found = self._rules.get(topic)
        if found is None:
            found = topic_rules(self._topic_config(topic), self.node_id)
            # Those of a topic that is gone are not kept: it may come back with other settings.
            if self._image is not None and topic in self._image.topics:
                self._rules[topic] = found
        return found

    def is_sending_throttled(self, partition: Partition) -> bool:
        """Whether what followers fetch of it counts against the rate of leaders."""
        throttled = self.rules(partition.topic).leader_throttled
        return throttled is None or partition.number in throttled

    def holds_back(self, partition: Partition, replica_id: int) -> bool:
        """Whether a follower has to wait for its records."""
        return (
            self.is_sending_throttled(partition)
            and replica_id not in partition.isr
            and self.leader_throttle.is_exceeded()
        )

    def is_fetching_throttled(self, partition: Partition) -> bool:
        """Whether what the replica here fetches counts against the rate of followers."""
        throttled = self.rules(partition.topic).follower_throttled
        return throttled is None or partition.number in throttled

    def record_fetched(self, partition: Partition, size: int) -> None:
        """Counts what the replica here has fetched."""
        if self.is_fetching_throttled(partition):
            self.follower_throttle.record(size)

    def must_pause(self, partition: Partition, *, is_in_sync: bool) -> bool:
        """Whether the replica here has to wait before it fetches more."""
        return (
            not is_in_sync
            and self.is_fetching_throttled(partition)
            and self.follower_throttle.is_exceeded()
        )

    def is_fetching_exceeded(self) -> bool:
        return self.follower_throttle.is_exceeded()

    # --- metadata

    def start(self, image: ClusterImage) -> Iterator[None]:
        """Takes over the whole image after the logs were loaded; logs it does not know are put
        aside. Pauses now and then.
        """
        self._image = image
        self._replica_logs.begin()
        yield from self.logs.mark_strays(self._is_ours, self._wall_ms())
        names = list(image.topics)
        for name in names:
            topic = image.topics.get(name)
            for number in () if topic is None else tuple(topic.partitions):
                self._apply_one((name, number))
                if self._has_outdated_log((name, number)):
                    self._reconfigured[name] = None
                yield
        self._replica_logs.started()
        self._replica_logs.report(self._partitions)
        self._drop_unknown_futures()
        # Some may have failed while logs were loaded, when nobody led anything yet.
        self.directory_failed()

    def _has_outdated_log(self, key: PartitionName) -> bool:
        """Whether the settings of a log have changed since it was loaded."""
        partition = self._partitions.get(key)
        log = None if partition is None else partition.log
        return log is not None and log.config != self._topic_config(key[0])

    def _drop_unknown_futures(self) -> None:
        """Removes the copies that belong to no log, if they cannot belong to one that is only not
        there now.
        """
        unknown = [key for key in self.logs.futures.logs if tuple(key) not in self._partitions]
        if unknown and len(self.logs.online_directories) < len(self.logs.directories):
            self._report(
                f"{count_text(len(unknown), 'unfinished move')} of partitions not known here: "
                "copies are kept as long as a log directory is offline"
            )
            return
        for key in unknown:
            self.logs.futures.drop(key, self._wall_ms())

    def _is_ours(self, partition: TopicPartition, topic_id: Uuid | None) -> bool:
        assert self._image is not None
        return has_replica(self._image, self.node_id, partition, topic_id)

    def apply(self, image: ClusterImage, delta: Delta) -> None:
        """Follows a change of the metadata."""
        self._image = image
        for topic in delta.deleted_topics.values():
            self._rules.pop(topic.name, None)
            self._unapplied.update(((topic.name, number), None) for number in topic.partitions)
        for topic_id, number in delta.partitions:
            self._unapplied[image.topics_by_id[topic_id].name, number] = None
        if delta.brokers:
            self._brokers_changed()
        for resource_type, name in delta.configs:
            if resource_type == ResourceType.TOPIC:
                self._reconfigured[name] = None
            elif resource_type == ResourceType.BROKER and name in {"", str(self.node_id)}:
                # A default of the broker may count for every topic without a value of its own.
                self._reconfigured.update(dict.fromkeys(image.topics))
        self._take_turn(makes=self._call_soon is None)

    def _take_turn(self, *, makes: bool = True, is_asked_for: bool = False) -> None:
        """Changes a few partitions and asks for another turn while there are more. New ones wait
        for a turn of the loop.
        """
        if self._call_soon is None:
            while self._unapplied or self._reconfigured:
                self._change_some(makes=True)
            return
        if is_asked_for:
            self._is_turn_asked_for = False
        self._change_some(makes=makes)
        if (self._unapplied or self._reconfigured) and not self._is_turn_asked_for:
            self._is_turn_asked_for = True
            self._call_soon(partial(self._take_turn, is_asked_for=True))

    def _change_some(self, *, makes: bool) -> None:
        made = ended = 0
        for key in tuple(islice(self._unapplied, PARTITIONS_CHANGED_PER_TURN_MAX)):
            if self._is_new(key):
                if self._hold(key):
                    continue
                made += 1
                if not makes or made > PARTITIONS_MADE_PER_TURN_MAX:
                    break
            elif self._is_gone(key):
                ended += 1
                if ended > PARTITIONS_ENDED_PER_TURN_MAX:
                    break
                if self._image_of(key) is not None:
                    # The new one has a turn of its own, after all that end.
                    self._unapplied[key] = self._unapplied.pop(key)
                    self._attempt(key, partial(self._end, key))
                    continue
            self._attempt(key, partial(self._apply_one, key))
        for topic in tuple(islice(self._reconfigured, TOPIC_CONFIGS_PER_TURN_MAX)):
            del self._reconfigured[topic]
            self._attempt((topic,), partial(self._config_changed, topic))

    def _image_of(self, key: PartitionName) -> tuple[TopicImage, PartitionImage] | None:
        """What the image has for a partition of this broker."""
        topic = None if self._image is None else self._image.topics.get(key[0])
        image = None if topic is None else topic.partitions.get(key[1])
        if topic is None or image is None or self.node_id not in image.replicas:
            return None
        return topic, image

    def _apply_one(self, key: PartitionName) -> None:
        """Makes, changes or ends a partition, as the image says."""
        self._unapplied.pop(key, None)
        self._held.pop(key, None)
        found, partition = self._image_of(key), self._partitions.get(key)
        if partition is not None and (found is None or found[0].id != partition.topic_id):
            self._end(key)
            partition = None
        elif found is None:
            self._delete(TopicPartition(*key))
        if found is None:
            return
        topic, image = found
        has_log_made = partition is None or self._replica_logs.is_unmade(key)
        if partition is None:
            partition = Partition(topic.name, topic.id, key[1], self.node_id, image, self)
            partition.min_insync_replicas = self.rules(topic.name).min_insync_replicas
            partition.request_flush = self._request_flush
        if has_log_made:
            partition.log = self._replica_logs.open(topic, key[1], image)
            if partition.log is not None and partition.log.is_new and self._sync_folders:
                self._sync_folders()
            self._partitions[key] = partition
        elif partition.log is not None and not partition.log.directory.is_online:
            self._directory_failed(partition)
        was_leader, epoch_before = partition.is_leader, partition.leader_epoch
        partition.update(image)
        if self.followers is not None:
            self.followers.update(partition)
        if self.remote is not None:
            self.remote.update(partition)
        if self.moves is not None:
            self.moves.update(partition)
        self._report_directory(partition)
        if partition.is_leader != was_leader or (
            was_leader and partition.leader_epoch != epoch_before
        ):
            self._leadership_changed(partition)

    def _directory_failed(self, partition: Partition) -> None:
        """The disk of its log is gone."""
        if self.moves is not None:
            # A swap may be about to put a log on another disk in its place.
            self.moves.finish_swap(partition)
        log = partition.log
        if log is None or log.directory.is_online:
            return
        partition.failed_directory = log.directory.directory_id
        # Readers keep what they are reading; nobody gets more.
        log.close_when_settled()
        self._lose(partition)

    def _end(self, key: PartitionName) -> None:
        """This broker no longer has the partition."""
        partition = self._partitions.pop(key)
        self._replica_logs.short.discard(key)
        self._replica_logs.forget(key)
        if self.remote is not None:
            self.remote.lose(partition, is_deleted=self._is_deleted(partition.topic_id))
        if self.moves is not None:
            self.moves.cancel(partition)
        self._lose(partition)
        self._delete(TopicPartition(*key))

    def _delete(self, key: TopicPartition) -> None:
        self.logs.delete([key], self._wall_ms())
        self.logs.futures.drop(key, self._wall_ms())

    def _is_deleted(self, topic_id: Uuid) -> bool:
        return self._image is not None and topic_id not in self._image.topics_by_id

    def _config_changed(self, topic: str) -> None:
        self._rules.pop(topic, None)
        image = None if self._image is None else self._image.topics.get(topic)
        if image is None:
            return
        self.logs.update_topic_config(topic, image.partitions)
        minimum = self.rules(topic).min_insync_replicas
        for number in image.partitions:
            partition = self._partitions.get((topic, number))
            if partition is None:
                continue
            if partition.min_insync_replicas != minimum:
                partition.min_insync_replicas = minimum
                partition.advance_high_watermark()
            if self.remote is not None:
                self.remote.update(partition)

    def moved(self, partition: Partition) -> None:
        """The partition has another log, in another directory."""
        if self.remote is not None:
            self.remote.update(partition)

    def _report_directory(self, partition: Partition) -> None:
        """Tells where the replica is, if the metadata has it elsewhere. One whose directory failed
        is still there: the metadata may have the target of its move already, which is online, and
        then no other replica would lead.
        """
        image, log = partition.image, partition.log
        assigned = assigned_directory(image, self.node_id)
        found = None if log is None else log.directory.directory_id
        if log is None and assigned is not None:
            found = partition.failed_directory
        reported = None if self.moves is None else self.moves.reported_directory(partition)
        found = reported or found
        if found is None and assigned is None and has_other_copy(image, self.node_id):
            # It is in a directory that is offline, if anywhere: another replica has to lead.
            found = LOST if log is None else None
        key = (partition.topic, partition.number)
        if key in self.logs.unfilled and self._replica_logs.check_unfilled(key, image):
            found = LOST
        differs = found is not None and found != assigned
        if differs and partition.log is not None and partition.log.is_new and self._sync_folders:
            # The controller takes what is reported for something that lasts.
            self._unreported[partition.topic, partition.number] = None
            return
        self._assigned(partition.topic_id, partition.number, found if differs else None)

    def folders_synced(self) -> None:
        """The folders that had been made when that began are durable."""
        unreported, self._unreported = self._unreported, {}
        for key in unreported:
            if key in self._partitions:
                self._report_directory(self._partitions[key])

    def directory_failed(self) -> None:
        """A directory went offline: its partitions are no longer led."""
        for directory in self.logs.directories:
            if not directory.is_online:
                self._unapplied.update(
                    ((key.topic, key.partition), None) for key in directory.every_log
                )
                for future in directory.futures.values():
                    # Also those whose moves have ended, which nobody else looks after.
                    future.close_when_settled()
        self._take_turn()

    def _lose(self, partition: Partition) -> None:
        """The log of the partition is gone, and so is its leadership."""
        was_leader = partition.is_leader
        if self.moves is not None:
            self.moves.leave(partition)
        if self.followers is not None:
            self.followers.unfollow(partition)
        partition.log = None
        partition.stop_leading()
        if was_leader:
            self._leadership_changed(partition)


def has_replica(
    image: ClusterImage, node_id: int, partition: TopicPartition, topic_id: Uuid | None
) -> bool:
    """Whether a node has a replica of a partition, of the topic with that id if it is known."""
    topic = image.topics.get(partition.topic)
    if topic is None or partition.partition not in topic.partitions:
        return False
    is_same = topic_id in {None, topic.id}
    return is_same and node_id in topic.partitions[partition.partition].replicas
