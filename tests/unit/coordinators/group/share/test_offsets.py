from __future__ import annotations

from typing import Any

from kaa.coordinators.group.share.offsets import Alteration
from tests.unit.coordinators.group.consumer.bench import topic_id
from tests.unit.coordinators.group.share.bench import ShareBench


def machine_of(bench: ShareBench) -> Any:
    return bench.machine


def test_altering_makes_a_group_and_begins_state_anew() -> None:
    bench = ShareBench()
    bench.create("t", 2)
    wanted = {"t": {0: 5, 1: 6, 9: 7}, "absent": {0: 1}}
    found = bench.run("alter", lambda machine, now: machine.share_offsets.alter("g", wanted, now))
    assert found == Alteration(1, {topic_id("t"): {0: 5, 1: 6}})
    assert machine_of(bench).share_offsets.initialised("g") == {}
    done = {topic_id("t"): frozenset({0, 1})}
    bench.run("done", lambda machine, _: machine.share.initialised("g", done))
    assert machine_of(bench).share_offsets.initialised("g") == {"t": frozenset({0, 1})}


def test_a_deletion_that_failed_can_be_asked_for_again() -> None:
    bench = ShareBench()
    bench.create("t", 2)
    bench.run("alter", lambda machine, now: machine.share_offsets.alter("g", {"t": {0: 5}}, now))
    done = {topic_id("t"): frozenset({0})}
    bench.run("done", lambda machine, _: machine.share.initialised("g", done))

    def begin(*names: str) -> Any:
        return bench.run(
            "delete", lambda machine, _: machine.share_offsets.begin_delete("g", names)
        )

    assert begin("absent") == {}
    assert begin("t", "absent") == done
    assert machine_of(bench).share_offsets.initialised("g") == {}
    # Nobody knows which partitions are left: all that there may be.
    assert begin("t") == {topic_id("t"): frozenset({0, 1})}
    bench.run("gone", lambda machine, _: machine.share_offsets.finish_delete("g", [topic_id("t")]))
    assert begin("t") == {}
