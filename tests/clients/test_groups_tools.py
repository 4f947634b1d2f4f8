"""Java's consumer in groups, and the tool that looks after groups and offsets."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.clients.groups import Audit, LibrdkafkaMember, wait_for
from tests.clients.librdkafka import create_topic, produce
from tests.clients.samples import Sample
from tests.oracle import Oracle
from tests.support.broker_process import BrokerProcess

# ConsoleConsumer counts in a static variable: two at once in one JVM disturb each other.
pytestmark = [pytest.mark.oracle, pytest.mark.xdist_group("console consumer")]

RECORDS = 10


def fill(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, 2, retention_ms="-1")
    produce(
        bootstrap,
        topic,
        [Sample(None, b"%d" % number, 1_000 + number) for number in range(RECORDS)],
    )


class Groups:
    """ConsumerGroupCommand on one node."""

    def __init__(self, oracle: Oracle, bootstrap: str) -> None:
        self.oracle = oracle
        self.bootstrap = bootstrap

    def run(self, *arguments: str) -> str:
        done = self.oracle.run_tool(
            "ConsumerGroupCommand", "--bootstrap-server", self.bootstrap, *arguments
        )
        assert done.code == 0, done.out + done.err
        return done.out

    def rows(self, *arguments: str) -> list[list[str]]:
        """The table that the tool prints, without its head."""
        lines = [line.split() for line in self.run(*arguments).splitlines() if line.strip()]
        head = next(index for index, words in enumerate(lines) if words[0].isupper())
        return lines[head + 1 :]

    def reset(self, group: str, topic: str, *how: str, execute: bool = True) -> dict[int, int]:
        """New offsets by partition."""
        rows = self.rows(
            *("--group", group, "--topic", topic, "--reset-offsets", *how),
            "--execute" if execute else "--dry-run",
        )
        return {int(row[2]): int(row[3]) for row in rows}

    def positions(self, group: str) -> dict[int, str]:
        return {int(row[2]): row[3] for row in self.rows("--describe", "--group", group)}


@pytest.fixture
def groups(oracle: Oracle, bootstrap: str) -> Groups:
    return Groups(oracle, bootstrap)


def test_java_s_consumer_reads_on_where_it_stopped(
    oracle: Oracle, bootstrap: str, topic: str
) -> None:
    fill(bootstrap, topic)

    def consume(*options: str) -> list[str]:
        done = oracle.run_tool(
            "ConsoleConsumer",
            *("--bootstrap-server", bootstrap, "--topic", topic, "--group", topic),
            *("--timeout-ms", "10000", *options),
        )
        assert done.code == 0, done.err
        return done.out.split()

    first = consume("--from-beginning", "--max-messages", "4")
    second = consume("--max-messages", str(RECORDS - 4))
    assert sorted(map(int, first + second)) == list(range(RECORDS))


def test_listing_and_describing(groups: Groups, bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic)
    audit = Audit()
    member = LibrdkafkaMember(audit, bootstrap, topic, "m", group_id=topic, client_id="me")
    wait_for(lambda: len(audit.read) == RECORDS)
    rows = {row[0]: row[1:] for row in groups.rows("--list", "--state", "--type")}
    assert rows[topic] == ["Classic", "Stable"]
    assert topic in groups.run("--list")
    state = groups.run("--describe", "--group", topic, "--state")
    assert re.search(rf"{re.escape(topic)} +\S+:\d+ +\(1\) +range +Stable +1", state), state
    (found,) = groups.rows("--describe", "--group", topic, "--members")
    assert found[0] == topic
    assert found[2:] == ["/127.0.0.1", "me", "2"]
    member.leave()
    rows = {row[0]: row[1:] for row in groups.rows("--list", "--state", "--type")}
    assert rows[topic] == ["Classic", "Empty"]
    described = groups.rows("--describe", "--group", topic)
    assert {int(row[2]): row[3:6] for row in described} == {
        0: [str(RECORDS), str(RECORDS), "0"],
    }


def test_offsets_of_a_consumer_group_are_reset_when_it_has_lost_its_members(
    groups: Groups, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    """`test_groups_tools_conformance` has every form, of groups that never had members."""
    fill(bootstrap, topic)
    audit = Audit()
    settings = {"group_id": topic, "group_protocol": "consumer"}
    member = LibrdkafkaMember(audit, bootstrap, topic, "m", **settings)
    wait_for(lambda: len(audit.read) == RECORDS)
    member.leave()
    assert groups.reset(topic, topic, "--by-duration", "PT1H") == {0: RECORDS, 1: 0}
    assert groups.reset(topic, topic, "--shift-by", "-4") == {0: RECORDS - 4, 1: 0}
    # Without --execute nothing happens, and a plan can be kept.
    target = ("--group", topic, "--reset-offsets")
    plan = groups.run(*target, "--topic", f"{topic}:0", "--to-offset", "2", "--export")
    file = tmp_path / "plan.csv"
    file.write_text(plan)
    assert plan.strip().replace('"', "") == f"{topic},0,2"
    assert groups.positions(topic)[0] == str(RECORDS - 4)
    (row,) = groups.rows(*target, "--from-file", str(file), "--dry-run")
    assert row[1:4] == [topic, "0", "2"]
    (row,) = groups.rows(*target, "--from-file", str(file), "--execute")
    assert row[1:4] == [topic, "0", "2"]
    assert groups.positions(topic)[0] == "2"
    rows = groups.rows(*target, "--all-topics", "--to-latest", "--execute")
    assert [topic, "0", str(RECORDS)] in [row[1:4] for row in rows]
    both = ("--group", topic, "--group", f"{topic}.other")
    rows = groups.rows(*both, "--reset-offsets", "--topic", topic, "--to-earliest", "--execute")
    assert {row[0] for row in rows} == {topic, f"{topic}.other"}


def test_deleting_offsets_and_groups(groups: Groups, bootstrap: str, topic: str) -> None:
    fill(bootstrap, topic)
    groups.reset(topic, topic, "--to-latest")
    rows = groups.rows("--delete-offsets", "--group", topic, "--topic", f"{topic}:0")
    assert rows == [[topic, "0", "Successful"]]
    assert set(groups.positions(topic)) == {1}
    deleted = groups.run("--delete", "--group", topic)
    assert "was successful" in deleted
    assert topic not in groups.run("--list")


def test_all_groups_at_once(oracle: Oracle, own_broker: BrokerProcess, topic: str) -> None:
    bootstrap = own_broker.bootstrap_servers
    groups = Groups(oracle, bootstrap)
    fill(bootstrap, topic)
    names = {f"{topic}.{number}" for number in range(3)}
    for name in names:
        groups.reset(name, topic, "--to-latest")
    resetting = ("--all-groups", "--reset-offsets", "--topic", f"{topic}:0", "--to-offset", "4")
    rows = groups.rows(*resetting, "--execute")
    assert {(row[0], row[3]) for row in rows} == {(name, "4") for name in names}
    rows = groups.rows("--describe", "--all-groups", "--state")
    assert {row[0] for row in rows if row[0] != "GROUP"} == names
    assert set(groups.run("--list", "--state", "empty").split()) >= names
    assert groups.run("--delete", "--all-groups").count("'") == 2 * len(names)
    assert groups.run("--list").split() == []


def test_a_group_with_members_is_not_reset_or_deleted(
    groups: Groups, bootstrap: str, topic: str
) -> None:
    fill(bootstrap, topic)
    audit = Audit()
    member = LibrdkafkaMember(audit, bootstrap, topic, "m", group_id=topic)
    wait_for(lambda: audit.is_balanced(["m"], 2))
    asked = ("--reset-offsets", "--group", topic, "--topic", topic, "--to-earliest", "--execute")
    told = groups.oracle.run_tool("ConsumerGroupCommand", "--bootstrap-server", bootstrap, *asked)
    assert "the current state is Stable" in told.out + told.err, told
    wait_for(lambda: len(audit.read) == RECORDS)
    refused = groups.oracle.run_tool(
        "ConsumerGroupCommand", "--bootstrap-server", bootstrap, "--delete", "--group", topic
    )
    assert "NOT_EMPTY" in (refused.out + refused.err).upper().replace(" ", "_"), refused
    member.leave()
