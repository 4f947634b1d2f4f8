"""One setting for where files are: a disk or an object store, for every library that touches them.

A place is a folder (`/data/lake`, `file:///data/lake`) or a URL (`s3://bucket/lake`). Options
of a store have one set of names, the first column, and each library gets them under its own:

| option | pyiceberg | meaning |
|---|---|---|
| endpoint | s3.endpoint | address of a service that speaks S3 |
| region | s3.region |  |
| access-key-id | s3.access-key-id |  |
| secret-access-key | s3.secret-access-key |  |
| session-token | s3.session-token |  |

Without them the libraries look where they always do (environment, profiles, instance roles).
Parquet is written and read through pyarrow's file systems, since it streams; small objects that
must not be overwritten, lists and deletions go through obstore.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

OPTIONS: Final = ("endpoint", "region", "access-key-id", "secret-access-key", "session-token")


class PlaceError(ValueError):
    """A place or an option that cannot be used."""


class ExistsError(Exception):
    """The object is there already."""


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """An object of a listing."""

    path: str
    size_bytes: int
    modified_seconds: float


@dataclass(frozen=True)
class Store:
    """A place with its options; pickled to tasks, secrets are in no repr."""

    url: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        unknown = [name for name in self.options if name not in OPTIONS]
        if unknown:
            raise PlaceError(
                f"no option of a store: {', '.join(unknown)}; there are {', '.join(OPTIONS)}"
            )
        object.__setattr__(self, "url", normal_url(self.url))

    @property
    def is_local(self) -> bool:
        return self.url.startswith("file://")

    def at(self, url: str) -> Store:
        """Another place in the same store."""
        return Store(url, self.options)

    def join(self, *parts: str) -> str:
        """The URL of something below."""
        return "/".join([self.url.rstrip("/"), *(part.strip("/") for part in parts if part)])

    # --- libraries

    def iceberg_properties(self) -> dict[str, str]:
        """What pyiceberg's FileIO is configured with."""
        named = {f"s3.{name}": value for name, value in self.options.items()}
        if "endpoint" in self.options:
            named["s3.force-virtual-addressing"] = "false"
        return named

    def filesystem(self) -> Any:
        """Pyarrow's file system; paths are those of `path_of`."""
        from pyarrow import fs

        parsed = urlsplit(self.url)
        if parsed.scheme == "file":
            return fs.LocalFileSystem()
        if parsed.scheme == "s3":
            wanted: dict[str, Any] = {}
            names = {
                "region": "region",
                "access-key-id": "access_key",
                "secret-access-key": "secret_key",
                "session-token": "session_token",
            }
            for name, theirs in names.items():
                if name in self.options:
                    wanted[theirs] = self.options[name]
            if "endpoint" in self.options:
                endpoint = urlsplit(self.options["endpoint"])
                wanted["endpoint_override"] = endpoint.netloc
                wanted["scheme"] = endpoint.scheme
            return fs.S3FileSystem(**wanted)
        return fs.FileSystem.from_uri(self.url)[0]

    def objects(self) -> Any:
        """Obstore's store; paths are relative to this place."""
        import obstore.store

        stores: Any = obstore.store
        parsed = urlsplit(self.url)
        if parsed.scheme == "file":
            return stores.LocalStore(prefix=unquote(parsed.path), mkdir=True)
        if parsed.scheme == "s3":
            config: dict[str, Any] = {
                name.replace("-", "_"): value for name, value in self.options.items()
            }
            client = {"allow_http": True} if config.get("endpoint", "").startswith("http:") else {}
            return stores.S3Store(
                parsed.netloc,
                prefix=parsed.path.strip("/") or None,
                client_options=client,
                **config,
            )
        return stores.from_url(self.url)

    # --- small objects

    def create(self, path: str, data: bytes) -> None:
        """Writes an object that must not be there yet; of several writers one succeeds."""
        import obstore

        try:
            with _answering():
                obstore.put(self.objects(), path, data, mode="create")
        except obstore.exceptions.AlreadyExistsError as error:
            raise ExistsError(self.join(path)) from error

    def read(self, path: str) -> bytes:
        """A whole object."""
        import obstore

        with _answering():
            return bytes(obstore.get(self.objects(), path).bytes())

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Every object below, or below a folder."""
        import obstore

        if self.is_local and not Path(path_of(self.url)).exists():
            return  # A look makes no folder.
        with _answering():
            for chunk in obstore.list(self.objects(), prefix=prefix or None):
                for meta in chunk:
                    yield ObjectInfo(meta["path"], meta["size"], meta["last_modified"].timestamp())

    def delete(self, paths: Iterable[str]) -> int:
        """Deletes objects; those that are not there do not matter. Returns how many it tried."""
        import obstore

        objects, count = self.objects(), 0
        for path in paths:
            count += 1
            try:
                with _answering():
                    obstore.delete(objects, path)
            except FileNotFoundError:
                continue
        return count

    def relative(self, url: str) -> str:
        """The path below this place of a URL that lies there."""
        base = self.url.rstrip("/") + "/"
        normal = normal_url(url)
        if not normal.startswith(base):
            raise PlaceError(f"{url} does not lie in {self.url}")
        return normal.removeprefix(base)


@contextlib.contextmanager
def _answering() -> Iterator[None]:
    """What obstore says of a disk or a service that fails is an OSError for everyone else."""
    import obstore

    try:
        yield
    except (obstore.exceptions.AlreadyExistsError, FileNotFoundError):
        raise
    except obstore.exceptions.BaseError as error:
        raise OSError(str(error).partition("\n")[0]) from error


def normal_url(place: str) -> str:
    """A folder as a file URL; URLs as they are, without a slash at the end."""
    if "://" in place:
        scheme, _, rest = place.partition("://")
        return f"{scheme.replace('s3a', 's3')}://{rest.rstrip('/')}"
    if place.startswith("file:"):
        return "file://" + place.removeprefix("file:").rstrip("/")
    return Path(place).absolute().as_uri()


def path_of(url: str) -> str:
    """The path of a URL as pyarrow's file systems want it."""
    parsed = urlsplit(normal_url(url))
    if parsed.scheme == "file":
        return unquote(parsed.path)
    return parsed.netloc + parsed.path
