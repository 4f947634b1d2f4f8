"""Any order of requests, deadlines, slow commits, failed appends and lost leadership.

After every step the bookkeeping of every group agrees with itself; nobody is answered twice; what
was acknowledged stays, and a restart finds it.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kaa.coordinators.group.classic.group import ClassicGroup, ClassicGroupState
from kaa.wire.errors import Errors
from kaa.wire.messages.offsets_classic import GroupMetadataKey, GroupMetadataValue
from tests.unit.coordinators.group.bench import GroupBench
from tests.unit.coordinators.group.offsets.test_committed import offsets

GROUPS = st.sampled_from(["g", "h"])
PROTOCOLS = st.sampled_from([("range",), ("range", "sticky"), ("sticky", "range")])
TOPICS = st.sampled_from([("t",), ("t", "u")])
VERSIONS = st.sampled_from([0, 3, 8, 9])


class CheckedBench(GroupBench):
    """A bench whose requests all have names of their own, and get one answer at most."""

    def answer(self, name: str, response: Any) -> None:
        assert name not in self.answers, f"{name} was answered already"
        super().answer(name, response)


class GroupModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.bench = CheckedBench(classic_size_max=5)
        self.count = 0
        # Ids that clients were given, by group.
        self.ids: dict[str, list[str]] = {"g": [""], "h": [""]}
        # The newest offset of each group that was acknowledged, and those under way.
        self.acknowledged: dict[str, int] = {}
        self.commits: dict[str, tuple[str, int]] = {}
        # The newest generation of each group whose assignments went out, and requests for them.
        self.generations: dict[str, int] = {}
        self.syncs: dict[str, tuple[str, int]] = {}

    def name(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def learn(self) -> None:
        """What clients know from the answers so far."""
        for name, answer in self.bench.sent_answers:
            member_id = getattr(answer, "member_id", "")
            if name.startswith("join") and member_id:
                group = name.split()[1]
                if member_id not in self.ids[group]:
                    self.ids[group].append(member_id)
            if name in self.commits:
                group, offset = self.commits.pop(name)
                is_good = not isinstance(answer, Errors)
                if is_good and answer.topics[0].partitions[0].error_code == Errors.NONE:
                    self.acknowledged[group] = offset
            if name in self.syncs:
                group, generation = self.syncs.pop(name)
                if not isinstance(answer, Errors) and answer.error_code == Errors.NONE:
                    self.generations[group] = max(generation, self.generations.get(group, 0))
        self.bench.sent_answers.clear()
        for group in tuple(self.generations):
            if group not in self.bench.classic_groups:
                # It was empty for long enough; another one of its name begins anew.
                del self.generations[group]

    def sync_name(self, group: str, generation: int) -> str:
        name = self.name("sync")
        self.syncs[name] = (group, generation)
        return name

    def pick(self, data: st.DataObject, group: str) -> str:
        return data.draw(st.sampled_from(self.ids[group][-4:]))

    @rule(data=st.data(), group=GROUPS, protocols=PROTOCOLS, topics=TOPICS, version=VERSIONS)
    def join(self, data: st.DataObject, group: str, **fields: Any) -> None:
        name = f"{self.name('join')} {group}"
        instance = data.draw(st.sampled_from([None, None, "i", "j"]))
        self.bench.join(name, self.pick(data, group), group=group, instance=instance, **fields)

    @rule(data=st.data(), group=GROUPS)
    def sync(self, data: st.DataObject, group: str) -> None:
        found = self.bench.classic_groups.get(group)
        generation = 0 if found is None else found.generation_id
        members = [] if found is None else list(found.members)
        is_leading = found is not None and found.leader_id in members and data.draw(st.booleans())
        member_id = found.leader_id if is_leading else self.pick(data, group)  # type: ignore[union-attr]
        given = {one: one.encode() for one in members}
        self.bench.sync(
            self.sync_name(group, generation),
            member_id or "",
            generation,
            given,
            group=group,
            protocol_name=None,
            protocol_type=None,
        )

    @rule(group=GROUPS, is_leader_first=st.booleans())
    def sync_all(self, group: str, is_leader_first: bool) -> None:
        """Every member of the generation asks for its assignment."""
        found = self.bench.classic_groups.get(group)
        if found is None:
            return
        generation, leader = found.generation_id, found.leader_id
        members = sorted(found.members, key=lambda one: (one == leader) != is_leader_first)
        for member_id in members:
            given = {one: one.encode() for one in members} if member_id == leader else None
            member = found.members.get(member_id)
            self.bench.sync(
                self.sync_name(group, generation),
                member_id,
                generation,
                given,
                group=group,
                instance=None if member is None else member.group_instance_id,
                protocol_name=None,
            )

    @rule(group=GROUPS, is_stored=st.booleans())
    def sync_slowly(self, group: str, is_stored: bool) -> None:
        """The assignments go out when they are committed, or not at all."""
        self.hold()
        self.sync_all(group=group, is_leader_first=True)
        if is_stored:
            self.commit()
        else:
            self.fail(error=Errors.NOT_ENOUGH_REPLICAS)

    @rule(group=GROUPS, topics=TOPICS)
    def join_all(self, group: str, topics: tuple[str, ...]) -> None:
        """Every member takes part in a rebalance."""
        found = self.bench.classic_groups.get(group)
        for member in () if found is None else tuple(found.members.values()):
            self.bench.join(
                f"{self.name('join')} {group}",
                member.member_id,
                group=group,
                instance=member.group_instance_id,
                protocols=[name for name, _ in member.protocols],
                topics=topics,
            )

    @rule(group=GROUPS, number=st.integers(1, 3))
    def form(self, group: str, number: int) -> None:
        """A few dynamic members join one after the other, and the delay passes."""
        for _ in range(number):
            name = f"{self.name('join')} {group}"
            self.bench.join(name, group=group, version=3)
        self.bench.advance(6_000)

    @rule(data=st.data(), group=GROUPS, generation=st.integers(0, 4))
    def heartbeat(self, data: st.DataObject, group: str, generation: int) -> None:
        if not self.bench.is_holding:
            self.bench.heartbeat(
                self.pick(data, group), generation, group=group, name=self.name("heartbeat")
            )

    @rule(data=st.data(), group=GROUPS)
    def leave(self, data: st.DataObject, group: str) -> None:
        self.bench.answers.pop("leave", None)
        instance = data.draw(st.sampled_from([None, None, "i"]))
        self.bench.leave((self.pick(data, group), instance), group=group)

    @rule(data=st.data(), group=GROUPS)
    def commit_offset(self, data: st.DataObject, group: str) -> None:
        name = self.name("commit")
        found = self.bench.classic_groups.get(group)
        member_id = self.pick(data, group)
        self.commits[name] = (group, self.count)
        self.bench.commit_offset(
            "t",
            0,
            self.count,
            group=group,
            member_id=member_id,
            generation=-1 if found is None or not member_id else found.generation_id,
            name=name,
        )

    @rule(milliseconds=st.sampled_from([0, 1_000, 3_000, 3_000, 11_000, 70_000]))
    def pass_time(self, milliseconds: int) -> None:
        self.bench.advance(milliseconds)

    @rule()
    def hold(self) -> None:
        self.bench.is_holding = True

    @precondition(lambda self: self.bench.is_holding)
    @rule()
    def commit(self) -> None:
        self.bench.commit()

    @precondition(lambda self: self.bench.is_holding)
    @rule(error=st.sampled_from([Errors.NOT_ENOUGH_REPLICAS, Errors.KAFKA_STORAGE_ERROR]))
    def fail(self, error: Errors) -> None:
        self.bench.fail(error)

    @rule()
    def restart(self) -> None:
        self.learn()
        self.bench.restart()
        self.commits.clear()
        self.syncs.clear()
        for group in self.bench.classic_groups.values():
            assert group.is_in(ClassicGroupState.EMPTY, ClassicGroupState.STABLE)

    @invariant()
    def groups_agree_with_themselves(self) -> None:
        self.learn()
        for group in self.bench.classic_groups.values():
            check(group)

    @invariant()
    def what_was_acknowledged_is_there(self) -> None:
        for group, offset in self.acknowledged.items():
            assert offsets(self.bench, group)["t-0"] >= offset
        for group, generation in self.generations.items():
            stored = [
                record.value
                for record in self.bench.log
                if record.key == GroupMetadataKey(group=group)
            ]
            assert stored, f"{group} has assignments that are not stored"
            value = stored[-1]
            assert isinstance(value, GroupMetadataValue)
            assert value.generation >= generation


def check(group: ClassicGroup) -> None:
    members = group.members
    assert all(member.member_id == member_id for member_id, member in members.items())
    waiting = [member for member in members.values() if member.waiting_join is not None]
    assert group.waiting_joins == len(waiting)
    assert {
        member.group_instance_id: member.member_id
        for member in members.values()
        if member.group_instance_id is not None
    } == group.static_members
    assert group.leader_id is None or group.leader_id in members
    assert not members or group.leader_id is not None
    assert group.pending_syncs <= set(members)
    assert not group.pending_joins & set(members)
    supported = Counter(
        name for member in members.values() for name in {name for name, _ in member.protocols}
    )
    assert +Counter(group._supported) == supported
    if group.is_in(ClassicGroupState.EMPTY):
        assert not members
    if group.is_in(ClassicGroupState.STABLE):
        # A static member that takes a place waits for its commit; nobody waits for a sync.
        assert all(member.waiting_sync is None for member in members.values())
        assert all(member.is_static for member in waiting)
    if not group.is_in(ClassicGroupState.COMPLETING_REBALANCE):
        assert all(member.waiting_sync is None for member in members.values())


TestGroupModel = GroupModel.TestCase
TestGroupModel.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)
