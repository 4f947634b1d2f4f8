"""Every offset of a log, read from the store, beside the log itself."""

from __future__ import annotations

import asyncio
from functools import partial
from random import Random

import pytest

from kaa.log.append import append_as_leader
from kaa.log.log import FetchIsolation, UnifiedLog
from kaa.records.batch import iter_batches
from kaa.tier.metadata.model import EpochStart
from kaa.tier.reading.reader import OffsetNotRemoteError, epoch_of, lost_from
from kaa.tier.store.layout import Part, object_name
from kaa.tier.store.objects import MemoryStore
from kaa.tier.store.segments import DamagedObjectError
from tests.unit.log.batches import ABORT, COMMIT, batch, marker
from tests.unit.log.logs import SMALL, fetch_offset, new_disk, new_log
from tests.unit.tier.metadata.samples import segment
from tests.unit.tier.remote_logs import Tier, epochs_of


def filled(seed: int = 1, batches: int = 60) -> UnifiedLog:
    """Several leaders, and batches of several records whose times are not in order."""
    random = Random(seed)
    log = new_log(new_disk(), SMALL)
    epoch, timestamp = 0, 1_000
    for _ in range(batches):
        if random.random() < 0.1:
            epoch += random.randint(1, 3)
        timestamp += random.randint(-5, 30)
        records = batch(random.randint(1, 4), timestamp=timestamp)
        append_as_leader(log, records, leader_epoch=epoch, now_ms=0)
    log.update_high_watermark(log.log_end_offset)
    assert len(log.segments) > 5
    return log


def local(log: UnifiedLog, offset: int, bytes_max: int) -> bytes:
    result = log.read(
        offset, bytes_max=bytes_max, isolation=FetchIsolation.LOG_END, min_one_batch=True
    )
    assert result.region is not None
    return result.region.read()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("bytes_max", [1, 200, 100_000])
def test_every_offset(seed: int, bytes_max: int) -> None:
    log = filled(seed)

    async def story() -> None:
        tier = Tier()
        await tier.copy(log)
        epochs = epochs_of(log)
        end = log.segments.active.base_offset
        async with tier.reader() as reader:
            for offset in range(end):
                found = await reader.read(
                    tier.cache, epochs, offset, end_offset=end, bytes_max=bytes_max, min_one=True
                )
                first = next(iter_batches(found.data))
                assert first.base_offset <= offset <= first.last_offset
                assert local(log, offset, len(found.data)) == found.data
                assert len(found.data) <= bytes_max or found.next_offset == first.last_offset + 1
            with pytest.raises(OffsetNotRemoteError):
                await reader.read(
                    tier.cache, epochs, end, end_offset=end, bytes_max=1, min_one=True
                )

    asyncio.run(story())


def test_nothing_at_or_above_the_end_is_read() -> None:
    log = filled()

    async def story() -> None:
        tier = Tier()
        await tier.copy(log)
        async with tier.reader() as reader:
            found = await reader.read(
                tier.cache, epochs_of(log), 0, end_offset=5, bytes_max=10_000, min_one=True
            )
            assert all(one.last_offset < 5 for one in iter_batches(found.data))
            assert found.next_offset <= 5

    asyncio.run(story())


def test_aborted_transactions() -> None:
    log = new_log(new_disk(), SMALL)

    def add(records: bytearray) -> None:
        append_as_leader(log, records, leader_epoch=0, now_ms=0)

    for number in range(12):
        transactional = {"producer_id": number, "producer_epoch": 0, "transactional": True}
        add(batch(3, sequence=0, **transactional))  # type: ignore[arg-type]
        add(batch(2))
        kind = ABORT if number % 2 else COMMIT
        add(marker(kind, number, 0))
    log.update_high_watermark(log.log_end_offset)

    async def story() -> None:
        tier = Tier()
        await tier.copy(log)
        epochs, end = epochs_of(log), log.segments.active.base_offset
        async with tier.reader() as reader:
            for start in range(0, end, 3):
                for stop in range(start + 1, end, 7):
                    found, _ = await reader.aborted(tier.cache, epochs, start, stop)
                    expected = log.collect_aborted(start, stop)
                    remote = [one for one in expected if one.last_offset < end]
                    assert sorted(found) == sorted(remote), (start, stop)

    asyncio.run(story())


@pytest.mark.parametrize("seed", range(3))
def test_by_time(seed: int) -> None:
    log = filled(seed)

    async def story() -> None:
        tier = Tier()
        await tier.copy(log)
        epochs, end = epochs_of(log), log.segments.active.base_offset
        async with tier.reader() as reader:
            for timestamp in range(990, 2_200, 13):
                found = await reader.find_by_time(tier.cache, epochs, timestamp, 0)
                expected = fetch_offset(log, timestamp)
                if expected is None or expected.offset >= end:
                    assert found is None
                else:
                    assert found is not None
                    assert (found.timestamp, found.offset) == expected[:2]

    asyncio.run(story())


