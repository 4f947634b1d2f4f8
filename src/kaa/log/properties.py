"""Small identity files: whose directory, whose partition, and how the last process ended.

`meta.properties` in each log directory, in Java's properties form (written by formatting, read at
every start):

    #
    #Sun Nov 15 22:18:04 UTC 2026
    node.id=1
    directory.id=5J6L0MVnWQaAW_LIBm5POA
    version=1
    cluster.id=n53sArB6TG2hTv5AHy__bA

`partition.metadata` in each partition folder, without a newline at its end:

    version: 0
    topic_id: V_LrTKgvTQuiw0fIqCOqyQ

`.kafka_cleanshutdown`, written as the last act of a clean stop and removed as the first act of
the next start, before anything is served, so that a stale one can never skip a recovery:

    {"version": 0, "brokerEpoch": 15}

Where a broker has several log directories, `directoryIds` has their ids, so that the next start
misses one that was taken out of its settings. Kafka writes none, and reads over them.

Ids are 128-bit numbers in URL-safe base64 without padding.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kaa.log.errors import CorruptFileError
from kaa.log.files import (
    TEMPORARY_SUFFIX,
    read_whole,
    unlink_if_exists,
    write_atomically,
    write_new,
)
from kaa.log.names import CLEAN_SHUTDOWN_FILE, META_PROPERTIES_FILE, PARTITION_METADATA_FILE
from kaa.wire.primitives import UUID_ZERO, Uuid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaa.log.files import Files

META_PROPERTIES_VERSION = 1
_PARTITION_METADATA_VERSION = 0
_CLEAN_SHUTDOWN_VERSION = 0
NO_BROKER_EPOCH = -1


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """Identity of a log directory. Version 0 had `broker.id` and no directory id."""

    node_id: int
    cluster_id: str
    directory_id: Uuid | None
    version: int = META_PROPERTIES_VERSION


def read_meta_properties(files: Files, directory: str) -> MetaProperties | None:
    """The identity of the directory; None if it was never formatted."""
    path = f"{directory}/{META_PROPERTIES_FILE}"
    try:
        content = read_whole(files, path)
    except FileNotFoundError:
        return None
    values: dict[str, str] = {}
    for line in content.decode("utf-8", "replace").splitlines():
        name, separator, value = line.partition("=")
        if separator and not line.startswith(("#", "!")):
            values[name.strip()] = value.strip()
    try:
        version = int(values["version"])
        directory_id = values.get("directory.id")
        return MetaProperties(
            node_id=int(values["node.id" if version > 0 else "broker.id"]),
            cluster_id=values["cluster.id"],
            directory_id=Uuid.parse(directory_id) if directory_id else None,
            version=version,
        )
    except KeyError as error:
        raise CorruptFileError(path, f"has no {error.args[0]}") from None
    except ValueError as error:
        raise CorruptFileError(path, str(error)) from None


def write_meta_properties(
    files: Files, directory: str, properties: MetaProperties, comment: str
) -> None:
    """`comment` is the line in which Java writes the time."""
    lines = [
        "#",
        f"#{comment}",
        f"cluster.id={properties.cluster_id}",
        f"node.id={properties.node_id}",
        f"version={properties.version}",
    ]
    if properties.directory_id is not None:
        lines.insert(3, f"directory.id={properties.directory_id}")
    content = "".join(f"{line}\n" for line in lines).encode()
    write_atomically(files, f"{directory}/{META_PROPERTIES_FILE}", content)


def read_topic_id(files: Files, folder: str) -> Uuid | None:
    """The topic id in a partition folder; None if the file is not there."""
    path = f"{folder}/{PARTITION_METADATA_FILE}"
    try:
        content = read_whole(files, path)
    except FileNotFoundError:
        return None
    try:
        lines = content.decode("ascii").splitlines()
        values = dict(line.split(": ", 1) for line in lines if line)
        version, topic_id = int(values["version"]), Uuid.parse(values["topic_id"].strip())
    except (KeyError, ValueError):
        raise CorruptFileError(path, "is not a version and a topic id") from None
    if version != _PARTITION_METADATA_VERSION:
        raise CorruptFileError(path, f"version {version} is unknown")
    if topic_id == UUID_ZERO:
        raise CorruptFileError(path, "the topic id is zero")
    return topic_id


def find_topic_id(files: Files, folder: str) -> Uuid | None:
    """The same; None also if the file is damaged."""
    try:
        return read_topic_id(files, folder)
    except CorruptFileError:
        return None


def write_topic_id(files: Files, folder: str, topic_id: Uuid) -> str:
    """Writes the file of a new folder and returns its path; the first flush of the log syncs it.

    Torn by a power cut before that, it is mostly as empty as the log, and the cluster knows the id;
    a log with records is not trusted without one (`kaa.replication.log_placement`). A kill leaves
    the whole of it or nothing: Kafka does not start on a part.
    """
    content = f"version: {_PARTITION_METADATA_VERSION}\ntopic_id: {topic_id}".encode()
    path = f"{folder}/{PARTITION_METADATA_FILE}"
    write_new(files, path + TEMPORARY_SUFFIX, content)
    files.rename(path + TEMPORARY_SUFFIX, path)
    return path


def read_clean_shutdown(files: Files, directory: str) -> int | None:
    """The broker epoch of a clean stop, -1 where it is unknown; None after any other end."""
    try:
        content = read_whole(files, f"{directory}/{CLEAN_SHUTDOWN_FILE}")
    except FileNotFoundError:
        return None
    try:
        return int(json.loads(content)["brokerEpoch"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        # Versions before 3.7 left an empty file; the stop was clean, the epoch is not known.
        return NO_BROKER_EPOCH


def read_stopped_directories(files: Files, directory: str) -> set[str]:
    """The ids of the directories that a broker had when it was stopped, if it wrote them down."""
    try:
        ids = json.loads(read_whole(files, f"{directory}/{CLEAN_SHUTDOWN_FILE}"))["directoryIds"]
        return {str(each) for each in ids}
    except (FileNotFoundError, ValueError, KeyError, TypeError, RecursionError):
        return set()


def write_clean_shutdown(
    files: Files, directory: str, broker_epoch: int, directory_ids: Sequence[Uuid] = ()
) -> None:
    marker: dict[str, object] = {"version": _CLEAN_SHUTDOWN_VERSION, "brokerEpoch": broker_epoch}
    if len(directory_ids) > 1:
        marker["directoryIds"] = [str(each) for each in directory_ids]
    content = json.dumps(marker, separators=(",", ":")).encode()
    write_atomically(files, f"{directory}/{CLEAN_SHUTDOWN_FILE}", content)


def remove_clean_shutdown(files: Files, directory: str) -> None:
    if unlink_if_exists(files, f"{directory}/{CLEAN_SHUTDOWN_FILE}"):
        files.sync_directory(directory)
