"""Conversations with a group coordinator: commands, and everything it does in return.

A block is a command, a line of dashes, and the output up to an empty line. Comments start with #.
Nothing happens by itself: no time passes, and nothing is committed later than it was appended,
unless a command says so. Members have the name of their client and a number as ids.

| Command                              | What it does                                         |
|--------------------------------------|------------------------------------------------------|
| coordinator [SETTING=NUMBER ...]     | begins with nothing stored                           |
| join NAME [ID] [FIELD=VALUE ...]     | JoinGroup; fields: instance, protocols, topics,      |
|                                      | session, rebalance, version                          |
| sync NAME ID GENERATION [ID=TEXT ..] | SyncGroup, of the leader with assignments            |
| heartbeat ID GENERATION [INSTANCE]   | Heartbeat                                            |
| leave ID|INSTANCE/ ...               | LeaveGroup; by group instance id with a slash        |
| commit TOPIC-PARTITION OFFSET [ID G] | OffsetCommit, of a member or of nobody               |
| delete                               | DeleteGroups                                         |
| offsets                              | shows what is committed                              |
| advance MS                           | lets time pass                                       |
| hold / committed / lost ERROR        | what is appended waits / is committed / is refused   |
| restart                              | the coordinator is loaded from its log again         |

Output lines: `NAME: ...` is an answer, `+ ...` a record, `= ...` the group when it has changed.
"""

from __future__ import annotations

from typing import Any

from kaa.coordinators.group.offsets.fetch import fetch_offsets
from kaa.coordinators.machine import WritableRecord
from kaa.model.pieces import finish
from kaa.wire.errors import Errors
from kaa.wire.messages.k09_offset_fetch import OffsetFetchRequestGroup
from kaa.wire.messages.k11_join_group import JoinGroupResponse
from kaa.wire.messages.k14_sync_group import SyncGroupResponse
from kaa.wire.messages.offsets_classic import GroupMetadataValue, OffsetCommitValue
from tests.unit.coordinators.group.bench import GROUP, GroupBench, code, fetched

_FIELDS = {"session": "session_ms", "rebalance": "rebalance_ms"}


