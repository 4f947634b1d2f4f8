"""The sticky assignor of streams groups (KIP-1071): tasks stay where they were, as far as is fair.

A task is a partition of a subtopology. A member is a thread of a process, and a process that has a
task, active or as a standby, never gets it a second time. Active tasks are given first:

1. to the member that had the task, while it has less than its share of the active tasks;
2. to the least loaded of those that had it as a standby, under the same condition;
3. to the least loaded member of the least loaded process, subtopology by subtopology, so that a
   new group gets ranges.

Standbys of tasks with state come next, in the opposite order: to the member that was active, to one
that was a standby, and else to the least loaded process that does not have the task. Where no such
process is left, a standby is left out.

A share is what is left to give divided by the members that have not had theirs, rounded up; it is
computed again whenever a member has reached it. Between equals the queue of Java decides (`_Queue`)
over processes and members in the order of Java's hash maps, so that a group gets the assignment
that Kafka would give it.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

from kaa.coordinators.group.java_order import (
    java_string_order,
    map_order,
    sized_map_order,
    string_hash,
)
from kaa.limits import STREAMS_TASKS_PER_PIECE
from kaa.model.pieces import mapped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kaa.model.pieces import Pieces

Item = TypeVar("Item")
# Subtopology id and partition.
TaskId = tuple[str, int]
TaskMap = dict[str, frozenset[int]]
_partition: Final = itemgetter(1)


class TaskMember(NamedTuple):
    """A member, and the tasks it was to have before."""

    process_id: str
    active: Mapping[str, frozenset[int]]
    standby: Mapping[str, frozenset[int]]


class Subtopology(NamedTuple):
    """What there is to assign of a subtopology."""

    task_count: int
    is_stateful: bool


class MemberTasks(NamedTuple):
    """What a member is to have."""

    active: TaskMap
    standby: TaskMap


def assign_tasks(
    members: Mapping[str, TaskMember],
    subtopologies: Mapping[str, Subtopology],
    standby_count: int,
) -> Pieces[dict[str, MemberTasks]]:
    """By the ids of members and of subtopologies."""
    return _Assignment(members, subtopologies, standby_count).run()


class _Queue(Generic[Item]):
    """Java's PriorityQueue: a binary heap whose order between equals Kafka's assignments have."""

    def __init__(self, load: Callable[[Item], float], items: Iterable[Item]) -> None:
        self._load = load
        self._heap: list[Item] = []
        for item in items:
            self.add(item)

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, item: Item) -> None:
        heap, load = self._heap, self._load(item)
        place = len(heap)
        heap.append(item)
        while place > 0:
            parent = (place - 1) >> 1
            if load >= self._load(heap[parent]):
                break
            heap[place] = heap[parent]
            place = parent
        heap[place] = item

    def poll(self) -> Item:
        heap = self._heap
        first, moved = heap[0], heap.pop()
        count = len(heap)
        if not count:
            return first
        load, place = self._load(moved), 0
        while place < count >> 1:
            child = 2 * place + 1
            if child + 1 < count and self._load(heap[child]) > self._load(heap[child + 1]):
                child += 1
            if load <= self._load(heap[child]):
                break
            heap[place] = heap[child]
            place = child
        heap[place] = moved
        return first


class _Process:
    """A process, its members, and what they have been given so far."""

    def __init__(self) -> None:
        self.load = 0.0
        # How many tasks each member has.
        self.counts: dict[str, int] = {}
        self.active: dict[str, set[TaskId]] = {}
        self.standby: dict[str, set[TaskId]] = {}
        self.tasks: set[TaskId] = set()
        self._given = 0
        # None after a task was given to a certain member: the queue would not be in order.
        self._by_load: _Queue[str] | None = None

    def add_member(self, member_id: str) -> None:
        self.counts[member_id] = 0

    def give(self, member_id: str, task: TaskId, *, is_active: bool) -> int:
        """How many tasks the member has now."""
        self._by_load = None
        return self._give(member_id, task, is_active=is_active)

    def give_to_least_loaded(self, task: TaskId, *, is_active: bool) -> int:
        if len(self.counts) == 1:
            return self._give(next(iter(self.counts)), task, is_active=is_active)
        if self._by_load is None:
            ordered = map_order(self.counts, string_hash)
            self._by_load = _Queue(self.counts.__getitem__, ordered)
        member_id = self._by_load.poll()
        count = self._give(member_id, task, is_active=is_active)
        self._by_load.add(member_id)
        return count

    def _give(self, member_id: str, task: TaskId, *, is_active: bool) -> int:
        self.tasks.add(task)
        (self.active if is_active else self.standby).setdefault(member_id, set()).add(task)
        self._given += 1
        self.load = self._given / len(self.counts)
        self.counts[member_id] += 1
        return self.counts[member_id]


class _Share:
    """How many tasks a member may have: what is left to give, divided by the members below their
    share.
    """

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks = tasks
        self._members = members
        self.count = 0
        self._divide()

    def _divide(self) -> None:
        self.count = -(-self._tasks // self._members) if self._members else 0

    def given(self, count: int) -> None:
        """A member has that many tasks now."""
        if count == self.count:
            self._members -= 1
            self._tasks -= count
            self._divide()


class _Assignment:
    """One assignment while it is computed: active tasks first, then standbys."""

    def __init__(
        self,
        members: Mapping[str, TaskMember],
        subtopologies: Mapping[str, Subtopology],
        standby_count: int,
    ) -> None:
        self._members = members
        # In the order of their ids.
        ordered = sorted(subtopologies, key=java_string_order)
        self._subtopologies = {name: subtopologies[name] for name in ordered}
        self._places = {name: place for place, name in enumerate(ordered)}
        self._standby_count = standby_count
        active_count = sum(one.task_count for one in subtopologies.values())
        stateful_count = sum(one.task_count for one in subtopologies.values() if one.is_stateful)
        self._active_share = _Share(active_count, len(members))
        self._share = _Share(active_count + stateful_count * standby_count, len(members))
        self._member_ids = map_order(members, string_hash)
        self._process_of = {member_id: one.process_id for member_id, one in members.items()}
        self._processes: dict[str, _Process] = {}
        self._was_active: dict[TaskId, str] = {}
        self._was_standby: dict[TaskId, list[str]] = {}
        for member_id in self._member_ids:
            process_id = members[member_id].process_id
            self._processes.setdefault(process_id, _Process()).add_member(member_id)

    def run(self) -> Pieces[dict[str, MemberTasks]]:
        yield
        yield from self._remember()
        yield
        yield from self._assign_active()
        if self._standby_count > 0:
            yield from self._assign_standby()
        found = {}
        for member_id in self._member_ids:
            process = self._process(member_id)
            found[member_id] = MemberTasks(
                (yield from _task_map(process.active.get(member_id, ()))),
                (yield from _task_map(process.standby.get(member_id, ()))),
            )
        return found

    def _remember(self) -> Pieces[None]:
        """Who had each task before."""
        for member_id in self._member_ids:
            member = self._members[member_id]
            for count, task in enumerate(_tasks(member.active), 1):
                self._was_active[task] = member_id
                if count % STREAMS_TASKS_PER_PIECE == 0:
                    yield
            for count, task in enumerate(_tasks(member.standby), 1):
                self._was_standby.setdefault(task, []).append(member_id)
                if count % STREAMS_TASKS_PER_PIECE == 0:
                    yield

    def _process(self, member_id: str) -> _Process:
        return self._processes[self._process_of[member_id]]

    def _task_ids(self, *, is_stateful: bool) -> list[TaskId]:
        """In the order of their subtopologies."""
        return [
            (name, number)
            for name, one in self._subtopologies.items()
            if one.is_stateful or not is_stateful
            for number in range(one.task_count)
        ]

    def _queue(self) -> _Queue[_Process]:
        ordered = sized_map_order(self._processes, string_hash, len(self._member_ids))
        return _Queue(lambda process: process.load, [self._processes[one] for one in ordered])

    # --- active tasks

    def _assign_active(self) -> Pieces[None]:
        tasks = self._task_ids(is_stateful=False)
        yield
        tasks.sort(key=_partition)
        tasks = yield from _left(tasks, lambda task: self._keep(self._was_active.get(task), task))
        tasks = yield from _left(tasks, lambda task: self._keep(self._least_loaded(task), task))
        queue = self._queue()
        # In the order of their partitions they are already.
        tasks.sort(key=lambda task: self._places[task[0]])
        yield
        for count, task in enumerate(tasks, 1):
            process = queue.poll()
            self._gave_active(process.give_to_least_loaded(task, is_active=True))
            queue.add(process)
            if count % STREAMS_TASKS_PER_PIECE == 0:
                yield

    def _keep(self, member_id: str | None, task: TaskId) -> bool:
        """Gives an active task to a member that has not had its share."""
        if member_id is None:
            return False
        process = self._process(member_id)
        if process.counts[member_id] >= self._active_share.count:
            return False
        self._gave_active(process.give(member_id, task, is_active=True))
        return True

    def _gave_active(self, count: int) -> None:
        self._active_share.given(count)
        self._share.given(count)

    def _least_loaded(self, task: TaskId, *, is_new: bool = False) -> str | None:
        """The least loaded of those that had a standby; one that may get it if `is_new`."""
        members = self._was_standby.get(task)
        if not members:
            return None
        found = members[0]
        first = process = self._process(found)
        load, count = process.load, process.counts[found]
        for member_id in members[1:]:
            process = self._process(member_id)
            is_less = process.load < load and process.counts[member_id] < count
            if is_less and not (is_new and task in process.tasks):
                found, load, count = member_id, process.load, process.counts[member_id]
        # As in Kafka, the process of the first one is asked, no matter which one was found.
        return None if is_new and task in first.tasks else found

    # --- standbys

    def _assign_standby(self) -> Pieces[None]:
        left: list[tuple[TaskId, int]] = []
        tasks = self._task_ids(is_stateful=True)
        yield
        tasks.sort(key=_partition)
        for count, task in enumerate(reversed(tasks), 1):
            for number in range(self._standby_count):
                if not self._keep_standby(task):
                    left.append((task, self._standby_count - number))
                    break
            if count % STREAMS_TASKS_PER_PIECE == 0:
                yield
        queue = self._queue()
        left.sort(key=lambda one: self._places[one[0][0]], reverse=True)
        yield
        for place, (task, count) in enumerate(left, 1):
            for _ in range(count):
                if not self._give_standby(queue, task):
                    break
            if place % STREAMS_TASKS_PER_PIECE == 0:
                yield

    def _keep_standby(self, task: TaskId) -> bool:
        was_active = self._was_active.get(task)
        is_free = was_active is not None and task not in self._process(was_active).tasks
        if was_active is not None and is_free and self._add_standby(was_active, task):
            return True
        was_standby = self._least_loaded(task, is_new=True)
        return was_standby is not None and self._add_standby(was_standby, task)

    def _add_standby(self, member_id: str, task: TaskId) -> bool:
        process = self._process(member_id)
        if process.counts[member_id] >= self._share.count:
            return False
        self._share.given(process.give(member_id, task, is_active=False))
        return True

    def _give_standby(self, queue: _Queue[_Process], task: TaskId) -> bool:
        """Gives it to the least loaded process that does not have the task."""
        passed: list[_Process] = []
        is_given = False
        while len(queue) and not is_given:
            process = queue.poll()
            passed.append(process)
            if task not in process.tasks:
                self._share.given(process.give_to_least_loaded(task, is_active=False))
                is_given = True
        for process in reversed(passed):
            queue.add(process)
        return is_given


def _left(tasks: list[TaskId], is_given: Callable[[TaskId], bool]) -> Pieces[list[TaskId]]:
    left = []
    for count, task in enumerate(tasks, 1):
        if not is_given(task):
            left.append(task)
        if count % STREAMS_TASKS_PER_PIECE == 0:
            yield
    return left


def _tasks(owned: Mapping[str, frozenset[int]]) -> Iterable[TaskId]:
    return ((name, number) for name, numbers in owned.items() for number in numbers)


def _task_map(tasks: Iterable[TaskId]) -> Pieces[TaskMap]:
    found: dict[str, set[int]] = {}
    for count, (name, number) in enumerate(tasks, 1):
        found.setdefault(name, set()).add(number)
        if count % STREAMS_TASKS_PER_PIECE == 0:
            yield
    frozen = yield from mapped(lambda one: (one[0], frozenset(one[1])), found.items())
    return dict(frozen)
