"""What ends and losses do to those that may follow."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from kaa.controller.image import ClusterImage, PartitionImage, TopicImage
from kaa.wire.primitives import Uuid
from tests.simulation.world.copies import Copies, has_others

if TYPE_CHECKING:
    from tests.simulation.world.processes import Node

TOPIC = TopicImage("t", Uuid(bytes(15) + b"\x01"))


def _image(*partitions: PartitionImage) -> ClusterImage:
    image = ClusterImage()
    topic = image.topics["t"] = TOPIC.copy(None)
    topic.partitions.update(enumerate(partitions))
    return image


def _partition(
    isr: tuple[int, ...], elr: tuple[int, ...] = (), replicas: tuple[int, ...] = (1, 2, 3)
) -> PartitionImage:
    return PartitionImage(replicas, isr, 1, 0, 0, eligible_leader_replicas=elr)


def _node(number: int, image: ClusterImage) -> Any:
    """As much of a node as is looked at."""
    view = SimpleNamespace(committed_offset=number, image=image)
    broker = SimpleNamespace(services=SimpleNamespace(metadata=view))
    config = SimpleNamespace(node_id=number)
    return SimpleNamespace(
        name=f"node-{number}", config=config, broker=broker, boots=1, is_ready=True
    )


@pytest.fixture
def nodes() -> list[Node]:
    image = _image(_partition((1, 2, 3)))
    return [_node(number, image) for number in (1, 2, 3)]


def _come_back(node: Any) -> None:
    node.boots += 1
    node.is_ready = True


def test_nodes_may_end_as_they_like_while_nothing_is_lost(nodes: list[Node]) -> None:
    copies = Copies(nodes)
    for node in nodes:
        assert copies.may_end(node)
        copies.ended(node)


def test_nobody_else_may_end_until_a_loss_is_noticed(nodes: list[Node]) -> None:
    first, second, _ = nodes
    copies = Copies(nodes)
    assert copies.may_lose(first)
    copies.ended(first, has_lost=True)
    assert copies.may_end(first)
    assert not copies.may_end(second)
    # Another end of it does not take the loss back.
    copies.ended(first)
    assert not copies.may_end(second)
    _come_back(first)
    assert copies.may_end(second)
    copies.ended(first)
    assert copies.may_end(second)


def test_nothing_is_lost_while_the_end_of_another_node_is_unnoticed(nodes: list[Node]) -> None:
    first, second, third = nodes
    copies = Copies(nodes)
    copies.ended(second)
    assert not copies.may_lose(first)
    assert copies.may_lose(second)
    _come_back(second)
    assert copies.may_lose(first)
    assert copies.may_lose(third)


def test_a_node_that_is_about_to_end_is_not_counted_on(nodes: list[Node]) -> None:
    first, second, _ = nodes
    copies = Copies(nodes)
    copies.doom(second)
    _come_back(second)
    assert copies.is_doomed(second)
    assert not copies.may_lose(first)
    copies.spare(second)
    assert not copies.is_doomed(second)
    assert copies.may_lose(first)


def test_a_loss_that_is_about_to_come_keeps_others_alive(nodes: list[Node]) -> None:
    first, second, _ = nodes
    copies = Copies(nodes)
    copies.doom(first, has_lost=True)
    assert not copies.may_end(second)


def test_the_newest_image_tells_who_has_everything(nodes: list[Node]) -> None:
    newest = _node(3, _image(_partition((1,))))
    nodes[2] = newest
    copies = Copies(nodes)
    assert not copies.may_lose(nodes[0])
    newest.broker = None
    assert copies.may_lose(nodes[0])


@pytest.mark.parametrize(
    ("partition", "is_enough"),
    [
        (_partition((1, 2)), True),
        (_partition((1,), (3,)), True),
        (_partition((), (1, 3)), True),
        (_partition((1,)), False),
        (_partition((), (1,)), False),
        (_partition((1,), replicas=(1,)), True),
    ],
)
def test_another_replica_has_to_be_in_sync_or_eligible(
    nodes: list[Node], partition: PartitionImage, *, is_enough: bool
) -> None:
    image = _image(_partition((1, 2, 3)), partition)
    assert has_others(nodes[0], image) == is_enough
    assert not has_others(nodes[0], None)
