"""What is being removed survives a restart, and a file that is damaged costs nothing else."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kaa.log.files import RealFiles
from kaa.tier.deletions import FILE, FileDeletions
from tests.unit.tier.metadata.samples import PARTITION


def test_kept_and_read_again(tmp_path: Path) -> None:
    reports: list[str] = []

    async def story() -> None:
        with ThreadPoolExecutor(1) as executor:

            def opened() -> FileDeletions:
                return FileDeletions(str(tmp_path), RealFiles(), executor, reports.append)

            deletions = opened()
            assert await deletions.load() == []
            other = PARTITION._replace(partition=4)
            await asyncio.gather(
                *(deletions.save(some) for some in ([PARTITION], [PARTITION, other], [other]))
            )
            assert await opened().load() == [other]
            await deletions.save([])
            assert await opened().load() == []
            assert reports == []
            (tmp_path / FILE).write_text("0\n2\nnonsense\n")
            assert await opened().load() == []
            assert len(reports) == 1

    asyncio.run(story())
