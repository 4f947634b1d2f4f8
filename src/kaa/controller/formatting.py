"""Formatting: making directories into those of a node of a cluster.

Every log directory, and the one of the metadata log, gets:

| file | what is in it |
|---|---|
| `bootstrap.checkpoint` | the records that the first active controller writes |
| `meta.properties` | cluster, node, and an id of the directory, written last |

and the directory of the metadata log of a dynamic quorum (kraft.version 1) also
`__cluster_metadata-0/00000000000000000000-0000000000.checkpoint` with the first voters. A
directory is formatted when it has a `meta.properties`, so an interrupted run is repeated by
running it again. The one of the metadata log comes last: before it is formatted no node has run.

`plan_format` checks everything without touching anything; `FormatPlan.run` writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kaa.controller.bootstrap import bootstrap_records
from kaa.controller.feature_table import (
    FEATURES,
    KRAFT_VERSION,
    METADATA_VERSION,
    METADATA_VERSION_MAX,
    METADATA_VERSIONS,
    SCRAM,
    default_level,
    metadata_version_at,
    record_version,
)
from kaa.controller.framing import encode_record
from kaa.controller.result import FormatError
from kaa.log.errors import CorruptFileError
from kaa.log.files import make_durable_directory
from kaa.log.names import folder_name
from kaa.log.properties import (
    MetaProperties,
    read_meta_properties,
    write_meta_properties,
)
from kaa.quorum.log_view import BOOTSTRAP_SNAPSHOT_ID
from kaa.quorum.metadata_log import METADATA_PARTITION, SnapshotWriter
from kaa.quorum.snapshots import build_snapshot, write_bootstrap
from kaa.wire.messages.metadata_cluster import FeatureLevelRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kaa.controller.feature_table import MetadataVersion
    from kaa.log.files import Files
    from kaa.quorum.voters import VoterSet
    from kaa.wire.primitives import Uuid
    from kaa.wire.schema import MetadataRecord


class FormatRequest(NamedTuple):
    """What is to be formatted, and for what."""

    cluster_id: str
    node_id: int
    directories: Sequence[str]
    metadata_directory: str
    # Whether the log says who votes, rather than `controller.quorum.voters`.
    is_quorum_dynamic: bool
    # The first voters of a dynamic quorum, where this node is given them.
    voters: VoterSet | None = None
    release: MetadataVersion | None = None
    levels: Mapping[str, int] = {}
    credentials: Sequence[MetadataRecord] = ()
    ignore_formatted: bool = False


class FormatPlan(NamedTuple):
    """What `run` will do."""

    request: FormatRequest
    release: MetadataVersion
    records: list[MetadataRecord]
    kraft_version: int
    # Those that are formatted; the others are already.
    empty_directories: list[str]
    directory_ids: dict[str, Uuid]

    def run(self, files: Files, now_ms: int, comment: str) -> Iterator[str]:
        """Formats; yields each directory before it is touched."""
        last = self.request.metadata_directory
        for directory in sorted(self.empty_directories, key=lambda each: each == last):
            yield directory
            make_durable_directory(files, directory)
            write_bootstrap(files, directory, self._values(), now_ms)
            voters = self.request.voters
            if directory == self.request.metadata_directory and voters is not None:
                _write_first_snapshot(files, directory, voters, self.kraft_version, now_ms)
            properties = MetaProperties(
                node_id=self.request.node_id,
                cluster_id=self.request.cluster_id,
                directory_id=self.directory_ids[directory],
            )
            write_meta_properties(files, directory, properties, comment)

    def _values(self) -> Iterator[bytes]:
        features = {
            record.name: record.feature_level
            for record in self.records
            if isinstance(record, FeatureLevelRecord)
        }
        for record in self.records:
            yield encode_record(record, record_version(record, features))


def plan_format(files: Files, request: FormatRequest, new_id: Callable[[], Uuid]) -> FormatPlan:
    """Checks the request and the directories; FormatError if anything is wrong."""
    if request.node_id < 0:
        raise FormatError("node.id must not be negative")
    if not request.cluster_id:
        raise FormatError("a cluster needs an id: kaa storage random-uuid gives one")
    release = _release(request)
    levels = _levels(request, release)
    if request.credentials and release.level < SCRAM:
        raise FormatError(f"SCRAM needs a release of 3.5 or newer, not {release}")
    empty = _empty_directories(files, request)
    ids: dict[str, Uuid] = {}
    for directory in empty:
        ids[directory] = _directory_id(request, directory) or new_id()
    records = [*bootstrap_records(release.level, levels), *request.credentials]
    return FormatPlan(request, release, records, levels[KRAFT_VERSION], empty, ids)


def _release(request: FormatRequest) -> MetadataVersion:
    level = request.levels.get(METADATA_VERSION)
    if level is None:
        return request.release or METADATA_VERSION_MAX
    if request.release is not None:
        raise FormatError("--release-version and --feature metadata.version say the same: use one")
    found = metadata_version_at(level)
    if found is None:
        known = f"{METADATA_VERSIONS[0].level} to {METADATA_VERSIONS[-1].level}"
        raise FormatError(f"there is no metadata.version {level}; there are {known}")
    return found


def _levels(request: FormatRequest, release: MetadataVersion) -> dict[str, int]:
    levels = {name: level for name, level in request.levels.items() if name != METADATA_VERSION}
    for name, level in levels.items():
        if name not in FEATURES:
            known = ", ".join(sorted([METADATA_VERSION, *FEATURES]))
            raise FormatError(f"there is no feature {name}; there are {known}")
        if not 0 <= level < len(FEATURES[name]):
            raise FormatError(f"{name} has levels from 0 to {len(FEATURES[name]) - 1}")
        needed = FEATURES[name][level].metadata_version_min
        if release.level < needed:
            raise FormatError(f"{name}={level} needs metadata.version {needed}")
    kraft_version = levels.get(KRAFT_VERSION)
    if kraft_version is not None and bool(kraft_version) != request.is_quorum_dynamic:
        raise FormatError(
            f"kraft.version={kraft_version} contradicts the rest: it is 0 with"
            " controller.quorum.voters, and 1 without"
        )
    chosen = {name: default_level(name, release.level) for name in FEATURES} | levels
    chosen[KRAFT_VERSION] = int(request.is_quorum_dynamic)
    return chosen


def _directory_id(request: FormatRequest, directory: str) -> Uuid | None:
    """The id that the first voters give to the directory; None if it may have any."""
    if request.voters is None or directory != request.metadata_directory:
        return None
    voter = request.voters.get(request.node_id)
    return None if voter is None else voter.key.directory_id


def _empty_directories(files: Files, request: FormatRequest) -> list[str]:
    """The directories to format. What is formatted must be of this very node."""
    empty = []
    for directory in sorted({*request.directories, request.metadata_directory}):
        try:
            found = read_meta_properties(files, directory)
        except CorruptFileError as error:
            raise FormatError(str(error)) from error
        except OSError as error:
            raise FormatError(f"cannot look into {directory}: {error}") from error
        if found is None:
            empty.append(directory)
            continue
        if found.cluster_id != request.cluster_id or found.node_id != request.node_id:
            raise FormatError(
                f"{directory} belongs to node {found.node_id} of cluster {found.cluster_id}"
            )
        if not request.ignore_formatted:
            raise FormatError(
                f"{directory} is formatted already: use --ignore-formatted to format only the"
                " others"
            )
    return empty


def _write_first_snapshot(
    files: Files, directory: str, voters: VoterSet, kraft_version: int, now_ms: int
) -> None:
    folder = f"{directory}/{folder_name(METADATA_PARTITION)}"
    files.make_directory(folder)
    writer = SnapshotWriter(files, folder, BOOTSTRAP_SNAPSHOT_ID)
    for batch in build_snapshot(
        BOOTSTRAP_SNAPSHOT_ID,
        (),
        timestamp=now_ms,
        last_contained_log_timestamp=now_ms,
        kraft_version=kraft_version,
        voters=voters,
    ):
        writer.append(batch)
    writer.finish()
    files.sync_directory(directory)
