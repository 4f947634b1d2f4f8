"""Seeded stories of a replica that moves while everything happens to it, and what must hold.

A story draws some dozen events: records of all kinds, trims, retention, compaction, other leaders
that cut the log, moves, other targets and cancellations, throttles, deletions, disks that fail and
come back, processes that die with and without their unsynced writes. After each event and at the
end, when all disks are back and nothing happens any more:

- AlterReplicaLogDirs has Kafka's answer;
- the log is the one of the twin that never moved: records, bounds, epochs, producers, transactions;
- a move ends, where it was asked to; nothing of it is left on a disk or in memory;
- the controller knows the directory;
- no more is copied than the throttle allows, and a copy has the settings of its topic.
"""

from __future__ import annotations

import gc
import sys
from contextlib import contextmanager, suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

from kaa.controller.directories import UNASSIGNED
from kaa.log.append import AppendSource
from kaa.log.errors import LogError, StorageError
from kaa.log.log import FetchIsolation
from kaa.log.lookup import MAX_TIMESTAMP
from kaa.log.producer_snapshots import encode_producer_snapshot
from kaa.log.sim_files import CrashError, Fault
from kaa.model.kinds import AppendOrigin
from kaa.records.batch import iter_batches
from kaa.replication.follower import fetcher
from kaa.replication.moves import UNLIMITED
from kaa.wire.errors import Errors
from tests.simulation.moves.bench import (
    KEY,
    NODE,
    OTHER,
    PATHS,
    PIECE_BYTES,
    SECONDS_MAX,
    TOPIC_CONFIG,
    Bench,
    Broker,
    directory_id,
)
from tests.unit.log.batches import ABORT, COMMIT, batch, marker
from tests.unit.log.logs import fetch_offset
from tests.unit.replication.movers import contents

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kaa.log.log import UnifiedLog
    from kaa.log.sim_files import CrashMode, Inspection, Operation

EVENTS: Final = 40
SLOW_BYTES_PER_SECOND: Final = 3_000
# Producers are forgotten some time after their last record.
TIMESTAMP_MS: Final = 4_000_000_000_000


