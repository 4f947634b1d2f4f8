"""The fetchers of a broker: `num.replica.fetchers` for each leader that it follows.

A partition always goes to the same of the fetchers to its leader, by its name. A fetcher begins
with its first partition and ends when it has none any more.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from zlib import crc32

from kaa.replication.follower.fetcher import Fetcher

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.model.seams import Clock
    from kaa.replication.follower.fetcher import FetcherSettings, FetchThrottle, RemoteStates
    from kaa.replication.follower.link import LeaderLink
    from kaa.replication.follower.session import PartitionId
    from kaa.replication.partition import Partition

# The leader, and the number of the fetcher.
FetcherId = tuple[int, int]


class ReplicaFetchers:
    """Spreads the partitions that this broker follows over its fetchers. `run` has to be running;
    `follow` and `unfollow` take effect at once.
    """

    def __init__(
        self,
        connect: Callable[[int, int], LeaderLink],
        settings: Callable[[], FetcherSettings],
        fetcher_count: Callable[[], int],
        clock: Clock,
        report: Callable[[str], None] = lambda _: None,
        remote: RemoteStates | None = None,
        throttle: FetchThrottle | None = None,
        broken: Callable[[Partition, str], None] | None = None,
    ) -> None:
        """`connect` makes the link to a leader for one of the fetchers, and `broken` is called when
        a partition stops, with the reason.
        """
        self._connect = connect
        self._settings = settings
        self._fetcher_count = fetcher_count
        self._clock = clock
        self._report = report
        self._remote = remote
        self._throttle = throttle
        self._broken = broken
        self.fetchers: dict[FetcherId, Fetcher] = {}
        # Where a partition is fetched, and the leader epoch that is followed.
        self._places: dict[PartitionId, tuple[FetcherId, int]] = {}
        self._has_changed = asyncio.Event()

    def update(self, partition: Partition) -> None:
        """Follows the partition's leader, as its metadata says; to be called at every change."""
        leader = partition.image.leader
        follows = partition.leadership is None and partition.log is not None
        if follows and leader not in {-1, partition.node_id}:
            self.follow(partition, leader)
        elif (partition.topic_id, partition.number) in self._places:
            self.unfollow(partition)

    def follow(self, partition: Partition, leader: int) -> None:
        """Copies the partition from this leader, under the leader epoch that it has now."""
        key = (partition.topic_id, partition.number)
        number = crc32(partition.topic.encode()) + partition.number
        place = (leader, number % self._fetcher_count())
        if self._places.get(key) == (place, partition.leader_epoch):
            return
        self.unfollow(partition)
        self._places[key] = (place, partition.leader_epoch)
        fetcher = self.fetchers.get(place)
        if fetcher is None:
            fetcher = Fetcher(
                self._connect(*place),
                self._settings,
                self._clock,
                self._report,
                self._remote,
                self._throttle,
                self._broken,
            )
            self.fetchers[place] = fetcher
            self._has_changed.set()
        fetcher.follow(partition)

    def unfollow(self, partition: Partition) -> None:
        key = (partition.topic_id, partition.number)
        known = self._places.pop(key, None)
        if known is None:
            return
        fetcher = self.fetchers[known[0]]
        fetcher.unfollow(key)
        if not fetcher.partitions:
            self._has_changed.set()

    async def run(self) -> None:
        """Keeps the fetchers at work until it is cancelled. It may be called again after a failure,
        and begins with the fetchers that are there.
        """
        at_work: dict[FetcherId, asyncio.Task[None]] = {}
        self._has_changed.set()
        async with asyncio.TaskGroup() as tasks:
            while True:
                await self._has_changed.wait()
                self._has_changed.clear()
                for place, fetcher in tuple(self.fetchers.items()):
                    if fetcher.partitions:
                        if place not in at_work:
                            at_work[place] = tasks.create_task(fetcher.run())
                        continue
                    del self.fetchers[place]
                    task = at_work.pop(place, None)
                    if task is not None:
                        task.cancel()
