from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kaa.log.files import RealFiles
from kaa.tier.metadata.model import SegmentMetadata
from kaa.tier.reading.cache import SegmentCache
from kaa.tier.reading.index_files import FOLDER, IndexFiles
from kaa.tier.store.layout import Part, object_name
from kaa.tier.store.objects import MemoryStore
from kaa.tier.store.segments import RemoteSegments, checksum, encode_written
from tests.unit.tier.metadata.samples import segment

INDEX = bytes(range(80))


def checked(number: int, part: Part, data: bytes) -> SegmentMetadata:
    """A segment whose metadata says what the part has to be."""
    one = segment(number, 10 * number, 10 * number + 9)
    return one._replace(custom_metadata=encode_written({part: checksum(data)}))


class Setting:
    """A directory whose indexes are opened as after each restart."""

    def __init__(self, folder: Path, executor: ThreadPoolExecutor) -> None:
        self.folder = folder
        self.executor = executor
        self.bytes_max = 1_000
        self.reports: list[str] = []

    async def opened(self) -> IndexFiles:
        files = IndexFiles(
            str(self.folder),
            RealFiles(),
            self.executor,
            lambda: self.bytes_max,
            self.reports.append,
        )
        await files.load()
        return files

    @property
    def names(self) -> set[str]:
        return {path.name for path in (self.folder / FOLDER).iterdir()}


def run(folder: Path, story: Callable[[Setting], Awaitable[None]]) -> None:
    async def main() -> None:
        with ThreadPoolExecutor(1) as executor:
            await story(Setting(folder, executor))

    asyncio.run(main())


def test_kept_over_a_restart_under_the_names_of_kafka(tmp_path: Path) -> None:
    async def story(setting: Setting) -> None:
        one = segment(7, 120, 129)
        files = await setting.opened()
        assert await files.read(one, Part.OFFSET_INDEX) is None
        await files.keep(one, Part.OFFSET_INDEX, INDEX)
        await files.keep(one, Part.TXN_INDEX, b"")
        # Parts that are not indexes are not kept.
        await files.keep(one, Part.PRODUCER_SNAPSHOT, b"state")
        name = f"120_{one.segment_id}"
        assert setting.names == {f"{name}.index", f"{name}.txnindex"}
        again = await setting.opened()
        assert again.size_bytes == len(INDEX)
        assert await again.read(one, Part.OFFSET_INDEX) == INDEX
        assert await again.read(one, Part.TXN_INDEX) == b""
        assert await again.read(one, Part.TIME_INDEX) is None
        await again.drop(one.segment_id)
        assert setting.names == set()
        assert again.size_bytes == 0
        assert setting.reports == []

    run(tmp_path, story)


def test_the_least_used_goes_first_and_the_bound_may_change(tmp_path: Path) -> None:
    async def story(setting: Setting) -> None:
        setting.bytes_max = 3 * len(INDEX)
        files = await setting.opened()
        segments = [segment(number, number, number) for number in range(5)]
        for one in segments[:3]:
            await files.keep(one, Part.OFFSET_INDEX, INDEX)
        await files.read(segments[0], Part.OFFSET_INDEX)
        await files.keep(segments[3], Part.OFFSET_INDEX, INDEX)
        kept = [await files.read(one, Part.OFFSET_INDEX) is not None for one in segments]
        assert kept == [True, False, True, True, False]
        setting.bytes_max = len(INDEX)
        await files.keep(segments[4], Part.OFFSET_INDEX, INDEX)
        assert setting.names == {f"4_{segments[4].segment_id}.index"}
        await files.keep(segments[0], Part.OFFSET_INDEX, INDEX * 2)
        assert setting.names == {f"4_{segments[4].segment_id}.index"}
        setting.bytes_max = 0
        assert (await setting.opened()).size_bytes == 0
        assert setting.names == set()

    run(tmp_path, story)


def test_what_was_changed_meanwhile_is_fetched_again(tmp_path: Path) -> None:
    async def story(setting: Setting) -> None:
        known, foreign = checked(1, Part.OFFSET_INDEX, INDEX), segment(2, 20, 29)
        files = await setting.opened()
        for one in (known, foreign):
            await files.keep(one, Part.OFFSET_INDEX, INDEX)
        folder = setting.folder / FOLDER
        (folder / f"10_{known.segment_id}.index").write_bytes(bytes(80))
        (folder / f"20_{foreign.segment_id}.index").write_bytes(bytes(81))
        (folder / "20_half.index.tmp").write_bytes(b"x")
        files = await setting.opened()
        assert await files.read(known, Part.OFFSET_INDEX) is None
        assert await files.read(foreign, Part.OFFSET_INDEX) is None
        assert setting.names == set()
        assert files.size_bytes == 0

    run(tmp_path, story)


def test_a_directory_that_is_missing_stays_so_and_is_reported_once(tmp_path: Path) -> None:
    async def story(setting: Setting) -> None:
        files = await setting.opened()
        for number in range(2):
            await files.keep(segment(number, 0, 9), Part.OFFSET_INDEX, INDEX)
        assert not setting.folder.exists()
        (report,) = setting.reports
        assert f"{setting.folder}/{FOLDER}" in report
        assert await files.read(segment(0, 0, 9), Part.OFFSET_INDEX) is None

    run(tmp_path / "unmounted", story)


def test_the_store_is_asked_once_for_all_restarts(tmp_path: Path) -> None:
    async def story(setting: Setting) -> None:
        one = checked(3, Part.OFFSET_INDEX, INDEX)
        store = MemoryStore()

        async def read() -> bytes:
            files = await setting.opened()
            async with asyncio.TaskGroup() as tasks:
                cache = SegmentCache(
                    RemoteSegments(store),
                    tasks,
                    index_bytes_max=1,
                    chunk_bytes_max=1,
                    index_files=files,
                )
                return await cache.part(one, Part.OFFSET_INDEX)

        store.objects[object_name(one, Part.OFFSET_INDEX)] = INDEX
        assert await read() == INDEX
        store.objects.clear()
        assert await read() == INDEX
        async with asyncio.TaskGroup() as tasks:
            files = await setting.opened()
            cache = SegmentCache(
                RemoteSegments(store),
                tasks,
                index_bytes_max=1,
                chunk_bytes_max=1,
                index_files=files,
            )
            cache.drop(one.segment_id)
        assert setting.names == set()

    run(tmp_path, story)
