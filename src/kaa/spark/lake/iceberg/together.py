"""Snapshots of one table or of several, made current by one commit.

A round with dead letters changes two tables. What is staged of each, manifests and their list, no
reader can find; a snapshot is there when the catalog names it. So both are there or neither, where
the catalog changes both of its entries at once:

- SQL: A new metadata file of each table is written beside the old one. Then one transaction of the
  database moves all entries to the new files, each only if it still names the file that the new one
  was made from; if one does not, none is moved.
- REST: `POST /v1/{prefix}/transactions/commit` with the changes of each table and what they
  require; the server takes all or none. A server that does not offer it, by its list of endpoints
  or by its answer, is not asked again.
- others: One table after the other, in the given order. A crash may come between; and a conflict,
  which counts as no answer then, so that nobody deletes files of the first table.

- *A conflict* is for certain: nothing was changed, and what was staged is deleted. The clients of
  some catalogs repeat a request whose answer was lost, and then hear of a conflict with
  themselves. So the catalog is asked for the staged snapshots first, by their own ids, since
  maintenance repeats the commit id of the table. If it has none and the table is still as the
  commit requires it, the first request may be under way yet: that counts as no answer.
- *No answer*: nothing is deleted, since the commit may have been made, or may still be.
- *A crash* before the commit leaves files that no version names, which the removal of orphans
  finds; a crash within leaves a transaction that the database rolls back.

Making a table cannot be part of such a commit: both tables are there, empty, before their first.
Nothing here repeats a commit, and neither does pyiceberg, whose loop around commits is not used.

What pyiceberg keeps private is used in this file alone, and a test names each such thing.

Metadata files that fall out of a table's log are deleted after the commit, as pyiceberg does; after
a REST transaction that is up to the server, which does not answer with the new metadata.
"""

# ruff: noqa: SLF001  Pyiceberg commits one table; what else a commit needs has no public name.

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NoSuchTableError,
    ServerError,
    ServiceUnavailableError,
)
from pyiceberg.manifest import ManifestContent, ManifestWriterV2
from pyiceberg.table.update import AssertDefaultSpecId, AssertTableUUID

from kaa.spark.lake.table import ConflictError, UnknownOutcomeError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

TRANSACTION_ENDPOINT: Final = "POST /v1/{prefix}/transactions/commit"
_TRANSACTION_PATH: Final = "transactions/commit"
_NOT_OFFERED: Final = frozenset({404, 405, 406, 501})