class Story:
    """One story; `run` tells it and raises AssertionError where something does not hold."""

    def __init__(self, seed: int) -> None:
        self.bench = Bench(seed)
        self.random = self.bench.kernel.random
        # Where the log may be when nothing happens any more.
        self.allowed: set[str] = {self.bench.broker.log().directory.path}
        # Where it was sent since it was last at rest.
        self.targets: set[str] = set()
        self.target = ""
        # Whether the disk failed while the cleaner worked, perhaps after it was done.
        self._may_be_compacted = False
        self.gone: tuple[str, ...] = ()
        self._sequences: dict[int, int] = {}
        self._open: set[int] = set()
        self._used: set[int] = set()
        # When a throttled move began, and how much it has to copy at least at that rate.
        self._slow: tuple[float, int] | None = None
        # Where the log starts, as DeleteRecords was answered.
        self._trimmed = 0

    def run(self, events: int = EVENTS) -> None:
        kinds: list[tuple[Callable[[], None], int]] = [
            (self.append, 12),
            (self.trim, 2),
            (self.retain, 2),
            (self.compact, 2),
            (self.follow_another_leader, 3),
            (self.alter, 8),
            (self.throttle, 3),
            (self.delete, 1),
            (self.fail_a_disk, 1),
            (self.crash, 2),
            (self.wait, 8),
        ]
        calls, weights = zip(*kinds, strict=True)
        for _ in range(events):
            (event,) = self.random.choices(calls, weights)
            self.bench.kernel.say("story", event.__name__)
            event()
            self.bench.broker.flush_rolled()
            self.check()
        self.settle()

    # --- events

    def wait(self) -> None:
        self.bench.kernel.run_for(self.random.choice([0.0003, 0.003, 0.03, 0.3]))

    def on_both(self, change: Callable[[Broker], Any]) -> None:
        """Does the same to the log and to its twin; to neither, if the log is not there now."""
        if isinstance(self.bench.broker.find(), Errors):
            return
        with suppress(StorageError):
            change(self.bench.broker)
        if not isinstance(self.bench.broker.find(), Errors) and not self._broken():
            change(self.bench.twin)

    def _broken(self) -> bool:
        """Whether the directory of the log has just failed."""
        log = self.bench.broker.logs.logs.get(KEY)
        return log is not None and not log.directory.is_online

    def append(self) -> None:
        if isinstance(self.bench.broker.find(), Errors):
            return
        for _ in range(self.random.randint(1, 6)):
            producer = self.random.choice([-1, 1, 2, 3])
            content, origin = self._content(producer)
            self.on_both(
                lambda broker, content=content, origin=origin: broker.partition().append(  # type: ignore[misc]
                    bytearray(content), now_ms=self.bench.wall_ms(), source=AppendSource(origin)
                )
            )

    def _content(self, producer: int) -> tuple[bytearray, AppendOrigin]:
        """Plain and idempotent records, transactions, and their ends."""
        while producer in self._used and producer not in self._sequences:
            # Forgotten with its records; another one takes its place.
            producer += 10
        is_ended = producer in self._open and self.random.random() < 0.5
        if is_ended:
            self._open.discard(producer)
            kind = self.random.choice([ABORT, COMMIT])
            return marker(kind, producer, 0, timestamp=TIMESTAMP_MS), AppendOrigin.COORDINATOR
        count = self.random.randint(1, 3)
        pairs = [
            (b"%d" % self.random.randrange(9), self.random.randbytes(self.random.randrange(60)))
            for _ in range(count)
        ]
        if producer < 0:
            return batch(pairs, timestamp=TIMESTAMP_MS), AppendOrigin.CLIENT
        # The first of a producer is at the edge of its sequences.
        sequence = self._sequences.get(producer, 2**31 - 2)
        self._sequences[producer] = (sequence + count) % 2**31
        self._used.add(producer)
        if producer % 10 > 1:
            self._open.add(producer)
        content = batch(
            pairs,
            producer_id=producer,
            producer_epoch=0,
            sequence=sequence,
            timestamp=TIMESTAMP_MS,
            transactional=producer % 10 > 1,
        )
        return content, AppendOrigin.CLIENT

    def trim(self) -> None:
        """DeleteRecords."""
        self._slow = None
        found = self.bench.broker.find()
        if isinstance(found, Errors):
            return
        # As it is, also in the middle of a swap.
        log = found.online_log()
        length = log.high_watermark - log.log_start_offset
        offset = log.log_start_offset + int(self.random.random() ** 2 * length)

        def change(broker: Broker) -> None:
            directory = broker.logs.delete_records(KEY, offset)
            if directory is not None:
                self._jobs(broker.logs.checkpoint_starts(directory))

        self.on_both(change)
        if not self._broken() and not self.bench.files.dead:
            self._trimmed = max(self._trimmed, offset)

    def retain(self) -> None:
        """Segments before the log start go, as with every tick."""
        self.on_both(lambda broker: self._jobs(broker.logs.tick(self.bench.wall_ms())))

    def compact(self) -> None:
        """Not while the log moves, nor while a disk with a copy is away: as with a follower that is
        away for long, it would go on with records that compaction removed. What keys are kept
        depends on where segments begin.
        """
        if isinstance(self.bench.broker.find(), Errors) or len(self.bench.folders()) > 1:
            return
        # Group commit has to be done, too.
        marks = {broker.log().high_watermark for broker in (self.bench.broker, self.bench.twin)}
        segments = self._segments(self.bench.broker)
        if len(marks) == 1 and segments == self._segments(self.bench.twin):
            for path in PATHS:
                # No power cut brings a copy back that was given up so long ago.
                self.bench.files.sync_directory(path)
            self.on_both(lambda broker: self._jobs(broker.logs.cleaner.work(self.bench.wall_ms())))
            self._may_be_compacted = self._broken()

    def _segments(self, broker: Broker) -> list[tuple[int, int]]:
        return [(segment.base_offset, segment.size) for segment in broker.log().segments]

    def consume(self) -> None:
        """Everything is read, with the aborted transactions, as for a consumer."""
        found = self.bench.broker.find()
        if isinstance(found, Errors):
            return
        log = found.online_log()
        with suppress(StorageError):
            offset = log.log_start_offset
            while (
                region := found.read(offset, 300, FetchIsolation.TXN_COMMITTED, min_one=True).region
            ) is not None:
                try:
                    offset = list(iter_batches(region.read()))[-1].next_offset
                finally:
                    region.release()

    def look_up(self) -> None:
        """ListOffsets by time, and for the greatest one."""
        found = self.bench.broker.find()
        if not isinstance(found, Errors):
            with suppress(StorageError):
                fetch_offset(found.online_log(), MAX_TIMESTAMP)
                fetch_offset(found.online_log(), TIMESTAMP_MS)

    def _jobs(self, jobs: Any) -> None:
        for job in jobs:
            if job is not None:
                try:
                    job.run()
                except OSError as error:
                    job.failed(error)
                else:
                    job.done(self.bench.wall_ms())

    def follow_another_leader(self) -> None:
        """An unclean election: the log is cut, and goes on with what the other one wrote."""
        self._slow = None
        self._trimmed = 0
        if isinstance(self.bench.broker.find(), Errors):
            return
        self.bench.broker.log()
        self.bench.lead(OTHER)
        log, epoch = self.bench.twin.log(), self.bench.leader_epoch
        bases = [each for each in _batches(log) if each >= log.log_start_offset]
        offset = self.random.choice([*bases, log.log_end_offset])
        new = [
            bytes(batch(2, base_offset=offset + 2 * number, leader_epoch=epoch, value_bytes=33))
            for number in range(self.random.randrange(5))
        ]

        async def change(broker: Broker) -> None:
            partition = broker.partition()
            now_ms = self.bench.wall_ms()
            await partition.cut_to(offset, leader_epoch=epoch, now_ms=now_ms)
            for content in new:
                await partition.append_as_follower(
                    memoryview(content), leader_epoch=epoch, now_ms=now_ms
                )
            if self.bench.is_group_committed:
                # A leader counts what its replicas have on stable storage.
                partition.online_log().flush(now_ms)
            partition.follow(offset + 2 * len(new), 0, epoch)
            partition.wake_all()

        for broker in (self.bench.broker, self.bench.twin):
            with suppress(LogError):
                broker.run(change(broker))
        if self._forgot_producers():
            # What is only in memory is no longer comparable: both begin with what the disk has.
            self.restart("kill")
        # What was cut away may have been of a transaction, or a sequence.
        self._learn_producers()
        if self.random.random() < 0.5:
            self.wait()
        self.bench.lead(NODE)

    def alter(self) -> None:
        """One or several targets for the same partition in one request; the last one counts."""
        paths = self.random.choices(
            [*PATHS, "/unknown"], [3, 3, 3, 1], k=self.random.choice([1, 1, 2])
        )
        bench = self.bench
        target, found = paths[-1], bench.broker.find()
        if isinstance(found, Errors):
            # Not remembered for a log that is only not there now.
            expected = found
        elif target in self._offline() or (self._offline() and target not in self._known_places()):
            # One that is offline may have a copy already.
            expected = Errors.KAFKA_STORAGE_ERROR
        else:
            expected = Errors.NONE
        if target not in PATHS:
            expected = Errors.LOG_DIR_NOT_FOUND
        # One that a crash ends may have begun.
        self.targets |= set(paths) & set(PATHS)
        answer = bench.alter(*paths)
        if bench.files.dead:
            return
        if self._offline() - set(self.gone) and answer is Errors.KAFKA_STORAGE_ERROR:
            return
        assert answer is expected, f"{answer!r} instead of {expected!r} for {paths}"
        if not isinstance(found, Errors) and answer is not Errors.LOG_DIR_NOT_FOUND:
            # A copy on a disk that is away cannot be given up, and is gone on with.
            away = [name for name in bench.folders() if name.endswith("-future")]
            offline = self._offline()
            place = target if answer is Errors.NONE else bench.broker.log().directory.path
            self.allowed = {place} | {name[:2] for name in away if name[:2] in offline}
        if answer is Errors.NONE:
            self._slow = None
            log, future = bench.broker.log(), bench.broker.logs.futures.get(KEY)
            is_new = future is not None and future.log_end_offset <= log.log_start_offset
            if bench.bytes_per_second == SLOW_BYTES_PER_SECOND and is_new:
                whole = [each for each in log.segments if each.base_offset >= log.log_start_offset]
                size = sum(segment.size for segment in whole) - log.segments.active.size
                self._slow = (bench.kernel.now, size - 3 * PIECE_BYTES)

    def move(self) -> None:
        """Asks for a move to a directory that may fail at it."""
        if not isinstance(self.bench.broker.find(), Errors):
            answer = self.bench.alter(self.target)
            assert answer in {Errors.NONE, Errors.KAFKA_STORAGE_ERROR}
            self.targets.add(self.target)

    def flush(self) -> None:
        """Everything, and the checkpoints that go with it."""
        broker = self.bench.broker
        if isinstance(broker.find(), Errors):
            return
        with suppress(LogError):
            broker.log().flush(self.bench.wall_ms())
            broker.partition().flushed()
        for directory in broker.logs.online_directories:
            with suppress(LogError):
                directory.checkpoint_recovery_points()
                directory.checkpoint_high_watermarks()

    def _offline(self) -> set[str]:
        return {each.path for each in self.bench.broker.logs.directories if not each.is_online}

    def throttle(self) -> None:
        self._slow = None
        rates = [SLOW_BYTES_PER_SECOND, UNLIMITED]
        self.bench.bytes_per_second = self.random.choice(rates)

    def delete(self) -> None:
        if self._offline():
            return
        self.bench.delete_topic()
        self.bench.kernel.run_for(1)
        assert self.bench.folders() == [], self.bench.folders()
        self.bench.create_topic()
        self._renewed()

    def _renewed(self) -> None:
        """The partition is a new one."""
        self.allowed = {self.bench.broker.log().directory.path}
        self.targets = set()
        self._sequences, self._open, self._used = {}, set(), set()
        self._slow = None
        self._trimmed = 0

    def fail_a_disk(self) -> None:
        """It fails while the broker serves, and is back after a while, at the next start."""
        if self.gone:
            return
        directories = self.bench.broker.logs.directories
        directory = self.random.choice(directories)
        self.allowed |= self._places()
        # A directory that the controller never heard of has no other replica lead.
        had_log = KEY in directory.logs and self.bench.assigned != UNASSIGNED
        directory.fail(OSError("it failed"))
        seconds = self.random.choice([0, 0.01, 1])
        self.bench.kernel.run_for(seconds)
        assert [each.path for each in directories if not each.is_online] == [directory.path]
        if had_log and seconds == 1 and isinstance(self.bench.broker.find(), Errors):
            # Else no other replica would lead.
            assert self.bench.assigned == directory_id(directory.path), "the failure is not told"
        self.restart("kill", self.random.choice([(), (directory.path,)]))

    def break_a_disk(
        self,
        path: str,
        operation: Operation | Inspection,
        code: int,
        skip: int,
        events: Sequence[str],
    ) -> set[str]:
        """From some operation on all of that kind fail on one disk; which directories are offline
        then. What was not acknowledged may be there after the next start, or not.
        """
        self.allowed |= self._places()
        files = self.bench.files
        files.faults = [Fault(operation, f"{path}/", errno=code, skip=skip, times=10**9)]
        for name in events:
            getattr(self, name)()
        self.bench.kernel.run_for(2)
        self.allowed |= self._places()
        files.faults = []
        offline = self._offline()
        assert offline <= {path}, f"{offline} are offline, and {path} failed"
        return offline

    def _places(self) -> set[str]:
        """Where the log is, and where it may be on its way to."""
        return self._known_places() | self.targets

    def _known_places(self) -> set[str]:
        logs = self.bench.broker.logs
        known = [logs.logs.get(KEY), logs.futures.get(KEY)]
        return {log.directory.path for log in known if log is not None}

    def crash(self) -> None:
        """At one of the next operations on files, if there are so many."""
        mode: CrashMode = self.random.choice(["kill", "lost", "torn"])
        self.allowed |= self._places()
        files = self.bench.files
        files.crash_at = len(files.history) + self.random.randrange(12)
        for event in self.random.choices([self.wait, self.append, self.alter], k=4):
            if not files.dead:
                with suppress(CrashError):
                    event()
        self.allowed |= self._places()
        gone = self.random.choice([(), (), (self.random.choice(PATHS),)])
        self.restart(mode, gone)

    def restart(self, mode: CrashMode, gone: tuple[str, ...] = ()) -> None:
        """After which the twin is cut to what the disks have, where that is less."""
        self.allowed |= self._places()
        self._slow = None
        durable = self._durable()
        self.gone = gone
        self.bench.restart(mode, gone=gone)
        self.targets |= {future.directory.path for future in self._futures()}
        found = self.bench.broker.find()
        if isinstance(found, Errors):
            assert found is not Errors.KAFKA_STORAGE_ERROR or gone, "a log is not there"
            self.gone = ()
            self.bench.restart("kill")
        self._compare_after_crash(None if mode == "kill" else durable)
        self.bench.renew_twin()
        self._learn_producers()

    def _futures(self) -> list[Any]:
        return list(self.bench.broker.logs.futures.logs.values())

    def _durable(self) -> int:
        """Up to where everything was promised to outlast a power cut."""
        log = self.bench.broker.logs.logs.get(KEY)
        if log is None:
            return 0
        acknowledged = log.high_watermark if self.bench.is_group_committed else 0
        return max(log.recovery_point, acknowledged)

    def _compare_after_crash(self, durable: int | None) -> None:
        """What was durable is there, and nothing is that was not written."""
        log, twin = self.bench.broker.log(), self.bench.twin.log()
        assert log.log_start_offset >= self._trimmed, "records that were deleted are back"
        end = twin.log_end_offset if durable is None else durable
        start = max(log.log_start_offset, twin.log_start_offset)
        found, expected = _batches(log), _batches(twin)
        if self._may_be_compacted:
            self._may_be_compacted = False
            return
        for base in expected:
            if base >= start and (base in found or base < end):
                assert found.get(base) == expected[base], f"another batch at {base}"

    def _forgot_producers(self) -> bool:
        """Whether the log knows less of producers than its twin. As in Kafka, one that is cut is
        left with what snapshots and records tell, and a copy has no snapshots from before the move
        for producers whose records are gone.
        """
        found = self.bench.broker.find()
        if isinstance(found, Errors):
            return False
        logs = (found.online_log(), self.bench.twin.log())
        mine, others = (_state(log)["producers"] for log in logs)
        return bool(mine != others)

    def _learn_producers(self) -> None:
        """What producers would learn of their state."""
        producers = self.bench.twin.log().producer_state.producers
        self._sequences = {
            producer: (entry.last_sequence + 1) % 2**31 for producer, entry in producers.items()
        }
        self._open = {
            producer for producer, entry in producers.items() if entry.transaction_first_offset >= 0
        }

    # --- what must hold

    def check(self) -> None:
        bench = self.bench
        plain = [folder for folder in bench.folders() if folder.endswith(f"/{KEY}")]
        assert len(plain) <= 1, f"two logs: {plain}"
        for future in self._futures():
            assert future.config == TOPIC_CONFIG, "a copy has other settings than its topic"
            assert future.directory.path not in self.gone
        if self._slow is not None and not self._futures():
            began, size = self._slow
            seconds = bench.kernel.now - began
            assert seconds >= size / SLOW_BYTES_PER_SECOND, "a move was faster than its throttle"
            self._slow = None

    def settle(self) -> None:
        """Nothing happens any more, and all disks are there."""
        bench = self.bench
        if self._offline():
            self.restart("kill")
        bench.bytes_per_second = UNLIMITED
        bench.kernel.run_until(self.is_at_rest, SECONDS_MAX, "the move ends")
        path = bench.broker.log().directory.path
        assert path in self.allowed, f"it is in {path} and should be in {sorted(self.allowed)}"
        assert bench.folders() == [f"{path}/{KEY}"], bench.folders()
        assert not bench.broker.moves._moves
        assert not bench.broker.log().is_moving
        left_open = [name for name in bench.files.open_paths() if "-delete" in name]
        assert not left_open, f"nobody closes {left_open}"
        self.compare()
        self.allowed = {path}

    def is_at_rest(self) -> bool:
        broker = self.bench.broker
        if broker.logs.futures.logs or broker.moves._moves or isinstance(broker.find(), Errors):
            return False
        if (
            self.bench.is_group_committed
            and broker.log().recovery_point < broker.log().log_end_offset
        ):
            return False
        return self.bench.assigned == directory_id(broker.log().directory.path)

    def compare(self) -> None:
        found, expected = _state(self.bench.broker.log()), _state(self.bench.twin.log())
        for name, value in expected.items():
            assert found[name] == value, f"{name}: {found[name]!r} instead of {value!r}"


