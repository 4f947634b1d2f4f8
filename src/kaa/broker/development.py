"""Formats the empty directories of a development node, which has no operator to do it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kaa.broker.directories import has_metadata_log
from kaa.controller.formatting import FormatRequest, plan_format
from kaa.log.errors import CorruptFileError
from kaa.log.names import META_PROPERTIES_FILE
from kaa.log.properties import read_meta_properties
from kaa.model.nodes import Endpoint
from kaa.quorum.snapshots import BOOTSTRAP_FILE
from kaa.quorum.voters import KRAFT_VERSIONS, ReplicaKey, VoterNode, VoterSet
from kaa.wire.primitives import random_uuid

if TYPE_CHECKING:
    from random import Random

    from kaa.config.server import BrokerConfig
    from kaa.log.files import Files
    from kaa.log.properties import MetaProperties


def format_if_empty(config: BrokerConfig, files: Files, random: Random, now_ms: int) -> bool:
    """Makes a node the only voter of a cluster of its own; False if it is formatted already.

    A format that was interrupted is gone on with.
    """
    begun: dict[str, MetaProperties] = {}
    unreadable: OSError | None = None
    for path in config.log_dirs:
        try:
            properties = read_meta_properties(files, path)
        except CorruptFileError:
            # It belongs to somebody, no matter who that was.
            return False
        except OSError as error:
            unreadable = error
        else:
            begun |= {} if properties is None else {path: properties}
    if unreadable is not None:
        if not begun:
            raise unreadable
        # The others may serve without it.
        return False
    has_run = has_metadata_log(files, config.metadata_log_dir) or config.metadata_log_dir in begun
    if has_run or not all(_is_fresh(files, path) for path in begun):
        return False

    new_id = partial(random_uuid, random.randbytes)
    metadata_directory_id = new_id()
    cluster_ids = [properties.cluster_id for properties in begun.values()]
    endpoints = tuple(
        Endpoint(point.listener, point.host, point.port)
        for point in config.listeners.advertised_controller
    )
    key = ReplicaKey(config.node_id, metadata_directory_id)
    request = FormatRequest(
        cluster_id=cluster_ids[0] if cluster_ids else str(new_id()),
        node_id=config.node_id,
        directories=config.log_dirs,
        metadata_directory=config.metadata_log_dir,
        is_quorum_dynamic=True,
        voters=VoterSet.of([VoterNode(key, endpoints, KRAFT_VERSIONS)]),
        ignore_formatted=True,
    )
    for _ in plan_format(files, request, new_id).run(files, now_ms, "formatted for development"):
        pass
    return True


def _is_fresh(files: Files, path: str) -> bool:
    """Whether a directory has nothing but what a format puts there, under any name meanwhile."""
    wanted = (META_PROPERTIES_FILE, BOOTSTRAP_FILE)
    return all(name.startswith(wanted) for name in files.list_directory(path))
