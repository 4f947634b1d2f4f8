"""The metadata side compared with Kafka's: formatting, feature levels, metadata log, snapshots.

Kafka's own tools read what we write, and a directory goes back and forth: formatted by us, used by
a real Kafka, taken over by our controller, and used by the real Kafka again.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner

from kaa.cli.storage import command
from kaa.config.server import BrokerConfig, load_broker_config
from kaa.config.sources import file_settings
from kaa.controller.feature_table import METADATA_VERSIONS, supported_ranges
from kaa.controller.port import ControllerRequestContext
from kaa.controller.replica import MetadataReplica
from kaa.log.dirs import LogDirectory
from kaa.log.files import RealFiles
from kaa.log.properties import read_meta_properties
from kaa.model.nodes import Endpoint
from kaa.quorum import QuorumConfig, ReplicaKey, VoterNode, VoterSet
from kaa.quorum.node import QuorumNode
from kaa.wire.messages.k19_create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kaa.wire.messages.k49_alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    OpData,
    RequestEntryData,
)
from kaa.wire.messages.k62_broker_registration import (
    BrokerRegistrationRequest,
    Feature,
    Listener,
)
from kaa.wire.messages.k63_broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from kaa.wire.messages.k67_allocate_producer_ids import AllocateProducerIdsRequest
from kaa.wire.primitives import Uuid, random_uuid
from tests.oracle import Oracle
from tests.oracle.broker import RealKafka
from tests.oracle.jvm import Jvm
from tests.oracle.plugin import run_folder
from tests.support.ports import free_port
from tests.unit.quorum.disk_replica import FixedClock

pytestmark = pytest.mark.oracle

CLUSTER_ID = "dCn2Yfs2Q8Kk3xhTn1LHmQ"
METADATA = "__cluster_metadata-0"
# How often Kafka's shell may be asked, which answers before it has read everything.
SHELL_TRIES = 5


def kaa(*arguments: str) -> str:
    answer = CliRunner().invoke(command, list(arguments))
    assert answer.exit_code == 0, answer.output
    return answer.output


def write_config(folder: Path, quorum: str, ports: tuple[int, int] = (9092, 9093)) -> Path:
    folder.mkdir(exist_ok=True)
    client, controller = ports
    path = folder / "server.properties"
    path.write_text(
        "node.id=1\nprocess.roles=broker,controller\n"
        f"listeners=PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}\n"
        f"advertised.listeners=PLAINTEXT://127.0.0.1:{client}\n"
        "controller.listener.names=CONTROLLER\n"
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n"
        "offsets.topic.replication.factor=1\n"
        "log.cleaner.dedupe.buffer.size=8388608\n"
        f"log.dirs={folder}/a,{folder}/b\n" + quorum
    )
    return path


def dump(oracle: Oracle, path: Path) -> str:
    """What Kafka's DumpLogSegments says of a file."""
    result = oracle.run_tool("DumpLogSegments", "--cluster-metadata-decoder", "--files", str(path))
    assert result.code == 0, result.err
    assert result.err == ""
    return result.out


def without_chance(text: str) -> str:
    """A dump without times, checksums and random ids."""
    text = re.sub(r"CreateTime: \d+|crc: \d+|lastContainedLogTimestamp\":\d+", "", text)
    text = re.sub(r"Dumping .*", "", text)
    return re.sub(r"DirectoryId\":\"[^\"]*", "", text)


# --- formatting

STATIC = "controller.quorum.voters=1@127.0.0.1:9093\n"
DYNAMIC = "controller.quorum.bootstrap.servers=127.0.0.1:9093\n"
SCRAM = 'SCRAM-SHA-256=[name=alice,iterations=8192,salt="MDEyMzQ1Njc4OQ==",password=secret]'


