"""Stores by their address, on obstore, whose work runs on threads of its own.

| Address | Store |
|---|---|
| `file:///var/tier` | a directory, made if it is not there |
| `s3://bucket/prefix` | S3 and what speaks its protocol (option `endpoint`) |
| `gs://bucket/prefix` | Google Cloud Storage |
| `az://container/prefix` | Azure |
| `memory:` | the memory of this process, for tests |

Credentials come by the usual ways of each store (environment, profile, instance); options name the
rest: `region`, `endpoint`, server-side encryption and whatever else obstore knows under that name.
An option it does not know is refused when the store is opened.

Every request has a deadline (`request-timeout`, `connect-timeout`: `30s`). One that fails by the
network or with an error of the server is sent again with growing pauses, up to `max-retries` times
and not after `retry-timeout`. What fails then is a StoreError, and an upload in parts that was cut
is taken back; the parts of one that died with its process are left to the rules of the bucket.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from kaa.limits import (
    TIER_LISTED_OBJECTS,
    TIER_PART_BYTES,
    TIER_PARTS_IN_FLIGHT_MAX,
    TIER_STORE_RETRIES_MAX,
    TIER_STORE_RETRY_SECONDS_MAX,
)
from kaa.tier.store.objects import (
    MemoryStore,
    ObjectInfo,
    ObjectMissingError,
    StoreError,
    StoreRefusesError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
    from pathlib import Path

    from kaa.tier.store.objects import ObjectStore

SCHEMES: Final = ("file", "s3", "gs", "az", "memory")
# Options of the HTTP client rather than of the store, by the names it has for them.
_CLIENT_OPTIONS: Final = {
    "allow_http": "allow_http",
    "connect_timeout": "connect_timeout",
    "request_timeout": "timeout",
    "timeout": "timeout",
    "proxy_url": "proxy_url",
}
_SECONDS: Final = re.compile(r"(\d+)\s*(ms|s|m)?")
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, None: 1.0}


class AddressError(ValueError):
    """A store that cannot be opened; the message says what to change."""


def open_store(address: str, options: Mapping[str, str] | None = None) -> ObjectStore:
    """The store at `address`; raises AddressError. Nothing is asked over the network yet."""
    parsed = urlsplit(address)
    if parsed.scheme not in SCHEMES:
        known = ", ".join(f"{scheme}:" for scheme in SCHEMES)
        raise AddressError(f"{address!r} is not the address of a store; it begins with {known}")
    if parsed.scheme == "memory":
        return MemoryStore()
    import obstore.exceptions
    import obstore.store

    stores: Any = obstore.store
    try:
        if parsed.scheme == "file":
            return ObstoreStore(stores.LocalStore(prefix=unquote(parsed.path), mkdir=True))
        config = {name.replace("-", "_"): value for name, value in (options or {}).items()}
        retries = _retries(config)
        client = {
            known: config.pop(name) for name, known in _CLIENT_OPTIONS.items() if name in config
        }
        if config.get("endpoint", "").startswith("http:"):
            client["allow_http"] = "true"
        return ObstoreStore(
            stores.from_url(address, client_options=client, retry_config=retries, **config)
        )
    except (OSError, ValueError, obstore.exceptions.BaseError) as error:
        # After its first line obstore shows its own source.
        reason = str(error).partition("\n")[0]
        raise AddressError(f"cannot open the store {address}: {reason}") from error


def _retries(config: dict[str, str]) -> dict[str, Any]:
    """How often a request is sent again; takes the options that say so out."""
    count = config.pop("max_retries", str(TIER_STORE_RETRIES_MAX))
    limit = config.pop("retry_timeout", f"{TIER_STORE_RETRY_SECONDS_MAX:g}s")
    matched = _SECONDS.fullmatch(limit)
    if not count.isdecimal() or matched is None:
        raise ValueError("max-retries is a number, and retry-timeout a time such as 60s")
    seconds = int(matched[1]) * _UNITS[matched[2]]
    return {"max_retries": int(count), "retry_timeout": timedelta(seconds=seconds)}


@contextmanager
def _translated(name: str) -> Iterator[None]:
    from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

    try:
        yield
    except FileNotFoundError as error:
        raise ObjectMissingError(name) from error
    except (PermissionDeniedError, UnauthenticatedError, PermissionError) as error:
        raise StoreRefusesError(f"{name}: {error}") from error
    except (BaseError, OSError) as error:
        raise StoreError(f"{name}: {error}") from error


class ObstoreStore:
    """Any store of obstore."""

    def __init__(self, store: Any) -> None:
        self._store = store

    async def put(self, name: str, source: Path | bytes) -> None:
        import obstore

        with _translated(name):
            await obstore.put_async(
                self._store,
                name,
                source,
                chunk_size=TIER_PART_BYTES,
                max_concurrency=TIER_PARTS_IN_FLIGHT_MAX,
            )

    async def get(self, name: str) -> bytes:
        import obstore

        with _translated(name):
            found = await obstore.get_async(self._store, name)
            return bytes(await found.bytes_async())

    async def get_range(self, name: str, start: int, end: int) -> bytes:
        import obstore

        if start >= end:
            return b""
        with _translated(name):
            return bytes(await obstore.get_range_async(self._store, name, start=start, end=end))

    async def size(self, name: str) -> int:
        import obstore

        with _translated(name):
            return int((await obstore.head_async(self._store, name))["size"])

    async def delete(self, names: Iterable[str]) -> None:
        import obstore

        for name in names:
            try:
                with _translated(name):
                    await obstore.delete_async(self._store, name)
            except ObjectMissingError:
                continue

    async def list(self, prefix: str = "") -> AsyncIterator[ObjectInfo]:
        import obstore

        pages = obstore.list(self._store, prefix or None, chunk_size=TIER_LISTED_OBJECTS)
        found: list[ObjectInfo] = []
        with _translated(prefix):
            async for page in pages:
                found += (ObjectInfo(one["path"], one["size"]) for one in page)
                await asyncio.sleep(0)
        # A directory lists in the order of its files.
        for info in sorted(found):
            yield info
