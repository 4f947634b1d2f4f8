"""The server-side assignors beside Kafka's own, on random groups.

Each group is assigned, changed and assigned again several times over, so that assignors meet what
they decided themselves, as they do in a group that lives.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from kaa.controller.image import BrokerImage, ClusterImage, PartitionImage, TopicImage
from kaa.coordinators.group.assignors.simple import assign_shared
from kaa.coordinators.group.assignors.sticky import (
    MemberTasks,
    Subtopology,
    TaskMember,
    assign_tasks,
)
from kaa.coordinators.group.assignors.table import (
    ASSIGNORS,
    GroupAssignment,
    GroupSpec,
    MemberSpec,
)
from kaa.coordinators.group.java_order import map_order, string_hash
from kaa.coordinators.group.topics import GroupTopics
from kaa.model.pieces import finish
from kaa.wire.primitives import Uuid
from tests.oracle import Oracle

pytestmark = pytest.mark.oracle

GROUPS = 400
GENERATIONS = 8


class RandomGroup:
    """Members that come, go and change their minds."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.is_homogeneous = random.random() < 0.5
        self.counts = {
            Uuid(random.randbytes(16)): random.randint(1, random.choice((3, 12, 100)))
            for _ in range(random.randint(1, random.choice((2, 5, 20))))
        }
        self.common = self.some_topics()
        self.members: dict[str, tuple[str | None, frozenset[Uuid]]] = {}
        self.assignment: GroupAssignment = {}
        for _ in range(random.randint(1, random.choice((3, 15, 60)))):
            self.join()

    def some_topics(self) -> frozenset[Uuid]:
        count = self.random.randint(0 if self.random.random() < 0.05 else 1, len(self.counts))
        return frozenset(self.random.sample(sorted(self.counts), count))

    def join(self) -> None:
        number = self.random.getrandbits(40)
        instance = f"i{number % 1000}-é" if self.random.random() < 0.2 else None
        topics = self.common if self.is_homogeneous else self.some_topics()
        self.members[str(Uuid(self.random.randbytes(16)))] = (instance, topics)

    def change(self) -> None:
        random = self.random
        for _ in range(random.randint(0, 3)):
            self.join()
        for _ in range(min(random.randint(0, 2), len(self.members) - 1)):
            member_id = random.choice(sorted(self.members))
            del self.members[member_id]
            self.assignment.pop(member_id, None)
        for topic_id in random.sample(sorted(self.counts), random.randint(0, 1)):
            self.counts[topic_id] += random.randint(1, 10)
        if random.random() < 0.3:
            self.common = self.some_topics()
            for member_id, (instance, _) in self.members.items():
                if self.is_homogeneous or random.random() < 0.3:
                    topics = self.common if self.is_homogeneous else self.some_topics()
                    self.members[member_id] = (instance, topics)

    def spec(self) -> GroupSpec:
        assigned: dict[Uuid, frozenset[int]] = {}
        for owned in self.assignment.values():
            for topic_id, numbers in owned.items():
                assigned[topic_id] = assigned.get(topic_id, frozenset()) | numbers
        members = {
            member_id: MemberSpec(*self.members[member_id], self.assignment.get(member_id, {}))
            for member_id in map_order(self.members, string_hash)
        }
        return GroupSpec(members, self.is_homogeneous, assigned, self.counts)


def asked(spec: GroupSpec, assignor: str) -> dict[str, Any]:
    """A group as Java is given it; members in the order in which they are put into its map."""
    return {
        "assignor": assignor,
        "homogeneous": spec.is_homogeneous,
        "topics": {str(topic_id): count for topic_id, count in spec.partition_counts.items()},
        "members": [
            {
                "id": member_id,
                "instance": member.instance_id,
                "topics": [str(topic_id) for topic_id in member.topic_ids],
                "assignment": shown(member.assignment),
            }
            for member_id, member in spec.members.items()
        ],
    }


def shown(assignment: Any) -> dict[str, list[int]]:
    return {str(topic_id): sorted(numbers) for topic_id, numbers in assignment.items() if numbers}


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_same_assignments(oracle: Oracle, assignor: str) -> None:
    groups = [RandomGroup(Random(seed)) for seed in range(GROUPS)]
    for generation in range(GENERATIONS):
        specs = [group.spec() for group in groups]
        answers = oracle.jvm.call("group.assign", [asked(spec, assignor) for spec in specs])
        for seed, (group, spec, answer) in enumerate(zip(groups, specs, answers, strict=True)):
            found = finish(ASSIGNORS[assignor](spec))
            ours = {member_id: shown(found.get(member_id, {})) for member_id in spec.members}
            theirs = {member_id: answer.get(member_id, {}) for member_id in spec.members}
            assert ours == theirs, f"group {seed}, generation {generation}"
            group.assignment = found
            group.change()


def all_of(assignment: Any) -> dict[str, list[int]]:
    """Topics of which nothing is left too: they are in the records of a group."""
    return {str(topic_id): sorted(numbers) for topic_id, numbers in assignment.items()}


