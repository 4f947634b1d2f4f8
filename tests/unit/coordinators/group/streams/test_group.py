from __future__ import annotations

import pytest

from kaa.coordinators.group.streams.group import StreamsEpochs, StreamsGroup
from kaa.coordinators.group.streams.member import OwnedTasks, StreamsMember
from kaa.coordinators.group.streams.topology import topology_value
from kaa.coordinators.machine import CoordinatorError
from kaa.coordinators.timeline import Timeline
from kaa.model.pieces import finish
from kaa.wire.errors import Errors
from kaa.wire.messages.offsets_streams import StreamsGroupTopologyKey
from tests.unit.coordinators.group.streams.bench import topology


def test_the_states_of_a_group() -> None:
    timeline = Timeline()
    group = StreamsGroup("g", timeline)
    assert (group.shown_state, group.is_empty, group.subscribed_topics()) == ("Empty", True, set())
    group.validate_delete()
    finish(group.put(StreamsMember("m", member_epoch=2)))
    timeline.commit(1)
    assert group.shown_state == "NotReady"
    group.replay_own(StreamsGroupTopologyKey(group_id="g"), finish(topology_value(topology())))
    group.epochs = StreamsEpochs(group_epoch=2)
    timeline.commit(2)
    assert group.shown_state == "Assigning"
    group.epochs = group.epochs._replace(assignment_epoch=2)
    timeline.commit(3)
    assert (group.shown_state, group.is_subscribed_to("t")) == ("Stable", True)
    for refused in (group.validate_delete, lambda: group.member("other")):
        with pytest.raises(CoordinatorError) as refusal:
            refused()
        assert refusal.value.error in {Errors.NON_EMPTY_GROUP, Errors.UNKNOWN_MEMBER_ID}


def test_processes_own_tasks() -> None:
    group = StreamsGroup("g", Timeline())
    owned = OwnedTasks({"0": {1: 2}}, {"0": frozenset({2})})
    revoked = OwnedTasks({"0": {3: 2}})
    finish(group.put(StreamsMember("a", process_id="p", assigned=owned)))
    finish(group.put(StreamsMember("b", process_id="q", pending_revocation=revoked)))
    assert group.active_processes("0") == {1: "p", 3: "q"}
    assert group.passive_processes("0") == {2: ("p",)}
    finish(group.put(StreamsMember("a", process_id="p")))
    finish(group.remove("b"))
    assert not group.active_processes("0")
    assert not group.passive_processes("0")
