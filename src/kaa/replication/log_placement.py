"""The log that a replica gets: the one that was found, one that is taken over, or a new one.

`ReplicaLogs` opens it. Whether a replica that has no log here may get a new, empty one, and in
which directory, is decided so:

A log that is not found may never have been made, or it lies in a directory that is offline or was
replaced. An empty log in its place would be led, and everything that was acknowledged would be gone
without a word. The metadata says where the replica belongs (KIP-858):

- In a directory that is online: made there. With another one offline only if the assignment is the
  first one, or another replica has the data: else it may be a move from the one that is offline.
- In a directory that this broker does not know: made if another replica has the data and all
  directories are online; refused with one offline, which may be the one.
- In none: made. With a directory offline only if it is new, or another replica has the data.

A log that is found counts, unless it is noted that another one went on in its place
(`kaa.log.void`): that one is somewhere else, and the replica has none here.

A log that was there and that something else than the broker has removed is made again only if
another replica has the data. So is one that the metadata has in a directory with which no broker
seems to have run: all that was there is gone. And so is one whose directory this broker has
reported, which it does when the folder is durable. Only of a partition that nobody has led yet it
is certain that there was nothing.

The copy that a move has begun of a log that is gone takes its place if a swap had begun when the
broker was killed: then the folder of the source shows that (`kaa.log.lost`). Else the copy may lack
what was written last, and there was a log: nothing is served unless another replica has the data.

A log with records whose file with the topic's id a power cut took is the partition's only if no
other replica has the data, and the metadata has it in that directory, or a move has begun a copy of
it that names the topic. Otherwise it is put aside.

An eligible leader replica (KIP-966) is counted on for everything that was committed, and elected
when nobody else is left. One that has lost its log reports a lost directory first, with which no
controller elects it. Then it is filled from its leader, and tells where it is when it is no longer
among the eligible ones, but in sync. A stop before that is not a clean one for the cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kaa.controller.directories import LOST, MIGRATING, RESERVED
from kaa.log.errors import LogError, ShortageError
from kaa.log.names import STRAY_FOLDER_SUFFIX, parse_folder_name
from kaa.model.topics import TopicPartition
from kaa.replication.start_report import (
    begun_beside_text,
    begun_empty_text,
    copy_text,
    kept_text,
    missing_copy_text,
    missing_text,
    outdated_text,
    outdone_text,
    stray_text,
    void_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from kaa.controller.image import PartitionImage, TopicImage
    from kaa.log.log import UnifiedLog
    from kaa.log.manager import LogManager
    from kaa.model.topics import PartitionName
    from kaa.replication.partition import Partition
    from kaa.wire.primitives import Uuid


class ReplicaLogs:
    """Opens the logs of this broker's replicas. Between `begin` and `report` the broker starts: a
    log that is not here may then be one that was lost.
    """

    def __init__(
        self,
        node_id: int,
        logs: LogManager,
        wall_ms: Callable[[], int],
        report: Callable[[str], None],
    ) -> None:
        self._node_id = node_id
        self._logs = logs
        self._wall_ms = wall_ms
        self._report = report
        self._is_starting = False
        # Replicas whose log could not be made because too many files were open.
        self.short: set[PartitionName] = set()
        # Partitions without a log at the start that may have had one before.
        self._begun_empty: dict[PartitionName, None] = {}

    def begin(self) -> None:
        """The broker starts, and opens the logs of all its replicas."""
        self._is_starting = True

    def started(self) -> None:
        """Whatever is opened from now on is new, or was made while the broker ran."""
        self._is_starting = False
        self._logs.begin_use()

    def report(self, partitions: Mapping[PartitionName, Partition]) -> None:
        """Says what was found at the start, and what was not."""
        missing: dict[bool, list[PartitionName]] = {True: [], False: []}
        for key, partition in partitions.items():
            if partition.log is None:
                has_other = has_other_copy(partition.image, self._node_id)
                if not has_other or not self.is_unmade(key):
                    missing[has_other].append(key)
        # Where the disk is lost to which a log was moved, what it left behind is all there is.
        lost = {TopicPartition(*key): partitions[key].topic_id for key in missing[False]}
        for folder in self._logs.keep_deleted(lost):
            self._report(kept_text(folder))
        for name in lost:
            for folder in self._logs.lost.void_folders(name):
                self._report(void_text(folder, str(self._logs.void.path)))
        for folder in self._logs.strays:
            self._report_stray(folder)
        self._report_outdated(partitions)
        for has_other, text in ((False, missing_text), (True, missing_copy_text)):
            if missing[has_other]:
                self._report(text(missing[has_other]))
        if self._begun_empty:
            self._report(begun_empty_text(list(self._begun_empty)))
            self._begun_empty.clear()

    def _report_outdated(self, partitions: Mapping[PartitionName, Partition]) -> None:
        """A disk that was restored from an old copy may have the log of a replica which is on one
        that is away. So it looks after a crash in a move as well, and so the log is served.
        """
        away = {
            each.directory_id: each.path for each in self._logs.directories if not each.is_online
        }
        online = {each.directory_id for each in self._logs.online_directories}
        found: dict[tuple[str, str], list[PartitionName]] = {}
        for key, partition in partitions.items() if away else ():
            if partition.log is None or has_other_copy(partition.image, self._node_id):
                continue
            assigned = assigned_directory(partition.image, self._node_id)
            # One without an identity, as that of a disk which is not mounted, may be any.
            place = away.get(assigned, away.get(None))
            if place is not None and assigned not in {None, LOST, *online}:
                found.setdefault((partition.log.directory.path, place), []).append(key)
        for (path, place), keys in found.items():
            self._report(outdated_text(keys, path, place))

    def _report_stray(self, folder: str) -> None:
        """Where an empty log has begun in its place, it shows that there was one."""
        found = parse_folder_name(folder.rpartition("/")[2])
        if found is None or found.partition not in self._begun_empty:
            outdone = self._logs.lost.outdone.get(folder)
            self._report(outdone_text(folder, outdone) if outdone else stray_text(folder))
            return
        del self._begun_empty[found.partition]
        self._report(begun_beside_text(folder, str(found.partition)))

    def open(self, topic: TopicImage, number: int, image: PartitionImage) -> UnifiedLog | None:
        """The log of a replica; None if there must be none, or its directory is offline."""
        key = TopicPartition(topic.name, number)
        was_short = key in self.short
        self.short.discard(key)
        directory_id = None
        future = self._logs.futures.get(key)
        if future is not None and future.topic_id != topic.id:
            future = None
        found = self._logs.get(key)
        # Beside a copy of this topic's log, it is what the copy was made of.
        is_source = future is not None or found is None or not is_nameless(found)
        if found is not None and not is_source and not is_own(found, image, self._node_id):
            self._logs.put_aside(key, self._wall_ms())
        if self._logs.get(key) is None:
            if future is not None and self._has_swapped(future, image):
                return self._promote(key, topic.id, is_reported=was_short)
            is_eligible = self._node_id in image.eligible_leader_replicas
            if (is_eligible or key in self._logs.unfilled) and self._note_unfilled(key, image):
                return None
            online = self._logs.online_directories
            has_offline = len(online) < len(self._logs.directories)
            if future is not None:
                if self._may_be_filled(future, image, has_offline=has_offline):
                    return self._promote(key, topic.id, is_reported=was_short)
                if not has_other_copy(image, self._node_id):
                    # There was a log, which may have more than this copy of it.
                    if not has_offline:
                        self._report(copy_text(future.folder, future.log_end_offset, str(key)))
                    return None
            place = place_log(
                image,
                self._node_id,
                [directory.directory_id for directory in online],
                has_offline=has_offline,
                is_new=not self._is_starting and image.partition_epoch == 0,
                is_lost=self._note_loss(key, image),
            )
            if place is None:
                return None
            directory_id = place.directory
            if self._is_starting and may_be_only_copy(image, self._node_id):
                self._begun_empty[topic.name, number] = None
        try:
            return self._logs.get_or_create(
                key, topic.id, self._wall_ms(), directory_id=directory_id
            )
        except ShortageError as error:
            self._try_again(key, error, is_reported=was_short)
            return None
        except LogError:
            # The directory is offline, and says so by itself.
            return None

    def _note_loss(self, key: TopicPartition, image: PartitionImage) -> bool:
        """Whether a log that is not here was once, and something else than this broker removed
        it. What is found out at the start is remembered.
        """
        if not self._is_starting or not may_be_only_copy(image, self._node_id):
            return self._logs.is_lost(key)
        assigned = assigned_directory(image, self._node_id)
        if not self._logs.is_lost(key) and self._logs.lost.was_there(assigned):
            self._logs.lost.add(key, assigned)
        return self._logs.is_lost(key)

    def _note_unfilled(self, key: TopicPartition, image: PartitionImage) -> bool:
        """Notes that a replica, whose log is not here, may be elected for what was in it, if others
        may be instead; whether it stays unfilled. Where there are none, no empty log comes in its
        place in any case.
        """
        eligible = image.eligible_leader_replicas
        others = {*image.isr, *eligible} - {self._node_id}
        if self._node_id in eligible and others:
            self._logs.unfilled.add(key)
        is_lost = assigned_directory(image, self._node_id) == LOST
        return self.check_unfilled(key, image) and not is_lost

    def is_unmade(self, key: PartitionName) -> bool:
        """Whether a replica has no log, and making one is to be tried again."""
        is_waiting = key in self._logs.unfilled and key not in self._logs.logs
        return is_waiting or key in self.short

    def check_unfilled(self, key: PartitionName, image: PartitionImage) -> bool:
        """Whether a replica must not be elected, since it lost what it is eligible for. It is not
        in sync without a log either: then it was elected before the controller knew. Where nobody
        counts on it, the loss is forgotten.
        """
        is_counted_on = self._node_id in image.eligible_leader_replicas or (
            self._node_id in image.isr and key not in self._logs.logs
        )
        if not is_counted_on:
            self.forget(key)
        return key in self._logs.unfilled

    def forget(self, key: PartitionName) -> None:
        """Nobody counts on what the replica has lost."""
        self._logs.unfilled.discard(TopicPartition(*key))

    def _has_swapped(self, future: UnifiedLog, image: PartitionImage) -> bool:
        """Whether the copy of a move is the log: a swap had begun, and has the source renamed. It
        begins when the metadata has the target.
        """
        targets = {None, future.directory.directory_id}
        is_assigned = assigned_directory(image, self._node_id) in targets
        return is_assigned and self._logs.lost.has_swapped(future)

    def _may_be_filled(
        self, future: UnifiedLog, image: PartitionImage, *, has_offline: bool
    ) -> bool:
        return not self._logs.is_lost(future.partition) and may_be_filled(
            image, self._node_id, future.directory.directory_id, has_offline=has_offline
        )

    def _promote(
        self, key: TopicPartition, topic_id: Uuid, *, is_reported: bool
    ) -> UnifiedLog | None:
        """The copy of a move takes the place of a log that is gone."""
        try:
            log = self._logs.futures.promote(key)
            self._logs.lost.forget(key, STRAY_FOLDER_SUFFIX, self._wall_ms())
            self._logs.check_topic_id(log, topic_id)
        except ShortageError as error:
            self._try_again(key, error, is_reported=is_reported)
            return None
        except LogError:
            return None
        return log

    def _try_again(self, key: TopicPartition, error: ShortageError, *, is_reported: bool) -> None:
        self.short.add(key)
        if not is_reported:
            self._report(f"no log can be made for {key}: {error}; it is tried again")


class Placement(NamedTuple):
    """Where a new log goes: the directory, None for the least loaded one."""

    directory: Uuid | None


def assigned_directory(image: PartitionImage, node_id: int) -> Uuid | None:
    """The directory that the metadata has for the replica on this broker; None if it has none.

    LOST is one that no broker has.
    """
    if len(image.directories) != len(image.replicas):
        return None
    directory = image.directories[image.replicas.index(node_id)]
    return None if directory in RESERVED and directory != LOST else directory


def has_other_copy(image: PartitionImage, node_id: int) -> bool:
    """Whether the data is on another broker that leads it or is in sync."""
    if image.leader not in {node_id, -1}:
        return True
    return any(replica != node_id for replica in image.isr)


def may_be_only_copy(image: PartitionImage, node_id: int) -> bool:
    """Whether somebody may have written to the partition by now, here alone."""
    was_led = image.leader != -1 or image.partition_epoch > 0
    return was_led and not has_other_copy(image, node_id)


def is_nameless(log: UnifiedLog) -> bool:
    """Whether a log with records does not tell of which topic it is."""
    return log.topic_id is None and log.log_end_offset > 0


def is_own(log: UnifiedLog, image: PartitionImage, node_id: int) -> bool:
    """Whether such a log is that of the replica, as far as the metadata tells: it is the only one,
    and where this broker has said that it is, when it was made. Else it may be what a topic of the
    same name left that was deleted meanwhile.
    """
    assigned = image.directories[image.replicas.index(node_id)] if image.directories else MIGRATING
    is_there = assigned in {MIGRATING, log.directory.directory_id}
    return is_there and may_be_only_copy(image, node_id)


def may_be_filled(
    image: PartitionImage, node_id: int, future_directory: Uuid | None, *, has_offline: bool
) -> bool:
    """Whether a future log may become the log of a replica that has no other and has lost none,
    though nothing shows that it has everything: another replica has the rest.

    With a directory offline the source may be there, with more than the future log has.
    """
    assigned = assigned_directory(image, node_id)
    is_there = assigned == future_directory or (assigned is None and not has_offline)
    return is_there and has_other_copy(image, node_id)


def place_log(
    image: PartitionImage,
    node_id: int,
    online: Collection[Uuid | None],
    *,
    has_offline: bool,
    is_new: bool,
    is_lost: bool = False,
) -> Placement | None:
    """Where to make a log that is not here; None if there must be none."""
    assigned = assigned_directory(image, node_id)
    has_other = has_other_copy(image, node_id)
    if is_lost and not has_other:
        return None
    if assigned is not None and assigned not in online:
        return None if has_offline or not has_other else Placement(None)
    is_safe = is_new if assigned is None else image.partition_epoch == 0
    if has_offline and not is_safe and not has_other:
        return None
    return Placement(assigned)