class Conversation:
    """One coordinator and what was shown of it."""

    def __init__(self) -> None:
        self.bench = GroupBench()
        self._records = 0
        self._group = ""

    def hear(self, line: str) -> list[str]:
        command, *words = line.split()
        self.bench.sent_answers.clear()
        shown = getattr(self, f"_{command}")(*words) or []
        answers = [f"{name}: {self.wording(answer)}" for name, answer in self.bench.sent_answers]
        records = [f"+ {self.record_wording(one)}" for one in self.bench.log[self._records :]]
        self._records = len(self.bench.log)
        group = self._describe()
        changed = [] if group == self._group else [f"= {group}"]
        self._group = group
        return [*shown, *answers, *records, *changed] or ["nothing"]

    def wording(self, answer: Any) -> str:
        return wording(answer)

    def record_wording(self, record: WritableRecord) -> str:
        return record_wording(record)

    def _describe(self) -> str:
        group = self.bench.group
        if group is None:
            return "no group"
        members = []
        for member in group.members.values():
            marks = "*" if group.is_leader(member.member_id) else ""
            marks += " joining" if member.waiting_join is not None else ""
            marks += " syncing" if member.waiting_sync is not None else ""
            members.append(member.member_id + marks)
        pending = "".join(f", {member_id} is to come again" for member_id in group.pending_joins)
        text = f"{group.state.value}, generation {group.generation_id}: "
        return text + (", ".join(members) or "nobody") + pending

    # --- commands

    def _coordinator(self, *words: str) -> None:
        settings = dict(word.split("=") for word in words)
        self.bench = GroupBench(**{name: int(value) for name, value in settings.items()})
        self._records = 0

    def _join(self, name: str, *words: str) -> None:
        member_id = words[0] if words and "=" not in words[0] else ""
        fields: dict[str, Any] = {}
        for word in words:
            key, is_field, value = word.partition("=")
            if is_field:
                many = key in {"protocols", "topics"}
                number = key in {"session", "rebalance", "version"}
                found = value.split(",") if many else int(value) if number else value
                fields[_FIELDS.get(key, key)] = found
        self.bench.join(name, member_id, **fields)

    def _sync(self, name: str, member_id: str, generation: str, *words: str) -> None:
        given = dict(word.split("=") for word in words)
        assignments = {one: text.encode() for one, text in given.items()}
        member = self.bench.group.members.get(member_id) if self.bench.group else None
        self.bench.sync(
            name,
            member_id,
            int(generation),
            assignments,
            instance=member.group_instance_id if member else None,
            protocol_name=None,
        )

    def _heartbeat(self, member_id: str, generation: str, instance: str | None = None) -> None:
        self.bench.heartbeat(member_id, int(generation), instance=instance)

    def _leave(self, *words: str) -> None:
        self.bench.leave(
            *(("", word[:-1]) if word.endswith("/") else (word, None) for word in words)
        )

    def _commit(
        self, partition: str, offset: str, member_id: str = "", generation: str = "-1"
    ) -> None:
        topic, _, number = partition.rpartition("-")
        self.bench.commit_offset(
            topic, int(number), int(offset), member_id=member_id, generation=int(generation)
        )

    def _delete(self) -> None:
        self.bench.run("delete", lambda machine, _: machine.delete_groups([GROUP]))

    def _offsets(self) -> list[str]:
        request = OffsetFetchRequestGroup(group_id=GROUP, topics=None)
        found = finish(fetch_offsets(self.bench.machine, request, fetched, is_stable=False))
        return [
            f"{topic.name}-{one.number} at {one.offset}"
            for topic in found
            for one in topic.partitions
        ] or ["none"]

    def _advance(self, milliseconds: str) -> None:
        self.bench.advance(int(milliseconds))

    def _hold(self) -> None:
        self.bench.is_holding = True

    def _committed(self) -> None:
        self.bench.commit()

    def _lost(self, error: str) -> None:
        self.bench.fail(Errors[error])
        self._records = min(self._records, len(self.bench.log))

    def _restart(self) -> None:
        self.bench.restart()
        self._records = min(self._records, len(self.bench.log))


def wording(answer: Any) -> str:
    """An answer in a line."""
    if isinstance(answer, Errors):
        return answer.name
    if isinstance(answer, list | dict):
        errors = answer.values() if isinstance(answer, dict) else answer
        return ", ".join(error.name for error in errors)
    if isinstance(answer, SyncGroupResponse):
        error = code(answer.error_code)
        return error.name if error is not Errors.NONE else f"assigned {answer.assignment.decode()}"
    if isinstance(answer, JoinGroupResponse):
        return _joined(answer)
    partition = answer.topics[0].partitions[0]
    return code(partition.error_code).name


def _joined(answer: JoinGroupResponse) -> str:
    error = code(answer.error_code)
    if error is not Errors.NONE:
        return f"{error.name} {answer.member_id}".rstrip()
    text = f"{answer.member_id} in generation {answer.generation_id}, {answer.protocol_name}"
    text += f", led by {answer.leader}"
    if answer.members:
        text += ", members " + ", ".join(member.member_id for member in answer.members)
    return text + (", keeps the assignment" if answer.skip_assignment else "")


def record_wording(record: WritableRecord) -> str:
    value = record.value
    key: Any = record.key
    if isinstance(value, GroupMetadataValue):
        members = ", ".join(
            f"{member.member_id} has {member.assignment.decode() or 'nothing'}"
            for member in value.members
        )
        return f"group {key.group} generation {value.generation}: {members or 'nobody'}"
    if isinstance(value, OffsetCommitValue):
        return f"offset {key.topic}-{key.partition} at {value.offset}"
    if hasattr(key, "topic"):
        return f"offset {key.topic}-{key.partition} is gone"
    return f"group {key.group} is gone"