@pytest.mark.parametrize(
    ("quorum", "arguments"),
    [
        (STATIC, []),
        (DYNAMIC, ["--standalone"]),
        (DYNAMIC, ["--no-initial-controllers"]),
        (DYNAMIC, ["-I", "1@127.0.0.1:9093:JEXY6aqzQY-32P5TStzaFg"]),
        (STATIC, ["--release-version", "3.9"]),
        (STATIC, ["--release-version", "4.0-IV1"]),
        (STATIC, ["--feature", "group.version=0", "--feature", "transaction.version=1"]),
        (STATIC, ["--feature", "metadata.version=24"]),
        (STATIC, ["--add-scram", SCRAM]),
    ],
)
def test_formatting_leaves_what_kafka_leaves(
    oracle: Oracle, tmp_path: Path, quorum: str, arguments: list[str]
) -> None:
    ours = write_config(tmp_path / "ours", quorum)
    theirs = write_config(tmp_path / "theirs", quorum)
    kaa("format", "-t", CLUSTER_ID, "-c", str(ours), *arguments)
    result = oracle.run_tool(
        "StorageTool", "format", "-t", CLUSTER_ID, "-c", str(theirs), *arguments
    )
    assert result.code == 0, result.err
    files = [
        sorted(str(path.relative_to(config.parent)) for path in config.parent.rglob("*"))
        for config in (ours, theirs)
    ]
    assert files[0] == files[1]
    for name in files[0]:
        mine, other = ours.parent / name, theirs.parent / name
        if name.endswith(".checkpoint"):
            assert mine.stat().st_size == other.stat().st_size
            assert without_chance(dump(oracle, mine)) == without_chance(dump(oracle, other))
        elif name.endswith("meta.properties"):
            assert properties(mine) == properties(other)


FIRST, SECOND = "JEXY6aqzQY-32P5TStzaFg", "4ppnPBj6Q7iEDr5bVvYHtw"
FORMATS: tuple[tuple[str, ...], ...] = (
    (),
    ("--standalone",),
    ("--no-initial-controllers",),
    ("--standalone", "--no-initial-controllers"),
    ("-I", f"1@127.0.0.1:9093:{FIRST}"),
    ("-I", f"7@127.0.0.1:9093:{FIRST}"),
    ("-I", f"1@127.0.0.1:9093:{FIRST},7@127.0.0.1:9094:{SECOND}"),
    ("-I", f"1@127.0.0.1:9093:{FIRST},1@127.0.0.1:9094:{SECOND}"),
    ("--feature", "kraft.version=1"),
    ("--no-initial-controllers", "--feature", "kraft.version=0"),
)
LISTENERS = {
    "broker": "PLAINTEXT://127.0.0.1:9092",
    "controller": "CONTROLLER://127.0.0.1:9093",
    "broker,controller": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
}


@pytest.mark.parametrize("roles", LISTENERS)
@pytest.mark.parametrize("quorum", [STATIC, DYNAMIC, STATIC + DYNAMIC])
def test_who_may_be_formatted_with_what(
    oracle: Oracle, tmp_path: Path, roles: str, quorum: str
) -> None:
    outcomes: dict[tuple[str, ...], list[tuple[bool, list[str]]]] = {}
    for number, arguments in enumerate(FORMATS):
        for who in ("ours", "theirs"):
            folder = tmp_path / f"{who}-{number}"
            folder.mkdir()
            path = folder / "server.properties"
            path.write_text(
                f"node.id={2 if roles == 'broker' else 1}\nprocess.roles={roles}\n"
                f"listeners={LISTENERS[roles]}\ncontroller.listener.names=CONTROLLER\n"
                "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n"
                f"log.cleaner.dedupe.buffer.size=8388608\nlog.dirs={folder}/a\n" + quorum
            )
            words = ("format", "-t", CLUSTER_ID, "-c", str(path), *arguments)
            if who == "ours":
                answer = CliRunner().invoke(command, list(words))
                assert answer.exception is None or isinstance(answer.exception, SystemExit)
                is_done = answer.exit_code == 0
            else:
                is_done = oracle.run_tool("StorageTool", *words).code == 0
            files = sorted(str(found.relative_to(folder)) for found in folder.rglob("*"))
            outcomes.setdefault(arguments, []).append((is_done, files))
    for arguments, (ours, theirs) in outcomes.items():
        assert ours == theirs, arguments


def properties(path: Path) -> dict[str, str]:
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    found = dict(line.split("=", 1) for line in lines)
    assert len(Uuid.parse(found.pop("directory.id"))) == 16
    return found


