"""The oracle itself: it answers, it is shared, and it goes away."""

import subprocess
import sys
from base64 import b64encode
from json import loads
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from tests.oracle import (
    JavaError,
    MessageBytes,
    MessageJson,
    MessageRead,
    NewBatch,
    NewMarker,
    NewRecord,
    Oracle,
    Produced,
    java_class_name,
)
from tests.oracle.broker import RealKafka
from tests.oracle.environment import alive, wait_until
from tests.oracle.plugin import run_folder
from tests.support.children import running

pytestmark = pytest.mark.oracle

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
RECORDS = (
    NewRecord(b"k", b"v" * 100, 5, (("h", b"x"), ("n", None))),
    NewRecord(None, None, 7),
)


def test_a_message_comes_back_from_its_own_bytes(oracle: Oracle) -> None:
    json = {"clientSoftwareName": "kaa", "clientSoftwareVersion": "1"}
    data = oracle.write_message("ApiVersionsRequestData", 3, json)
    assert data == b"\x04kaa\x021\x00"
    assert oracle.read_message("ApiVersionsRequestData", 3, data) == MessageRead(json, data, 0)


def test_bytes_behind_a_message_are_told(oracle: Oracle) -> None:
    assert oracle.read_message("HeartbeatResponseData", 0, b"\0\x05more").remaining == 4


def test_record_bytes_are_part_of_the_json(oracle: Oracle) -> None:
    records = oracle.build_batch(NewBatch(RECORDS))
    partition = {"index": 0, "records": records}
    topic = {"name": "t", "partitionData": [partition]}
    json = {"transactionalId": None, "acks": 1, "timeoutMs": 5, "topicData": [topic]}
    data = oracle.write_message("ProduceRequestData", 9, json)
    read = oracle.read_message("ProduceRequestData", 9, data)
    [answer] = read.json["topicData"][0]["partitionData"]
    assert answer == {"index": 0, "records": b64encode(records).decode()}


def test_a_refused_item_does_not_spoil_the_others(oracle: Oracle) -> None:
    good = MessageBytes("HeartbeatResponseData", 0, b"\0\x05")
    bad = MessageBytes("HeartbeatResponseData", 0, b"\0")
    unknown = MessageBytes("NoSuchMessage", 0, b"")
    first, second, third, fourth = oracle.read_messages([good, bad, unknown, good])
    assert isinstance(first, MessageRead)
    assert first == fourth
    assert isinstance(second, JavaError)
    assert second.simple_name == "BufferUnderflowException"
    assert isinstance(third, JavaError)
    assert third.simple_name == "ClassNotFoundException"


def test_more_items_than_fit_into_one_frame(oracle: Oracle) -> None:
    items = [
        MessageJson("HeartbeatResponseData", 0, {"errorCode": number}) for number in range(2500)
    ]
    assert oracle.write_messages(items) == [number.to_bytes(2) for number in range(2500)]


def test_every_schema_with_versions_has_its_class(
    oracle: Oracle, kafka_schemas: dict[str, Any]
) -> None:
    served = [schema for schema in kafka_schemas.values() if schema["validVersions"] != "none"]
    classes = {found.name for found in oracle.message_classes()}
    assert classes == {java_class_name(schema) for schema in served}


def test_api_keys_tell_served_and_advertised_versions_apart(oracle: Oracle) -> None:
    keys = {key.name: key for key in oracle.api_keys()}
    assert (keys["PRODUCE"].oldest, keys["PRODUCE"].advertised["BROKER"][0]) == (3, 0)
    assert keys["FETCH"].listeners == ("BROKER", "CONTROLLER")
    assert not keys["LEADER_AND_ISR"].served


