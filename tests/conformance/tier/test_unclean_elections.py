"""Which remote segment is read for which offset after unclean elections, beside Kafka's own choice.

Replicas append, follow each other, lose records to leaders that never had them, cut their segments
where they like and copy them; each leader goes on from what it believes the store to have. So
segments of one epoch overlap, and some hold records that the log has lost. For every offset of the
last leader's log Kafka says which epoch it has (`LeaderEpochFileCache`) and which segment it takes
(`RemoteLogMetadataCache`), where each epoch ends (its answer to OffsetForLeaderEpoch), and which
segments lie wholly in the log (`RemoteLogManager`). What the broker's reader and a Spark plan take
is compared with that, and with the records that the log really has.
"""

from __future__ import annotations

import base64
from random import Random
from typing import Any, NamedTuple

import pytest

from kaa.spark.tier.chain import chain_of
from kaa.spark.tier.plan import pieces_of
from kaa.tier.metadata.cache import RemoteLogCache
from kaa.tier.metadata.model import (
    EpochStart,
    SegmentMetadata,
    SegmentState,
    SegmentUpdate,
    TopicIdPartition,
)
from kaa.tier.metadata.records import RemoteLogEvent, encode_event
from kaa.tier.plan import _Lineage, copied_up_to, epochs_within
from kaa.tier.reading.reader import epoch_of, lost_from
from kaa.wire.primitives import Uuid
from tests.oracle import Oracle
from tests.oracle.model import JavaError

pytestmark = pytest.mark.oracle

HISTORIES = 300
STEPS = 60
REPLICAS = 3
PARTITION = TopicIdPartition(Uuid(b"u" * 16), "orders", 1)


class Record(NamedTuple):
    """One record: the epoch it was appended in, and a number that no other one has."""

    epoch: int
    number: int