def test_kafkas_tool_understands_our_directories(oracle: Oracle, tmp_path: Path) -> None:
    config = write_config(tmp_path / "ours", DYNAMIC)
    kaa("format", "-t", CLUSTER_ID, "-c", str(config), "--standalone")
    result = oracle.run_tool("StorageTool", "info", "-c", str(config))
    assert result.code == 0, result.out
    assert f"cluster.id={CLUSTER_ID}" in result.out
    again = oracle.run_tool("StorageTool", "format", "-t", CLUSTER_ID, "-c", str(config), "-s")
    assert again.code == 1


def test_feature_levels_of_every_release(oracle: Oracle) -> None:
    for version in METADATA_VERSIONS:
        for text in {str(version), version.release}:
            result = oracle.run_tool("StorageTool", "version-mapping", "--release-version", text)
            assert result.code == 0, result.err
            assert kaa("version-mapping", "--release-version", text) == result.out


# --- the log and its snapshots


def load_config(path: Path) -> BrokerConfig:
    return load_broker_config(file_settings(path.read_bytes(), path.name)).config


class OurNode:
    """Our controller on real files, with the broker of its own node registered."""

    def __init__(self, path: Path, directory: str) -> None:
        self.config = load_config(path)
        files = RealFiles()
        identity = read_meta_properties(files, directory)
        assert identity is not None
        assert identity.directory_id is not None
        self.directory_ids = []
        for each in self.config.log_dirs:
            found = read_meta_properties(files, each)
            assert found is not None
            assert found.directory_id is not None
            self.directory_ids.append(found.directory_id)
        endpoint = self.config.listeners.advertised_controller[0]
        address = Endpoint(endpoint.listener, endpoint.host, endpoint.port)
        static = [
            VoterNode(ReplicaKey(each.node_id), (Endpoint("CONTROLLER", each.host, each.port),))
            for each in self.config.quorum_voters
        ]
        self.controller = MetadataReplica(
            config=self.config,
            node=QuorumNode(
                identity.cluster_id,
                1,
                identity.directory_id,
                "CONTROLLER",
                (address,),
                VoterSet.of(static),
                QuorumConfig(),
            ),
            directory=LogDirectory(files, directory),
            executor=ThreadPoolExecutor(1),
            clock=FixedClock(),
            random=Random(1),
        )
        self.epoch = -1

    async def start(self) -> None:
        await self.controller.open()
        self._life = asyncio.ensure_future(self._live())  # noqa: TID251
        while self.controller.active is None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        listener = self.config.listeners.advertised_broker[0]
        response = await self.controller.submit(
            BrokerRegistrationRequest(
                broker_id=1,
                cluster_id=self.controller._node.cluster_id,
                incarnation_id=random_uuid(os.urandom),
                listeners=[
                    Listener(name=listener.listener, host=listener.host, port=listener.port)
                ],
                features=[
                    Feature(name=name, min_supported_version=low, max_supported_version=high)
                    for name, (low, high) in supported_ranges().items()
                ],
                rack=None,
                log_dirs=self.directory_ids,
            ),
            ControllerRequestContext(4),
        )
        assert response.error_code == 0
        self.epoch = response.broker_epoch
        await self.beat()

    async def _live(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            self.controller.start(tasks)

    async def beat(self, *, want_shut_down: bool = False) -> BrokerHeartbeatResponse:
        return await self.controller.submit(
            BrokerHeartbeatRequest(
                broker_id=1,
                broker_epoch=self.epoch,
                current_metadata_offset=self.controller.committed_offset,
                want_shut_down=want_shut_down,
            ),
            ControllerRequestContext(2),
        )

    async def create(self, name: str, partitions: int = 1, **configs: str) -> None:
        response = await self.controller.submit(
            CreateTopicsRequest(
                topics=[
                    CreatableTopic(
                        name=name,
                        num_partitions=partitions,
                        replication_factor=1,
                        configs=[
                            CreatableTopicConfig(name=key.replace("_", "."), value=value)
                            for key, value in configs.items()
                        ],
                    )
                ]
            ),
            ControllerRequestContext(7),
        )
        assert response.topics[0].error_code == 0, response.topics[0].error_message

    async def stop(self) -> None:
        while not (await self.beat(want_shut_down=True)).should_shut_down:
            pass
        await self.controller.stop()


def payloads(text: str) -> list[dict[str, Any]]:
    """The metadata records of a dump."""
    return [json.loads(found) for found in re.findall(r"payload: (\{.*\})", text)]


@pytest.mark.parametrize("quorum", [STATIC, DYNAMIC], ids=["static", "dynamic"])
def test_kafkas_decoder_reads_our_log_and_snapshots(
    oracle: Oracle, tmp_path: Path, quorum: str
) -> None:
    config = write_config(tmp_path / "ours", quorum)
    is_dynamic = quorum == DYNAMIC
    kaa("format", "-t", CLUSTER_ID, "-c", str(config), *(["--standalone"] if is_dynamic else []))
    folder = tmp_path / "ours" / "a" / METADATA

    async def scenario() -> None:
        node = OurNode(config, str(tmp_path / "ours" / "a"))
        await node.start()
        await node.create("orders", partitions=3, retention_ms="5000")
        await node.controller.submit(
            AlterClientQuotasRequest(
                entries=[
                    RequestEntryData(
                        entity=[EntityData(entity_type="user", entity_name=None)],
                        ops=[OpData(key="producer_byte_rate", value=1024.0)],
                    )
                ]
            ),
            ControllerRequestContext(1),
        )
        await node.controller.submit(
            AllocateProducerIdsRequest(broker_id=1, broker_epoch=node.epoch),
            ControllerRequestContext(0),
        )
        await node.stop()

    asyncio.run(scenario())
    text = dump(oracle, folder / "00000000000000000000.log")
    assert "isvalid: false" not in text
    kinds = [record["type"] for record in payloads(text)]
    assert kinds[0] == "BEGIN_TRANSACTION_RECORD"
    assert kinds.index("END_TRANSACTION_RECORD") < kinds.index("REGISTER_BROKER_RECORD")
    assert {"TOPIC_RECORD", "PARTITION_RECORD", "CONFIG_RECORD", "CLIENT_QUOTA_RECORD"} <= set(
        kinds
    )
    assert "PRODUCER_IDS_RECORD" in kinds
    assert ("KRaftVoters" in text) is is_dynamic
    snapshots = sorted(folder.glob("*.checkpoint"))
    snapshot = dump(oracle, snapshots[-1])
    assert snapshot.count("SnapshotHeader") == snapshot.count("SnapshotFooter") == 1
    assert "isvalid: false" not in snapshot
    assert ("KRaftVoters" in snapshot) is is_dynamic
    partitions = [each for each in payloads(snapshot) if each["type"] == "PARTITION_RECORD"]
    assert len(partitions) == 3
    for index in folder.glob("*.index"):
        assert "mismatch" not in dump(oracle, index).lower()
    if is_dynamic:
        # The shell answers while it still reads, and may lack anything: it lists one place after
        # the other, and never what is not there.
        tree, by_log = set[str](), set[str]()
        for _ in range(SHELL_TRIES):
            tree |= shell_tree(oracle, snapshots[-1])
            by_log |= shell_tree(oracle, next(folder.glob("*.log")))
            if by_log == tree:
                break
        assert by_log == tree
        assert {
            "/image/topics/byName/orders/2",
            "/image/configs/TOPIC:orders/retention.ms",
            "/image/cluster/brokers/1",
            "/image/features/finalized_group.version",
            "/image/producerIds/nextProducerId",
        } <= tree, tree


def shell_tree(oracle: Oracle, path: Path) -> set[str]:
    """What Kafka's MetadataShell finds in the image that a file makes. It stumbles over the quotas
    of a default user, Kafka's own too.
    """
    places = [f"/image/{each}" for each in ("cluster", "configs", "features", "topics")]
    places.append("/image/producerIds")
    result = oracle.run_tool("MetadataShell", "--snapshot", str(path), "find", *places)
    assert result.code == 0, result.err
    return set(result.out.split())


# --- back and forth


@pytest.fixture
def jvm() -> Iterator[Jvm]:
    """A Java process that can run one Kafka node after the other."""
    with Jvm.shared(run_folder() / "metadata-node", 512) as running:
        yield running


def topics(oracle: Oracle, port: int) -> set[str]:
    result = oracle.run_tool("TopicCommand", "--bootstrap-server", f"127.0.0.1:{port}", "--list")
    assert result.code == 0, result.err
    return set(result.out.split())


def test_a_directory_goes_back_and_forth(oracle: Oracle, jvm: Jvm, tmp_path: Path) -> None:
    client, controller = free_port(), free_port()
    quorum = f"controller.quorum.bootstrap.servers=127.0.0.1:{controller}\n"
    path = write_config(tmp_path / "node", quorum, (client, controller))
    kaa("format", "-t", CLUSTER_ID, "-c", str(path), "--standalone")
    settings = dict(line.split("=", 1) for line in path.read_text().splitlines())
    bootstrap = f"127.0.0.1:{client}"
    try:
        jvm.call_one("broker.start", {"properties": settings}, 90)
        created = oracle.run_tool(
            "TopicCommand",
            "--bootstrap-server",
            bootstrap,
            *("--create", "--topic", "by-kafka", "--partitions", "2"),
            *("--config", "retention.ms=7000"),
        )
        assert created.code == 0, created.err
        jvm.call_one("broker.stop", {}, 90)

        async def scenario() -> None:
            node = OurNode(path, str(tmp_path / "node" / "a"))
            await node.start()
            image = node.controller.image
            assert set(image.topics) == {"by-kafka"}
            assert image.configs[2, "by-kafka"] == {"retention.ms": "7000"}
            assert image.features["metadata.version"] == 30
            assert node.controller.driver.kraft_version == 1
            partition = image.topics["by-kafka"].partitions[0]
            assert (partition.leader, partition.isr) == (1, (1,))
            await node.create("by-kaa", partitions=2, segment_ms="900000")
            await node.stop()

        asyncio.run(scenario())
        jvm.call_one("broker.start", {"properties": settings}, 90)
        assert topics(oracle, client) == {"by-kafka", "by-kaa"}
        described = oracle.run_tool(
            "TopicCommand", "--bootstrap-server", bootstrap, "--describe", "--topic", "by-kaa"
        )
        assert "segment.ms=900000" in described.out
        assert described.out.count("Leader: 1") == 2
        quorum_status = oracle.run_tool(
            "MetadataQuorumCommand", "--bootstrap-server", bootstrap, "describe", "--status"
        )
        assert re.search(r"LeaderId:\s+1", quorum_status.out)
    finally:
        jvm.call_one("broker.stop", {}, 90)


def test_the_directory_of_a_kafka_that_was_killed(
    oracle: Oracle, real_kafka: RealKafka, tmp_path: Path
) -> None:
    """A copy of a directory in use is what a kill leaves; its indexes have a tail of zeros."""
    name = "metadata-of-a-killed-node"
    created = oracle.run_tool(
        "TopicCommand",
        *("--bootstrap-server", real_kafka.bootstrap_servers, "--create", "--topic", name),
        *("--partitions", "3", "--config", "retention.ms=7000"),
    )
    assert created.code == 0, created.err
    copied = tmp_path / "copied"
    copied.mkdir()
    for path in ("meta.properties", "bootstrap.checkpoint"):
        shutil.copy(real_kafka.log_dir / path, copied)
    shutil.copytree(real_kafka.log_dir / METADATA, copied / METADATA)
    config = tmp_path / "server.properties"
    settings = real_kafka.properties | {"log.dirs": str(copied)}
    config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))

    async def scenario() -> None:
        node = OurNode(config, str(copied))
        await node.start()
        image = node.controller.image
        assert sorted(image.topics[name].partitions) == [0, 1, 2]
        assert image.configs[2, name] == {"retention.ms": "7000"}
        assert image.brokers[1].epoch == node.epoch
        await node.create("by-kaa")
        await node.stop()

    asyncio.run(scenario())
    text = dump(oracle, copied / METADATA / "00000000000000000000.log")
    assert "isvalid: false" not in text
    assert [each["data"]["name"] for each in payloads(text) if each["type"] == "TOPIC_RECORD"][
        -1
    ] == "by-kaa"