def test_records_that_a_leader_lost_are_not_read() -> None:
    """Two leaders wrote the same offsets; the log has what the second one wrote."""
    lost, kept = filled(1, 60), filled(2, 60)
    for log, epoch in ((lost, 0), (kept, 50)):
        log.leader_epochs.clear()
        log.leader_epochs.assign(epoch, 0)

    async def story() -> None:
        tier = Tier()
        await tier.copy(lost)
        await tier.copy(kept)
        async with tier.reader() as reader:
            for offset in range(0, kept.segments.active.base_offset, 5):
                found = await reader.read(
                    tier.cache,
                    epochs_of(kept),
                    offset,
                    end_offset=1 << 60,
                    bytes_max=1,
                    min_one=True,
                )
                assert local(kept, offset, len(found.data)) == found.data

    asyncio.run(story())


def test_damage_is_an_error_of_the_read() -> None:
    log = filled()

    async def story() -> None:
        tier = Tier()
        await tier.copy(log)
        name = object_name(tier.cache.segments()[0], Part.OFFSET_INDEX)
        tier.store.objects[name] = b"\x00" * len(tier.store.objects[name])
        log_name = object_name(tier.cache.segments()[1], Part.LOG)
        tier.store.objects[log_name] = tier.store.objects[log_name][:40]
        async with tier.reader() as reader:
            for segment in tier.cache.segments()[:2]:
                with pytest.raises(DamagedObjectError):
                    await reader.read(
                        tier.cache,
                        epochs_of(log),
                        segment.start_offset,
                        end_offset=1 << 60,
                        bytes_max=100,
                        min_one=True,
                    )

    asyncio.run(story())


def test_a_segment_is_read_up_to_where_the_log_went_another_way() -> None:
    copied = segment(1, 0, 199, (0, 0), (1, 100), (3, 150))
    same = [EpochStart(0, 0), EpochStart(1, 100), EpochStart(3, 150), EpochStart(4, 200)]
    assert lost_from(copied, same, 10) == 200
    assert lost_from(copied, [EpochStart(0, 0), EpochStart(2, 80)], 10) == 80
    assert lost_from(copied, [EpochStart(0, 0), EpochStart(1, 100), EpochStart(2, 120)], 10) == 120
    # Epochs before the start of the log are forgotten, and nothing before it is read.
    assert lost_from(copied, [EpochStart(1, 110), EpochStart(3, 150)], 120) == 200


def test_epoch_of_an_offset() -> None:
    log = filled()
    epochs = epochs_of(log)
    for offset in range(log.log_end_offset):
        assert epoch_of(epochs, offset) == log.leader_epochs.epoch_for_offset(offset)
    assert epoch_of([], 3) is None


class DamagingStore(MemoryStore):
    """Its next answer has a wrong byte at a place of the object; what it keeps is sound."""

    def __init__(self) -> None:
        super().__init__()
        self.place: int | None = None

    async def get_range(self, name: str, start: int, end: int) -> bytes:
        data = bytearray(await super().get_range(name, start, end))
        if self.place is not None:
            data[self.place - start] ^= 0xFF
            self.place = None
        return bytes(data)


def _unproven(content: bytes) -> set[int]:
    """Outside the checksums of batches: first offsets and leader epochs."""
    return {
        batch.position + place
        for batch in iter_batches(content)
        for place in (*range(8), *range(12, 16))
    }


def test_a_damaged_answer_is_an_error_of_that_read_alone() -> None:
    log = filled(batches=30)

    async def story() -> None:
        tier = Tier()
        tier.store = tier.segments.store = store = DamagingStore()
        await tier.copy(log)
        epochs = epochs_of(log)
        first = tier.cache.find(0, 0)
        assert first is not None
        unproven = _unproven(store.objects[object_name(first, Part.LOG)])
        for place in sorted(set(range(first.size_bytes)) - unproven)[::3]:
            async with tier.reader() as reader:
                ask = partial(reader.read, tier.cache, epochs, 0, bytes_max=10_000, min_one=True)
                store.place = place
                with pytest.raises(DamagedObjectError):
                    pytest.fail(f"{place}: {await ask(end_offset=first.end_offset + 1)}")
                found = await ask(end_offset=first.end_offset + 1)
                assert found.data == local(log, 0, first.size_bytes), place

    asyncio.run(story())


def test_a_damaged_size_does_not_lead_past_records() -> None:
    log = filled(batches=30)

    async def story() -> None:
        tier = Tier()
        tier.store = tier.segments.store = store = DamagingStore()
        await tier.copy(log)
        first = tier.cache.find(0, 0)
        assert first is not None
        content = store.objects[object_name(first, Part.LOG)]
        _, second, *_ = iter_batches(content)
        async with tier.reader() as reader:
            # The length of the first batch, which leads to the one that is asked for.
            store.place = 10
            ask = partial(reader.read, tier.cache, epochs_of(log), second.last_offset)
            with pytest.raises(DamagedObjectError):
                await ask(end_offset=log.log_end_offset, bytes_max=1, min_one=True)
            found = await ask(end_offset=log.log_end_offset, bytes_max=1, min_one=True)
            assert found.next_offset == second.next_offset

    asyncio.run(story())
