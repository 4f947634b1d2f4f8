"""The share partition beside Kafka's own class, on random histories.

Compared after every command: what was acquired, refused and written, where the window begins and
ends, where the next fetch reads, and how many records are done with. Kafka writes once for each
lock that runs out, Kaa once for all of a moment: their batches are compared together.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.oracle import Oracle
from tests.unit.serving.share.histories import LOCK_MS, History

pytestmark = pytest.mark.oracle

HISTORIES = 400
COMMANDS = 120


def asked(history: History) -> dict[str, Any]:
    return {
        "start": history.start,
        "batches": [list(batch) for batch in history.stored],
        "locks": history.settings.record_locks_max,
        "deliveries": history.settings.delivery_count_max,
        "lock_ms": LOCK_MS,
        "commands": history.commands,
    }


def together(writes: list[dict[str, Any]]) -> dict[str, Any] | None:
    if not writes:
        return None
    batches = sorted(batch for write in writes for batch in write["batches"])
    return {"start": writes[-1]["start"], "done": writes[-1]["done"], "batches": batches}


def test_same_histories(oracle: Oracle) -> None:
    histories = []
    for seed in range(HISTORIES):
        history = History(seed)
        history.play(COMMANDS)
        histories.append(history)
    answers = oracle.jvm.call("share.partition", [asked(history) for history in histories])
    acquired = 0
    for seed, (history, theirs) in enumerate(zip(histories, answers, strict=True)):
        assert isinstance(theirs, list), (seed, theirs)
        commands: list[Any] = [None, *history.commands]
        for number, (ours, kafka) in enumerate(zip(history.told, theirs, strict=True)):
            where = (seed, number, commands[number], history.settings)
            for name in ("acquired", "error"):
                assert ours.get(name) == kafka.get(name), where
            assert together(ours.get("written", [])) == together(kafka.get("written", [])), where
            for name, value in ours["offsets"].items():
                assert kafka[name] == value, (name, *where)
            acquired += len(ours.get("acquired", ()))
    assert acquired > HISTORIES
