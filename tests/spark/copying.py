"""A topic that is copied exactly once by programs that may die: what they share, and the check."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING

from kaa.client import TopicPartition
from kaa.client.consumer.offsets import LATEST
from kaa.client.sync import Consumer
from tests.oracle.environment import wait_until
from tests.spark.conftest import Cluster, numbered
from tests.spark.programs import Program, shell

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 1_000


class Copy:
    """Topic, copy and checkpoint; every program that is started goes on where the last one was."""

    def __init__(self, servers: str, topic: str, folder: Path, row_count: int = ROWS) -> None:
        self.servers = servers
        self._rows = numbered(0, row_count)
        self.topic = topic
        self.out = f"{topic}-out"
        self.folder = folder
        self._cluster = Cluster(servers)
        self._cluster.create(topic, 2)
        self._cluster.create(self.out, 2)
        self._cluster.send(topic, self._rows)

    def start(self, **environment: str) -> Program:
        """Starts a program of the copy; variables come on top of those of a plain shell."""
        arguments = [self.servers, self.topic, self.out, str(self.folder / "checkpoint")]
        return Program("query", self.folder, *arguments, environment=shell() | environment)

    def written(self) -> int:
        """How many records the copy has, also such as nobody may see."""
        ends = {TopicPartition(self.out, number): LATEST for number in (0, 1)}
        found = self._cluster.admin(lambda one: one.list_offsets(ends))
        return sum(answer.offset for answer in found.values())

    def wait(self, program: Program, enough: int) -> None:
        """Waits until a program has brought the copy to so many records."""

        def is_reached() -> bool:
            # A pause between two looks, which ends when the program does.
            with suppress(subprocess.TimeoutExpired):
                program.process.wait(0.2)
            return self.written() >= enough

        assert wait_until(is_reached, 240), program.output

    def check_so_far(self) -> int:
        """No row may be visible twice; gives how many are."""
        found = visible(self.servers, self.out)
        assert len(found) == len(set(found)), f"{len(found)} rows, {len(set(found))} different"
        return len(found)

    def check(self) -> None:
        """Every row must be visible, once."""
        expected = sorted(value for _, value in self._rows)
        found = visible(self.servers, self.out)
        assert found == expected, f"{len(found)} rows, {len(set(found))} of them different"


def visible(servers: str, topic: str) -> list[bytes]:
    """The values that a reader of committed rows sees in a topic of two partitions, sorted."""
    settings = {"bootstrap.servers": servers, "isolation.level": "read_committed"}
    with Consumer(settings) as consumer:
        partitions = [TopicPartition(topic, number) for number in (0, 1)]
        ends = consumer.end_offsets(partitions)
        consumer.assign(partitions)
        consumer.seek_to_beginning(partitions)
        found: list[bytes] = []
        while any(consumer.position(one) < ends[one] for one in partitions):
            for records in consumer.poll(timeout_ms=200).values():
                found += [bytes(record.value or b"") for record in records]
    return sorted(found)
