"""Conversations with a coordinator about consumer groups (KIP-848).

They are written as the others (`conversation`), with these commands besides:

| Command                                 | What it does                                      |
|-----------------------------------------|---------------------------------------------------|
| beat ID EPOCH [FIELD=VALUE ...] [OWNED] | ConsumerGroupHeartbeat; fields: topics, regex,    |
|                                         | instance, assignor, rebalance; what it owns is    |
|                                         | written as t:0,1 u:2, or - for nothing            |
| topic NAME COUNT [FROM]                 | a topic, or more partitions of one                |
| gone NAME                               | the topic is deleted                              |

Joins have epoch 0. There are topics t with four partitions and u with two. Assignments are computed
without a pause between them, unless the coordinator is begun with `interval=MS`.
"""

from __future__ import annotations

from typing import Any

from kaa.coordinators.group.consumer.group import ConsumerGroup
from kaa.coordinators.group.consumer.protocol import read_assignment
from kaa.coordinators.group.settings import ConsumerTimes
from kaa.coordinators.machine import WritableRecord
from kaa.wire.errors import Errors
from kaa.wire.messages.k14_sync_group import SyncGroupResponse
from kaa.wire.messages.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kaa.wire.messages.offsets_classic import GroupMetadataValue
from kaa.wire.messages.offsets_consumer import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from tests.transcripts.coordinators.conversation import Conversation, record_wording, wording
from tests.unit.coordinators.group.bench import code
from tests.unit.coordinators.group.consumer.bench import ConsumerBench, assigned, names
from tests.unit.coordinators.group.consumer.test_classic_members import metadata


class ConsumerConversation(Conversation):
    """See the module's text."""

    bench: ConsumerBench

    def __init__(self) -> None:
        super().__init__()
        self.bench = ConsumerBench()

    def wording(self, answer: Any) -> str:
        if isinstance(answer, ConsumerGroupHeartbeatResponse):
            error = code(answer.error_code)
            if error is not Errors.NONE:
                return error.name
            told = assigned(answer)
            has = "" if told is None else f", has {owned_wording(told)}"
            return f"{answer.member_id} at epoch {answer.member_epoch}{has}"
        if isinstance(answer, SyncGroupResponse) and answer.error_code == Errors.NONE:
            found = read_assignment(answer.assignment).assigned_partitions
            return "assigned " + owned_wording({one.topic: one.partitions for one in found})
        return wording(answer)

    def record_wording(self, record: WritableRecord) -> str:
        return consumer_record_wording(record)

    def _describe(self) -> str:
        group = self.bench.group
        if not isinstance(group, ConsumerGroup):
            return super()._describe()
        members = []
        for member in group.members.values():
            text = f"{member.member_id} {member.state.name.lower().partition('_')[0]} at "
            text += f"{member.member_epoch} with {owned_wording(names(member.assigned))}"
            if member.pending_revocation:
                text += f", gives up {owned_wording(names(member.pending_revocation))}"
            members.append(text)
        epochs = f"epoch {group.group_epoch}, assigned {group.assignment_epoch}"
        return f"{group.state.value}, {epochs}: " + ("; ".join(members) or "nobody")

    def _coordinator(self, *words: str) -> None:
        given: dict[str, Any] = {}
        times = ConsumerTimes(assignment_interval_ms=0)
        for word in words:
            name, _, value = word.partition("=")
            if name == "interval":
                times = times._replace(assignment_interval_ms=int(value))
            else:
                given[name] = int(value)
        self.bench = ConsumerBench(times, **given)
        self._records = 0

    def _beat(self, member_id: str, epoch: str, *words: str) -> None:
        fields: dict[str, Any] = {}
        owned: dict[str, list[int]] | None = None
        for word in words:
            if "=" in word:
                name, _, value = word.partition("=")
                if name == "topics":
                    fields[name] = [one for one in value.split(",") if one]
                elif name == "rebalance":
                    fields["rebalance_ms"] = int(value)
                else:
                    fields[name] = value
            else:
                owned = owned or {}
                if word != "-":
                    topic, _, numbers = word.partition(":")
                    owned[topic] = [int(one) for one in numbers.split(",")]
        self.bench.beat(member_id, int(epoch), owned=owned, name=member_id, **fields)

    def _join(self, name: str, *words: str) -> None:
        """A classic member; what it owns is written as in a heartbeat."""
        fields = [word for word in words if ":" not in word]
        owned = {
            topic: [int(one) for one in numbers.split(",")]
            for topic, _, numbers in (word.partition(":") for word in words if ":" in word)
        }
        member_id = fields[0] if fields else ""
        self.bench.join(name, member_id, metadata=metadata(owned))

    def _sync(self, name: str, member_id: str, generation: str, *words: str) -> None:
        self.bench.sync(name, member_id, int(generation), protocol_name=None)

    def _topic(self, name: str, count: str, start: str = "0") -> None:
        self.bench.create(name, int(count), int(start))

    def _gone(self, name: str) -> None:
        self.bench.delete(name)


def owned_wording(owned: dict[str, list[int]]) -> str:
    found = (f"{name}:{','.join(map(str, numbers))}" for name, numbers in sorted(owned.items()))
    return " ".join(found) or "nothing"


def consumer_record_wording(record: WritableRecord) -> str:
    key: Any = record.key
    match record.value:
        case ConsumerGroupMetadataValue() as value:
            return f"group epoch {value.epoch}"
        case ConsumerGroupMemberMetadataValue() as value:
            topics = ",".join(value.subscribed_topic_names) or value.subscribed_topic_regex
            kind = "" if value.classic_member_metadata is None else ", classic"
            return f"member {key.member_id} subscribes to {topics or 'nothing'}{kind}"
        case ConsumerGroupTargetAssignmentMetadataValue() as value:
            return f"target epoch {value.assignment_epoch}"
        case ConsumerGroupTargetAssignmentMemberValue() as value:
            target = names({one.topic_id: one.partitions for one in value.topic_partitions})
            return f"target of {key.member_id}: {owned_wording(target)}"
        case ConsumerGroupCurrentMemberAssignmentValue() as value:
            owned = names({one.topic_id: one.partitions for one in value.assigned_partitions})
            return f"member {key.member_id} at epoch {value.member_epoch}: {owned_wording(owned)}"
        case ConsumerGroupRegularExpressionValue() as value:
            return f"{key.regular_expression} matches {','.join(value.topics) or 'nothing'}"
        case GroupMetadataValue() as value:
            members = ", ".join(member.member_id for member in value.members) or "nobody"
            return f"classic group generation {value.generation}: {members}"
        case None if not hasattr(key, "topic"):
            what = type(key).__name__.removesuffix("Key").removeprefix("ConsumerGroup")
            return f"{what} of {getattr(key, 'member_id', 'the group')} is gone"
    return record_wording(record)