class DeleteManifestWriter(ManifestWriterV2):
    """A manifest of files with deleted positions; pyiceberg has writers for data alone."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


class Fate(Enum):
    """What became of a snapshot whose commit was refused."""

    TAKEN = "the catalog has it after all"
    REFUSED = "the table has changed, so that it can never be taken"
    OPEN = "the table is as it was, so that it may still be taken"


@dataclass(frozen=True, slots=True)
class Staged:
    """A snapshot that is written, and that no catalog knows yet."""

    table: Any  # Pyiceberg's, as it was when the snapshot was staged.
    updates: tuple[Any, ...]
    expected: tuple[Any, ...]
    snapshot_id: int
    # The manifests and their list; the files that they name are the caller's.
    paths: tuple[str, ...]

    @property
    def identifier(self) -> tuple[str, ...]:
        return tuple(self.table.name())

    @property
    def requirements(self) -> tuple[Any, ...]:
        """That the table is the same one, and that snapshot and partitioning have not changed."""
        metadata = self.table.metadata
        same = AssertTableUUID(uuid=metadata.table_uuid)
        divided = AssertDefaultSpecId(**{"default-spec-id": metadata.default_spec_id})
        return (*self.expected, same, divided)

    def fate(self, catalog: Any) -> Fate:
        """What became of its snapshot, for a commit that was refused."""
        try:
            metadata = catalog.load_table(self.identifier).metadata
            if metadata.snapshot_by_id(self.snapshot_id) is not None:
                return Fate.TAKEN
            for one in self.requirements:
                one.validate(metadata)
        except (CommitFailedException, NoSuchTableError):
            return Fate.REFUSED
        return Fate.OPEN

    def discard(self) -> None:
        """Deletes the manifests."""
        for path in self.paths:
            with contextlib.suppress(OSError):
                self.table.io.delete(path)


class Publisher:
    """Makes staged snapshots current in one catalog."""

    def __init__(self, catalog: Any) -> None:
        self._catalog = catalog
        # How several tables are committed at once; None where that cannot be done.
        self._way = _way_of(catalog)

    def publish(self, staged: Sequence[Staged]) -> None:
        """All at once, or in order where the catalog takes one table at a time.

        Raises ConflictError or UnknownOutcomeError.
        """
        try:
            if len(staged) == 1 or not self._at_once(staged):
                for one in staged:
                    self._commit(one)
        except no_answer() as error:
            raise UnknownOutcomeError(str(error)) from error
        except (CommitFailedException, NoSuchTableError) as error:
            self._refused(staged, error)

    def _refused(self, staged: Sequence[Staged], error: Exception) -> None:
        """After a refusal: whether it counts, by what became of each; then its manifests go."""
        try:
            fates = [one.fate(self._catalog) for one in staged]
        except no_answer() as unknown:
            raise UnknownOutcomeError(str(unknown)) from error
        # One at a time, the others were not sent yet when the first was refused.
        counting = fates if self._way is not None else fates[:1]
        is_conflict = Fate.REFUSED in counting and Fate.TAKEN not in fates
        for one, fate in zip(staged, fates, strict=True):
            if is_conflict or fate is Fate.REFUSED:
                one.discard()
        if is_conflict:
            raise ConflictError(str(error)) from error
        if Fate.OPEN in fates:
            raise UnknownOutcomeError(str(error)) from error
        if Fate.REFUSED in fates:
            raise UnknownOutcomeError("one table was committed to, another was not") from error

    def _commit(self, one: Staged) -> None:
        done = self._catalog.commit_table(one.table, one.requirements, one.updates)
        # The commit is made: metadata files that stay do not change that.
        with contextlib.suppress(Exception):
            self._catalog._delete_old_metadata(one.table.io, one.table.metadata, done.metadata)

    def _at_once(self, staged: Sequence[Staged]) -> bool:
        if self._way is None:
            return False
        try:
            self._way(self._catalog, staged)
        except _NotOfferedError:
            self._way = None
            return False
        return True


def no_answer() -> tuple[type[Exception], ...]:
    """What is raised when it is not known whether a catalog has done what it was asked.

    The clients of databases and of clouds are loaded only for catalogs that need them.
    """
    errors: list[type[Exception]] = [
        CommitStateUnknownException,
        ServerError,
        ServiceUnavailableError,
        OSError,
    ]
    for module, name in (
        ("sqlalchemy.exc", "DBAPIError"),
        ("botocore.exceptions", "BotoCoreError"),
    ):
        if module in sys.modules:
            errors.append(getattr(sys.modules[module], name))
    return tuple(errors)


def first_line(error: Exception) -> str:
    """What an error says, without the advice that some libraries add."""
    return str(error).partition("\n")[0] or type(error).__name__


class _NotOfferedError(Exception):
    """The server has no commits of several tables; nothing was changed."""


def _way_of(catalog: Any) -> Callable[[Any, Sequence[Staged]], None] | None:
    kinds = {one.__module__ for one in type(catalog).__mro__}
    if "pyiceberg.catalog.sql" in kinds and catalog.engine.dialect.supports_sane_rowcount:
        return _by_sql
    if "pyiceberg.catalog.rest" in kinds and _may_offer(catalog):
        return _by_rest
    return None


# --- SQL


def _by_sql(catalog: Any, staged: Sequence[Staged]) -> None:
    moves = []
    for one in staged:
        # A change of columns or properties may have come between; the snapshot goes on top of it.
        before = catalog.load_table(one.identifier)
        after = catalog._update_and_stage_table(
            before, one.identifier, one.requirements, one.updates
        )
        moves.append((before, after))
    for _, after in moves:
        catalog._write_metadata(after.metadata, after.io, after.metadata_location)
    try:
        with catalog.engine.begin() as connection:
            for before, after in moves:
                if connection.execute(_move(catalog, before, after)).rowcount != 1:
                    raise CommitFailedException(f"{'.'.join(before.name())} was committed to")
    except CommitFailedException:
        for _, after in moves:
            with contextlib.suppress(OSError):
                after.io.delete(after.metadata_location)
        raise
    for before, after in moves:
        catalog._delete_old_metadata(after.io, before.metadata, after.metadata)


def _move(catalog: Any, before: Any, after: Any) -> Any:
    """Lets the entry of a table name its new metadata, if it still names the old."""
    from pyiceberg.catalog.sql import IcebergTables
    from sqlalchemy import update

    *namespace, name = before.name()
    return (
        update(IcebergTables)
        .where(
            IcebergTables.catalog_name == catalog.name,
            IcebergTables.table_namespace == catalog.namespace_to_string(tuple(namespace)),
            IcebergTables.table_name == name,
            IcebergTables.metadata_location == before.metadata_location,
        )
        .values(
            metadata_location=after.metadata_location,
            previous_metadata_location=before.metadata_location,
        )
    )


# --- REST


def _may_offer(catalog: Any) -> bool:
    """Whether the server lists the endpoint, or lists none: then it may have it."""
    from pyiceberg.catalog.rest import DEFAULT_ENDPOINTS, VIEW_ENDPOINTS, Endpoint

    listed = catalog._supported_endpoints
    return (
        Endpoint.from_string(TRANSACTION_ENDPOINT) in listed
        or listed - VIEW_ENDPOINTS == DEFAULT_ENDPOINTS
    )


def _by_rest(catalog: Any, staged: Sequence[Staged]) -> None:
    from pyiceberg.catalog.rest.response import _handle_non_200_response
    from pyiceberg.table import CommitTableRequest, Namespace, TableIdentifier
    from requests import HTTPError

    changes = [
        CommitTableRequest(
            identifier=TableIdentifier(
                namespace=Namespace(list(one.identifier[:-1])), name=one.identifier[-1]
            ),
            requirements=one.requirements,
            updates=one.updates,
        ).model_dump_json()
        for one in staged
    ]
    body = f'{{"table-changes": [{", ".join(changes)}]}}'
    response = catalog._session.post(catalog.url(_TRANSACTION_PATH), data=body.encode())
    if response.status_code in _NOT_OFFERED:
        raise _NotOfferedError
    try:
        response.raise_for_status()
    except HTTPError as error:
        unknown = CommitStateUnknownException
        # A token that has expired counts as no answer: the next look at the table renews it.
        errors = {409: CommitFailedException, 401: unknown, 419: unknown}
        _handle_non_200_response(error, {**errors, 500: unknown, 502: unknown, 504: unknown})
