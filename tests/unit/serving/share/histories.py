"""Random histories of a share partition, played on the machine and written as data.

What a command does depends on what came before, so the machine chooses as it goes: what to read,
which records to acknowledge, which write to finish. The log is a row of batches, some with gaps
before them as compaction leaves them, some of aborted transactions.
"""

from __future__ import annotations

from random import Random
from typing import Any

from kaa.coordinators.share.batches import StateBatch
from kaa.serving.share.acquisition import Acquired, Fetched, FetchedBatch, acquire
from kaa.serving.share.machine import (
    Acknowledgement,
    AcknowledgementError,
    DeliveryChange,
    SharePartition,
    ShareSettings,
)
from kaa.wire.errors import Errors

MEMBERS = ("m1", "m2", "m3")
LOCK_MS = 100
OPS = ("fetch", "fetch", "fetch", "acknowledge", "acknowledge", "written", "written", "release")


class History:
    """One partition with its log, driven by chance."""

    # Leaves out what makes Kafka's class fail.
    spares_kafka = True

    def __init__(self, seed: int, *, has_aborted: bool = True, is_plain: bool = False) -> None:
        """A plain one is not loaded from anything, and its log has no gaps."""
        random = self.random = Random(seed)
        self.settings = ShareSettings(
            LOCK_MS, random.choice((2, 3, 5, 10)), random.choice((10, 25, 60))
        )
        self.aborted = {1, 2} if has_aborted else set[int]()
        self.is_plain = is_plain
        self.log = self.make_log()
        self.stored = [] if is_plain else self.make_stored()
        self.start = 0 if is_plain else random.choice((0, self.log[0].base_offset))
        if self.stored:
            self.start = min(self.start, self.stored[0].first_offset)
        self.partition = SharePartition(lambda: self.settings)
        self.partition.load(self.start, self.stored)
        self.now_ms = 1_000
        # What members were handed and have not said anything about, as they believe.
        self.held: dict[str, list[Acquired]] = {member: [] for member in MEMBERS}
        self.pending: list[tuple[int, DeliveryChange]] = []
        self.write_count = 0
        self.told: list[dict[str, Any]] = [{"offsets": self.offsets()}]
        self.commands: list[dict[str, Any]] = []

    def make_log(self) -> list[FetchedBatch]:
        random, offset, log = self.random, 0, []
        for _ in range(60):
            if not self.is_plain and random.random() < 0.08:
                offset += random.randint(1, 6)
            last = offset + random.choice((0, 0, 1, 3, 7, 15))
            log.append(FetchedBatch(offset, last, random.random() < 0.15 and bool(self.aborted)))
            offset = last + 1
        return log

    def make_stored(self) -> list[StateBatch]:
        random, offset, stored = self.random, self.log[0].base_offset, []
        if random.random() < 0.5:
            return []
        for _ in range(random.randint(1, 6)):
            offset += random.choice((0, 0, 1, 4))
            last = offset + random.randint(0, 6)
            count = random.randint(1, self.settings.delivery_count_max - 1)
            stored.append(StateBatch(offset, last, count, random.choice((0, 0, 2, 4))))
            offset = last + 1
        return stored

    def offsets(self) -> dict[str, Any]:
        partition = self.partition
        return {
            "next": partition.next_fetch_offset(),
            "start": partition.start_offset,
            "end": partition.end_offset,
            "done": partition.delivery_complete_count,
            "room": partition.can_acquire,
        }

    # --- commands

    def play(self, count: int) -> None:
        for _ in range(count):
            op = self.random.choice(OPS)
            if self.random.random() < 0.1:
                op = self.random.choice(("expire", "log_start"))
            getattr(self, op)()

    def note(self, command: dict[str, Any], **told: Any) -> None:
        self.commands.append({"now": self.now_ms} | command)
        self.told.append({"offsets": self.offsets(), "written": []} | told)

    def fetch(self) -> None:
        random, partition = self.random, self.partition
        if not (partition.can_acquire if self.spares_kafka else partition.make_room()):
            return
        offset = partition.next_fetch_offset()
        readable = [batch for batch in self.log if batch.last_offset >= offset]
        batches = readable[: random.randint(1, 6)]
        if not batches:
            return
        is_full = partition.in_flight_count >= self.settings.record_locks_max
        if self.spares_kafka and is_full and batches[0].base_offset > partition.end_offset:
            # Kafka fails on what it read after a gap at the end of a full window.
            return
        is_cut = any(batch.base_offset < partition.start_offset for batch in batches)
        if self.spares_kafka and is_cut:
            # Kafka fails on an aborted batch that begins before the window.
            batches = [batch._replace(is_aborted=False) for batch in batches]
        member = random.choice(MEMBERS)
        fetched = Fetched(
            member,
            offset,
            batches,
            random.choice((1, 3, 10, 500)),
            random.choice((1, 4, 500)),
            random.random() < 0.4,
        )
        acquired = acquire(partition, fetched, self.now_ms)
        self.held[member] += acquired
        self.check_acquired(acquired)
        # The producer of aborted batches is 1 or 2, in turns, so that its transactions are many.
        producers = [1 + batch.base_offset % 2 if batch.is_aborted else -1 for batch in batches]
        self.note(
            {
                "op": "fetch",
                "member": member,
                "offset": offset,
                "batches": [
                    [batch.base_offset, batch.last_offset, producer]
                    for batch, producer in zip(batches, producers, strict=True)
                ],
                "aborted": [[one, 0] for one in sorted(self.aborted)],
                "records_max": fetched.records_max,
                "batch_size": fetched.batch_size,
                "record_limit": fetched.is_record_limit,
            },
            acquired=[list(one) for one in acquired],
        )

    def check_acquired(self, acquired: list[Acquired]) -> None:
        """For those who look over the shoulder of the history."""

    def acknowledge(self) -> None:
        random = self.random
        member = random.choice(MEMBERS)
        batches = []
        for _ in range(random.randint(1, 3)):
            held = self.held[random.choice(MEMBERS) if random.random() < 0.05 else member]
            if not held:
                continue
            one = held.pop(random.randrange(len(held)))
            first, last = one.first_offset, one.last_offset
            if random.random() < 0.4:
                first = random.randint(first, last)
                last = random.randint(first, last)
            if random.random() < 0.05:
                last += random.randint(1, 9)
            if random.random() < 0.5:
                types = [random.choice((0, 1, 1, 2, 2, 3, 4))]
            else:
                types = [random.choice((0, 1, 1, 2, 3, 4)) for _ in range(last - first + 1)]
            if random.random() < 0.02:
                types[0] = 9
            batches.append(Acknowledgement(first, last, types))
        if batches:
            self.act(
                lambda: self.partition.acknowledge(member, batches, self.now_ms),
                {"op": "acknowledge", "member": member, "batches": [list(one) for one in batches]},
            )

    def release(self) -> None:
        if self.random.random() < 0.3:
            member = self.random.choice(MEMBERS)
            self.held[member].clear()
            self.act(lambda: self.partition.release(member), {"op": "release", "member": member})

    def act(self, act: Any, command: dict[str, Any]) -> None:
        try:
            change = act()
        except AcknowledgementError as refusal:
            self.note(command, error=int(refusal.error))
            return
        written = []
        if change.batches:
            written = [self.write(change)]
        self.note(command, error=int(Errors.NONE), written=written)

    def write(self, change: DeliveryChange) -> dict[str, Any]:
        self.pending.append((self.write_count, change))
        self.write_count += 1
        return {
            "start": change.start_offset,
            "done": change.delivery_complete_count,
            "batches": [list(one) for one in change.batches],
        }

    def written(self) -> None:
        if self.pending:
            number, change = self.pending.pop(self.random.randrange(len(self.pending)))
            is_ok = self.random.random() < 0.8
            self.finish(change, is_ok=is_ok)
            self.note({"op": "written", "write": number, "ok": is_ok})

    def finish(self, change: DeliveryChange, *, is_ok: bool) -> None:
        self.partition.finish(change, is_written=is_ok)

    def expire(self) -> None:
        self.now_ms += self.random.choice((LOCK_MS // 4, LOCK_MS // 2, LOCK_MS))
        change = self.partition.expire(self.now_ms)
        written = []
        if change is not None:
            # What ran out is written for the next leader, and counts here whatever becomes of it.
            written = [self.write(change)]
            self.pending.pop()
            self.write_count -= 1
            self.finish(change, is_ok=True)
        self.note({"op": "expire"}, written=written)

    def log_start(self) -> None:
        # Kafka loses track of a batch that the start cuts while a write of it is under way.
        is_safe = not self.pending or not self.spares_kafka
        if is_safe and self.random.random() < 0.5:
            offset = self.partition.start_offset + self.random.randint(0, 9)
            self.partition.log_start_moved(offset)
            self.note({"op": "log_start", "offset": offset})
