from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kaa.tier.store.objects import MemoryStore, ObjectInfo, ObjectMissingError


def test_the_twin(tmp_path: Path) -> None:
    async def story() -> None:
        store = MemoryStore()
        file = tmp_path / "file"
        file.write_bytes(b"0123456789")
        await store.put("a/one", file)
        await store.put("ab/two", b"xyz")
        assert await store.get("a/one") == b"0123456789"
        assert await store.get_range("a/one", 8, 20) == b"89"
        assert await store.size("ab/two") == 3
        assert [info async for info in store.list("a")] == [ObjectInfo("a/one", 10)]
        await store.delete(["a/one", "never"])
        assert [info.name async for info in store.list()] == ["ab/two"]
        with pytest.raises(ObjectMissingError):
            await store.get("a/one")

    asyncio.run(story())
