"""Kafka's own tools against a running node."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from kaa.controller.feature_table import supported_ranges
from kaa.wire.messages.k62_broker_registration import BrokerRegistrationRequest, Feature, Listener
from tests.clients.librdkafka import create_topic, produce
from tests.clients.samples import SAMPLES
from tests.oracle import Oracle, ToolResult
from tests.support.broker_process import BrokerProcess
from tests.support.ids import uuid
from tests.support.raw import RawClient

pytestmark = pytest.mark.oracle

# A broker of the cluster that does not run.
GONE = 70


class Tools:
    """Runs tools against one node."""

    def __init__(self, oracle: Oracle, broker: BrokerProcess) -> None:
        self.oracle = oracle
        self.broker = broker

    def run(self, name: str, *arguments: str, controller: bool = False) -> str:
        """What a tool prints; it must succeed."""
        done = self.oracle.run_tool(name, *self._address(controller), *arguments)
        assert done.code == 0, done.out + done.err
        return done.out

    def run_cluster(self, command: str, *arguments: str, controller: bool) -> str:
        """What ClusterTool prints; it must succeed."""
        done = self._cluster(command, *arguments, controller=controller)
        assert done.code == 0, done.out + done.err
        return done.out

    def refused(self, name: str, *arguments: str, controller: bool = False) -> str:
        done = self.oracle.run_tool(name, *self._address(controller), *arguments)
        assert done.code != 0, done.out
        return done.out + done.err

    def refused_cluster(self, command: str, *arguments: str, controller: bool) -> str:
        done = self._cluster(command, *arguments, controller=controller)
        assert done.code != 0, done.out
        return done.out + done.err

    def _cluster(self, command: str, *arguments: str, controller: bool) -> ToolResult:
        """ClusterTool wants its addresses after the command."""
        words = (command, *self._address(controller), *arguments)
        return self.oracle.run_tool("ClusterTool", *words, is_understood=True)

    def _address(self, controller: bool) -> tuple[str, str]:
        if controller:
            return "--bootstrap-controller", self.broker.controller
        return "--bootstrap-server", self.broker.bootstrap_servers


@pytest.fixture
def tools(oracle: Oracle, broker: BrokerProcess) -> Tools:
    return Tools(oracle, broker)


def cells(output: str) -> list[list[str]]:
    """The rows of a table without its head."""
    return [line.split() for line in output.strip().splitlines()[1:]]


def fields(line: str) -> dict[str, str]:
    """What TopicCommand says of a topic or partition."""
    return {
        name: value.strip()
        for name, value in (cell.split(": ", 1) for cell in line.strip().split("\t") if cell)
    }


# --- topics


def test_topics(tools: Tools, topic: str) -> None:
    created = tools.run(
        "TopicCommand",
        *("--create", "--topic", topic, "--partitions", "3"),
        *("--config", "retention.ms=100000", "--config", "cleanup.policy=compact,delete"),
    )
    assert created == f"Created topic {topic}.\n"
    head, *partitions = tools.run("TopicCommand", "--describe", "--topic", topic).splitlines()
    described = fields(head)
    assert described["PartitionCount"] == "3"
    assert described["ReplicationFactor"] == "1"
    assert set(described["Configs"].split(",")) == {
        "cleanup.policy=compact",
        "delete",
        "min.insync.replicas=1",
        "retention.ms=100000",
    }
    for number, line in enumerate(partitions):
        found = fields(line.replace("Elr: ", "Elr: none").replace("Elr: nonenone", "Elr: none"))
        assert (found["Partition"], found["Leader"]) == (str(number), "1")
        assert (found["Replicas"], found["Isr"]) == ("1", "1")
    assert topic in tools.run("TopicCommand", "--list").splitlines()


def test_partitions_are_added(tools: Tools, topic: str) -> None:
    tools.run("TopicCommand", "--create", "--topic", topic, "--partitions", "2")
    tools.run("TopicCommand", "--alter", "--topic", topic, "--partitions", "5")
    head, *_ = tools.run("TopicCommand", "--describe", "--topic", topic).splitlines()
    assert fields(head)["PartitionCount"] == "5"
    fewer = tools.refused("TopicCommand", "--alter", "--topic", topic, "--partitions", "4")
    assert "InvalidPartitionsException" in fewer


def test_refusals_of_topics(tools: Tools, topic: str) -> None:
    tools.run("TopicCommand", "--create", "--topic", topic)
    exists = tools.refused("TopicCommand", "--create", "--topic", topic)
    assert "TopicExistsException" in exists
    assert tools.run("TopicCommand", "--create", "--topic", topic, "--if-not-exists") == ""
    replicas = tools.refused(
        "TopicCommand", "--create", "--topic", f"{topic}2", "--replication-factor", "2"
    )
    assert "InvalidReplicationFactorException" in replicas
    # The first the tool finds by itself, the second the node.
    for setting, why in (
        ("retention.ms=soon", "Not a number"),
        ("retention.ms=-5", "retention.ms"),
    ):
        wrong = tools.refused(
            "TopicCommand", "--create", "--topic", f"{topic}2", "--config", setting
        )
        assert why in wrong
    missing = tools.refused("TopicCommand", "--describe", "--topic", "nobody made it")
    assert "does not exist as expected" in missing


def test_topics_are_deleted_with_their_files(tools: Tools, topic: str) -> None:
    tools.run("TopicCommand", "--create", "--topic", topic, "--partitions", "2")
    produce(tools.broker.bootstrap_servers, topic, SAMPLES)
    folder = tools.broker.data_dir / f"{topic}-0"
    assert folder.is_dir()
    tools.run("TopicCommand", "--delete", "--topic", topic)
    assert topic not in tools.run("TopicCommand", "--list").splitlines()
    # The folder has another name from the moment of the deletion on, until it is removed.
    assert not folder.exists()
    assert tools.run("TopicCommand", "--create", "--topic", topic) == f"Created topic {topic}.\n"


# --- settings


def test_settings_of_topics(tools: Tools, topic: str) -> None:
    create_topic(tools.broker.bootstrap_servers, topic)
    entity = ("--entity-type", "topics", "--entity-name", topic)
    added = "retention.ms=5000,cleanup.policy=[compact,delete]"
    changed = tools.run("ConfigCommand", "--alter", *entity, "--add-config", added)
    assert changed == f"Completed updating config for topic {topic}.\n"
    assert tools.run("ConfigCommand", "--describe", *entity) == (
        f"Dynamic configs for topic {topic} are:\n"
        "  cleanup.policy=compact,delete sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:"
        "cleanup.policy=compact,delete, DEFAULT_CONFIG:log.cleanup.policy=delete}\n"
        "  retention.ms=5000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=5000}\n"
    )
    tools.run("ConfigCommand", "--alter", *entity, "--delete-config", "cleanup.policy")
    left = tools.run("ConfigCommand", "--describe", *entity).splitlines()
    assert [line.split()[0] for line in left[1:]] == ["retention.ms=5000"]
    wrong = tools.refused("ConfigCommand", "--alter", *entity, "--add-config", "retention.ms=-5")
    assert "InvalidConfigurationException" in wrong
    unknown = tools.refused("ConfigCommand", "--alter", *entity, "--add-config", "no.such=1")
    assert "Unknown topic config name: no.such" in unknown
    every = tools.run("ConfigCommand", "--describe", "--all", *entity)
    assert "\n  segment.bytes=1073741824 " in every


def test_settings_of_brokers(tools: Tools) -> None:
    entity = ("--entity-type", "brokers", "--entity-name", "1")
    tools.run("ConfigCommand", "--alter", *entity, "--add-config", "log.cleaner.threads=2")
    assert tools.run("ConfigCommand", "--describe", *entity) == (
        "Dynamic configs for broker 1 are:\n"
        "  log.cleaner.threads=2 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:"
        "log.cleaner.threads=2, DEFAULT_CONFIG:log.cleaner.threads=1}\n"
    )
    tools.run("ConfigCommand", "--alter", *entity, "--delete-config", "log.cleaner.threads")
    every = tools.run("ConfigCommand", "--describe", "--all", *entity)
    assert f"\n  log.dirs={tools.broker.data_dir} " in every
    fixed = tools.refused("ConfigCommand", "--alter", *entity, "--add-config", "node.id=7")
    assert "InvalidRequestException: node.id cannot change while the broker runs" in fixed


def test_settings_of_all_brokers_reach_topics(tools: Tools, topic: str) -> None:
    create_topic(tools.broker.bootstrap_servers, topic)
    entity = ("--entity-type", "brokers", "--entity-default")
    tools.run("ConfigCommand", "--alter", *entity, "--add-config", "log.retention.ms=777000")
    of_topic = ("--entity-type", "topics", "--entity-name", topic)
    try:
        every = tools.run("ConfigCommand", "--describe", "--all", *of_topic)
        assert (
            "\n  retention.ms=777000 sensitive=false synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:"
            "log.retention.ms=777000, "
        ) in every
    finally:
        tools.run("ConfigCommand", "--alter", *entity, "--delete-config", "log.retention.ms")


def test_levels_of_loggers(tools: Tools) -> None:
    entity = ("--entity-type", "broker-loggers", "--entity-name", "1")
    tools.run("ConfigCommand", "--alter", *entity, "--add-config", "asyncio=DEBUG")
    assert "  asyncio=DEBUG " in tools.run("ConfigCommand", "--describe", *entity)
    tools.run("ConfigCommand", "--alter", *entity, "--delete-config", "asyncio")
    assert "  asyncio=WARN " in tools.run("ConfigCommand", "--describe", *entity)


def test_quotas(tools: Tools) -> None:
    entity = ("--entity-type", "clients", "--entity-name", "the client")
    tools.run("ConfigCommand", "--alter", *entity, "--add-config", "producer_byte_rate=1024")
    assert tools.run("ConfigCommand", "--describe", *entity) == (
        "Quota configs for client-id 'the client' are producer_byte_rate=1024.0\n"
    )
    tools.run("ConfigCommand", "--alter", *entity, "--delete-config", "producer_byte_rate")
    assert tools.run("ConfigCommand", "--describe", *entity) == ""


# --- records


def test_offsets_and_deleted_records(tools: Tools, topic: str, tmp_path: Path) -> None:
    produce(tools.broker.bootstrap_servers, topic, SAMPLES)
    count = len(SAMPLES)
    ask = ("GetOffsetShell", "--topic", topic, "--time")
    assert tools.run(*ask, "latest") == f"{topic}:0:{count}\n"
    assert tools.run(*ask, "earliest") == f"{topic}:0:0\n"
    assert tools.run(*ask, "max-timestamp") == f"{topic}:0:{count - 1}\n"
    assert tools.run(*ask, str(SAMPLES[3].timestamp_ms - 1)) == f"{topic}:0:3\n"
    assert tools.run(*ask, "earliest-local") == f"{topic}:0:0\n"
    plan = tmp_path / "plan.json"
    partition = {"topic": topic, "partition": 0, "offset": 4}
    plan.write_text(json.dumps({"partitions": [partition], "version": 1}))
    deleted = tools.run("DeleteRecordsCommand", "--offset-json-file", str(plan))
    assert deleted.splitlines()[-1] == f"partition: {topic}-0\tlow_watermark: 4"
    assert tools.run(*ask, "earliest") == f"{topic}:0:4\n"
    partition["offset"] = count + 1
    plan.write_text(json.dumps({"partitions": [partition], "version": 1}))
    beyond = tools.run("DeleteRecordsCommand", "--offset-json-file", str(plan))
    assert "OffsetOutOfRangeException" in beyond


def test_log_dirs(tools: Tools, topic: str) -> None:
    create_topic(tools.broker.bootstrap_servers, topic, partitions=2)
    produce(tools.broker.bootstrap_servers, topic, SAMPLES)
    text = tools.run("LogDirsCommand", "--describe", "--topic-list", topic).splitlines()[-1]
    (node,) = json.loads(text)["brokers"]
    (directory,) = node["logDirs"]
    sizes = {found["partition"]: found["size"] for found in directory["partitions"]}
    segment = tools.broker.data_dir / f"{topic}-0" / f"{0:020d}.log"
    assert (node["broker"], directory["error"]) == (1, None)
    assert directory["logDir"] == str(tools.broker.data_dir)
    assert sizes == {f"{topic}-0": segment.stat().st_size, f"{topic}-1": 0}


def test_dump_of_segments(tools: Tools, topic: str) -> None:
    """Kafka's reader of segment files finds nothing to complain of in ours."""
    produce(tools.broker.bootstrap_servers, topic, SAMPLES, batch_num_messages=2)
    folder = tools.broker.data_dir / f"{topic}-0"
    for suffix in (".log", ".index", ".timeindex"):
        options = ("--deep-iteration",) if suffix == ".log" else ("--index-sanity-check",)
        path = str(folder / f"{0:020d}{suffix}")
        done = tools.oracle.run_tool("DumpLogSegments", "--files", path, *options)
        assert (done.code, done.err) == (0, ""), done.out
        assert "isvalid: false" not in done.out
        assert not re.search("mismatch|corrupt|error", done.out, re.IGNORECASE), done.out
        if suffix == ".log":
            offsets = re.findall(r"^\| offset: (\d+) ", done.out, re.MULTILINE)
            assert offsets == [str(number) for number in range(len(SAMPLES))]


