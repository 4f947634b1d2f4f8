from __future__ import annotations

import asyncio
import re
from random import Random

from kaa.broker.coordinators import CoordinatorHost, group_shards
from kaa.broker.node import Broker
from kaa.client.peer import Peer, peer_settings
from kaa.coordinators.machine import Moment
from kaa.coordinators.runtime import partition_for
from kaa.model.nodes import HostPort, SecurityProtocol
from kaa.records.batch import CompressionType
from kaa.wire.messages.k10_find_coordinator import FindCoordinatorRequest
from tests.support.cluster import BOTH, Cluster
from tests.support.pace import PATIENCE_SECONDS
from tests.unit.handlers.group_requests import join_request
from tests.unit.handlers.support import NOW_MS, Node


def test_settings_of_the_node() -> None:
    with Node("group.coordinator.append.linger.ms=7", "offsets.topic.compression.codec=4") as node:
        host = CoordinatorHost(node.services.view, None, lambda _: None, group_shards)
        settings = host.settings()
        assert (settings.linger_ms, settings.commit_timeout_ms) == (7, 5_000)
        assert settings.compression_type is CompressionType.ZSTD
        assert host.now() == Moment(NOW_MS, 0)
        node.load_coordinators()
        with Node("group.coordinator.append.linger.ms=9") as other:
            node.services.view.config = other.services.config
            assert host.settings().linger_ms == 9


def test_member_ids_end_with_a_random_uuid() -> None:
    with Node() as node:
        node.load_coordinators()
        member_id = node.ask(join_request()).member_id
        assert re.fullmatch(r"client-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f-]{17}", member_id)


def test_groups_are_spread_over_brokers_and_all_of_them_say_the_same() -> None:
    partitions, keys = 12, [f"group-{number}" for number in range(40)]

    async def asked(broker: Broker) -> dict[str, int]:
        host, _, port = broker.bootstrap_servers.rpartition(":")
        settings = peer_settings(
            SecurityProtocol.PLAINTEXT, client_id="t", request_timeout_ms=PATIENCE_SECONDS * 1000
        )
        peer = Peer(HostPort(host, int(port)), settings, Random(1))
        answer = await peer.request(FindCoordinatorRequest(coordinator_keys=keys))
        peer.close()
        return {one.key: one.node_id for one in answer.coordinators}

    async def main() -> None:
        made = Cluster(
            dict.fromkeys((1, 2, 3), BOTH),
            f"offsets.topic.num.partitions={partitions}",
            "offsets.topic.replication.factor=1",
        )
        try:
            await made.start()
            first, *others = made.nodes.values()
            async with asyncio.timeout(PATIENCE_SECONDS):
                # The topic is created by the first question, and then has to be led.
                while -1 in (told := await asked(first)).values():  # noqa: ASYNC110  Nobody tells.
                    await asyncio.sleep(0.01)
            placed = first.services.image.topics["__consumer_offsets"].partitions
            assert len(placed) == partitions
            assert told == {key: placed[partition_for(key, partitions)].leader for key in keys}
            assert set(told.values()) == {1, 2, 3}
            for other in others:
                assert await asked(other) == told
        finally:
            await made.kill()

    asyncio.run(main())
