"""Consumer groups under any order of heartbeats, deadlines, slow commits, failed appends and lost
leadership.

Clients behave as real ones do: they have one heartbeat under way at a time, own what they were last
sent, report it, begin again when they are fenced, and give everything up when they have not been
answered for the length of their session. What they are to give up they keep until their next
heartbeat. After every step no partition has two owners, epochs only
grow, and the coordinator agrees with its log. In the end every rebalance comes to an end.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kaa.coordinators.group.classic.group import ClassicGroup
from kaa.coordinators.group.consumer.group import ConsumerGroup, ConsumerGroupState
from kaa.coordinators.group.consumer.protocol import write_assignment
from kaa.wire.errors import Errors
from kaa.wire.messages.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from tests.unit.coordinators.group.bench import GROUP
from tests.unit.coordinators.group.consumer.bench import ConsumerBench, assigned, topic_id
from tests.unit.coordinators.group.consumer.test_classic_members import metadata

CLIENTS = st.integers(0, 4)
TOPICS = st.sampled_from([("t",), ("t", "u"), ("u",), ("t", "u", "v")])
BEGIN_AGAIN = {
    Errors.UNKNOWN_MEMBER_ID,
    Errors.FENCED_MEMBER_EPOCH,
    Errors.FENCED_INSTANCE_ID,
    # It has become a classic group.
    Errors.GROUP_ID_NOT_FOUND,
}
# Longer than any session: a member is removed because it is silent, and knows that.
REBALANCE_MS = 600_000
SESSION_MS = 45_000


class Client:
    """One consumer; it may die and be replaced by another one in the same place."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.lives = 0
        self.is_running = False
        self.begin(("t",), None)

    def begin(self, topics: tuple[str, ...], regex: str | None) -> None:
        self.lives += 1
        self.member_id = f"c{self.number}.{self.lives}"
        self.epoch = 0
        self.owned: dict[str, list[int]] = {}
        # What it owns when it has given up the rest.
        self.told: dict[str, list[int]] | None = None
        self.topics = topics
        self.regex = regex
        # A request that has no answer yet, and when it was sent.
        self.pending: tuple[str, int] | None = None
        self.answered_ms = 0
        # After an error it says all about itself.
        self.says_all = False

    @property
    def instance(self) -> str | None:
        """Two of the clients are static members."""
        return f"i{self.number}" if self.number >= 3 else None

    def take(self, told: dict[str, list[int]]) -> None:
        """New partitions are taken when those that were lost are given up."""
        lost = any(set(numbers) - set(told.get(name, ())) for name, numbers in self.owned.items())
        if lost:
            self.told = told
        else:
            self.own(told)

    def own(self, partitions: dict[str, list[int]]) -> None:
        self.owned, self.told = partitions, None

    def fenced(self) -> None:
        self.epoch = 0
        self.own({})


class ConsumerGroupModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.bench = ConsumerBench()
        self.clients = [Client(number) for number in range(5)]
        self.requests = 0
        self.group_epoch = 0

    # --- clients

    def send(self, client: Client) -> None:
        if client.pending is not None or not client.is_running:
            return
        if client.told is not None:
            client.own(client.told)
        self.requests += 1
        name = f"{client.member_id} {self.requests}"
        client.pending = (name, self.bench.now_ms)
        says_all = client.epoch == 0 or client.says_all
        self.bench.beat(
            client.member_id,
            client.epoch,
            name=name,
            owned={} if client.epoch == 0 else client.owned,
            topics=client.topics if says_all and client.regex is None else None,
            regex=client.regex if says_all else None,
            instance=client.instance,
            rebalance_ms=REBALANCE_MS if says_all else -1,
        )
        self.hear()

    def hear(self) -> None:
        """Clients act on the answers that have left."""
        for client in self.clients:
            if client.pending is not None and client.pending[0] in self.bench.answers:
                (name, sent_ms), client.pending = client.pending, None
                self.act(client, self.bench.answers.pop(name), sent_ms)

    def act(self, client: Client, answer: Any, sent_ms: int) -> None:
        if isinstance(answer, ConsumerGroupHeartbeatResponse):
            assert answer.member_epoch >= client.epoch
            client.epoch = answer.member_epoch
            client.answered_ms = sent_ms
            client.says_all = False
            told = assigned(answer)
            if told is not None:
                client.take(told)
        elif answer in BEGIN_AGAIN:
            client.fenced()
        else:
            client.says_all = True
            if answer is Errors.UNRELEASED_INSTANCE_ID:
                client.fenced()

    def stop(self, client: Client) -> None:
        client.is_running = False
        client.own({})
        client.pending = None

    @rule(number=CLIENTS, topics=TOPICS, uses_regex=st.booleans())
    def start(self, number: int, topics: tuple[str, ...], uses_regex: bool) -> None:
        client = self.clients[number]
        if not client.is_running:
            client.begin(topics, "[tv]" if uses_regex else None)
            client.is_running = True
            client.answered_ms = self.bench.now_ms
        self.send(client)

    @rule(number=CLIENTS)
    def beat(self, number: int) -> None:
        self.send(self.clients[number])

    @rule()
    def all_beat(self) -> None:
        for client in self.clients:
            self.send(client)

    @rule(is_stored=st.booleans())
    def all_beat_slowly(self, is_stored: bool) -> None:
        """What the heartbeats change is committed late, or not at all."""
        self.hold()
        self.all_beat()
        if is_stored:
            self.commit()
        else:
            self.fail(error=Errors.NOT_ENOUGH_REPLICAS)

    @rule(number=CLIENTS)
    def leave(self, number: int) -> None:
        """Closed: a static member may come back under another id."""
        client = self.clients[number]
        if client.is_running and client.pending is None and client.epoch > 0:
            epoch = -1 if client.instance is None else -2
            self.stop(client)
            self.bench.beat(client.member_id, epoch, instance=client.instance, name="leave")

    @rule(number=CLIENTS)
    def crash(self, number: int) -> None:
        """It is gone without a word; nobody reads what it had until its session ends."""
        self.stop(self.clients[number])

    @rule(number=CLIENTS, topics=TOPICS)
    def subscribe(self, number: int, topics: tuple[str, ...]) -> None:
        client = self.clients[number]
        if client.regex is None and client.pending is None:
            client.topics = topics
            client.says_all = True
        self.send(client)

    # --- the world

    @rule(milliseconds=st.sampled_from([0, 1, 1_000, 10_001, 20_000, 46_000]))
    def pass_time(self, milliseconds: int) -> None:
        end_ms = self.bench.now_ms + milliseconds
        for client in self.clients:
            # Before the coordinator does, since its clock began when the request arrived.
            if client.is_running and end_ms - client.answered_ms >= SESSION_MS:
                client.fenced()
                client.pending = None
        self.bench.advance(milliseconds)
        self.hear()

    @rule()
    def more_partitions(self) -> None:
        count = len(self.bench.image.topics["t"].partitions)
        if count < 8:
            self.bench.create("t", count + 1, start=count)

    @precondition(lambda self: "v" not in self.bench.image.topics)
    @rule()
    def create_topic(self) -> None:
        self.bench.create("v", 2)

    @rule()
    def hold(self) -> None:
        self.bench.is_holding = True

    @precondition(lambda self: self.bench.is_holding)
    @rule()
    def commit(self) -> None:
        self.bench.commit()
        self.hear()

    @precondition(lambda self: self.bench.is_holding)
    @rule(error=st.sampled_from([Errors.NOT_ENOUGH_REPLICAS, Errors.KAFKA_STORAGE_ERROR]))
    def fail(self, error: Errors) -> None:
        self.bench.fail(error)
        self.hear()

    @rule()
    def restart(self) -> None:
        """Waiters hear that there is another coordinator, and asks again."""
        self.bench.restart()
        for client in self.clients:
            if client.pending is not None:
                client.pending = None
                client.says_all = True
        self.group_epoch = 0

    @rule()
    def settle(self) -> None:
        """With everybody there, all partitions find an owner."""
        if self.bench.is_holding:
            self.commit()
        self.pass_time(20_000)
        for _ in range(12):
            self.all_beat()
            self.pass_time(1_000)
        self.pass_time(10_001)
        for _ in range(12):
            self.all_beat()
            self.pass_time(1_000)
        group = self.bench.machine.groups.get(GROUP)
        running = [client for client in self.clients if client.is_running]
        if not running or not isinstance(group, ConsumerGroup):
            return
        if set(group.members) != {client.member_id for client in running}:
            # Somebody who died is still remembered, or has its place taken.
            return
        assert group.state is ConsumerGroupState.STABLE
        wanted = {
            (name, number)
            for name in group.subscribed_topics()
            if name in self.bench.image.topics
            for number in self.bench.image.topics[name].partitions
        }
        found = {
            (name, number)
            for client in running
            for name, numbers in client.owned.items()
            for number in numbers
        }
        assert found == wanted

    # --- what must be true

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        owners: dict[tuple[str, int], str] = {}
        for client in self.clients:
            for name, numbers in client.owned.items():
                for number in numbers:
                    assert (name, number) not in owners, (
                        f"{name}-{number} belongs to {owners[name, number]} and to "
                        f"{client.member_id}"
                    )
                    owners[name, number] = client.member_id

    @invariant()
    def the_coordinator_agrees_with_itself(self) -> None:
        group = self.bench.machine.groups.get(GROUP)
        if not isinstance(group, ConsumerGroup):
            return
        epochs = group.epochs
        assert epochs.assignment_epoch <= epochs.group_epoch
        owners: dict[Any, dict[int, int]] = {}
        for member in group.members.values():
            assert member.member_epoch <= epochs.assignment_epoch
            for owned in (member.assigned, member.pending_revocation):
                for topic, numbers in owned.items():
                    for number in numbers:
                        of_topic = owners.setdefault(topic, {})
                        assert number not in of_topic
                        of_topic[number] = member.member_epoch
            if member.instance_id is not None:
                assert group.static_members[member.instance_id] == member.member_id
        assert owners == dict(group.owners.items())
        assert set(group.targets) <= set(group.members)

    @invariant()
    def epochs_grow(self) -> None:
        group = self.bench.machine.groups.get(GROUP)
        if not isinstance(group, ConsumerGroup):
            # A classic group took the place of an empty one, or of one that was downgraded.
            self.group_epoch = 0
        elif not self.bench.is_holding:
            assert group.group_epoch >= self.group_epoch
            self.group_epoch = group.group_epoch

    @precondition(lambda self: not self.bench.is_holding)
    @invariant()
    def the_log_says_the_same(self) -> None:
        live = self.bench.machine.groups.get(GROUP)
        other = ConsumerBench()
        other.load(*self.bench.log)
        loaded = other.machine.groups.get(GROUP)
        assert type(live) is type(loaded)
        if isinstance(live, ConsumerGroup) and isinstance(loaded, ConsumerGroup):
            assert state_of(live) == state_of(loaded)