def test_dump_of_metadata(tools: Tools, topic: str) -> None:
    create_topic(tools.broker.bootstrap_servers, topic)
    folder = tools.broker.data_dir / "__cluster_metadata-0"
    path = str(folder / f"{0:020d}.log")
    done = tools.oracle.run_tool("DumpLogSegments", "--cluster-metadata-decoder", "--files", path)
    assert (done.code, done.err) == (0, ""), done.out
    payloads = [
        json.loads(found) for found in re.findall(r"payload: (\{.*\})$", done.out, re.MULTILINE)
    ]
    kinds = {payload["type"] for payload in payloads}
    assert {"REGISTER_BROKER_RECORD", "FEATURE_LEVEL_RECORD", "TOPIC_RECORD"} <= kinds
    topics = {found["data"]["name"] for found in payloads if found["type"] == "TOPIC_RECORD"}
    assert topic in topics


# --- the cluster


@pytest.mark.parametrize("controller", [False, True])
def test_cluster(tools: Tools, controller: bool) -> None:
    found = re.search(r"of cluster (\S+),", tools.broker.output)
    assert found is not None
    printed = tools.run_cluster("cluster-id", controller=controller)
    assert printed == f"Cluster ID: {found[1]}\n"
    ((node_id, host, port, *_),) = cells(tools.run_cluster("list-endpoints", controller=controller))
    address = tools.broker.controller if controller else tools.broker.bootstrap_servers
    assert (node_id, f"{host}:{port}") == ("1", address)


