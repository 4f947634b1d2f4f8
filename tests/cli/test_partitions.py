from __future__ import annotations

import pytest
from click.testing import CliRunner, Result

from kaa.cli.client import EXIT_NOT_FOUND, EXIT_USAGE
from kaa.cli.partitions import read_partitions, refuse_absent
from kaa.cli.root import root
from kaa.client.errors import KafkaError
from kaa.limits import CLI_PARTITIONS_NAMED_MAX
from tests.support.broker_process import BrokerProcess

WAYS_TO_NAME = [
    ["consume", "orders", "-e"],
    ["offsets", "orders"],
    ["topic", "trim", "orders", "--before", "end"],
]


def kaa(*arguments: str) -> Result:
    return CliRunner().invoke(root, list(arguments))


def test_numbers_and_ranges() -> None:
    assert read_partitions("7") == [7]
    assert read_partitions("0,2-4, 1") == [0, 2, 3, 4, 1]
    assert read_partitions("3-3") == [3]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "names no partitions"),
        (",", "names no partitions"),
        ("0,", "names no partitions"),
        ("-1", "names no partitions"),
        ("1-", "names no partitions"),
        ("1-2-3", "names no partitions"),
        ("x", "names no partitions"),
        ("3-2", "write 2-3"),
        ("0,9-7", "write 7-9"),
        ("1,1", "partition 1 is named twice"),
        ("0-3,2", "partition 2 is named twice"),
        ("0-99999999999", f"more than {CLI_PARTITIONS_NAMED_MAX} partitions"),
    ],
)
def test_what_may_be_a_slip_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_partitions(text)


@pytest.mark.parametrize("command", WAYS_TO_NAME)
def test_every_command_refuses_it(command: list[str]) -> None:
    for wrong in (["-p", "3-2"], ["-p", ""], ["-p", "1", "-p", "0-1"]):
        # Nobody listens there: it does not come to a request.
        answer = kaa(*command, *wrong, "-b", "127.0.0.1:1")
        assert answer.exit_code == EXIT_USAGE, answer.output
        assert "Invalid value for '-p'" in answer.stderr


def test_partitions_that_a_topic_does_not_have() -> None:
    refuse_absent("orders", (0, 2), 3)
    with pytest.raises(KafkaError, match="partitions 0 to 2"):
        refuse_absent("orders", (0, 3), 3)
    with pytest.raises(KafkaError, match="partition 0 alone"):
        refuse_absent("orders", (1,), 1)


def test_every_command_says_which_there_are(kaa_node: BrokerProcess, topic_name: str) -> None:
    to = ["-b", kaa_node.bootstrap_servers]
    assert kaa("topic", "create", topic_name, "-p", "2", *to).exit_code == 0
    commands = [[topic_name if word == "orders" else word for word in one] for one in WAYS_TO_NAME]
    commands += [
        ["produce", topic_name, "hello"],
        ["txn", "find-hanging", "-t", topic_name],
        ["txn", "abort", "-t", topic_name, "--start-offset", "0"],
    ]
    for command in commands:
        answer = kaa(*command, "-p", "2", *to)
        assert answer.exit_code == EXIT_NOT_FOUND, (command, answer.output)
        assert f"partition {topic_name}-2" in answer.stderr, (command, answer.output)
    seek = ["group", "seek", f"{topic_name}-group", "--to", "end", "-t"]
    assert kaa(*seek, f"{topic_name}:1-2", *to).exit_code == EXIT_NOT_FOUND
    assert kaa(*seek, f"{topic_name}:1-0", *to).exit_code == EXIT_USAGE
    assert kaa(*seek, f"{topic_name}:0", "--execute", *to).exit_code == 0
    delete = ["group", "delete-offsets", f"{topic_name}-group", "--yes", "-t"]
    partly = kaa(*delete, f"{topic_name}:0,1", *to)
    assert partly.exit_code == EXIT_NOT_FOUND
    assert f"no committed offsets of {topic_name}-1" in partly.stderr
    assert kaa(*delete, f"{topic_name}:0", *to).exit_code == 0
