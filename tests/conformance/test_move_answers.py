"""What Kaa and Apache Kafka answer to requests about three log directories, one of which fails.

The same story is told to both; the words of errors are their own, and everything else is the same.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kaa.client.admin.admin import NewTopic
from kaa.client.admin.configs import ConfigChange, ConfigOperation
from kaa.client.errors import KafkaError
from kaa.client.sync import Admin
from kaa.model.kinds import ResourceType
from kaa.model.topics import TopicPartition
from kaa.wire.errors import Errors
from kaa.wire.messages.k34_alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from tests.clients.librdkafka import produce
from tests.clients.samples import SAMPLES
from tests.oracle.environment import wait_until
from tests.support.broker_process import BrokerProcess
from tests.support.pace import PATIENCE_SECONDS
from tests.support.raw import RawClient
from tests.support.real_node import RealNode

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.oracle import Oracle

pytestmark = pytest.mark.oracle
KEY, OTHER, LATER = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("later", 0)
RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
CORDONED = "cordoned.log.dirs"


class Story:
    """A node that is asked, and what it has answered so far."""

    def __init__(self, admin: Admin, bootstrap: str, paths: list[str]) -> None:
        self.admin = admin
        self.answers: list[tuple[object, ...]] = []
        self._bootstrap = bootstrap
        # By the name in the story; the directory of the replica is "home" in all of it.
        self._paths = dict(zip(("home", "one", "two"), paths, strict=True))

    def alter(self, *wanted: tuple[TopicPartition, str]) -> None:
        """By a request of its own: a client refuses what cannot be before it asks."""
        request = AlterReplicaLogDirsRequest(
            dirs=[
                AlterReplicaLogDir(
                    path=self._paths.get(name, name),
                    topics=[AlterReplicaLogDirTopic(name=key.topic, partitions=[key.partition])],
                )
                for key, name in wanted
            ]
        )
        with RawClient(self._bootstrap) as client:
            response = client.ask(request)
        found = [
            (f"{topic.topic_name}-{each.partition_index}", Errors.of(each.error_code))
            for topic in response.results
            for each in topic.partitions
        ]
        self.answers.append((wanted, sorted(found)))

    def look(self) -> None:
        """Where the replica is, and where it goes."""
        names = {path: name for name, path in self._paths.items()}
        found = {
            (names[one.path], one.error, one.is_cordoned): sorted(
                (str(replica.partition), replica.is_future)
                for replica in one.replicas
                if replica.partition in {KEY, LATER}
            )
            for one in self.admin.describe_log_dirs()
        }
        self.answers.append(("look", found))

    def configure(self, name: str, value: str | None) -> None:
        """Directories in the value are named as in the story."""
        operation = ConfigOperation.DELETE if value is None else ConfigOperation.SET
        text = value and ",".join(self._paths.get(part, part) for part in value.split(","))
        error = None
        try:
            self.admin.alter_configs(
                ResourceType.BROKER, "1", [ConfigChange(name, text, operation)]
            )
        except KafkaError as refused:
            error = refused.error
        self.answers.append((name, value, error))

    def cordon(self, value: str | None, expected: set[str]) -> None:
        """It takes a moment until the broker has heard of it."""
        self.configure(CORDONED, value)
        paths = {self._paths[name] for name in expected}
        assert wait_until(
            lambda: (
                {one.path for one in self.admin.describe_log_dirs() if one.is_cordoned} == paths
            ),
            PATIENCE_SECONDS,
        )

    def begin(self) -> None:
        """Has the replica in the first directory, and moves that take for ever."""
        self.alter((KEY, "home"), (OTHER, "home"))
        self.admin.create_topics([NewTopic(KEY.topic, assignments={0: (1,), 1: (1,)})])
        produce(self._bootstrap, KEY.topic, SAMPLES)
        self.configure(RATE, "1")
        # The broker hears of the rate a moment later.
        wait_until(lambda: False, 1)

    def lose(self, name: str) -> None:
        """A file comes in the place of a directory, and the node tries to write there."""
        path = Path(self._paths[name])
        path.rename(f"{path}-away")
        path.write_text("")
        assert wait_until(
            lambda: any(one.error for one in self.admin.describe_log_dirs()), PATIENCE_SECONDS
        )


def moves_are_begun_replaced_and_ended(story: Story) -> None:
    for target in ("home", "one", "one", "two", "home", "/nowhere", "", "home/"):
        story.alter((KEY, target))
        story.look()


def what_is_not_here(story: Story) -> None:
    story.alter((LATER, "two"), (TopicPartition("t", 9), "one"), (TopicPartition("t", -1), "one"))
    names = ("no such name", "", "..", "x" * 213, "x" * 214, "x" * 249, "__cluster_metadata")
    for name in names:
        story.alter((TopicPartition(name, 0), "one"))
    story.admin.create_topics([NewTopic(LATER.topic, assignments={0: (1,)})])
    # The broker makes its log when it hears of the topic.
    assert wait_until(
        lambda: any(
            replica.partition == LATER
            for one in story.admin.describe_log_dirs()
            for replica in one.replicas
        ),
        PATIENCE_SECONDS,
    )
    story.look()


def cordons(story: Story) -> None:
    for value in ("/nowhere", "*,home", "home,", "home/"):
        story.configure(CORDONED, value)
    story.cordon("*", {"home", "one", "two"})
    story.alter((KEY, "one"))
    story.cordon("two", {"two"})
    story.alter((KEY, "two"), (LATER, "two"))
    story.cordon("home", {"home"})
    for target in ("home", "one", "home"):
        story.alter((KEY, target))
        story.look()
    story.cordon(None, set())
    story.alter((KEY, "home"))


def one_fails(story: Story) -> None:
    story.alter((KEY, "two"))
    story.lose("two")
    story.look()
    for target in ("two", "one", "home"):
        story.alter((KEY, target))
        story.look()
    story.alter((LATER, "one"))


def told(servers: str, paths: list[str]) -> list[tuple[object, ...]]:
    with Admin({"bootstrap.servers": servers}) as admin:
        story = Story(admin, servers, paths)
        story.begin()
        parts: tuple[Callable[[Story], None], ...] = (
            moves_are_begun_replaced_and_ended,
            what_is_not_here,
            cordons,
            one_fails,
        )
        for part in parts:
            part(story)
        return story.answers


def test_both_answer_the_same(oracle: Oracle, tmp_path: Path) -> None:
    def paths(side: str) -> list[str]:
        return [str(tmp_path / side / name) for name in ("a", "b", "c")]

    often = "log.flush.offset.checkpoint.interval.ms"
    own = BrokerProcess(tmp_path / "node", f"log.dirs={','.join(paths('kaa'))}", f"{often}=500")
    with own:
        ours = told(own.bootstrap_servers, paths("kaa"))
    settings = {"log.dirs": ",".join(paths("kafka")), often: "500"}
    kafka = RealNode(tmp_path / "jvm", Path(paths("kafka")[0]), **settings)
    kafka.format()
    with kafka:
        theirs = told(kafka.bootstrap_servers, paths("kafka"))
    for mine, other in zip(ours, theirs, strict=True):
        assert mine == other
