from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import KafkaException, Producer

from kaa.cli.client import EXIT_NOT_FOUND, EXIT_USAGE
from kaa.cli.root import root


def kaa(bootstrap: str, *arguments: str) -> Result:
    return CliRunner().invoke(root, [*arguments, "-b", bootstrap])


def open_transaction(bootstrap: str, topic: str, name: str) -> Producer:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"value")
    producer.flush(30)
    return producer


def test_life_of_a_transaction(bootstrap: str, topic_name: str) -> None:
    assert kaa(bootstrap, "topic", "create", topic_name, "-p", "1").exit_code == 0
    name = f"txn-{topic_name}"
    producer = open_transaction(bootstrap, topic_name, name)
    rows = json.loads(kaa(bootstrap, "txn", "list", "--state", "Ongoing", "-o", "json").stdout)
    assert name in [row["name"] for row in rows]
    (described,) = json.loads(kaa(bootstrap, "txn", "describe", name, "-o", "json").stdout)
    assert described["state"] == "Ongoing"
    assert described["partitions"] == [f"{topic_name}-0"]
    assert described["age_ms"] >= 0
    plan = kaa(bootstrap, "txn", "abort", "--prefix", name)
    assert "would be aborted" in plan.stdout
    assert "nothing was aborted" in plan.stderr
    done = kaa(bootstrap, "txn", "abort", "--prefix", name, "--yes", "-o", "json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)[0]["status"] == "aborted"
    with pytest.raises(KafkaException):
        producer.commit_transaction(30)
    read = kaa(bootstrap, "consume", topic_name, "-e", "-X", "isolation.level=read_committed")
    assert read.stdout == ""


def test_nothing_hangs(bootstrap: str, topic_name: str) -> None:
    assert kaa(bootstrap, "topic", "create", topic_name, "-p", "1").exit_code == 0
    assert kaa(bootstrap, "produce", topic_name, "a").exit_code == 0
    answer = kaa(bootstrap, "txn", "find-hanging", "-t", topic_name)
    assert answer.exit_code == 0, answer.output
    assert "no transaction hangs" in answer.stderr
    place = ["-t", topic_name, "-p", "0", "--start-offset", "0"]
    absent = kaa(bootstrap, "txn", "abort", *place, "--yes")
    assert absent.exit_code == EXIT_NOT_FOUND
    assert "has no open transaction that starts at 0" in absent.stderr


def test_wrong_use(bootstrap: str, topic_name: str) -> None:
    absent = kaa(bootstrap, "txn", "describe", f"absent-{topic_name}")
    assert absent.exit_code == EXIT_NOT_FOUND
    assert "TRANSACTIONAL_ID_NOT_FOUND" in absent.stderr
    assert kaa(bootstrap, "txn", "abort").exit_code == EXIT_USAGE
    assert kaa(bootstrap, "txn", "abort", "x", "--prefix", "y").exit_code == EXIT_USAGE
    assert kaa(bootstrap, "txn", "abort", "-t", "x").exit_code == EXIT_USAGE
    assert kaa(bootstrap, "txn", "find-hanging", "-p", "1").exit_code == EXIT_USAGE
