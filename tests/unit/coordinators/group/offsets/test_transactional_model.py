"""Offsets within and without transactions in any order, with slow commits, failed appends and lost
leadership.

The log is read a second time by a few lines that know nothing of timelines. After every step the
newest offsets are what they make of the whole log, and those that readers see what they make of its
committed part.
"""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kaa.coordinators.group.machine import GroupMachine
from kaa.coordinators.group.offsets import commands
from kaa.coordinators.group.offsets.fetch import fetch_offsets
from kaa.coordinators.group.offsets.transactional import commit_offsets
from kaa.coordinators.group.settings import GroupSettings
from kaa.coordinators.machine import Moment, WritableRecord
from kaa.model.pieces import finish, in_pieces
from kaa.wire.errors import Errors
from kaa.wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kaa.wire.messages.k09_offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kaa.wire.messages.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kaa.wire.messages.offsets_classic import OffsetCommitKey, OffsetCommitValue
from tests.unit.coordinators.group.bench import fetched

GROUPS = ("g", "h")
PARTITIONS = (0, 1)
PRODUCERS = (7, 8)
NO_PRODUCER = -1
NOW = Moment(1_700_000_000_000, 0)
Position = tuple[str, int]


class Entry(NamedTuple):
    """A record in the log, or the marker of a producer if there is none."""

    record: WritableRecord | None
    producer_id: int = NO_PRODUCER
    is_commit: bool = False


class Told(NamedTuple):
    """What a log says: offsets that count, and those of open transactions."""

    offsets: dict[Position, int]
    unstable: set[Position]


def read(log: list[Entry]) -> Told:
    counting: dict[Position, tuple[int, int]] = {}
    waiting: dict[int, dict[Position, tuple[int, int]]] = {}
    for place, entry in enumerate(log):
        if entry.record is None:
            ended = waiting.pop(entry.producer_id, {})
            for name, found in ended.items() if entry.is_commit else ():
                counting[name] = max(counting.get(name, found), found)
            continue
        key, value = entry.record.key, entry.record.value
        assert isinstance(key, OffsetCommitKey)
        assert isinstance(value, OffsetCommitValue)
        by_producer = (
            counting if entry.producer_id < 0 else waiting.setdefault(entry.producer_id, {})
        )
        by_producer[key.group, key.partition] = (place, value.offset)
    return Told(
        {name: offset for name, (_, offset) in counting.items()},
        {name for pending in waiting.values() for name in pending},
    )


class TransactionalOffsetsModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.log: list[Entry] = []
        self.is_holding = False
        self.count = 0
        self.load()

    def load(self) -> None:
        self.machine = GroupMachine(GroupSettings, str)
        self.machine.timeline.commit(len(self.log))
        log, self.log = self.log, []
        for entry in log:
            self.append(entry)
        self.is_holding = False

    def append(self, entry: Entry) -> None:
        """Writes and replays as a shard does."""
        machine, offset = self.machine, len(self.log)
        machine.timeline.move(offset)
        if entry.record is None:
            assert (
                list(machine.replay_end_transaction(entry.producer_id, is_commit=entry.is_commit))
                == []
            )
        else:
            machine.replay(offset, entry.record.key, entry.record.value, entry.producer_id, 0)
        self.log.append(entry)

    def settle(self) -> None:
        if not self.is_holding:
            self.machine.timeline.commit(len(self.log))

    @rule(group=st.sampled_from(GROUPS), number=st.sampled_from(PARTITIONS))
    def commit(self, group: str, number: int) -> None:
        self.count += 1
        partition = OffsetCommitRequestPartition(
            partition_index=number, committed_offset=self.count
        )
        topic = OffsetCommitRequestTopic(name="t", partitions=[partition])
        request = OffsetCommitRequest(group_id=group, topics=[topic])
        committed = commands.commit_offsets(self.machine, request, 9, NOW)
        for record in finish(in_pieces(committed)).records:
            self.append(Entry(record))
        self.settle()

    @rule(
        group=st.sampled_from(GROUPS),
        number=st.sampled_from(PARTITIONS),
        producer_id=st.sampled_from(PRODUCERS),
    )
    def commit_in_transaction(self, group: str, number: int, producer_id: int) -> None:
        self.count += 1
        partition = TxnOffsetCommitRequestPartition(
            partition_index=number, committed_offset=self.count
        )
        topic = TxnOffsetCommitRequestTopic(name="t", partitions=[partition])
        request = TxnOffsetCommitRequest(
            transactional_id="id",
            group_id=group,
            producer_id=producer_id,
            producer_epoch=0,
            topics=[topic],
        )
        for record in finish(in_pieces(commit_offsets(self.machine, request, NOW))).records:
            self.append(Entry(record, producer_id))
        self.settle()

    @rule(producer_id=st.sampled_from(PRODUCERS), is_commit=st.booleans())
    def end(self, producer_id: int, is_commit: bool) -> None:
        self.append(Entry(None, producer_id, is_commit))
        self.settle()

    @rule()
    def hold(self) -> None:
        self.is_holding = True

    @precondition(lambda self: self.is_holding)
    @rule(is_good=st.booleans())
    def release(self, is_good: bool) -> None:
        """What was held back is committed, or failed to be appended."""
        self.is_holding = False
        if not is_good:
            del self.log[self.machine.timeline.committed_offset :]
            self.machine.timeline.revert(len(self.log))
        self.settle()

    @rule(keeps_log=st.booleans())
    def lose_leadership(self, keeps_log: bool) -> None:
        if not keeps_log:
            del self.log[self.machine.timeline.committed_offset :]
        self.load()

    @invariant()
    def memory_is_what_the_log_says(self) -> None:
        newest = read(self.log)
        committed = read(self.log[: self.machine.timeline.committed_offset])
        for group in GROUPS:
            topic = OffsetFetchRequestTopics(name="t", partition_indexes=list(PARTITIONS))
            request = OffsetFetchRequestGroup(group_id=group, topics=[topic])
            for told, is_stable in ((committed, False), (newest, True)):
                (found,) = finish(
                    fetch_offsets(self.machine, request, fetched, is_stable=is_stable)
                )
                for one in found.partitions:
                    name = (group, one.number)
                    if is_stable and name in told.unstable:
                        assert one.error is Errors.UNSTABLE_OFFSET_COMMIT
                    else:
                        expected = (told.offsets.get(name, -1), Errors.NONE)
                        assert (one.offset, one.error) == expected


TestTransactionalOffsets = TransactionalOffsetsModel.TestCase
TestTransactionalOffsets.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