@pytest.mark.parametrize("controller", [False, True])
def test_a_broker_that_is_gone_is_forgotten(tools: Tools, controller: bool) -> None:
    """Registered and never heard of again, it is fenced until somebody unregisters it."""
    cluster_id = tools.run_cluster("cluster-id", controller=False).split()[-1]
    request = BrokerRegistrationRequest(
        broker_id=GONE,
        cluster_id=cluster_id,
        incarnation_id=uuid(GONE + controller),
        listeners=[Listener(name="PLAINTEXT", host="gone.example", port=9092)],
        features=[
            Feature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in supported_ranges().items()
        ],
        rack=None,
        log_dirs=[uuid(1_000)],
    )
    with RawClient(tools.broker.controller) as client:
        assert client.ask(request).error_code == 0

    def fenced() -> list[str]:
        printed = tools.run_cluster("list-endpoints", "--include-fenced-brokers", controller=False)
        return [row[0] for row in cells(printed) if "fenced" in row]

    assert fenced() == [str(GONE)]
    unfenced = cells(tools.run_cluster("list-endpoints", controller=False))
    assert [row[0] for row in unfenced] == ["1"]
    printed = tools.run_cluster("unregister", "--id", str(GONE), controller=controller)
    assert printed == f"Broker {GONE} is no longer registered.\n"
    assert fenced() == []
    again = tools.refused_cluster("unregister", "--id", str(GONE), controller=controller)
    assert "BrokerIdNotRegisteredException" in again


