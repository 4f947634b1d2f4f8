"""Kafka's tools for groups against Kafka and against Kaa: what they print must be the same.

Every form of `--reset-offsets`, and what it says of groups, topics and offsets that are not there;
and the tools for streams and for share groups.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kaa.wire.errors import Errors
from kaa.wire.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kaa.wire.messages.k19_create_topics import CreateTopicsRequest
from kaa.wire.messages.k42_delete_groups import DeleteGroupsRequest
from kaa.wire.registry import ApiKey
from tests.clients.groups import wait_for
from tests.differential.case import Ask, World
from tests.differential.cases_share_groups import beat as share_beat
from tests.differential.cases_streams_groups import beat, know, settings
from tests.differential.group_requests import commit, wait_for_coordinator
from tests.differential.helpers import creatable, records
from tests.differential.peers import BROKER, Peer
from tests.differential.running import kaa_peer, kafka_peer
from tests.oracle import Oracle
from tests.support.ports import LOOPBACK

# With the other module that starts both nodes, since a worker has one Kafka for it.
pytestmark = [pytest.mark.oracle, pytest.mark.xdist_group("differential groups")]

TOPIC, OTHER = "groups-tool", "groups-tool-other"
GROUP, SECOND = "groups-tool", "groups-tool-second"
RECORDS = 10
BEFORE, AMONG, AFTER = (
    "2020-01-01T00:00:00.000",
    "2023-11-14T22:13:20.005",
    "2035-01-01T00:00:00.000",
)


@pytest.fixture(scope="module")
def peers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Peer, Peer]]:
    with kafka_peer() as kafka, kaa_peer(tmp_path_factory.mktemp("kaa")) as kaa:
        for peer in (kafka, kaa):
            fill(peer)
        yield kafka, kaa


def fill(peer: Peer) -> None:
    """Two topics with records in their first partitions, and two groups with offsets."""
    topics = [creatable(name, 2, retention_ms="-1") for name in (TOPIC, OTHER)]
    peer.ask(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 7)
    data = records(*[b"value"] * RECORDS)

    def is_filled(topic: str) -> bool:
        partition = PartitionProduceData(index=0, records=data)
        found = TopicProduceData(name=topic, partition_data=[partition])
        answer = peer.ask(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[found]), 12)
        return bool(answer.responses[0].partition_responses[0].error_code == Errors.NONE)

    def is_committed(ask: Ask) -> bool:
        answer = peer.ask(ask.request, 9)
        return bool(answer.topics[0].partitions[0].error_code == Errors.NONE)

    for topic in (TOPIC, OTHER):
        wait_for(lambda topic=topic: is_filled(topic))  # type: ignore[misc]
    wait_for_coordinator(peer)
    for group in (GROUP, SECOND):
        for topic, number in ((TOPIC, 0), (TOPIC, 1), (OTHER, 0)):
            asked = commit(group, 9, number, topic=topic)
            wait_for(lambda asked=asked: is_committed(asked))  # type: ignore[misc]


def run(
    oracle: Oracle, peer: Peer, *arguments: str, tool: str = "ConsumerGroupCommand"
) -> tuple[int, list[str]]:
    """The exit code and the lines that it prints, without what must differ between two nodes."""
    address = f"{LOOPBACK}:{peer.port(BROKER)}"
    done = oracle.run_tool(tool, "--bootstrap-server", address, *arguments)
    text = re.sub(r"(?<=:)\d{4,5}\b", "port", done.out + done.err)
    # Sentences of errors are the broker's own.
    text = re.sub(r"(?<=Exception: ).*|(?<=Error: ).*", "words", text)
    # The width of a column is that of an address, and rows come from hash tables.
    lines = (" ".join(line.split()) for line in text.splitlines())
    return done.code, sorted(line for line in lines if line and not line.startswith("at "))


def reset(*how: str, topic: str = TOPIC, execute: bool = True) -> tuple[str, ...]:
    done = "--execute" if execute else "--dry-run"
    return ("--reset-offsets", "--group", GROUP, "--topic", topic, *how, done)


STEPS: dict[str, tuple[str, ...]] = {
    "a plan": reset("--to-latest", execute=False),
    "nothing came of it": ("--describe", "--group", GROUP),
    "to the end": reset("--to-latest"),
    "back by some": reset("--shift-by", "-3"),
    "on, beyond the end": reset("--shift-by", "100"),
    "back, before the start": reset("--shift-by", "-100"),
    "to an offset": reset("--to-offset", "4"),
    "to one after the end": reset("--to-offset", "99"),
    "to a time before all": reset("--to-datetime", BEFORE),
    "to a time among the records": reset("--to-datetime", AMONG),
    "to a time with a zone": reset("--to-datetime", f"{AMONG}+00:00"),
    "to a time after all": reset("--to-datetime", AFTER),
    "to the start": reset("--to-earliest"),
    "by a duration": reset("--by-duration", "PT1H"),
    "to where it is": reset("--to-current"),
    "one partition": reset("--to-offset", "7", topic=f"{TOPIC}:0"),
    "a topic that is not there": reset("--to-earliest", topic="groups-tool-nowhere"),
    "a partition that is not there": reset("--to-earliest", topic=f"{TOPIC}:7"),
    "every topic of the group": (
        *("--reset-offsets", "--group", GROUP, "--all-topics", "--to-offset", "2", "--execute"),
    ),
    "a group that is not there": (
        *("--reset-offsets", "--group", "groups-tool-new", "--topic", TOPIC),
        *("--to-earliest", "--execute"),
    ),
    "offsets": ("--describe", "--group", GROUP, "--offsets", "--verbose"),
    "members": ("--describe", "--group", GROUP, "--members", "--verbose"),
    "state": ("--describe", "--group", GROUP, "--state"),
    "nobody": ("--describe", "--group", "groups-tool-nobody"),
    "two groups": ("--describe", "--group", GROUP, "--group", SECOND),
    "offsets of one partition go": (
        *("--delete-offsets", "--group", GROUP, "--topic", f"{TOPIC}:0"),
    ),
    "offsets of a topic go": ("--delete-offsets", "--group", GROUP, "--topic", OTHER),
    "offsets that are not there go": (
        *("--delete-offsets", "--group", GROUP, "--topic", "groups-tool-nowhere:0"),
    ),
    "offsets of nobody go": ("--delete-offsets", "--group", "groups-tool-nobody", "--topic", TOPIC),
    "what is left": ("--describe", "--group", GROUP),
    "groups go": ("--delete", "--group", GROUP, "--group", "groups-tool-nobody"),
    "it is gone": ("--describe", "--group", GROUP),
}


@pytest.mark.parametrize("step", STEPS)
def test_the_same_is_printed(oracle: Oracle, peers: tuple[Peer, Peer], step: str) -> None:
    kafka, kaa = (run(oracle, peer, *STEPS[step]) for peer in peers)
    assert kaa == kafka


def test_plans_in_files(oracle: Oracle, peers: tuple[Peer, Peer], tmp_path: Path) -> None:
    """Of one group, and of two, which have a column more."""
    for groups in ((SECOND,), (SECOND, "groups-tool-third")):
        named = [word for group in groups for word in ("--group", group)]
        plan = ("--reset-offsets", *named, "--topic", f"{TOPIC}:0", "--to-offset", "3", "--export")
        exported = [run(oracle, peer, *plan) for peer in peers]
        assert exported[0] == exported[1]
        code, lines = exported[1]
        lines = [line for line in lines if not line.startswith("WARN")]
        assert (code, len(lines)) == (0, len(groups)), lines
        file = tmp_path / f"{len(groups)}.csv"
        file.write_text("\n".join(lines) + "\n")
        for done in ("--dry-run", "--execute"):
            told = ("--reset-offsets", *named, "--from-file", str(file), done)
            kafka, kaa = (run(oracle, peer, *told) for peer in peers)
            assert kaa == kafka
        kafka, kaa = (run(oracle, peer, "--describe", *named) for peer in peers)
        assert kaa == kafka


STREAMS = "groups-tool-streams"
# Groups of the differential cases.
OTHERS = re.compile(r"d\d+\.")
STREAMS_STEPS: dict[str, tuple[str, ...]] = {
    "a list": ("--list",),
    "states": ("--list", "--state"),
    "offsets": ("--describe", "--group", f"{STREAMS}.g"),
    "more of them": ("--describe", "--group", f"{STREAMS}.g", "--offsets", "--verbose"),
    "members": ("--describe", "--group", f"{STREAMS}.g", "--members", "--verbose"),
    "state": ("--describe", "--group", f"{STREAMS}.g", "--state", "--verbose"),
    "nobody": ("--describe", "--group", f"{STREAMS}.nobody"),
    "a group with members stays": ("--delete", "--group", f"{STREAMS}.g"),
}
LEFT_STEPS: dict[str, tuple[str, ...]] = {
    "reset": (
        *("--reset-offsets", "--group", f"{STREAMS}.g", "--input-topic", f"{STREAMS}.t"),
        *("--to-earliest", "--execute"),
    ),
    "what became of it": ("--describe", "--group", f"{STREAMS}.g"),
    "offsets go": (
        *("--delete-offsets", "--group", f"{STREAMS}.g", "--input-topic", f"{STREAMS}.t"),
    ),
    "the group goes": ("--delete", "--group", f"{STREAMS}.g"),
    "it is gone": ("--describe", "--group", f"{STREAMS}.g"),
}


def test_streams_groups(oracle: Oracle, peers: tuple[Peer, Peer]) -> None:
    worlds = [World(peer, ApiKey.STREAMS_GROUP_HEARTBEAT, 0, BROKER, STREAMS) for peer in peers]

    def compare(steps: dict[str, tuple[str, ...]]) -> None:
        for step, arguments in steps.items():
            kafka, kaa = (
                run(oracle, peer, *arguments, tool="StreamsGroupCommand") for peer in peers
            )
            # Kafka's node may have served other stories before.
            own = [line for line in kafka[1] if STREAMS in line or not OTHERS.match(line)]
            assert kaa == (kafka[0], own), step

    for world in worlds:
        topic = creatable(world.name(), 2)
        world.peer.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
        world.peer.ask(settings(world), 1)
        know(world)
        world.peer.ask(beat(world), 0)
    compare(STREAMS_STEPS)
    for world in worlds:
        world.peer.ask(beat(world, epoch=-1), 0)
    compare(LEFT_STEPS)


SHARE = "groups-tool-share"
SHARE_STEPS: dict[str, tuple[str, ...]] = {
    "a list": ("--list",),
    "states": ("--list", "--state"),
    "offsets": ("--describe", "--group", f"{SHARE}.g"),
    "more of them": ("--describe", "--group", f"{SHARE}.g", "--offsets", "--verbose"),
    "members": ("--describe", "--group", f"{SHARE}.g", "--members", "--verbose"),
    "state": ("--describe", "--group", f"{SHARE}.g", "--state", "--verbose"),
    "nobody": ("--describe", "--group", f"{SHARE}.nobody"),
    "a group with members keeps its offsets": (
        *("--reset-offsets", "--group", f"{SHARE}.g", "--topic", f"{SHARE}.t"),
        *("--to-earliest", "--execute"),
    ),
    "and its state": ("--delete-offsets", "--group", f"{SHARE}.g", "--topic", f"{SHARE}.t"),
    "and stays": ("--delete", "--group", f"{SHARE}.g"),
}
SHARE_LEFT_STEPS: dict[str, tuple[str, ...]] = {
    "a plan": (
        *("--reset-offsets", "--group", f"{SHARE}.g", "--topic", f"{SHARE}.t"),
        *("--to-latest", "--dry-run"),
    ),
    "nothing came of it": ("--describe", "--group", f"{SHARE}.g"),
    "a reset": (
        *("--reset-offsets", "--group", f"{SHARE}.g", "--topic", f"{SHARE}.t"),
        *("--to-earliest", "--execute"),
    ),
    "what became of it": ("--describe", "--group", f"{SHARE}.g", "--verbose"),
    "to a time": (
        *("--reset-offsets", "--group", f"{SHARE}.g", "--all-topics"),
        *("--to-datetime", AFTER, "--execute"),
    ),
    "a topic that is not there": (
        *("--reset-offsets", "--group", f"{SHARE}.g", "--topic", f"{SHARE}.none"),
        *("--to-latest", "--execute"),
    ),
    "state": ("--describe", "--group", f"{SHARE}.g", "--state"),
    "no members": ("--describe", "--group", f"{SHARE}.g", "--members"),
    "offsets go": ("--delete-offsets", "--group", f"{SHARE}.g", "--topic", f"{SHARE}.t"),
    "and are gone": ("--delete-offsets", "--group", f"{SHARE}.g", "--topic", f"{SHARE}.t"),
    "the group goes": ("--delete", "--group", f"{SHARE}.g"),
    "it is gone": ("--describe", "--group", f"{SHARE}.g"),
}


def test_share_groups(oracle: Oracle, peers: tuple[Peer, Peer]) -> None:
    worlds = [World(peer, ApiKey.SHARE_GROUP_HEARTBEAT, 1, BROKER, SHARE) for peer in peers]

    def compare(steps: dict[str, tuple[str, ...]]) -> None:
        for step, arguments in steps.items():
            kafka, kaa = (run(oracle, peer, *arguments, tool="ShareGroupCommand") for peer in peers)
            # Kafka's node may have served other stories before.
            own = [line for line in kafka[1] if SHARE in line or not OTHERS.match(line)]
            assert kaa == (kafka[0], own), step

    for world in worlds:
        topic = creatable(world.name(), 2)
        world.peer.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
        # How many heartbeats it takes to learn of the topic is not to be compared.
        probe = world.name("probe")
        join_share_group(world, probe)
        world.peer.ask(share_beat(world, epoch=-1, group_id=probe), 1)
        world.peer.ask(DeleteGroupsRequest(groups_names=[probe]), 2)
        join_share_group(world, world.name("g"))
    compare(SHARE_STEPS)
    for world in worlds:
        world.peer.ask(share_beat(world, epoch=-1), 1)
    compare(SHARE_LEFT_STEPS)


def join_share_group(world: World, group: str) -> None:
    """A member joins, and stays until it has both partitions."""
    epoch = 0

    def has_all() -> bool:
        nonlocal epoch
        answer = world.peer.ask(share_beat(world, epoch=epoch, group_id=group), 1)
        epoch = answer.member_epoch
        assigned = answer.assignment.topic_partitions if answer.assignment else ()
        return sum(len(one.partitions) for one in assigned) == 2

    wait_for(has_all)