@pytest.mark.parametrize("codec", CODECS)
def test_a_built_batch_reads_back(oracle: Oracle, codec: str) -> None:
    data = oracle.build_batch(
        NewBatch(RECORDS, compression=codec, base_offset=10, producer_id=3, producer_epoch=1,
                 base_sequence=4, transactional=True, partition_leader_epoch=9)
    )  # fmt: skip
    read = oracle.read_records(data)
    [batch] = read.batches
    assert (read.valid_bytes, read.error, batch.error) == (len(data), None, None)
    assert (batch.compression, batch.valid, batch.magic, batch.count) == (codec, True, 2, 2)
    assert (batch.base_offset, batch.last_offset, batch.partition_leader_epoch) == (10, 11, 9)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (3, 1, 4)
    assert (batch.base_timestamp, batch.max_timestamp, batch.transactional) == (5, 7, True)
    first, second = batch.records
    assert (first.key, first.value, first.headers) == (b"k", b"v" * 100, RECORDS[0].headers)
    assert (second.key, second.value, second.offset, second.sequence) == (None, None, 11, 5)


def test_levels_change_what_a_codec_writes(oracle: Oracle) -> None:
    records = tuple(NewRecord(value=bytes([i % 7, i % 11, i % 13]) * 9) for i in range(200))
    for codec, low, high in (("gzip", 1, 9), ("lz4", 1, 17), ("zstd", 1, 22)):
        built = [oracle.build_batch(NewBatch(records, compression=codec, level=level))
                 for level in (low, high)]  # fmt: skip
        assert built[0] != built[1]


def test_a_marker_is_a_control_batch(oracle: Oracle) -> None:
    [batch] = oracle.read_records(oracle.build_batch(NewMarker("ABORT", 5, 2, 9))).batches
    assert (batch.control, batch.transactional, batch.producer_id) == (True, True, 5)
    assert batch.records[0].control_type == "ABORT"


def test_reading_stops_at_damage(oracle: Oracle) -> None:
    whole = oracle.build_batch(NewBatch(RECORDS))
    broken = bytearray(whole)
    broken[16] = 9
    read = oracle.read_records(whole + bytes(broken))
    assert len(read.batches) == 1
    assert read.error is not None
    assert read.error.simple_name == "CorruptRecordException"


def test_a_valid_batch_gets_its_offsets(oracle: Oracle) -> None:
    data = oracle.build_batch(NewBatch(RECORDS))
    validated = oracle.validate(Produced(data, now=9, first_offset=100, partition_leader_epoch=4))
    [batch] = oracle.read_records(validated.data).batches
    assert (batch.base_offset, validated.next_offset, batch.partition_leader_epoch) == (100, 102, 4)
    assert (validated.max_timestamp_ms, validated.records_converted) == (7, 0)


def test_validation_can_change_the_codec(oracle: Oracle) -> None:
    data = oracle.build_batch(NewBatch(RECORDS, compression="gzip"))
    validated = oracle.validate(Produced(data, compression="zstd", level=3))
    [batch] = oracle.read_records(validated.data).batches
    assert (batch.compression, validated.message_size_maybe_changed) == ("zstd", True)


def test_a_refused_batch_names_its_records(oracle: Oracle) -> None:
    data = oracle.build_batch(NewBatch(RECORDS))
    with pytest.raises(JavaError) as refused:
        oracle.validate(Produced(data, compacted=True))
    assert refused.value.code == 87
    assert [index for index, _ in refused.value.record_errors] == [1]
    assert refused.value.counters == {"noKeyCompactedTopic": 1}


def test_a_produce_version_brings_its_own_rules(oracle: Oracle) -> None:
    zstd = oracle.build_batch(NewBatch(RECORDS, compression="zstd"))
    refused, accepted = oracle.validate_many(
        [Produced(zstd, produce_version=3), Produced(zstd, produce_version=7)]
    )
    assert isinstance(refused, JavaError)
    assert refused.code == 76
    assert not isinstance(accepted, JavaError)


def test_keys_have_a_hash_and_a_partition(oracle: Oracle) -> None:
    assert oracle.murmur2([b"21", b"foobar"]) == [-973932308, -790332482]
    assert oracle.partitions([b"21", b"foobar"], 7) == [
        (-973932308 & 0x7FFFFFFF) % 7,
        (-790332482 & 0x7FFFFFFF) % 7,
    ]