@pytest.mark.parametrize("controller", [False, True])
def test_quorum(tools: Tools, controller: bool) -> None:
    status = tools.run("MetadataQuorumCommand", "describe", "--status", controller=controller)
    values = dict(re.split(r": +", line, maxsplit=1) for line in status.splitlines())
    assert (values["LeaderId"], values["MaxFollowerLag"]) == ("1", "0")
    (voter,) = json.loads(values["CurrentVoters"])
    assert (voter["id"], voter["endpoints"]) == (1, [f"CONTROLLER://{tools.broker.controller}"])
    printed = tools.run("MetadataQuorumCommand", "describe", "--replication", controller=controller)
    rows = cells(printed)
    assert [(row[0], row[3], row[-1]) for row in rows] == [("1", "0", "Leader")]


@pytest.mark.parametrize("controller", [False, True])
def test_features(tools: Tools, controller: bool) -> None:
    printed = tools.run("FeatureCommand", "describe", controller=controller)
    levels = {
        line.split()[1]: re.findall(r"Version(?:Level)?: (\S+)", line)
        for line in printed.splitlines()
    }
    assert levels["metadata.version"] == ["3.3-IV3", "4.3-IV0", "4.3-IV0"]
    assert levels["kraft.version"] == ["0", "1", "1"]


