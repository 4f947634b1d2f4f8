"""One suite for every kind of store that can run here: memory, a directory, an S3 server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from kaa.tier.store.objects import ObjectInfo, ObjectMissingError, ObjectStore, StoreError
from kaa.tier.store.places import AddressError, open_store
from tests.support.object_store import emulated_s3

LARGE_BYTES = 20 * 1024 * 1024


@pytest.fixture(params=["memory", "file", "s3"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], ObjectStore]:
    if request.param == "memory":
        store = open_store("memory:")
        return lambda: store
    if request.param == "file":
        return lambda: open_store((tmp_path / "tier").as_uri())
    place = emulated_s3(request)
    return lambda: open_store(place.url, place.options)


def test_objects(opened: Callable[[], ObjectStore], tmp_path: Path) -> None:
    async def story() -> None:
        store = opened()
        await store.put("t-0-id/one.log", b"0123456789")
        assert await store.get("t-0-id/one.log") == b"0123456789"
        assert await store.get_range("t-0-id/one.log", 2, 5) == b"234"
        assert await store.get_range("t-0-id/one.log", 8, 100) == b"89"
        assert await store.get_range("t-0-id/one.log", 3, 3) == b""
        # Written again it is replaced.
        await store.put("t-0-id/one.log", b"new")
        assert await opened().size("t-0-id/one.log") == 3
        # Larger than one part.
        large = tmp_path / "large"
        large.write_bytes(bytes(range(256)) * (LARGE_BYTES // 256))
        await store.put("t-0-id/two.log", large)
        assert await store.size("t-0-id/two.log") == LARGE_BYTES
        middle = await store.get_range("t-0-id/two.log", 9_000_000, 9_000_010)
        assert middle == large.read_bytes()[9_000_000:9_000_010]
        await store.put("t-1-id/three.log", b"")
        assert [info async for info in store.list("t-0-id")] == [
            ObjectInfo("t-0-id/one.log", 3),
            ObjectInfo("t-0-id/two.log", LARGE_BYTES),
        ]
        await store.delete(["t-0-id/one.log", "t-0-id/two.log", "t-0-id/never"])
        assert [info.name async for info in store.list()] == ["t-1-id/three.log"]

    asyncio.run(story())


def test_what_is_not_there(opened: Callable[[], ObjectStore]) -> None:
    async def story() -> None:
        store = opened()
        for call in (store.get, store.size, lambda name: store.get_range(name, 0, 5)):
            with pytest.raises(ObjectMissingError):
                await call("t-0-id/never")

    asyncio.run(story())


def test_a_store_that_does_not_answer() -> None:
    async def story() -> None:
        options = {
            "endpoint": "http://127.0.0.1:9",
            "region": "r",
            "access-key-id": "a",
            "secret-access-key": "s",
            "connect-timeout": "1s",
        }
        store = open_store("s3://bucket/prefix", options)
        with pytest.raises(StoreError, match="one"):
            await asyncio.wait_for(store.get("one"), 100)

    asyncio.run(story())


@pytest.mark.parametrize(
    ("address", "options"),
    [
        ("ftp://host/x", {}),
        ("tier", {}),
        ("s3://bucket", {"no-such-option": "1"}),
    ],
)
def test_addresses_that_cannot_be_opened(address: str, options: dict[str, str]) -> None:
    with pytest.raises(AddressError) as raised:
        open_store(address, options)
    assert address in str(raised.value)
