"""The commands say the same of Kaa and of Apache Kafka, except for ids, addresses and times."""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from kaa.cli.root import root
from tests.oracle.broker import RealKafka
from tests.support.broker_process import BrokerProcess

pytestmark = pytest.mark.oracle

RECORDS = "".join(
    json.dumps(
        {
            "key": f"k{number % 3}",
            "value": f"v{number}",
            "timestamp_ms": 1_577_836_800_000 + number * 1000,
            "headers": [["h", "x"]],
        }
    )
    + "\n"
    for number in range(6)
)

SCRIPT = (
    ("topic create TOPIC -p 2 -c retention.ms=-1", None),
    ("topic create TOPIC", None),
    ("topic create TOPIC/bad", None),
    ("topic create TOPIC-more -r 9", None),
    ("produce TOPIC --json -o csv", RECORDS),
    ("topic describe TOPIC", None),
    ("topic describe TOPIC -o yaml", None),
    ("topic describe TOPIC-absent", None),
    ("topic alter TOPIC -c segment.bytes=1", None),
    ("topic alter TOPIC -c max.message.bytes=100000 -d retention.ms", None),
    ("topic add-partitions TOPIC --total 1", None),
    ("topic add-partitions TOPIC --add 1 -o json", None),
    ("config describe topic TOPIC -o csv", None),
    ("config get topic TOPIC max.message.bytes", None),
    ("config set topic TOPIC nosuch=1", None),
    ("consume TOPIC -e -p 0 -o jsonl", None),
    ("consume TOPIC -e -p 1 --from @1577836803000 -f '%p@%o %k=%s %h\\n'", None),
    ("consume TOPIC -p 9 -e", None),
    ("group seek TOPIC-group --to 1 -t TOPIC --execute", None),
    ("group seek TOPIC-group --to end", None),
    ("group lag TOPIC-group -o csv", None),
    ("group describe TOPIC-group", None),
    ("group describe TOPIC-nobody", None),
    ("group delete TOPIC-group --yes", None),
    ("group delete TOPIC-group --yes", None),
    ("txn describe TOPIC-txn", None),
    ("txn find-hanging -t TOPIC", None),
    ("topic trim TOPIC --before end --yes", None),
    ("topic delete TOPIC TOPIC-absent --yes", None),
)


SHOWN = {
    "topic describe TOPIC": "retention.ms=-1",
    "config describe topic TOPIC -o csv": "max.message.bytes",
    "config get topic TOPIC max.message.bytes": "100000",
}
"""What the answer to a line holds once the changes before it have arrived."""
SHOWN_SECONDS_MAX = 20


def answers(bootstrap: str, topic: str) -> Iterator[str]:
    """What each line of the script prints, without what differs from cluster to cluster."""
    for line, stdin in SCRIPT:
        words = shlex.split(line.replace("TOPIC", topic))
        arguments = [*words, "-b", bootstrap, "--timeout", "20"]
        answer = CliRunner().invoke(root, arguments, input=stdin)
        # A broker may need a moment until it shows what was changed.
        deadline = time.monotonic() + SHOWN_SECONDS_MAX
        while SHOWN.get(line, "") not in answer.stdout and time.monotonic() < deadline:
            answer = CliRunner().invoke(root, arguments, input=stdin)
        # A broker explains an error in words of its own.
        errors = re.sub(r"(error: [^:]*): .*", r"\1", answer.stderr)
        text = f"{line}: {answer.exit_code}\n{answer.stdout}{errors}"
        text = text.replace(topic, "TOPIC").replace(bootstrap, "ADDRESS")
        text = re.sub(r'"?\b[A-Za-z0-9_-]{22}\b"?', "ID", text)
        text = re.sub(r"coordinator \d+", "coordinator N", text)
        yield re.sub(r"[ \t]+", " ", text)


def test_the_same_of_both(kaa_node: BrokerProcess, real_kafka: RealKafka, topic_name: str) -> None:
    ours = list(answers(kaa_node.bootstrap_servers, topic_name))
    theirs = list(answers(real_kafka.bootstrap_servers, topic_name))
    for our, their in zip(ours, theirs, strict=True):
        assert without_nodes(our) == without_nodes(their)


def without_nodes(text: str) -> str:
    """Leaders and replicas are named by ids of brokers, which are not the same everywhere."""
    text = re.sub(r"(leader|replicas|isr): \[?\d+\]?", r"\1: N", text)
    rows = r"^( ?\d+) \d+ (\d+) \d+ \d+ - (\d+ \d+)$"
    return re.sub(rows, r"\1 N \2 N N - \3", text, flags=re.MULTILINE)
