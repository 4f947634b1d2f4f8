"""Formats the empty directories of a development node, which has no operator to do it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kaa.broker.directories import has_metadata_log
from kaa.controller.formatting import FormatRequest, plan_format
from kaa.log.errors import CorruptFileError
from kaa.log.properties import read_meta_properties
from kaa.model.nodes import Endpoint
from kaa.quorum.voters import KRAFT_VERSIONS, ReplicaKey, VoterNode, VoterSet
from kaa.wire.primitives import random_uuid

if TYPE_CHECKING:
    from random import Random

    from kaa.config.server import BrokerConfig
    from kaa.log.files import Files


def format_if_empty(config: BrokerConfig, files: Files, random: Random, now_ms: int) -> bool:
    """Makes a node the only voter of a cluster of its own; False if it is formatted already."""
    try:
        if any(read_meta_properties(files, path) is not None for path in config.log_dirs):
            return False
    except CorruptFileError:
        # It belongs to somebody, no matter who that was.
        return False
    if has_metadata_log(files, config.metadata_log_dir):
        return False

    new_id = partial(random_uuid, random.randbytes)
    metadata_directory_id = new_id()
    endpoints = tuple(
        Endpoint(point.listener, point.host, point.port)
        for point in config.listeners.advertised_controller
    )
    key = ReplicaKey(config.node_id, metadata_directory_id)
    request = FormatRequest(
        cluster_id=str(new_id()),
        node_id=config.node_id,
        directories=config.log_dirs,
        metadata_directory=config.metadata_log_dir,
        is_quorum_dynamic=True,
        voters=VoterSet.of([VoterNode(key, endpoints, KRAFT_VERSIONS)]),
    )
    for _ in plan_format(files, request, new_id).run(files, now_ms, "formatted for development"):
        pass
    return True
