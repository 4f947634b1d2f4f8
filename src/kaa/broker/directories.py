"""The identity of a node's log directories, checked before anything in them is touched.

Every directory says in `meta.properties` which cluster and node it belongs to, and has an id of its
own. A node whose directories disagree, or belong to another node, does not start: it would mix the
data of two clusters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kaa.log.errors import CorruptFileError
from kaa.log.properties import META_PROPERTIES_VERSION, read_meta_properties

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaa.log.files import Files
    from kaa.log.properties import MetaProperties
    from kaa.wire.primitives import Uuid


class StartError(Exception):
    """The node cannot start; the text says what is wrong and what to do."""


class Identity(NamedTuple):
    """What the directories of a node agree on."""

    cluster_id: str
    # By path; a directory that cannot be read is missing.
    directories: dict[str, MetaProperties]
    # The directory with the metadata log is one of the others or one of its own.
    metadata_directory_id: Uuid


def read_identity(files: Files, paths: Sequence[str], metadata_path: str, node_id: int) -> Identity:
    """Reads and compares the identities; StartError if they do not belong together."""
    found: dict[str, MetaProperties] = {}
    unformatted: list[str] = []
    for path in dict.fromkeys([*paths, metadata_path]):
        try:
            properties = read_meta_properties(files, path)
        except CorruptFileError as error:
            raise StartError(f"{error}; restore the file or format another directory") from None
        except PermissionError:
            raise StartError(
                f"{path} cannot be read: give the user of this process access to it, "
                "or name another directory in log.dirs"
            ) from None
        except OSError:
            # Offline: the others may serve.
            continue
        if properties is None:
            unformatted.append(path)
        else:
            found[path] = properties
    _check(found, unformatted, node_id)
    if metadata_path not in found:
        raise StartError(
            f"{metadata_path}, the directory of the metadata log, is not formatted or cannot be "
            "read; a node does not start without its metadata"
        )
    of_metadata = found[metadata_path]
    if of_metadata.directory_id is None:
        raise StartError(
            f"{metadata_path} has no directory.id, as before Kafka 3.7; start it once with a newer "
            "Kafka, which adds one"
        )
    return Identity(of_metadata.cluster_id, found, of_metadata.directory_id)


def _check(found: dict[str, MetaProperties], unformatted: list[str], node_id: int) -> None:
    if not found:
        where = ", ".join(unformatted) or "no log directory"
        raise StartError(
            f"{where} is not formatted; run: kaa storage format --standalone "
            "-t $(kaa storage random-uuid) -c <server.properties>"
        )
    first_path, first = next(iter(found.items()))
    for path, properties in found.items():
        if properties.version > META_PROPERTIES_VERSION:
            raise StartError(
                f"{path} was written by a newer version ({properties.version}); use that one"
            )
        if properties.cluster_id != first.cluster_id:
            raise StartError(
                f"{path} belongs to cluster {properties.cluster_id}, but {first_path} to "
                f"{first.cluster_id}; log.dirs must name directories of one cluster"
            )
        if properties.node_id != node_id:
            raise StartError(
                f"{path} belongs to node {properties.node_id}, but node.id is {node_id}; "
                "set node.id or log.dirs to match"
            )
