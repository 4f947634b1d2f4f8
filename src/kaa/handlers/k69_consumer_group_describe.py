"""ConsumerGroupDescribe, key 69: epochs, assignments and members of consumer groups (KIP-848).

Version 1 tells which protocol each member speaks (KIP-1099).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaa.coordinators.group.consumer.group import ConsumerGroup
from kaa.coordinators.group.consumer.target import preferred_assignor
from kaa.coordinators.group.coordinator import GROUP_FEATURE
from kaa.coordinators.group.java_order import (
    integer_hash,
    map_order,
    name_set_order,
    uuid_hash,
)
from kaa.handlers.described_groups import (
    describe_groups,
    described_members,
    of_kind,
    unsupported_groups,
)
from kaa.model.pieces import mapped
from kaa.wire.messages.k69_consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kaa.coordinators.group.consumer.member import ConsumerMember
    from kaa.coordinators.group.topics import GroupTopics
    from kaa.handlers.context import Answer, RequestContext
    from kaa.model.pieces import Pieces
    from kaa.serving.services import Services
    from kaa.wire.messages.k69_consumer_group_describe import ConsumerGroupDescribeRequest
    from kaa.wire.primitives import Uuid

_CLASSIC_MEMBER: Final = 0
_CONSUMER_MEMBER: Final = 1


def handle(
    services: Services, request: ConsumerGroupDescribeRequest, _: RequestContext
) -> Answer[ConsumerGroupDescribeResponse]:
    if services.image.features.get(GROUP_FEATURE, 0) < 1:
        return unsupported_groups(request.group_ids, DescribedGroup, ConsumerGroupDescribeResponse)
    topics, default_assignor = services.groups.topics, services.groups.default_assignor
    return describe_groups(
        services.groups,
        request.group_ids,
        of_kind(
            ConsumerGroup, lambda group: describe(group, topics, default_assignor), DescribedGroup
        ),
        DescribedGroup,
        ConsumerGroupDescribeResponse,
        with_operations=request.include_authorized_operations,
        allows_empty_id=False,
    )


def describe(
    group: ConsumerGroup, topics: GroupTopics, default_assignor: str
) -> Pieces[DescribedGroup]:
    epochs = group.committed_epochs
    members = [member for _, member in group.members.committed_items()]
    described = DescribedGroup(
        group_id=group.group_id,
        group_state=group.committed_state.value,
        group_epoch=epochs.group_epoch,
        assignment_epoch=epochs.assignment_epoch,
        assignor_name=preferred_assignor(members) or default_assignor,
    )
    # All of one moment, whatever changes while they are described.
    found = [(member, group.targets.committed(member.member_id) or {}) for member in members]
    described.members = yield from described_members(
        found,
        lambda one: _member(*one, topics),
        lambda one: len(one[0].subscribed_topic_names) + len(one[0].assigned) + len(one[1]),
    )
    return described


def _member(
    member: ConsumerMember, target: Mapping[Uuid, Iterable[int]], topics: GroupTopics
) -> Pieces[Member]:
    # It answers for what it is to give up until it has done so.
    owned = {topic_id: list(numbers) for topic_id, numbers in member.assigned.items()}
    for topic_id, numbers in member.pending_revocation.items():
        owned.setdefault(topic_id, []).extend(numbers)
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=(yield from name_set_order(member.subscribed_topic_names)),
        subscribed_topic_regex=member.subscribed_topic_regex,
        assignment=(yield from _assignment(owned, topics)),
        target_assignment=(yield from _assignment(target, topics)),
        member_type=_CLASSIC_MEMBER if member.uses_classic_protocol else _CONSUMER_MEMBER,
    )


def _assignment(owned: Mapping[Uuid, Iterable[int]], topics: GroupTopics) -> Pieces[Assignment]:
    """Topics that do not exist any more are left out."""

    def topic(topic_id: Uuid) -> TopicPartitions:
        return TopicPartitions(
            topic_id=topic_id,
            topic_name=topics.name(topic_id) or "",
            partitions=map_order(owned[topic_id], integer_hash),
        )

    found = yield from mapped(topic, map_order(owned, uuid_hash))
    return Assignment(topic_partitions=[one for one in found if one.topic_name])
