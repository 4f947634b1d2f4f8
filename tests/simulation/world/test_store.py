"""The store of the world does what it says, and finds what may not be."""

from __future__ import annotations

import pytest

from kaa.tier.metadata.model import SegmentState
from kaa.tier.store.layout import Part, object_name
from kaa.tier.store.objects import ObjectMissingError, StoreError
from tests.simulation.world.committed import InvariantError
from tests.simulation.world.kernel import Kernel
from tests.simulation.world.network import SimNetwork
from tests.simulation.world.processes import ClientProcess
from tests.simulation.world.store import PART_BYTES, SimStore
from tests.unit.tier.metadata.samples import segment

SEGMENT = segment(1, 0, 9, (0, 0))
NAME = object_name(SEGMENT, Part.LOG)


class World:
    """A store, and a process that asks it."""

    def __init__(self) -> None:
        self.kernel = Kernel(1)
        self.store = SimStore(self.kernel)
        self.process = ClientProcess(self.kernel, SimNetwork(self.kernel), "client", 1)

    def ask(self, work: object) -> object:
        return self.process.run(work, 60)  # type: ignore[arg-type]


@pytest.fixture
def world() -> World:
    return World()


def test_what_was_written_is_read(world: World) -> None:
    world.ask(world.store.put(NAME, b"0123456789"))
    assert world.ask(world.store.get_range(NAME, 2, 5)) == b"234"
    assert world.ask(world.store.size(NAME)) == 10
    world.ask(world.store.delete([NAME, NAME]))
    with pytest.raises(ObjectMissingError):
        world.ask(world.store.get(NAME))


def test_an_upload_that_is_cut_leaves_nothing(world: World) -> None:
    world.store.faults["uploads cut"] = 1
    with pytest.raises(StoreError):
        world.ask(world.store.put(NAME, bytes(20 * PART_BYTES)))
    assert not world.store.objects


def test_a_process_that_dies_leaves_nothing(world: World) -> None:
    world.process.begin(world.store.put(NAME, bytes(5 * PART_BYTES)))
    world.kernel.run_for(0.002)
    world.process.close()
    world.kernel.run_for(5)
    assert not world.store.objects


def test_a_store_that_is_down_refuses_and_does_nothing(world: World) -> None:
    world.ask(world.store.put(NAME, b"0"))
    world.store.faults["store down"] = 1
    for work in (world.store.get(NAME), world.store.put("other", b""), world.store.delete([NAME])):
        with pytest.raises(StoreError):
            world.ask(work)
    assert set(world.store.objects) == {NAME}


def test_a_lost_answer_comes_after_the_work(world: World) -> None:
    world.store.faults["answers lost"] = 1
    answers = 0
    for number in range(40):
        try:
            world.ask(world.store.put(f"{number}", b"0"))
        except StoreError:
            answers += 1
    assert 0 < answers < 40
    assert len(world.store.objects) == 40


def test_an_object_is_never_changed(world: World) -> None:
    world.ask(world.store.put(NAME, b"0"))
    world.ask(world.store.put(NAME, b"0"))
    with pytest.raises(InvariantError, match="object-changed"):
        world.ask(world.store.put(NAME, b"1"))


def test_what_everybody_takes_for_readable_may_not_go(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.ask(world.store.put(NAME, b"0"))
    finished = SEGMENT._replace(state=SegmentState.COPY_SEGMENT_FINISHED)
    monkeypatch.setattr(world.store, "known", lambda _: iter([(finished,)]))
    with pytest.raises(InvariantError, match="named-deleted"):
        world.ask(world.store.delete([NAME]))
    going = SEGMENT._replace(state=SegmentState.DELETE_SEGMENT_STARTED)
    monkeypatch.setattr(world.store, "known", lambda _: iter([(finished,), (going,)]))
    world.ask(world.store.delete([NAME]))


def test_what_is_left_over_is_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.ask(world.store.put(NAME, b"0"))
    assert [text.split(":")[0] for text in world.store.problems([])] == ["orphan"]
    finished = SEGMENT._replace(state=SegmentState.COPY_SEGMENT_FINISHED)
    monkeypatch.setattr(world.store, "known", lambda _: iter([(finished,)]))
    assert world.store.problems([]) == []
    assert "deleted topic" in world.store.problems([SEGMENT.partition.topic])[0]
    other = finished._replace(start_offset=10, end_offset=19)
    monkeypatch.setattr(world.store, "known", lambda _: iter([(finished, other)]))
    assert world.store.problems([]) == [f"object-missing: {object_name(other, Part.LOG)}"]
