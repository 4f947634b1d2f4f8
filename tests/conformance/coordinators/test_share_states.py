"""The share coordinator beside Kafka's own, on random histories: answers and bytes of records."""

from __future__ import annotations

from base64 import b64decode
from random import Random
from typing import Any

import pytest

from kaa.coordinators.machine import CoordinatorError, Moment
from kaa.coordinators.records import encode_key
from kaa.coordinators.share.batches import StateBatch
from kaa.coordinators.share.machine import ShareMachine, StateChange
from kaa.coordinators.share.settings import ShareStateSettings
from kaa.coordinators.share.state import SharePartitionKey, ShareState
from kaa.wire.errors import Errors
from kaa.wire.primitives import Uuid
from tests.oracle import Oracle

pytestmark = pytest.mark.oracle

HISTORIES = 150
COMMANDS = 120
COLD_MS = 1_000
OPS = ("initialise", "write", "write", "write", "write", "read", "summary", "delete", "cold")


class History:
    """Commands on a few share partitions, with epochs and ranges that meet often."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.updates = self.random.choice((1, 2, 5, 500))
        self.topics = {Uuid(self.random.randbytes(16)): 2 for _ in range(2)}
        self.unknown = Uuid(self.random.randbytes(16))
        self.now = 1_000_000
        # What writes begin with never falls: see the last test.
        self.start = 0
        self.commands = [self.command() for _ in range(COMMANDS)]

    def command(self) -> dict[str, Any]:
        random = self.random
        self.now += random.choice((0, 1, COLD_MS // 3, COLD_MS))
        topic = random.choice(list(self.topics)) if random.random() < 0.97 else self.unknown
        op = random.choice(OPS)
        self.start += random.randint(0, 1)
        start = random.randint(0, self.start) if op == "initialise" else self.start
        return {
            "op": op,
            "now": self.now,
            "group": random.choice(("g", "h")),
            "topic": str(topic),
            "partition": random.choice((0, 0, 0, 1, 2, -1)) if random.random() < 0.2 else 0,
            "state_epoch": random.choice((-1, 0, 0, 1, 2)),
            "leader_epoch": random.choice((-1, 0, 0, 1, 2)),
            "start": random.choice((-1, start)),
            "count": random.randint(-1, 9),
            "batches": [self.batch() for _ in range(random.randint(0, 6))],
        }

    def batch(self) -> list[int]:
        first = max(0, self.start + self.random.randint(-10, 30))
        last = first + self.random.randint(0, 12)
        return [first, last, self.random.randint(1, 3), self.random.choice((0, 2, 4))]

    def asked(self) -> dict[str, Any]:
        topics = {str(topic_id): count for topic_id, count in self.topics.items()}
        return {
            "updates": self.updates,
            "cold": COLD_MS,
            "topics": topics,
            "commands": self.commands,
        }


class Ours:
    """The machine, whose records are committed at once."""

    def __init__(self, history: History) -> None:
        settings = ShareStateSettings(history.updates, COLD_MS)
        self.machine = ShareMachine(lambda: settings, lambda one: history.topics.get(one, 0))
        self.offset = 0

    def run(self, command: dict[str, Any], order: list[bytes]) -> dict[str, Any]:
        """Cold snapshots come in the order of a Java map, which offsets follow."""
        machine = self.machine
        machine.timeline.move(self.offset)
        answer: dict[str, Any] = {"records": []}
        try:
            result = self.execute(command)
        except CoordinatorError as refusal:
            answer |= {"error": int(refusal.error)} | refused(command["op"])
        else:
            if command["op"] != "cold":
                answer |= {"error": int(Errors.NONE)} | shown(command["op"], result.response)
            records = list(result.records)
            if command["op"] == "cold":
                records.sort(key=lambda one: order.index(encode_key(one.key)))
            for record in records:
                machine.timeline.move(self.offset)
                machine.replay(self.offset, record.key, record.value, -1, -1)
                self.offset += 1
                answer["records"].append([*record.encode()])
        machine.timeline.commit(self.offset)
        found = machine.redundant_offset
        answer["redundant"] = -1 if found is None else found
        return answer

    def execute(self, command: dict[str, Any]) -> Any:
        machine, now = self.machine, Moment(command["now"], command["now"])
        key = SharePartitionKey(
            command["group"], Uuid.parse(command["topic"]), command["partition"]
        )
        match command["op"]:
            case "initialise":
                return machine.initialise(key, command["state_epoch"], command["start"], now)
            case "write":
                batches = tuple(StateBatch(*batch) for batch in command["batches"])
                change = StateChange(
                    command["state_epoch"],
                    command["leader_epoch"],
                    command["start"],
                    command["count"],
                    batches,
                )
                return machine.write(key, change, now)
            case "read":
                return machine.read(key, command["leader_epoch"], now)
            case "summary":
                return machine.summary(key)
            case "delete":
                return machine.delete(key)
            case _:
                return machine.snapshot_cold(now)


def shown(op: str, state: ShareState | None) -> dict[str, Any]:
    if op == "read":
        assert state is not None
        batches = [list(batch) for batch in state.batches]
        return {"start": state.start_offset, "state_epoch": state.state_epoch, "batches": batches}
    if op == "summary":
        assert state is not None
        return {
            "start": state.start_offset,
            "state_epoch": state.state_epoch,
            "leader_epoch": state.leader_epoch,
            "count": state.delivery_complete_count,
        }
    return {}


def refused(op: str) -> dict[str, Any]:
    if op == "read":
        return {"start": 0, "state_epoch": 0, "batches": []}
    return {"start": 0, "state_epoch": 0, "leader_epoch": 0, "count": -1} if op == "summary" else {}


def test_same_answers_and_records(oracle: Oracle) -> None:
    histories = [History(seed) for seed in range(HISTORIES)]
    answers = oracle.jvm.call("share.states", [history.asked() for history in histories])
    written = 0
    for seed, (history, theirs) in enumerate(zip(histories, answers, strict=True)):
        ours = Ours(history)
        for number, (command, expected) in enumerate(zip(history.commands, theirs, strict=True)):
            for pair in expected["records"]:
                pair[:] = [decoded(one) for one in pair]
            found = ours.run(command, [key for key, _ in expected["records"]])
            written += len(found["records"])
            assert found == expected, (seed, number, command)
    assert written > HISTORIES


def test_a_late_write_takes_the_start_back_in_kafka_alone(oracle: Oracle) -> None:
    """Kafka forgets then that offsets 15 to 39 were acknowledged, and delivers them again."""
    history = History(0)
    history.updates = 500
    any_write = history.commands[0] | {"state_epoch": 0, "leader_epoch": 0, "partition": 0}
    any_write |= {"group": "g", "topic": str(next(iter(history.topics))), "count": 0}
    changes = [(15, [15, 39, 1, 2]), (40, [47, 53, 1, 2]), (15, [40, 46, 1, 2])]
    history.commands = [
        any_write | {"op": "initialise", "start": 0},
        *(any_write | {"op": "write", "start": start, "batches": [one]} for start, one in changes),
        any_write | {"op": "read"},
    ]
    (theirs,) = oracle.jvm.call("share.states", [history.asked()])
    machine = Ours(history)
    ours = [machine.run(command, []) for command in history.commands][-1]
    assert (ours["start"], ours["batches"]) == (40, [[40, 53, 1, 2]])
    assert (theirs[-1]["start"], theirs[-1]["batches"]) == (15, [[40, 53, 1, 2]])


def decoded(one: str | None) -> bytes | None:
    return None if one is None else b64decode(one)