def test_same_shares(oracle: Oracle) -> None:
    """Share groups, some of whose partitions have no share state yet."""
    groups = [RandomGroup(Random(seed)) for seed in range(GROUPS)]
    # Partitions that have state keep it.
    ready: list[dict[Uuid, frozenset[int]]] = [{} for _ in groups]
    for generation in range(GENERATIONS):
        specs = [group.spec() for group in groups]
        for group, partitions in zip(groups, ready, strict=True):
            for topic_id, count in group.counts.items():
                new = frozenset(one for one in range(count) if group.random.random() < 0.9)
                partitions[topic_id] = partitions.get(topic_id, frozenset()) | new
        items = []
        for spec, partitions in zip(specs, ready, strict=True):
            item = asked(spec, "simple") | {"assignable": all_of(partitions)}
            for member in item["members"]:
                member["assignment"] = all_of(spec.members[member["id"]].assignment)
            items.append(item)
        answers = oracle.jvm.call("group.assign", items)
        for seed, (group, partitions, answer) in enumerate(
            zip(groups, ready, answers, strict=True)
        ):
            found = finish(
                assign_shared(
                    {member_id: topics for member_id, (_, topics) in group.members.items()},
                    partitions,
                    group.assignment,
                    is_uniform=group.is_homogeneous,
                )
            )
            ours = {member_id: all_of(owned) for member_id, owned in found.items()}
            theirs = {member_id: answer.get(member_id, {}) for member_id in group.members}
            assert ours == theirs, f"group {seed}, generation {generation}"
            group.assignment = found
            group.change()


def test_same_hash_of_topics(oracle: Oracle) -> None:
    random = Random(3)
    image = ClusterImage()
    racks = [None, "", "a", "rack-é", "b" * 30, "😀"]
    for number, rack in enumerate(racks):
        image.brokers[number] = BrokerImage(
            number, 0, Uuid(16), (), {}, rack or None, False, False, (), None
        )
    asked_topics = []
    for number in range(60):
        topic = TopicImage(f"topic-{number}" * random.randint(1, 8), Uuid(random.randbytes(16)))
        for partition in range(random.randint(1, 120)):
            replicas = tuple(random.sample(range(len(racks)), random.randint(1, 4)))
            topic.partitions[partition] = PartitionImage(replicas, replicas, replicas[0], 0, 0)
        image.topics[topic.name] = topic
        image.topics_by_id[topic.id] = topic
        asked_topics.append(
            {
                "name": topic.name,
                "id": str(topic.id),
                "partitions": [
                    [racks[one] for one in topic.partitions[partition].replicas if racks[one]]
                    for partition in range(len(topic.partitions))
                ],
            }
        )
    topics = GroupTopics()
    topics.update(image, image.take_delta(), 1)
    for count in (1, 2, 7, 31, 60):
        some = random.sample(asked_topics, count)
        answer = oracle.jvm.call_one("group.hash", {"topics": some})
        assert topics.group_hash([str(topic["name"]) for topic in some]) == answer["hash"]


class RandomApplication:
    """Processes whose threads come and go, and subtopologies that grow."""

    def __init__(self, random: Random) -> None:
        self.random = random
        count = random.randint(1, random.choice((2, 12)))
        self.subtopologies = {
            str(number): Subtopology(random.randint(1, 9), random.random() < 0.6)
            for number in sorted(range(count), key=str)
        }
        self.standby_count = random.randint(0, 2)
        self.members: dict[str, str] = {}
        self.assignment: dict[str, MemberTasks] = {}
        for _ in range(random.randint(1, random.choice((3, 20)))):
            self.join()

    def join(self) -> None:
        random = self.random
        processes = sorted(set(self.members.values()))
        is_new = not processes or random.random() < 0.5
        process = str(Uuid(random.randbytes(16))) if is_new else random.choice(processes)
        self.members[str(Uuid(random.randbytes(16)))] = process

    def change(self) -> None:
        random = self.random
        for _ in range(random.randint(0, 3)):
            self.join()
        for _ in range(min(random.randint(0, 3), len(self.members) - 1)):
            del self.members[random.choice(sorted(self.members))]
        for name in random.sample(list(self.subtopologies), random.randint(0, 1)):
            one = self.subtopologies[name]
            self.subtopologies[name] = one._replace(task_count=one.task_count + 3)

    def spec(self) -> dict[str, TaskMember]:
        nothing = MemberTasks({}, {})
        return {
            member_id: TaskMember(process, *self.assignment.get(member_id, nothing))
            for member_id, process in self.members.items()
        }


def shown_tasks(tasks: Any) -> dict[str, list[int]]:
    return {name: sorted(numbers) for name, numbers in tasks.items() if numbers}


def test_same_tasks(oracle: Oracle) -> None:
    applications = [RandomApplication(Random(seed)) for seed in range(GROUPS)]
    for generation in range(GENERATIONS):
        specs = [application.spec() for application in applications]
        asked_for = [
            {
                "standbys": application.standby_count,
                "subtopologies": [
                    {"id": name, "tasks": one.task_count, "stateful": one.is_stateful}
                    for name, one in application.subtopologies.items()
                ],
                "members": [
                    {
                        "id": member_id,
                        "process": member.process_id,
                        "active": shown_tasks(member.active),
                        "standby": shown_tasks(member.standby),
                    }
                    for member_id, member in spec.items()
                ],
            }
            for application, spec in zip(applications, specs, strict=True)
        ]
        answers = oracle.jvm.call("group.assignTasks", asked_for)
        for seed, application in enumerate(applications):
            found = finish(
                assign_tasks(specs[seed], application.subtopologies, application.standby_count)
            )
            ours = {
                member_id: {"active": shown_tasks(one.active), "standby": shown_tasks(one.standby)}
                for member_id, one in found.items()
            }
            assert ours == answers[seed], f"application {seed}, generation {generation}"
            application.assignment = found
            application.change()