class Replica:
    """A log, with where its epochs and its segments begin."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.epochs: list[EpochStart] = []
        self.bases = [0]

    @property
    def end(self) -> int:
        return len(self.records)

    def append(self, record: Record) -> None:
        self.note_epoch(record.epoch)
        self.records.append(record)

    def note_epoch(self, epoch: int) -> None:
        if not self.epochs or self.epochs[-1].epoch < epoch:
            self.epochs.append(EpochStart(epoch, self.end))

    def truncate(self, end: int) -> None:
        del self.records[end:]
        self.epochs = [entry for entry in self.epochs if entry.offset < end]
        self.bases = [base for base in self.bases if base < end] or [0]

    def roll(self) -> None:
        if self.end > self.bases[-1]:
            self.bases.append(self.end)

    def follow(self, leader: Replica, limit: int) -> None:
        """Cuts what the leader does not have, and copies up to so many records."""
        same = 0
        while same < min(self.end, leader.end) and self.records[same] == leader.records[same]:
            same += 1
        self.truncate(same)
        for record in leader.records[same : same + limit]:
            self.append(record)


class History:
    """See the module's text."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.replicas = [Replica() for _ in range(REPLICAS)]
        self.leader = self.replicas[0]
        self.epoch = 0
        self.start = 0
        self.cache = RemoteLogCache()
        self.events: list[RemoteLogEvent] = []
        self.contents: dict[Uuid, tuple[Record, ...]] = {}
        self.elections = self._numbers = 0
        self.leader.note_epoch(0)
        for _ in range(STEPS):
            self._step()

    def _step(self) -> None:
        random = self.random
        chance = random.random()
        if chance < 0.4:
            for _ in range(random.randint(1, 8)):
                self._numbers += 1
                self.leader.append(Record(self.epoch, self._numbers))
        elif chance < 0.6:
            follower = random.choice(self.replicas)
            if follower is not self.leader:
                follower.follow(self.leader, random.choice((3, 100)))
                if random.random() < 0.3:
                    follower.roll()
        elif chance < 0.72:
            self.leader.roll()
        elif chance < 0.86:
            self._copy()
        elif chance < 0.95:
            self._elect()
        elif chance < 0.97:
            self._delete()
        else:
            self.start = random.randint(self.start, max(self.start, self.leader.end // 2))

    def _elect(self) -> None:
        """Anybody: one that lacks records makes the others lose them."""
        self.leader = self.random.choice(self.replicas)
        self.epoch += self.random.randint(1, 2)
        self.elections += 1
        self.start = min(self.start, self.leader.end)
        self.leader.note_epoch(self.epoch)

    def _copy(self) -> None:
        """As a leader does: closed segments from where it believes the store to be."""
        leader = self.leader
        copied = copied_up_to(self.cache, leader.epochs, leader.end)
        for base, following in zip(leader.bases, leader.bases[1:], strict=False):
            if following - 1 > copied and following > self.start and self.random.random() < 0.8:
                self._copy_one(base, following)

    def _copy_one(self, base: int, following: int) -> None:
        segment = SegmentMetadata(
            PARTITION,
            Uuid(self.random.randbytes(16)),
            base,
            following - 1,
            1,
            1,
            1,
            100 * (following - base),
            SegmentState.COPY_SEGMENT_STARTED,
            epochs_within(self.leader.epochs, base, following),
        )
        self.contents[segment.segment_id] = tuple(self.leader.records[base:following])
        self._note(segment)
        if self.random.random() < 0.95:
            self._update(segment, SegmentState.COPY_SEGMENT_FINISHED)

    def _delete(self) -> None:
        segments = self.cache.segments()
        if segments:
            segment = self.random.choice(segments)
            self._update(segment, SegmentState.DELETE_SEGMENT_STARTED)
            if self.random.random() < 0.7:
                self._update(segment, SegmentState.DELETE_SEGMENT_FINISHED)

    def _update(self, segment: SegmentMetadata, state: SegmentState) -> None:
        self._note(SegmentUpdate(PARTITION, segment.segment_id, 2, 1, state))

    def _note(self, event: RemoteLogEvent) -> None:
        self.events.append(event)
        if isinstance(event, SegmentMetadata):
            self.cache.announce(event)
        else:
            assert isinstance(event, SegmentUpdate)
            self.cache.update(event)

    # --- what the last leader's log says

    def epochs(self) -> list[EpochStart]:
        """As a log has them whose start has moved."""
        entries = self.leader.epochs
        before = [entry for entry in entries if entry.offset <= self.start]
        after = [entry for entry in entries if entry.offset > self.start]
        return [entry._replace(offset=self.start) for entry in before[-1:]] + after

    def record_in(self, segment: SegmentMetadata, offset: int) -> Record:
        return self.contents[segment.segment_id][offset - segment.start_offset]

    def question(self) -> dict[str, Any]:
        return {
            "events": [base64.b64encode(encode_event(event)).decode() for event in self.events],
            "chain": [list(entry) for entry in self.epochs()],
            "start": self.start,
            "end": self.leader.end,
            "epochs_max": self.epoch,
        }


@pytest.fixture(scope="module")
def answered(oracle: Oracle) -> list[tuple[History, Any]]:
    histories = [History(seed) for seed in range(HISTORIES)]
    answers = oracle.jvm.call("remote.choose", [history.question() for history in histories])
    for answer in answers:
        assert not isinstance(answer, JavaError), answer
    return list(zip(histories, answers, strict=True))


def chosen_by_kafka(history: History, answer: Any) -> dict[int, str]:
    """By offset the id of the segment, where there is one."""
    return {
        history.start + place: found[1].split()[0]
        for place, found in enumerate(answer["chosen"])
        if len(found) > 1 and found[1] is not None
    }


def test_the_reader_takes_the_segment_that_kafka_takes(
    answered: list[tuple[History, Any]],
) -> None:
    for history, answer in answered:
        epochs = history.epochs()
        for place, found in enumerate(answer["chosen"]):
            offset = history.start + place
            epoch = epoch_of(epochs, offset)
            assert epoch == (found[0] if found else None)
            segment = None if epoch is None else history.cache.find(epoch, offset)
            name = None if segment is None else f"{segment.segment_id} {segment.state.name}"
            assert name == (found[1] if found else None), offset
            if segment is not None:
                assert history.record_in(segment, offset) == history.leader.records[offset]


def test_the_reader_goes_on_exactly_as_far_as_the_log_does(
    answered: list[tuple[History, Any]],
) -> None:
    """Kafka's reads on to the end of its segment there."""
    clipped = 0
    for history, answer in answered:
        epochs, log = history.epochs(), history.leader.records
        for offset in chosen_by_kafka(history, answer):
            epoch = epoch_of(epochs, offset)
            assert epoch is not None
            segment = history.cache.find(epoch, offset)
            assert segment is not None
            end = offset
            while (
                end <= segment.end_offset
                and end < len(log)
                and history.record_in(segment, end) == log[end]
            ):
                end += 1
            assert min(lost_from(segment, epochs, offset), segment.end_offset + 1) == end
            clipped += end <= segment.end_offset
    assert clipped > HISTORIES


def test_a_plan_of_spark_has_what_kafka_finds_and_the_records_of_the_log(
    answered: list[tuple[History, Any]],
) -> None:
    overlaps = 0
    for history, answer in answered:
        named = {one.epoch for each in history.cache.segments() for one in each.leader_epochs}
        ends = {epoch: tuple(end) for epoch, end in enumerate(answer["ends"])}
        chain = chain_of(named, ends)
        pieces = pieces_of(history.cache, chain, history.start, history.leader.end)
        taken: dict[int, SegmentMetadata] = {}
        for piece in pieces:
            for offset in range(piece.start, piece.end):
                assert offset not in taken
                taken[offset] = piece.segment
        found = chosen_by_kafka(history, answer)
        assert taken.keys() >= found.keys()
        for offset, segment in taken.items():
            assert segment.state == SegmentState.COPY_SEGMENT_FINISHED
            assert history.record_in(segment, offset) == history.leader.records[offset]
            overlaps += found.get(offset) != str(segment.segment_id)
    assert overlaps, "no two segments had the same records"


def test_segments_that_lie_wholly_in_the_log(answered: list[tuple[History, Any]]) -> None:
    kinds = set()
    for history, answer in answered:
        lineage = _Lineage(history.epochs(), history.leader.end)
        known = {entry.epoch for entry in history.epochs()}
        for segment in history.cache.segments():
            if not known & {entry.epoch for entry in segment.leader_epochs}:
                # Kaa asks only of those that share an epoch with the log.
                continue
            is_within = answer["within"][str(segment.segment_id)]
            assert lineage.holds(segment) == is_within, segment
            kinds.add(is_within)
    assert kinds == {True, False}


def test_histories_have_what_they_are_about(answered: list[tuple[History, Any]]) -> None:
    assert sum(history.elections for history, _ in answered) > HISTORIES
    lost = sum(
        1
        for history, _ in answered
        for segment in history.cache.segments()
        for offset in range(segment.start_offset, segment.end_offset + 1)
        if offset >= history.leader.end
        or history.record_in(segment, offset) != history.leader.records[offset]
    )
    assert lost > HISTORIES