def state_of(group: ConsumerGroup) -> list[Any]:
    parts = (group.members, group.static_members, group.targets, group.owners, group.regexes)
    return [group.epochs, *(dict(part.items()) for part in parts)]


class MixedGroupModel(ConsumerGroupModel):
    """The same with members of the classic protocol in between, who send what they like: the group
    goes from one protocol to the other and back.
    """

    def __init__(self) -> None:
        super().__init__()
        self.classic_ids = [""]
        self.asked = 0

    def name(self, kind: str) -> str:
        self.asked += 1
        return f"{kind} {self.asked}"

    def hear(self) -> None:
        super().hear()
        for name in [name for name in self.bench.answers if name.startswith("join")]:
            member_id = getattr(self.bench.answers.pop(name), "member_id", "")
            if member_id and member_id not in self.classic_ids:
                self.classic_ids.append(member_id)

    def pick(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(self.classic_ids[-4:]))

    @rule(data=st.data(), topics=TOPICS, is_static=st.booleans(), version=st.sampled_from([3, 9]))
    def classic_join(
        self, data: st.DataObject, topics: tuple[str, ...], is_static: bool, version: int
    ) -> None:
        owned = data.draw(st.sampled_from([{}, {"t": [0, 1]}, {"t": [0], "u": [1]}]))
        self.bench.join(
            self.name("join"),
            self.pick(data),
            metadata=metadata(owned, *topics),
            instance="i3" if is_static else None,
            version=version,
        )
        self.hear()

    @rule(data=st.data())
    def classic_sync(self, data: st.DataObject) -> None:
        group = self.bench.machine.groups.get(GROUP)
        member_id = self.pick(data)
        if isinstance(group, ConsumerGroup):
            member = group.members.get(member_id)
            generation = 0 if member is None else member.member_epoch
            self.bench.sync(self.name("sync"), member_id, generation)
        elif isinstance(group, ClassicGroup) and group.leader_id is not None:
            numbers = range(len(self.bench.image.topics["t"].partitions))
            given = {
                one: write_assignment(
                    {topic_id("t"): numbers[place :: len(group.members)]},
                    self.bench.topics,
                    metadata({}),
                )
                for place, one in enumerate(group.members)
            }
            for one, member_of in list(group.members.items()):
                assignments = given if one == group.leader_id else None
                instance = member_of.group_instance_id
                self.bench.sync(
                    self.name("sync"), one, group.generation_id, assignments, instance=instance
                )

    @rule(data=st.data(), generation=st.integers(0, 6))
    def classic_heartbeat(self, data: st.DataObject, generation: int) -> None:
        if not self.bench.is_holding:
            self.bench.heartbeat(self.pick(data), generation, name=self.name("heartbeat"))

    @rule(data=st.data())
    def classic_leave(self, data: st.DataObject) -> None:
        self.bench.answers.pop("leave", None)
        self.bench.leave((self.pick(data), None))


TestMixedGroupModel = MixedGroupModel.TestCase
TestMixedGroupModel.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
TestConsumerGroupModel = ConsumerGroupModel.TestCase
TestConsumerGroupModel.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
