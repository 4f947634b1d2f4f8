"""`kaa topic tier` and `kaa tier` on a real node with a directory as its store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from pyarrow import parquet

from kaa.cli.root import root
from tests.support.broker_thread import broker_thread
from tests.support.tiered import ONE_REPLICA, QUICK, fill, make_topic, wait_until_tiered

COUNT = 1_500


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def servers(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings = (*QUICK, *ONE_REPLICA, f"rsm.config.url={store.as_uri()}")
    with broker_thread(tmp_path_factory.mktemp("data"), *settings) as node:
        make_topic(node.bootstrap_servers, "orders")
        fill(node.bootstrap_servers, "orders", COUNT)
        wait_until_tiered(node.bootstrap_servers, "orders")
        yield node.bootstrap_servers


def kaa(servers: str, *arguments: str) -> Result:
    return CliRunner().invoke(root, [*arguments, "-b", servers])


def verify(servers: str, store: Path, *more: str) -> Result:
    return kaa(servers, "tier", "verify", "orders", "--store", store.as_uri(), *more)


def test_topic_tier_tells_what_is_where(servers: str, store: Path) -> None:
    answer = kaa(servers, "topic", "tier", "orders", "-o", "json")
    assert answer.exit_code == 0, answer.output
    (row,) = json.loads(answer.output)
    logs = list(store.glob("orders-0-*/*.log"))
    assert row["segments"] == len(logs) > 1
    assert row["remote_bytes"] == sum(path.stat().st_size for path in logs)
    assert row["local_bytes"] > 0
    assert (row["start_offset"], row["end_offset"], row["unfinished"]) == (0, COUNT, 0)
    assert row["local_start_offset"] == row["tiered_offset"] + 1 == COUNT - row["lag"]
    table = kaa(servers, "topic", "tier", "orders")
    assert table.output.split()[:4] == ["TOPIC", "PARTITION", "SEGMENTS", "REMOTE-BYTES"]


def test_a_topic_that_is_not_tiered(servers: str) -> None:
    make_topic(servers, "plain", config={})
    answer = kaa(servers, "topic", "tier", "plain")
    assert answer.exit_code == 0, answer.output
    assert "none of it is in remote storage" in answer.output


def test_verify_finds_what_is_wrong_and_changes_nothing(servers: str, store: Path) -> None:
    whole = verify(servers, store, "--deep")
    assert whole.exit_code == 0, whole.output
    assert "checked, no problem found" in whole.output
    log, other = sorted(store.glob("orders-0-*/*.log"))[:2]
    stray = log.with_name(log.name.replace(log.name[21:43], "AAAAAAAAAAAAAAAAAAAAAA"))
    stray.write_bytes(b"a copy that nobody knows")
    content = other.read_bytes()
    other.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    kept = log.rename(log.with_suffix(".away"))
    try:
        answer = verify(servers, store, "-o", "json")
        found = {(row["kind"], Path(row["what"]).name) for row in json.loads(answer.stdout)}
        assert found == {("missing", log.name), ("orphan", stray.name), ("orphan", kept.name)}
        assert answer.exit_code == 7
        kept.rename(log)
        deep = verify(servers, store, "--deep")
        assert deep.exit_code == 7
        assert f"{other.name} has {len(content)} bytes with checksum" in deep.output
        assert stray.exists()
    finally:
        other.write_bytes(content)
        stray.unlink()
        if kept.exists():
            kept.rename(log)
    assert verify(servers, store, "--deep").exit_code == 0


def test_a_store_that_cannot_be_opened(servers: str) -> None:
    answer = kaa(servers, "tier", "verify", "orders", "--store", "ftp://nowhere")
    assert answer.exit_code == 1
    assert "is not the address of a store" in answer.output


def audit(servers: str, store: Path, *more: str) -> Result:
    place = ("--store", store.as_uri(), "--no-spark")
    return kaa(servers, "tier", "audit", "orders", *place, *more)


def test_audit_reads_every_batch_of_every_object(servers: str, store: Path) -> None:
    answer = audit(servers, store, "-o", "json")
    assert answer.exit_code == 0, answer.output
    found = json.loads(answer.stdout)
    logs = sorted(store.glob("orders-0-*/*.log"))
    (row,) = found["partitions"]
    assert row["segments"] == row["small"] == len(logs)
    assert row["bytes"] == sum(path.stat().st_size for path in logs)
    assert row["batches"] > 5
    assert row["records"] > 500
    assert (row["absent"], row["findings"], found["findings"]) == (0, 0, [])
    assert "a larger segment.bytes" in answer.stderr
    log, other = logs[:2]
    index = other.with_suffix(".index")
    kept = [(path, path.read_bytes()) for path in (log, other, index)]
    whole = kept[0][1]
    # A byte of a record, a header that was exchanged whole, an index that leads nowhere.
    log.write_bytes(whole[:3_000] + bytes([whole[3_000] ^ 1]) + whole[3_001:])
    other.unlink()
    index.write_bytes(kept[2][1][:-1] + bytes([kept[2][1][-1] ^ 1]))
    try:
        broken = audit(servers, store, "-o", "json")
    finally:
        for path, content in kept:
            path.write_bytes(content)
    assert broken.exit_code == 7
    kinds = {(one["kind"], one["what"].split()[0].split("/")[-1]) for one in
             json.loads(broken.stdout)["findings"]}  # fmt: skip
    assert kinds == {("damaged", log.name), ("missing", other.name), ("damaged", index.name)}
    assert "the checksum of the batch is wrong" in broken.stderr
    assert audit(servers, store).exit_code == 0


def test_convert_lands_the_history_and_lake_goes_on(
    servers: str, store: Path, tmp_path: Path
) -> None:
    place = ("--warehouse", str(tmp_path), "--layout", "parquet")
    history = ("tier", "convert", "orders", "--store", store.as_uri(), "--no-spark", *place)
    plan = kaa(servers, *history, "-o", "json")
    assert plan.exit_code == 0, plan.output
    (row,) = json.loads(plan.stdout)
    assert row["offset"] == 0
    assert row["segments"] == len(list(store.glob("orders-0-*/*.log")))
    assert 0 < row["end_offset"] < COUNT
    assert "nothing was done" in plan.stderr
    done = kaa(servers, *history, "--yes")
    assert done.exit_code == 0, done.output
    status = json.loads(kaa(servers, "lake", "status", "orders", *place, "-o", "json").stdout)
    assert status["rows"] == status["partitions"][0]["offset"] == row["end_offset"]
    on = kaa(servers, "lake", "run", "orders", "--once", "--no-spark", *place)
    assert on.exit_code == 0, on.output
    status = json.loads(kaa(servers, "lake", "status", "orders", *place, "-o", "json").stdout)
    assert status["rows"] == COUNT
    files = [str(path) for path in tmp_path.rglob("*.parquet")]
    offsets = parquet.ParquetDataset(files).read(["offset"]).column("offset").to_numpy()
    assert sorted(map(int, offsets)) == list(range(COUNT))


def test_a_secret_is_not_taken_to_executors(servers: str) -> None:
    secret = ("--store", "s3://bucket", "--option", "secret-access-key=hush", "--no-spark")
    answer = kaa(servers, "tier", "audit", "orders", *secret)
    assert answer.exit_code == 1
    assert "tierStoreFile" in answer.output
    assert "hush" not in answer.output
    assert kaa(servers, "tier", "audit", "orders", "--no-spark").exit_code == 2
