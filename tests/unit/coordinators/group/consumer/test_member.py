from __future__ import annotations

from kaa.coordinators.group.consumer.member import ConsumerMember, MemberState, is_subset
from kaa.model.pieces import finish
from kaa.wire.messages.offsets_consumer import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    TopicPartitions,
)
from kaa.wire.primitives import Uuid

T, U = Uuid(b"t" * 16), Uuid(b"u" * 16)


def test_records_replace_parts() -> None:
    classic = ClassicMemberMetadata(
        session_timeout_ms=5, supported_protocols=[ClassicProtocol(name="range", metadata=b"m")]
    )
    metadata = ConsumerGroupMemberMetadataValue(
        instance_id="i",
        rack_id="r",
        client_id="c",
        client_host="/h",
        subscribed_topic_names=["t", "u"],
        subscribed_topic_regex=None,
        rebalance_timeout_ms=9,
        server_assignor="range",
        classic_member_metadata=classic,
    )
    member = ConsumerMember("m", 4, 3).with_metadata(metadata)
    assert member.subscribed_topic_names == {"t", "u"}
    assert (member.member_epoch, member.previous_member_epoch) == (4, 3)
    assert member.uses_classic_protocol
    assert [one.name for one in member.classic_protocols] == ["range"]
    assert ConsumerMember("m").classic_protocols == []


def current(state: int, epochs: list[int] | None, member_epoch: int = 5) -> ConsumerMember:
    topic = TopicPartitions(topic_id=T, partitions=[0, 2], assignment_epochs=epochs)
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member_epoch,
        previous_member_epoch=4,
        state=state,
        assigned_partitions=[topic],
        partitions_pending_revocation=[],
    )
    return finish(ConsumerMember("m").with_assignment(value))


def test_partitions_have_epochs() -> None:
    assert current(0, [3, 5]).assigned == {T: {0: 3, 2: 5}}
    # Older versions wrote none.
    assert current(0, None).assigned == {T: {0: 5, 2: 5}}
    assert current(0, [1]).assigned == {T: {0: 5, 2: 5}}
    assert current(0, None, member_epoch=-2).assigned == {T: {0: 0, 2: 0}}
    member = current(0, [3, 5])._replace(pending_revocation={U: {1: 2}})
    assert member.assignment_epoch(T, 2) == 5
    assert member.assignment_epoch(U, 1) == 2
    assert member.assignment_epoch(U, 2) is None


def test_states_of_newer_versions() -> None:
    assert current(2, None).state is MemberState.UNRELEASED_PARTITIONS
    assert current(77, None).state is MemberState.UNKNOWN


def test_reconciled_and_subsets() -> None:
    member = current(0, [3, 5])
    assert member.is_reconciled_to(5)
    assert not member.is_reconciled_to(6)
    assert not current(1, None).is_reconciled_to(5)
    assert is_subset({T: [2]}, member.assigned)
    assert is_subset({}, member.assigned)
    assert not is_subset({T: [1]}, member.assigned)
    assert not is_subset({U: [0]}, member.assigned)
    assert not is_subset(None, member.assigned)


def test_the_epoch_before_is_remembered() -> None:
    member = ConsumerMember("m", 4, 3).at_epoch(6, state=MemberState.UNRELEASED_PARTITIONS)
    assert (member.member_epoch, member.previous_member_epoch) == (6, 4)
