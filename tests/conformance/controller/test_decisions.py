"""What the controller decides beside Kafka's own controller, on random histories: every record that
it writes, byte by byte, and every answer.
"""

from __future__ import annotations

from base64 import b64decode
from random import Random
from typing import Any

import pytest

from kaa.controller.framing import decode_record
from kaa.controller.placement import place
from kaa.wire.messages.metadata_topics import PartitionChangeRecord
from tests.conformance.controller.history import History
from tests.oracle import Oracle
from tests.unit.controller.cluster import Cluster

pytestmark = pytest.mark.oracle

HISTORIES = 80


def test_decisions_on_random_histories_are_kafkas(oracle: Oracle) -> None:
    histories = [History(seed) for seed in range(HISTORIES)]
    answers = oracle.jvm.call("controller.run", [each.asked() for each in histories])
    parted = 0
    for seed, (history, theirs) in enumerate(zip(histories, answers, strict=True)):
        assert isinstance(theirs, list), (seed, theirs)
        for number, (ours, kafkas) in enumerate(zip(history.answers, theirs, strict=True)):
            kafkas = dict(kafkas)
            kafkas["records"] = [b64decode(value) for value in kafkas["records"]]
            if "response" in kafkas:
                kafkas["response"] = b64decode(kafkas["response"])
            step = history.steps[number]
            if _parts_by_removed_replica(ours, kafkas):
                # DEVIATIONS.md: Kafka may elect it later, and what follows is not to be compared.
                parted += 1
                break
            assert _shown(ours) == _shown(kafkas), f"seed {seed}, step {number}: {step}"

    assert parted < HISTORIES // 10


def _parts_by_removed_replica(ours: dict[str, Any], kafkas: dict[str, Any]) -> bool:
    """Whether the answers differ only in the eligible leaders of a changed assignment."""

    def shown(answer: dict[str, Any]) -> list[str]:
        records = [decode_record(value) for value in answer["records"]]
        for one, _ in records:
            if isinstance(one, PartitionChangeRecord) and one.replicas is not None:
                one.eligible_leader_replicas = None
        return sorted(map(str, records))

    others = [{**answer, "records": None} for answer in (ours, kafkas)]
    is_same_otherwise = others[0] == others[1] and shown(ours) == shown(kafkas)
    return is_same_otherwise and _shown(ours) != _shown(kafkas)


def _shown(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer whose changes of partitions are in an order of our own: Kafka's is a map's."""
    records = [decode_record(value) for value in answer["records"]]
    changes = [str(one) for one in records if isinstance(one[0], PartitionChangeRecord)]
    others = [str(one) for one in records if not isinstance(one[0], PartitionChangeRecord)]
    return answer | {"records": [*others, *sorted(changes)], "bytes": sorted(answer["records"])}


class JavaRandom:
    """The numbers of java.util.Random for a seed, and its way to shuffle a list."""

    def __init__(self, seed: int) -> None:
        self._state = (seed ^ _MULTIPLIER) & _MASK

    def _next(self, bits: int) -> int:
        self._state = (self._state * _MULTIPLIER + 0xB) & _MASK
        return self._state >> (48 - bits)

    def randrange(self, stop: int, /) -> int:
        bits = self._next(31)
        if stop & (stop - 1) == 0:
            return (stop * bits) >> 31
        while bits - bits % stop + stop - 1 >= 1 << 31:
            bits = self._next(31)
        return bits % stop

    def shuffle(self, x: list[Any], /) -> None:
        for last in range(len(x) - 1, 0, -1):
            other = self.randrange(last + 1)
            x[last], x[other] = x[other], x[last]

    def random(self) -> float:
        raise AssertionError("the placer takes whole numbers")

    def randbytes(self, n: int, /) -> bytes:
        raise AssertionError("the placer takes whole numbers")


_MULTIPLIER = 0x5DEECE66D
_MASK = (1 << 48) - 1


def test_new_partitions_are_placed_as_kafka_places_them(oracle: Oracle) -> None:
    """With the same numbers drawn, every replica is on the same broker."""
    random = Random(1)
    asked, ours = [], []
    for seed in range(300):
        brokers = _brokers(random)
        factor = random.randint(1, len(brokers))
        item = {"seed": seed, "brokers": brokers, "partitions": 20, "factor": factor}
        asked.append(item)
        ours.append(_placed(brokers, seed, factor))
    for item, mine, theirs in zip(
        asked, ours, oracle.jvm.call("controller.place", asked), strict=True
    ):
        assert mine == theirs, item


def _brokers(random: Random) -> list[tuple[int, str | None, bool]]:
    """Id, rack, and whether it is fenced, of which one at least is not."""
    racks: tuple[str | None, ...] = random.choice(((None,), ("a", "b", "c"), (None, "a", "b")))
    ids = random.sample(range(12), random.randint(1, 8))
    return [
        (broker_id, random.choice(racks), number > 0 and random.random() < 0.25)
        for number, broker_id in enumerate(ids)
    ]


def _placed(brokers: list[tuple[int, str | None, bool]], seed: int, factor: int) -> list[list[int]]:
    cluster = Cluster(0)
    for broker_id, rack, is_fenced in brokers:
        cluster.register(broker_id, rack=rack)
        if not is_fenced:
            cluster.heartbeat(broker_id)
    cluster.state.random = JavaRandom(seed)
    return list(place(cluster.state, 20, factor))