def _state(log: UnifiedLog) -> dict[str, Any]:
    """What counts of a log. Of aborted transactions that is which batches they hide: one whose
    records were trimmed need not be known any more.
    """
    state = contents(log)
    batches = _batches(log)
    state["aborted"] = {
        base
        for producer, first, last in state["aborted"]
        for base, content in batches.items()
        if first <= base < last and int.from_bytes(content[43:51], "big", signed=True) == producer
    }
    producers = log.producer_state.producers
    state["producers"] = encode_producer_snapshot(producers[key] for key in sorted(producers))
    # Where each epoch begins, of those that have something left.
    epochs = [*state["epochs"], None]
    state["epochs"] = [
        (entry.epoch, max(entry.start_offset, state["start"]))
        for entry, following in pairwise(epochs)
        if following is None or following.start_offset > state["start"]
    ]
    return state


def _batches(log: UnifiedLog) -> dict[int, bytes]:
    """By their base offsets."""
    found: dict[int, bytes] = {}
    records, position = contents(log)["records"], 0
    while position < len(records):
        end = position + 12 + int.from_bytes(records[position + 8 : position + 12], "big")
        found[int.from_bytes(records[position : position + 8], "big")] = records[position:end]
        position = end
    return found


@contextmanager
def quiet() -> Iterator[None]:
    """Stories may run: what processes that were killed leave complains to nobody, and what was
    there before is not looked through whenever they are collected. Copies are appended in pieces
    of few batches, so that much may happen between two.
    """
    gc.freeze()
    hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        with patch.object(fetcher, "FOLLOWER_PIECE_BATCHES_MAX", 2):
            yield
    finally:
        gc.unfreeze()
        gc.collect()
        sys.unraisablehook = hook


def tell(seed: int) -> None:
    story = Story(seed)
    try:
        story.run()
    except (AssertionError, LogError, OSError, RuntimeError) as error:
        error.add_note(f"seed {seed}\n" + "\n".join(list(story.bench.kernel.lines)[-30:]))
        raise
    finally:
        for broker in (story.bench.broker, story.bench.twin):
            broker.loop.kill()
