"""A disk of a follower that dies: producers with acks=all go on at once."""

from __future__ import annotations

import errno
import time

from kaa.client.admin.admin import NewTopic
from kaa.client.sync import Admin, Producer
from kaa.controller.image import PartitionImage
from kaa.testing import Cluster
from kaa.testing.cluster_nodes import MemoryNode
from tests.oracle.environment import wait_until
from tests.support.pace import PATIENCE_SECONDS

FIRST, SECOND = "/data/one", "/data/two"
SETTINGS = {"log.dirs": f"{FIRST},{SECOND}", "metadata.log.dir": FIRST}
PARTITIONS = 4
# Far below replica.lag.time.max.ms, for which a replica that fell behind is waited for.
SECONDS_MAX = 15


def test_acks_of_all_do_not_wait_for_a_disk_that_died() -> None:
    topic = NewTopic("t", assignments=dict.fromkeys(range(PARTITIONS), (1, 2, 3)))
    with Cluster(overrides=SETTINGS) as cluster:
        servers = {"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "linger.ms": "0"}
        with Admin(servers) as admin:
            assert not any(admin.create_topics([topic]).values())
        node = cluster._nodes[2]
        assert isinstance(node, MemoryNode)
        broker = node.broker
        assert broker is not None
        logs, image = broker.services.logs, broker.services.image
        # The follower may hear of the topic after the leader has.
        assert wait_until(lambda: "t" in image.topics, PATIENCE_SECONDS)

        def state(number: int) -> PartitionImage:
            # The image replaces the topic with a change of it.
            return image.topics["t"].partitions[number]

        (directory,) = [each for each in logs.directories if each.path == SECOND]
        with Producer(servers) as producer:
            for number in range(PARTITIONS):
                producer.send("t", "before", partition=number).result()
            on_it = {key.partition for key in directory.logs}
            assert 0 < len(on_it) < PARTITIONS
            assert wait_until(
                lambda: all(state(n).directories[1] == directory.directory_id for n in on_it),
                PATIENCE_SECONDS,
            )
            dead = OSError(errno.EIO, "dead")
            broker._view.loop.call_soon_threadsafe(directory.fail, dead)
            began = time.monotonic()
            sent = [producer.send("t", "after", partition=n) for n in range(PARTITIONS)]
            for one in sent:
                one.result()
            assert time.monotonic() - began < SECONDS_MAX
        for number in range(PARTITIONS):
            assert (2 in state(number).isr) == (number not in on_it)
