"""ShareGroupDescribe, key 77: share groups with their members and what each reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaa.coordinators.group.java_order import (
    integer_hash,
    map_order,
    name_set_order,
    uuid_hash,
)
from kaa.coordinators.group.share.group import ShareGroup
from kaa.coordinators.share.coordinator import SHARE_FEATURE
from kaa.handlers.described_groups import (
    describe_groups,
    described_members,
    of_kind,
    unsupported_groups,
)
from kaa.model.pieces import mapped
from kaa.wire.errors import Errors
from kaa.wire.messages.k77_share_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    ShareGroupDescribeResponse,
    TopicPartitions,
)

if TYPE_CHECKING:
    from kaa.coordinators.group.share.group import ShareMember
    from kaa.coordinators.group.topics import GroupTopics
    from kaa.handlers.context import Answer, RequestContext
    from kaa.model.pieces import Pieces
    from kaa.serving.services import Services
    from kaa.wire.messages.k77_share_group_describe import ShareGroupDescribeRequest
    from kaa.wire.primitives import Uuid

_ASSIGNOR: Final = "simple"


def handle(
    services: Services, request: ShareGroupDescribeRequest, _: RequestContext
) -> Answer[ShareGroupDescribeResponse]:
    if services.image.features.get(SHARE_FEATURE, 0) < 1:
        message = Errors.UNSUPPORTED_VERSION.message
        return unsupported_groups(
            request.group_ids, DescribedGroup, ShareGroupDescribeResponse, error_message=message
        )
    topics = services.groups.topics
    return describe_groups(
        services.groups,
        request.group_ids,
        of_kind(ShareGroup, lambda group: describe(group, topics), DescribedGroup),
        DescribedGroup,
        ShareGroupDescribeResponse,
        with_operations=request.include_authorized_operations,
        allows_empty_id=True,
    )


def describe(group: ShareGroup, topics: GroupTopics) -> Pieces[DescribedGroup]:
    epochs = group.committed_epochs
    described = DescribedGroup(
        group_id=group.group_id,
        group_state=group.shown_state,
        group_epoch=epochs.group_epoch,
        assignment_epoch=epochs.assignment_epoch,
        assignor_name=_ASSIGNOR,
    )
    described.members = yield from described_members(
        [member for _, member in group.members.committed_items()],
        lambda member: _member(member, topics),
        lambda member: len(member.subscribed_topic_names) + len(member.assigned),
    )
    return described


def _member(member: ShareMember, topics: GroupTopics) -> Pieces[Member]:
    def topic(topic_id: Uuid) -> TopicPartitions:
        return TopicPartitions(
            topic_id=topic_id,
            topic_name=topics.name(topic_id) or "",
            partitions=map_order(member.assigned[topic_id], integer_hash),
        )

    found = yield from mapped(topic, map_order(member.assigned, uuid_hash))
    return Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=(yield from name_set_order(member.subscribed_topic_names)),
        assignment=Assignment(topic_partitions=[one for one in found if one.topic_name]),
    )