@pytest.mark.parametrize("controller", [False, True])
def test_features_change(tools: Tools, controller: bool) -> None:
    def level() -> str:
        printed = tools.run("FeatureCommand", "describe", controller=controller)
        (found,) = re.findall(r"Feature: streams\.version\s.*FinalizedVersionLevel: (\d+)", printed)
        return str(found)

    down = ("downgrade", "--feature", "streams.version=0")
    printed = tools.run("FeatureCommand", *down, "--dry-run", controller=controller)
    assert printed == "streams.version can be downgraded to 0.\n"
    assert level() == "1"
    printed = tools.run("FeatureCommand", *down, controller=controller)
    assert printed == "streams.version was downgraded to 0.\n"
    assert level() == "0"
    up = ("upgrade", "--feature", "streams.version=1")
    printed = tools.run("FeatureCommand", *up, controller=controller)
    assert printed == "streams.version was upgraded to 1.\n"
    assert level() == "1"
    for refused in (
        ("downgrade", "--feature", "kraft.version=0"),
        ("downgrade", "--metadata", "3.3"),
        ("upgrade", "--feature", "streams.version=9"),
    ):
        said = tools.refused("FeatureCommand", *refused, controller=controller)
        assert "Could not" in said, said
    assert level() == "1"


def test_api_versions(tools: Tools) -> None:
    printed = tools.run("BrokerApiVersionsCommand")
    assert printed.startswith(
        f"{tools.broker.bootstrap_servers} (id: 1 rack: null isFenced: false)"
    )
    for line in ("Produce(0): 0 to 13 [usable: 13]", "Fetch(1): 4 to 18 [usable: 18]"):
        assert line in printed
    # Nothing is offered that the tool does not know.
    assert "UNKNOWN" not in printed
