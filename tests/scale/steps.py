"""Steps of a node, and the turns of its loop that were too long in each of them."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from kaa.limits import LOOP_HELD_MS_MAX
from kaa.wire.errors import Errors
from kaa.wire.messages.k10_find_coordinator import FindCoordinatorRequest
from kaa.wire.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
from kaa.wire.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from kaa.wire.schema import Request
from tests.oracle.environment import wait_until
from tests.scale.node import ScaleNode
from tests.scale.requests import TIMEOUT_MS
from tests.support.pace import PATIENCE_SECONDS

TRIES = 4
STEADY_PARTS = 3


class Scale:
    """The node, and what its loop did in each step.

    Other processes take the caches away and keep the disk busy, which costs processor time too.
    What holds the loop holds it again, so that every step is repeated before it is blamed.
    """

    def __init__(self, node: ScaleNode) -> None:
        self.node = node
        # What was wrong with the creation of the topics that all tests have.
        self.creation_failure: AssertionError | None = None

    def step(self, name: str, work: Callable[[], object]) -> list[str]:
        """Runs something; the turns of the loop that used more than the limit."""
        self.node.probe.take()
        work()
        # What follows from it happens in the next turns.
        time.sleep(0.2)  # noqa: TID251  The node runs on another thread.
        slices = self.node.probe.take()
        # `pytest -s` shows how much room there is for slower machines.
        sys.stdout.write(f"{name}: {slices[0] if slices else 'nothing above the floor'}\n")
        return [str(one) for one in slices if one.milliseconds > LOOP_HELD_MS_MAX]

    def repeated(self, name: str, work: Callable[[int], object], times: int) -> None:
        """A step in several parts, each of which may be disturbed: what holds the loop in two of
        them is to blame, not two things that a busy machine made long once.
        """
        parts = [self.step(name, partial(work, number)) for number in range(times)]
        blamed = Counter(culprit for long in parts for culprit in {*map(_culprit, long)})
        again = {culprit for culprit, count in blamed.items() if count > 1}
        disturbed = [one for long in parts for one in long if _culprit(one) in again]
        assert not disturbed, f"{name} held the loop:\n" + "\n".join(disturbed)

    def held_again(self, long: list[str], again: Callable[[], list[str]]) -> list[str]:
        """Of turns that were too long in something that takes minutes: what was so when it was done
        once more. One disturbance is forgiven without that.
        """
        if len(long) < 2:
            return []
        once_more = again()
        blamed = {*map(_culprit, long)} & {*map(_culprit, once_more)}
        return [one for one in (*long, *once_more) if _culprit(one) in blamed]

    def steady(self, name: str, work: Callable[[], object]) -> None:
        """Does something that takes many turns; at first codecs may be compiled."""
        work()
        self.repeated(name, lambda _: work(), STEADY_PARTS)

    def ask(self, name: str, request: Request[Any], version: int | None = None) -> None:
        """Asks until it was not disturbed."""
        self.undisturbed(name, partial(self.node.client.ask, request, version, decodes=False))

    def undisturbed(self, name: str, work: Callable[[], object]) -> None:
        """Does something until it was not disturbed; at first codecs may be compiled."""
        work()
        long: list[str] = []
        for _ in range(TRIES):
            long = self.step(name, work)
            if not long:
                break
        assert not long, f"{name} held the loop:\n" + "\n".join(long[:5])

    def create(self, names: list[str], partitions: int) -> None:
        logs = self.node.broker.services.logs.logs
        before = self.node.call(lambda: len(logs))
        topics = [
            CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
            for name in names
        ]
        response = self.node.client.ask(CreateTopicsRequest(topics=topics, timeout_ms=TIMEOUT_MS))
        assert {topic.error_code for topic in response.topics} == {Errors.NONE}
        self.wait_for_logs(before + len(names) * partitions)

    def delete(self, names: list[str]) -> None:
        logs = self.node.broker.services.logs.logs
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name) for name in names], timeout_ms=TIMEOUT_MS
        )
        self.node.client.ask(request)
        gone = set(names)
        while any(key.topic in gone for key in self.node.call(lambda: list(logs))):
            time.sleep(0.1)  # noqa: TID251  As above.

    def partition_counts(self, names: list[str]) -> list[int]:
        """Of each topic: another test may have given some of them more than they began with."""
        topics = self.node.broker.services.image.topics
        return [len(topics[name].partitions) for name in names]

    def wait_for_coordinator(self, kind: int, key: str) -> None:
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        self.wait_until(
            lambda: self.node.client.ask(request).coordinators[0].error_code == Errors.NONE
        )

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Of a node that runs on another thread."""
        assert wait_until(condition, PATIENCE_SECONDS)

    def wait_for_logs(self, count: int) -> None:
        logs = self.node.broker.services.logs
        while self.node.call(lambda: len(logs.logs)) != count:
            time.sleep(0.1)  # noqa: TID251  As above.


def _culprit(slice_text: str) -> str:
    """What ran in a turn that was too long, without how long and what else was noted of it."""
    return slice_text.partition("ms: ")[2].partition("\n")[0].partition(" (")[0]
