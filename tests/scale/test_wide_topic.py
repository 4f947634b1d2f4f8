"""One topic with almost as many partitions as all others together: what is done in turns is counted
by partitions.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kaa.wire.errors import Errors
from kaa.wire.messages.k37_create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from tests.scale import offsets
from tests.scale.requests import TIMEOUT_MS, questions
from tests.scale.steps import Scale

WIDE = "wide"
PARTITIONS = 8_900
MORE = 50
QUESTIONS = questions([WIDE], list(range(PARTITIONS)))


@pytest.fixture(scope="module")
def wide(scale: Scale) -> Iterator[Scale]:
    long = _create(scale)
    yield scale
    long += _delete(scale)
    held = scale.held_again(long, lambda: _create(scale) + _delete(scale))
    assert not held, "a wide topic held the loop:\n" + "\n".join(held)


def _create(scale: Scale) -> list[str]:
    return scale.step("CreateTopics", lambda: scale.create([WIDE], PARTITIONS))


def _delete(scale: Scale) -> list[str]:
    return scale.step("DeleteTopics", lambda: scale.delete([WIDE]))


@pytest.mark.parametrize("name", QUESTIONS)
def test_questions(wide: Scale, name: str) -> None:
    wide.ask(f"{name} of a wide topic", QUESTIONS[name])


def test_offsets(wide: Scale) -> None:
    ask = wide.node.client.ask
    wide.wait_for_coordinator(0, "g")
    numbers = list(range(PARTITIONS))
    commit = offsets.commit(wide.node.broker.services.image, [WIDE], numbers)
    delete = offsets.delete([WIDE], numbers)
    committed = ask(commit)
    assert {one.error_code for topic in committed.topics for one in topic.partitions} == {0}
    wide.ask("OffsetCommit of a wide topic", commit)
    wide.ask("OffsetFetch of a wide topic", offsets.fetch(is_stable=True))

    def delete_all() -> None:
        ask(commit, decodes=False)
        ask(delete, decodes=False)

    wide.steady("OffsetDelete of a wide topic", delete_all)


def test_more_partitions(wide: Scale) -> None:
    logs = wide.node.broker.services.logs.logs

    def create(part: int) -> None:
        count = PARTITIONS + MORE * (part + 1)
        topic = CreatePartitionsTopic(name=WIDE, count=count, assignments=None)
        before = wide.node.call(lambda: len(logs))
        answer = wide.node.client.ask(
            CreatePartitionsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)
        )
        assert answer.results[0].error_code == Errors.NONE
        wide.wait_for_logs(before + MORE)

    wide.repeated("CreatePartitions of a wide topic", create, 3)
