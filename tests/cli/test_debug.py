from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kaa.cli.client import EXIT_FAILED, EXIT_UNHEALTHY, EXIT_USAGE
from kaa.cli.root import root
from kaa.wire.frames import encode_request, encode_response
from kaa.wire.messages.k18_api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from tests.oracle import Oracle
from tests.support.broker_process import BrokerProcess

REQUEST = b"".join(
    encode_request(
        ApiVersionsRequest(client_software_name="x", client_software_version="1"), 4, 7, "me"
    )
)


def debug(*arguments: str) -> Result:
    return CliRunner().invoke(root, ["debug", *arguments])


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a node that was stopped."""
    folder = tmp_path_factory.mktemp("node")
    with BrokerProcess(folder) as node:
        servers = ["-b", node.bootstrap_servers]
        for arguments in (["produce", "orders", "a", "b", "-k", "key"], ["produce", "orders", "c"]):
            answer = CliRunner().invoke(root, [*arguments, *servers])
            assert answer.exit_code == 0, answer.output
        node.stop()
        return Path(node.data_dir)


def test_segments(data_dir: Path) -> None:
    rows = json.loads(debug("dump-log", str(data_dir / "orders-0"), "-o", "json").stdout)
    assert [row["records"] for row in rows] == [2, 1]
    assert all(row["valid"] for row in rows)
    table = debug("dump-log", str(data_dir / "orders-0"))
    assert table.exit_code == 0
    assert table.stdout.startswith("BASE-OFFSET  LAST-OFFSET")
    answer = debug("dump-log", str(data_dir / "orders-0"), "-r", "-n", "2", "-o", "jsonl")
    lines = [json.loads(line) for line in answer.stdout.splitlines()]
    assert [(line["key"], line["value"]) for line in lines] == [("key", "a"), ("key", "b")]


def test_metadata_log_and_snapshot(data_dir: Path) -> None:
    folder = data_dir / "__cluster_metadata-0"
    rows = json.loads(debug("dump-log", str(folder), "-r", "-o", "json").stdout)
    kinds = {row["type"] for row in rows}
    assert {"LEADER_CHANGE", "RegisterBrokerRecord", "TopicRecord", "PartitionRecord"} <= kinds
    *_, snapshot = sorted(folder.glob("*.checkpoint"))
    rows = json.loads(debug("dump-snapshot", str(snapshot), "-o", "json").stdout)
    assert rows[0]["type"] == "SNAPSHOT_HEADER"
    assert rows[-1]["type"] == "SNAPSHOT_FOOTER"


def test_producers(data_dir: Path) -> None:
    (snapshot,) = (data_dir / "orders-0").glob("*.snapshot")
    rows = json.loads(debug("dump-snapshot", str(snapshot), "-o", "json").stdout)
    assert len(rows) == 2
    assert all(row["producer_id"] >= 0 for row in rows)


@pytest.mark.oracle
def test_the_same_numbers_as_kafkas_tool(data_dir: Path, oracle: Oracle) -> None:
    (segment,) = (data_dir / "orders-0").glob("*.log")
    theirs = oracle.run_tool("DumpLogSegments", "--files", str(segment)).out
    for row in json.loads(debug("dump-log", str(segment), "-o", "json").stdout):
        facts = f"baseOffset: {row['base_offset']} lastOffset: {row['last_offset']} "
        facts += f"count: {row['records']} "
        assert facts in theirs
        assert f"position: {row['position']} " in theirs
        assert f"size: {row['size_bytes']} " in theirs
        assert f"crc: {row['crc']} " in theirs
        assert f"producerId: {row['producer_id']} " in theirs


def test_indexes(data_dir: Path) -> None:
    answer = debug("dump-index", str(data_dir / "orders-0"))
    assert answer.exit_code == 0
    assert "FILE" in answer.stdout
    wrong = debug("dump-index", str(data_dir / "meta.properties"))
    assert wrong.exit_code == EXIT_UNHEALTHY
    assert "not an index" in wrong.stderr


def test_damage_has_an_exit_code(data_dir: Path, tmp_path: Path) -> None:
    (segment,) = (data_dir / "orders-0").glob("*.log")
    broken = tmp_path / segment.name
    broken.write_bytes(segment.read_bytes()[:-3])
    answer = debug("dump-log", str(broken))
    assert answer.exit_code == EXIT_UNHEALTHY
    assert "cut short" in answer.stderr


@pytest.mark.parametrize(
    "form",
    [
        ["--hex", REQUEST.hex()],
        ["--hex", REQUEST[4:].hex(" ")],
        ["--base64", b64encode(REQUEST).decode()],
        ["--hex", REQUEST.hex(), "--sized"],
    ],
)
def test_requests(form: list[str]) -> None:
    answer = debug("decode-frame", *form, "-o", "json")
    assert answer.exit_code == 0, answer.output
    assert json.loads(answer.stdout) == {
        "api": "ApiVersions",
        "key": 18,
        "version": 4,
        "correlation_id": 7,
        "client_id": "me",
        "body": {"client_software_name": "x", "client_software_version": "1"},
    }


def test_answers(tmp_path: Path) -> None:
    response = ApiVersionsResponse(api_keys=[ApiVersion(api_key=0, min_version=3, max_version=13)])
    file = tmp_path / "answer.bin"
    file.write_bytes(b"".join(encode_response(response, 4, 9)))
    arguments = ["decode-frame", str(file), "--response", "--key", "18", "--version", "4"]
    answer = debug(*arguments, "-o", "json")
    found = json.loads(answer.stdout)
    assert found["correlation_id"] == 9
    assert found["body"]["api_keys"] == [{"api_key": 0, "min_version": 3, "max_version": 13}]
    assert "correlation_id: 9" in debug(*arguments).stdout


def test_wrong_frames() -> None:
    assert debug("decode-frame", "--hex", "00").exit_code == EXIT_FAILED
    assert debug("decode-frame", "--hex", "xx").exit_code == EXIT_USAGE
    assert debug("decode-frame", "--base64", "!").exit_code == EXIT_USAGE
    assert debug("decode-frame", "no-such-file").exit_code == EXIT_USAGE
    assert debug("decode-frame").exit_code == EXIT_USAGE
    assert debug("decode-frame", "--hex", "00", "--response").exit_code == EXIT_USAGE
