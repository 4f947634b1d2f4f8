"""A store of objects as the tier uses one, and its twin in memory.

An object is written whole or not at all, is never changed, and is read in ranges. Reading what was
just written finds it: every store that Kaa names promises so. Errors tell two things apart that
callers treat differently: an object that is not there, and a store that did not do its work now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from pathlib import Path


class StoreError(Exception):
    """The store refused or did not answer; the same call may succeed later."""


class ObjectMissingError(StoreError):
    """There is no such object."""


class StoreRefusesError(StoreError):
    """The store will refuse this until an operator changes something: credentials, rights."""


class ObjectInfo(NamedTuple):
    """An object as a listing shows it."""

    name: str
    size_bytes: int


class ObjectStore(Protocol):
    """A store of objects. Names have parts separated by slashes; a missing object and a failing
    store are different errors.
    """

    async def put(self, name: str, source: Path | bytes) -> None:
        """Writes an object, from a file without holding it in memory."""
        ...

    async def get(self, name: str) -> bytes:
        """The whole object, for small ones."""
        ...

    async def get_range(self, name: str, start: int, end: int) -> bytes:
        """The bytes from `start` up to `end`, or fewer where the object ends before that."""
        ...

    async def size(self, name: str) -> int: ...

    async def delete(self, names: Iterable[str]) -> None:
        """Deletes objects; those that are not there do not matter."""
        ...

    def list(self, prefix: str = "") -> AsyncIterator[ObjectInfo]:
        """Every object whose name begins with the folder `prefix`, in the order of names."""
        ...


class MemoryStore:
    """A store in memory, for tests and simulation."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    async def put(self, name: str, source: Path | bytes) -> None:
        self.objects[name] = _read(source)

    async def get(self, name: str) -> bytes:
        try:
            return self.objects[name]
        except KeyError:
            raise ObjectMissingError(name) from None

    async def get_range(self, name: str, start: int, end: int) -> bytes:
        return (await self.get(name))[start:end]

    async def size(self, name: str) -> int:
        return len(await self.get(name))

    async def delete(self, names: Iterable[str]) -> None:
        for name in names:
            self.objects.pop(name, None)

    async def list(self, prefix: str = "") -> AsyncIterator[ObjectInfo]:
        folder = f"{prefix.rstrip('/')}/" if prefix else ""
        for name in sorted(self.objects):
            if name.startswith(folder):
                yield ObjectInfo(name, len(self.objects[name]))


def _read(source: Path | bytes) -> bytes:
    return source if isinstance(source, bytes) else source.read_bytes()
