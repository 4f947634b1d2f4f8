"""Faults at every step of what is done to a table, without processes: a disk and a catalog that
count what they are asked to change.

*A step* is a file that is made, a file that is closed, a file that is deleted, a transaction of the
catalog, or a look at the catalog. At each of them

| fault | what happens |
|---|---|
| dies before | the process is gone, and the step has not taken place |
| dies after | it is gone, and the step has taken place |
| dies within | it is gone, and a file has half of its bytes |
| fails | the step has not taken place, and says so |
| is not answered | the step has taken place, and says that it failed |

Who is dead changes nothing any more: every later step raises again, so that what `finally` and
`except` would do has no effect either, as with SIGKILL. `Disk` is what the libraries write to in
place of the real one, which keeps the files.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import obstore
import pyarrow.fs as typed_fs
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import PyArrowFileIO
from sqlalchemy.engine.default import DefaultDialect

from kaa.spark.formats.untyped import pa
from kaa.spark.lake import folder, running
from kaa.spark.lake.store import Store

fs: Any = typed_fs

BEFORE: Final = "dies before"
AFTER: Final = "dies after"
WITHIN: Final = "dies within"
FAILS: Final = "fails"
SILENT: Final = "is not answered"
DEATHS: Final = (BEFORE, AFTER, WITHIN)
FAULTS: Final = (*DEATHS, FAILS, SILENT)
FULL_MANIFEST_VERSIONS: Final = 3
LOOK: Final = "look"
"""A step that changes nothing: there is no half of it, and its answer is all there is."""


class DeadError(BaseException):
    """The process is gone. Nothing that catches errors may catch this."""


class Steps:
    """Counts the steps, and lets one of them go wrong."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._number = -1
        self._fault = ""
        self.is_dead = False

    def arm(self, number: int = -1, fault: str = "") -> None:
        """From now on; without a number nothing goes wrong."""
        self.names, self._number, self._fault, self.is_dead = [], number, fault, False

    def take(
        self,
        name: str,
        effect: Callable[[], Any],
        *,
        half: Callable[[], None] = lambda: None,
        error: Callable[[str], Exception] = OSError,
    ) -> Any:
        """Does something, unless it is its turn to go wrong."""
        if self.is_dead:
            raise DeadError(name)
        self.names.append(name)
        if len(self.names) - 1 != self._number:
            return effect()
        if self._fault in {AFTER, SILENT}:
            effect()
        elif self._fault == WITHIN:
            half()
        if self._fault in DEATHS:
            self.is_dead = True
            raise DeadError(name)
        raise error(f"planned for {name}")


def kinds(name: str) -> tuple[str, ...]:
    """Which faults make a difference at a step."""
    if name.startswith(LOOK):
        return (FAILS,)
    return FAULTS if name.startswith("close") else (BEFORE, AFTER, FAILS, SILENT)


class Output:
    """A file that is being written; what is in it comes with its end."""

    def __init__(self, steps: Steps, path: str) -> None:
        self._steps = steps
        self._path = path
        self._data = bytearray()
        self.closed = False

    def write(self, data: Any) -> int:
        self._data += data
        return len(data)

    def tell(self) -> int:
        return len(self._data)

    def flush(self) -> None:
        """There is nothing between this and the end."""

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        if self._steps.is_dead:
            return
        place = Path(self._path)

        def half() -> None:
            place.write_bytes(self._data[: len(self._data) // 2])

        self._steps.take(f"close {place.name}", lambda: place.write_bytes(self._data), half=half)


class Disk(fs.FileSystemHandler):  # type: ignore[misc]  # Pyarrow has no types here.
    """The local disk, with steps."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._local = fs.LocalFileSystem()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Disk) and other._steps is self._steps

    __hash__ = None  # type: ignore[assignment]  # It is in no set.

    def get_type_name(self) -> str:
        return "steps"

    def normalize_path(self, path: str) -> str:
        return str(self._local.normalize_path(path))

    def get_file_info(self, paths: list[str]) -> Any:
        return self._local.get_file_info(paths)

    def get_file_info_selector(self, selector: Any) -> Any:
        return self._local.get_file_info(selector)

    def create_dir(self, path: str, recursive: bool) -> None:
        self._local.create_dir(path, recursive=recursive)

    def delete_dir(self, path: str) -> None:
        raise AssertionError(path)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        raise AssertionError(path)

    def delete_root_dir_contents(self) -> None:
        raise AssertionError("the root")

    def delete_file(self, path: str) -> None:
        self._steps.take(f"delete {Path(path).name}", lambda: self._local.delete_file(path))

    def move(self, src: str, dest: str) -> None:
        raise AssertionError(src)

    def copy_file(self, src: str, dest: str) -> None:
        raise AssertionError(src)

    def open_input_stream(self, path: str) -> Any:
        return self._local.open_input_stream(path)

    def open_input_file(self, path: str) -> Any:
        return self._local.open_input_file(path)

    def open_output_stream(self, path: str, metadata: Any) -> Any:
        place = Path(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        self._steps.take(f"make {place.name}", place.touch)
        return pa.PythonFile(Output(self._steps, path), mode="w")

    def open_append_stream(self, path: str, metadata: Any) -> Any:
        raise AssertionError(path)


@contextlib.contextmanager
def faulty() -> Iterator[Steps]:
    """Lets everything that tables are made with take its steps here."""
    steps = Steps()
    disk = fs.PyFileSystem(Disk(steps))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Store, "filesystem", lambda _: disk)
        patch.setattr(PyArrowFileIO, "_initialize_fs", lambda *_: disk)
        # Nobody has to wait for a catalog.
        patch.setattr(running, "LAKE_PAUSE_SECONDS", 0.01)
        _patch_catalog(patch, steps)
        _patch_objects(patch, steps)
        with small_folders():
            yield steps


@contextlib.contextmanager
def small_folders() -> Iterator[None]:
    """Lets few versions of a folder be enough for an expiry."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folder, "LAKE_FULL_MANIFEST_VERSIONS", FULL_MANIFEST_VERSIONS)
        yield


def _patch_catalog(patch: pytest.MonkeyPatch, steps: Steps) -> None:
    committing: Any = DefaultDialect.do_commit
    loading = SqlCatalog.load_table

    def do_commit(dialect: Any, connection: Any) -> None:
        error = sqlite3.OperationalError
        try:
            steps.take("commit", lambda: committing(dialect, connection), error=error)
        except BaseException:
            # As SQLite does when its disk fails, and the next process for one that is gone.
            connection.rollback()
            raise

    def load_table(catalog: Any, identifier: Any) -> Any:
        return steps.take(f"{LOOK} {identifier[-1]}", lambda: loading(catalog, identifier))

    patch.setattr(DefaultDialect, "do_commit", do_commit)
    patch.setattr(SqlCatalog, "load_table", load_table)


def _patch_objects(patch: pytest.MonkeyPatch, steps: Steps) -> None:
    """Small objects are made whole or not at all."""
    typed: Any = obstore
    put, delete, error = typed.put, typed.delete, typed.exceptions.GenericError

    def put_object(store: Any, path: str, *more: Any, **named: Any) -> Any:
        return steps.take(f"put {path}", lambda: put(store, path, *more, **named), error=error)

    def delete_object(store: Any, path: str) -> Any:
        return steps.take(f"delete {path}", lambda: delete(store, path), error=error)

    patch.setattr(obstore, "put", put_object)
    patch.setattr(obstore, "delete", delete_object)