def test_a_tool_runs_inside_the_jvm(oracle: Oracle, tmp_path: Path) -> None:
    segment = tmp_path / "00000000000000000000.log"
    segment.write_bytes(oracle.build_batch(NewBatch(RECORDS)))
    dump = oracle.run_tool("DumpLogSegments", "--files", str(segment), "--print-data-log")
    assert (dump.code, dump.err) == (0, "")
    assert "baseOffset: 0 lastOffset: 1 count: 2" in dump.out
    refused = oracle.run_tool("TopicCommand", "--list")
    assert (refused.code, refused.out) == (1, "")
    assert "--bootstrap-server" in refused.err


def test_a_tool_that_ends_its_process_leaves_the_jvm_alone(oracle: Oracle) -> None:
    pid = oracle.pid()
    usage = oracle.run_tool("MetadataShell", "--help")
    assert "usage: kafka-metadata-shell" in usage.out
    assert oracle.pid() == pid


def test_the_shell_prints_a_schema() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.oracle", "schemas", "FetchRequest"],
        capture_output=True,
        check=True,
    )
    assert loads(done.stdout)["apiKey"] == 1


@pytest.mark.parametrize(("ci", "outcome"), [("", "1 skipped"), ("true", "1 error")])
def test_without_java_tests_skip_but_fail_in_ci(tmp_path: Path, ci: str, outcome: str) -> None:
    test = tmp_path / "test_needs_oracle.py"
    test.write_text("def test_it(oracle): pass")
    environment = {"PATH": "", "CI": ci, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    options = [
        "-q",
        "-ra",
        "-p",
        "no:cacheprovider",
        "-p",
        "tests.oracle.plugin",
        f"--rootdir={tmp_path}",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(test)],
        capture_output=True,
        check=False,
        env=environment,
        text=True,
    )
    assert outcome in done.stdout
    assert "the command 'java' is missing" in done.stdout


def test_the_whole_run_shares_one_jvm(oracle: Oracle) -> None:
    with Oracle(run_folder()) as second:
        assert second.pid() == oracle.pid()
    assert oracle.pid() > 0


def test_a_jvm_ends_with_the_run_even_if_that_is_killed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    program = (
        "import pathlib, sys, time; from tests.oracle import Oracle\n"
        "print(Oracle(pathlib.Path(sys.argv[1])).pid(), flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", program, str(folder)]
    with running(command, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        pid = int(worker.stdout.readline())
        worker.kill()
    assert alive(pid)
    assert wait_until(lambda: not alive(pid), 30)
    assert not folder.exists()


def test_real_kafka_answers_a_metadata_request_of_librdkafka(real_kafka: RealKafka) -> None:
    admin = AdminClient({"bootstrap.servers": real_kafka.bootstrap_servers})
    metadata: Any = admin.list_topics(timeout=20)
    assert metadata.cluster_id == real_kafka.cluster_id
    assert [f"{broker.host}:{broker.port}" for broker in metadata.brokers.values()] == [
        real_kafka.bootstrap_servers
    ]


def test_tools_reach_real_kafka(oracle: Oracle, real_kafka: RealKafka) -> None:
    server = ("--bootstrap-server", real_kafka.bootstrap_servers)
    topic = ("--topic", "test-tools-reach-real-kafka")
    created = oracle.run_tool("TopicCommand", *server, "--create", *topic, "--partitions", "3")
    assert (created.code, created.err) == (0, "")
    described = oracle.run_tool("TopicCommand", *server, "--describe", *topic)
    assert "PartitionCount: 3" in described.out
    oracle.run_tool("ConsoleProducer", *server, *topic, stdin=b"one\ntwo\n")
    consumed = oracle.run_tool(
        "ConsoleConsumer", *server, *topic, "--from-beginning", "--max-messages", "2"
    )
    assert sorted(consumed.out.split()) == ["one", "two"]
