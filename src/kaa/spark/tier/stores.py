"""Where the store is, said by reference, and one open store per process.

Spark shows the options of a query in plans and logs, so no secret may be among them. Credentials
come from the environment, a profile or the machine, as each store has it, or from a properties file
that every machine has at the same place (`tierStoreFile`), with the names that a broker has after
`rsm.config.`. Only its path travels.

A store is opened when a process first needs it: what it runs on does not survive a fork.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from kaa.config.properties import as_mapping, decode_properties
from kaa.spark.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaa.tier.store.objects import ObjectStore

STORE_PREFIX: Final = "tierStore."

_SECRET: Final = ("secret", "key", "token", "password", "sas", "credential")
# Names with such a word that say how, not with what, to encrypt.
_NOT_SECRET: Final = ("sse-kms-key-id", "aws-sse-kms-key-id", "sse-bucket-key-enabled")


@dataclass(frozen=True, slots=True)
class StoreReference:
    """How to find a store; without secrets, so that it may be shown."""

    url: str | None
    options: tuple[tuple[str, str], ...] = ()
    file: str | None = None

    def open(self) -> ObjectStore:
        """OptionError if it cannot be opened; nothing is asked over the network yet."""
        from kaa.tier.store.places import AddressError, open_store

        settings: dict[str, str] = {}
        if self.file is not None:
            try:
                settings = as_mapping(decode_properties(Path(self.file).read_bytes()))
            except OSError as error:
                raise OptionError(
                    f"option tierStoreFile: {self.file} cannot be read on this machine: {error}"
                ) from error
        settings |= dict(self.options)
        url = settings.pop("url", None) if self.url is None else self.url
        settings.pop("url", None)
        if url is None:
            raise OptionError(f"{self.file} has no line url=..., and tierStore is not given")
        try:
            return open_store(url, settings)
        except AddressError as error:
            raise OptionError(f"option tierStore: {error}") from None


def store_reference(
    url: str | None, options: Mapping[str, str], file: str | None
) -> StoreReference | None:
    """What the options of a query say; raises OptionError for a secret among them."""
    if url is None and file is None:
        if options:
            raise OptionError(f"option tierStore.{min(options)} needs tierStore or tierStoreFile")
        return None
    if url is not None and urlsplit(url).username is not None:
        raise OptionError("option tierStore must not hold credentials; see tierStoreFile")
    for name in options:
        small = name.lower().replace("_", "-")
        if small not in _NOT_SECRET and any(word in small for word in _SECRET):
            raise OptionError(
                f"option tierStore.{name} may be a secret, which plans would show; set it in the "
                "environment, or in a file that tierStoreFile names"
            )
    return StoreReference(url, tuple(sorted(options.items())), file)


_lock = threading.Lock()
_opened: dict[tuple[int, StoreReference], ObjectStore] = {}


def store_of(reference: StoreReference) -> ObjectStore:
    """The store of this process."""
    key = (os.getpid(), reference)
    with _lock:
        found = _opened.get(key)
        if found is None:
            found = _opened[key] = reference.open()
        return found
