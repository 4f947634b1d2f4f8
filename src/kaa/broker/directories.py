"""The identity of a node's log directories, checked before anything in them is touched.

Every directory says in `meta.properties` which cluster and node it belongs to, and has an id of its
own (KIP-858). The directory of the metadata log says who this node is; without it, or as another
node, it does not start. Any other directory that is missing, cannot be read, was never formatted or
belongs to somebody else is left alone: it is offline, and the rest serves. An empty directory in
the place of a disk that is not mounted must never be taken for that disk.

A metadata log in any other directory of this node is refused, as in Kafka: another directory was
put first in log.dirs, and the node would begin an empty cluster.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from kaa.broker.remedies import remedy
from kaa.controller.directories import RESERVED
from kaa.log.errors import CorruptFileError, error_text
from kaa.log.names import LOG_SUFFIX, META_PROPERTIES_FILE
from kaa.log.properties import (
    META_PROPERTIES_VERSION,
    read_meta_properties,
    write_meta_properties,
)
from kaa.model.topics import CLUSTER_METADATA

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kaa.log.files import Files
    from kaa.log.properties import MetaProperties
    from kaa.wire.primitives import Uuid

# Who runs the node puts the name of its file in the place of the last word.
CONFIG_FILE: Final = "<server.properties>"
_METADATA_FOLDER: Final = f"{CLUSTER_METADATA}-0"
_FORMAT: Final = f"kaa storage format{{votes}} -t {{cluster_id}} -c {CONFIG_FILE}"


class NodeError(Exception):
    """The node cannot start or go on; the text says what is wrong and what to do."""


class StartError(NodeError):
    """The node cannot start."""


class StorageLostError(NodeError):
    """The node has lost what it cannot be without, and stops itself."""


class Identity(NamedTuple):
    """What the directories of a node agree on."""

    cluster_id: str
    # By path; those that can be used.
    directories: dict[str, MetaProperties]
    # The directory with the metadata log is one of the others or one of its own.
    metadata_directory_id: Uuid
    # By path why a directory cannot be used, and what to do about it.
    unusable: dict[str, str]


def take_lock(lock: Callable[[], None], setting: str) -> None:
    """Takes what `setting` names for this process."""
    try:
        lock()
    except BlockingIOError as error:
        raise StartError(
            f"{Path(error.filename).parent} is in use by another process; stop that one, "
            f"or name another directory in {setting}"
        ) from None
    except OSError as error:
        raise StartError(f"cannot lock {error_text(error)}; {remedy(error)}") from None


def read_identity(
    files: Files,
    paths: Sequence[str],
    metadata_path: str,
    node_id: int,
    new_id: Callable[[], Uuid],
    *,
    may_vote: bool = False,
) -> Identity:
    """Reads and compares the identities; StartError if this node has none.

    A directory from before Kafka 3.7 has no id, and gets one. `may_vote` is a controller of a
    dynamic quorum: who formats its directories has to say who votes.
    """
    own = _metadata_identity(files, paths, metadata_path, node_id, may_vote=may_vote)
    found = {metadata_path: own}
    unusable: dict[str, str] = {}
    for path in dict.fromkeys(paths):
        if path == metadata_path:
            continue
        try:
            properties = read_meta_properties(files, path)
        except CorruptFileError as error:
            unusable[path] = f"{error}; restore the file, or replace the directory"
        except OSError as error:
            unusable[path] = f"cannot read {error_text(error)}; {remedy(error)}"
        else:
            problem = _problem(files, path, properties, own, node_id, may_vote=may_vote)
            if properties is None or problem is None:
                _refuse_metadata_log(files, path, metadata_path)
            if problem is not None:
                unusable[path] = problem
            elif properties is not None:
                found[path] = properties
    for path, properties in tuple(found.items()):
        if properties.directory_id is None:
            found[path] = replace(properties, directory_id=new_id())
            try:
                write_meta_properties(files, path, found[path], "directory.id added")
            except OSError as error:
                problem = (
                    f"cannot write {path}/{META_PROPERTIES_FILE} ({error.strerror or error}); "
                    f"{remedy(error)}"
                )
                if path == metadata_path:
                    raise StartError(problem) from None
                del found[path]
                unusable[path] = problem
    _check_ids(found)
    directory_id = found[metadata_path].directory_id
    assert directory_id is not None
    return Identity(own.cluster_id, found, directory_id, unusable)


def _metadata_identity(
    files: Files, paths: Sequence[str], metadata_path: str, node_id: int, *, may_vote: bool
) -> MetaProperties:
    try:
        own = read_meta_properties(files, metadata_path)
    except CorruptFileError as error:
        raise StartError(f"{error}; restore the file or format another directory") from None
    except OSError as error:
        raise StartError(
            f"cannot read {error_text(error)}, and a node does not start without its metadata; "
            f"{remedy(error)}"
        ) from None
    if own is None and has_metadata_log(files, metadata_path):
        raise StartError(
            f"{metadata_path}/{META_PROPERTIES_FILE} is missing, but {_METADATA_FOLDER} is there; "
            "restore the file from a backup, with the cluster.id, node.id and directory.id that "
            "it had"
        )
    if own is None:
        others = [path for path in paths if path != metadata_path and _is_formatted(files, path)]
        if not others:
            new = _FORMAT.format(
                votes=" --standalone" if may_vote else "", cluster_id="$(kaa storage random-uuid)"
            )
            joining = _FORMAT.format(
                votes=" --no-initial-controllers" if may_vote else "", cluster_id="CLUSTER_ID"
            )
            raise StartError(
                f"{metadata_path} is not formatted; for the first node of a new cluster run: {new}"
                f"; for a node that joins others, with the id of kaa cluster info: {joining}"
            )
        raise StartError(
            f"{metadata_path}, the directory of the metadata log, is missing or not formatted, but "
            f"{others[0]} is formatted: mount the disk with the metadata log there, or set "
            "metadata.log.dir to the directory that has __cluster_metadata-0"
        )
    if own.version > META_PROPERTIES_VERSION:
        raise StartError(
            f"{metadata_path} was written by a newer version ({own.version}); use that one"
        )
    if own.directory_id in RESERVED:
        raise StartError(f"{metadata_path}: {_reserved_text(own)}")
    if own.node_id != node_id:
        raise StartError(
            f"{metadata_path} belongs to node {own.node_id}, but node.id is {node_id}; "
            "set node.id or log.dirs to match"
        )
    return own


def has_metadata_log(files: Files, path: str) -> bool:
    """Whether a node has run here; a format that was interrupted leaves no segment."""
    folder = f"{path}/{_METADATA_FOLDER}"
    return files.is_directory(folder) and any(
        name.endswith(LOG_SUFFIX) for name in files.list_directory(folder)
    )


def _refuse_metadata_log(files: Files, path: str, metadata_path: str) -> None:
    """Without what is in that log the cluster would be empty, and every log here a stray one.

    A disk of another node or cluster has its own, which is not ours to go by.
    """
    try:
        has_log = has_metadata_log(files, path)
    except OSError:
        # What fails there takes the directory offline when its logs are loaded.
        return
    if has_log:
        raise StartError(
            f"{path} has the metadata log ({_METADATA_FOLDER}), but the metadata directory is "
            f"{metadata_path} (metadata.log.dir, or the first of log.dirs): set "
            f"metadata.log.dir={path}; or, if the log there is an old one that the one in "
            f"{metadata_path} goes on from, move that folder out of {path}"
        )


def _is_formatted(files: Files, path: str) -> bool:
    try:
        return read_meta_properties(files, path) is not None
    except (CorruptFileError, OSError):
        return True


def _problem(
    files: Files,
    path: str,
    found: MetaProperties | None,
    own: MetaProperties,
    node_id: int,
    *,
    may_vote: bool,
) -> str | None:
    """Why a directory is not one of this node, and what to do; None if it is."""
    if found is None:
        state = "is empty or not formatted" if files.is_directory(path) else "does not exist"
        votes = " --no-initial-controllers" if may_vote else ""
        command = _FORMAT.format(votes=f" --ignore-formatted{votes}", cluster_id=own.cluster_id)
        return (
            f"it {state}; mount its disk and restart, or, if the disk is new, give it to this node "
            f"by: {command} and restart"
        )
    if found.version > META_PROPERTIES_VERSION:
        return f"it was written by a newer version ({found.version}); use that one"
    if found.directory_id in RESERVED:
        return _reserved_text(found)
    if found.cluster_id != own.cluster_id:
        return (
            f"it belongs to cluster {found.cluster_id}, and this node to {own.cluster_id}; mount "
            "the disk of this node there and restart, or take the directory out of log.dirs"
        )
    if found.node_id != node_id:
        return (
            f"it belongs to node {found.node_id}, but node.id is {node_id}; mount the disk of this "
            "node there and restart, or take the directory out of log.dirs"
        )
    return None


def _reserved_text(found: MetaProperties) -> str:
    return (
        f"{META_PROPERTIES_FILE} has directory.id={found.directory_id}, which no directory has; "
        "restore the line, or remove it, and the directory gets a new one"
    )


def _check_ids(found: dict[str, MetaProperties]) -> None:
    seen: dict[Uuid | None, str] = {}
    for path, properties in found.items():
        if properties.directory_id in seen:
            raise StartError(
                f"{path} and {seen[properties.directory_id]} have the same directory.id "
                f"({properties.directory_id}): they are one directory under two names, or one is a "
                "copy of the other; take one of them out of log.dirs"
            )
        seen[properties.directory_id] = path
