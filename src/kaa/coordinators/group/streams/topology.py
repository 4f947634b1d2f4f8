"""What an application of Kafka Streams reads and keeps, and the topics that it needs for that.

A topology is a number of subtopologies. Each reads source topics of the user and *repartition*
topics that another subtopology writes, and keeps its state in *changelog* topics; a task runs one
partition of it. Repartition and changelog topics are internal: the broker makes them. How many
partitions they have follows from the source topics:

1. a repartition topic has the number that the application fixed, or else that of the largest
   source of the subtopology that writes it, which may be a repartition topic itself;
2. topics of a copartition group have the same number: that of its source topics, or, where all are
   repartition topics, the fixed number, or the largest;
3. a changelog topic has as many partitions as its subtopology has tasks, which is the number of its
   largest source.

A source topic that is missing, a number that contradicts another, and internal topics that do not
exist yet are problems: members see them in a status, and nobody is assigned anything until they are
gone. A topology that makes no sense is refused with STREAMS_INVALID_TOPOLOGY.
"""

from __future__ import annotations

from enum import IntEnum
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from kaa.coordinators.group.java_order import java_string_order, map_order, name_hashes, string_hash
from kaa.coordinators.machine import CoordinatorError
from kaa.limits import GROUP_TOPICS_PER_PIECE, STREAMS_TOPICS_NAMED_MAX
from kaa.model.pieces import mapped
from kaa.wire.errors import Errors
from kaa.wire.messages.offsets_streams import (
    CopartitionGroup,
    StreamsGroupTopologyValue,
    Subtopology,
    TopicConfig,
    TopicInfo,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from kaa.coordinators.group.topics import GroupTopics
    from kaa.model.pieces import Pieces
    from kaa.wire.messages import k88_streams_group_heartbeat as k88


class Status(IntEnum):
    """What a member learns beside its assignment."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


class StreamsTopology(NamedTuple):
    """The topology of a group, by the ids of its subtopologies."""

    epoch: int
    subtopologies: dict[str, Subtopology]

    @property
    def required_topics(self) -> set[str]:
        return {
            name
            for one in self.subtopologies.values()
            for name in (*_source_names(one), *(topic.name for topic in one.state_changelog_topics))
        }

    @property
    def by_source_topic(self) -> dict[str, str]:
        """The subtopology that reads each topic."""
        return {
            name: one.subtopology_id
            for one in self.subtopologies.values()
            for name in _source_names(one)
        }


class InternalTopic(NamedTuple):
    """A topic that the broker makes for an application."""

    name: str
    partitions: int
    replication_factor: int
    configs: dict[str, str]


class ConfiguredSubtopology(NamedTuple):
    """A subtopology whose internal topics have numbers of partitions."""

    task_count: int
    source_topics: frozenset[str]
    repartition_source_topics: dict[str, InternalTopic]
    repartition_sink_topics: frozenset[str]
    state_changelog_topics: dict[str, InternalTopic]

    @property
    def input_topics(self) -> list[str]:
        return map_order((*self.source_topics, *self.repartition_source_topics), string_hash)


class TopologyProblem(NamedTuple):
    """Why a topology cannot be assigned."""

    status: Status
    detail: str


class ConfiguredTopology(NamedTuple):
    """A topology as the topics of the cluster allow it."""

    epoch: int
    # In the order of their ids; None where topics contradict each other or are missing.
    subtopologies: dict[str, ConfiguredSubtopology] | None
    missing: dict[str, InternalTopic]
    problem: TopologyProblem | None

    @property
    def is_ready(self) -> bool:
        return self.problem is None


# --- what members send, and what is stored


def is_larger(subtopologies: Iterable[k88.Subtopology | Subtopology], entries_max: int) -> bool:
    """Whether they have more entries than this, found out without a look at all of very many."""
    sizes = (size for one in subtopologies for size in _sizes(one))
    return any(entries > entries_max for entries in accumulate(sizes))


def _sizes(one: k88.Subtopology | Subtopology) -> Iterator[int]:
    yield 1 + len(one.source_topics) + len(one.repartition_sink_topics)
    for group in one.copartition_groups:
        yield 1 + len(group.source_topics) + len(group.repartition_source_topics)
    for topics in (one.state_changelog_topics, one.repartition_source_topics):
        for topic in topics:
            yield 1 + len(topic.topic_configs)


def topology_value(topology: k88.Topology) -> Pieces[StreamsGroupTopologyValue]:
    subtopologies: list[Subtopology] = []
    left = GROUP_TOPICS_PER_PIECE
    for one in topology.subtopologies:
        subtopologies.append((yield from _subtopology(one)))
        left -= sum(_sizes(one))
        if left <= 0:
            left = GROUP_TOPICS_PER_PIECE
            yield
    return StreamsGroupTopologyValue(epoch=topology.epoch, subtopologies=subtopologies)


def _subtopology(one: k88.Subtopology) -> Pieces[Subtopology]:
    changelogs = yield from mapped(_topic_info, one.state_changelog_topics)
    repartitioned = yield from mapped(_topic_info, one.repartition_source_topics)
    return Subtopology(
        subtopology_id=one.subtopology_id,
        source_topics=one.source_topics,
        source_topic_regex=one.source_topic_regex,
        state_changelog_topics=changelogs,
        repartition_sink_topics=one.repartition_sink_topics,
        repartition_source_topics=repartitioned,
        copartition_groups=[
            CopartitionGroup(
                source_topics=each.source_topics,
                source_topic_regex=each.source_topic_regex,
                repartition_source_topics=each.repartition_source_topics,
            )
            for each in one.copartition_groups
        ],
    )


def _topic_info(topic: k88.TopicInfo) -> TopicInfo:
    return TopicInfo(
        name=topic.name,
        partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        topic_configs=[TopicConfig(key=one.key, value=one.value) for one in topic.topic_configs],
    )


def topology_of(value: StreamsGroupTopologyValue) -> StreamsTopology:
    return StreamsTopology(value.epoch, {one.subtopology_id: one for one in value.subtopologies})


def is_same(one: StreamsTopology, other: StreamsTopology) -> Pieces[bool]:
    """Whether both say the same, which takes a while to compare."""
    if one.epoch != other.epoch or one.subtopologies.keys() != other.subtopologies.keys():
        return False
    for count, (name, subtopology) in enumerate(one.subtopologies.items(), 1):
        if count % GROUP_TOPICS_PER_PIECE == 0:
            yield
        if subtopology != other.subtopologies[name]:
            return False
    return True


def check_topology(value: StreamsGroupTopologyValue) -> None:
    """Refuses what Kafka fails on: it has no words for it."""
    ids = [one.subtopology_id for one in value.subtopologies]
    is_sound = value.epoch >= 0 and len(set(ids)) == len(ids)
    for one in value.subtopologies:
        for group in one.copartition_groups:
            is_sound &= _are_places(group.source_topics, one.source_topics)
            is_sound &= _are_places(group.repartition_source_topics, one.repartition_source_topics)
    if not is_sound:
        raise CoordinatorError(Errors.UNKNOWN_SERVER_ERROR)


def _are_places(places: Iterable[int], items: Collection[object]) -> bool:
    return all(0 <= place < len(items) for place in places)


# --- topics


def configure(topology: StreamsTopology, topics: GroupTopics) -> Pieces[ConfiguredTopology]:
    """The numbers of partitions, and what stands in the way."""
    try:
        return (yield from _Configuration(topology, topics).run())
    except _ProblemError as found:
        return ConfiguredTopology(topology.epoch, None, {}, found.problem)


class _ProblemError(Exception):
    def __init__(self, status: Status, detail: str) -> None:
        super().__init__(detail)
        self.problem = TopologyProblem(status, detail)


class _Configuration:
    """The numbers of partitions of one topology while they are computed, over the topics that the
    cluster has at that moment.
    """

    def __init__(self, topology: StreamsTopology, topics: GroupTopics) -> None:
        self._topology = topology
        ids = {name: topics.topic_id(name) for name in topology.required_topics}
        # Of the topics that exist.
        self._existing = {
            name: topics.partition_count(topic_id)
            for name, topic_id in ids.items()
            if topic_id is not None
        }
        ordered = map_order(topology.subtopologies, string_hash)
        self._subtopologies = [topology.subtopologies[one] for one in ordered]
        # Of internal topics; those that exist have their own numbers as well.
        self._decided: dict[str, int] = {}

    def run(self) -> Pieces[ConfiguredTopology]:
        self._check_sources()
        yield
        self._decided = yield from self._repartition_counts()
        yield
        yield from self._check_copartitioning()
        yield
        for one in self._subtopologies:
            count = self._task_count(one)
            self._decided.update((topic.name, count) for topic in one.state_changelog_topics)
        yield
        by_id = self._topology.subtopologies
        ordered = sorted(by_id, key=java_string_order)
        found = yield from mapped(lambda name: self._configured(by_id[name]), ordered)
        configured = dict(zip(ordered, found, strict=True))
        yield
        missing = yield from self._missing(configured)
        problem = None
        if missing:
            detail = f"Internal topics are missing: {_named(missing)}"
            problem = TopologyProblem(Status.MISSING_INTERNAL_TOPICS, detail)
        return ConfiguredTopology(self._topology.epoch, configured, missing, problem)

    def _check_sources(self) -> None:
        missing = {
            name
            for one in self._subtopologies
            for name in one.source_topics
            if name not in self._existing
        }
        if missing:
            named = _named(sorted(missing, key=java_string_order))
            raise _ProblemError(Status.MISSING_SOURCE_TOPICS, f"Source topics {named} are missing.")

    def _count(self, topic: str) -> int:
        count = self._existing.get(topic)
        if count is None:
            count = self._decided.get(topic)
        if count is None:
            raise CoordinatorError(
                Errors.UNKNOWN_SERVER_ERROR, f"The number of partitions of {topic} is unknown."
            )
        return count

    def _repartition_counts(self) -> Pieces[dict[str, int]]:
        counts = {
            topic.name: topic.partitions
            for one in self._subtopologies
            for topic in one.repartition_source_topics
            if topic.partitions
        }
        left = GROUP_TOPICS_PER_PIECE
        while True:
            is_progress = is_open = False
            for one in self._subtopologies:
                left -= 1
                for sink in one.repartition_sink_topics:
                    if sink in counts:
                        continue
                    left -= len(one.source_topics) + len(one.repartition_source_topics)
                    if left <= 0:
                        left = GROUP_TOPICS_PER_PIECE
                        yield
                    count = self._largest_source(one, counts)
                    if count is None:
                        is_open = True
                    else:
                        counts[sink] = count
                        is_progress = True
            if not is_open:
                break
            if not is_progress:
                raise _invalid(
                    "Repartition topics have no number of partitions: the subtopologies that "
                    "write them read nothing but each other."
                )
        for one in self._subtopologies:
            if any(topic.name not in counts for topic in one.repartition_source_topics):
                raise _invalid("A subtopology reads a repartition topic that none writes.")
        return counts

    def _largest_source(self, one: Subtopology, counts: Mapping[str, int]) -> int | None:
        known = [counts.get(topic.name) for topic in one.repartition_source_topics]
        known += [self._existing.get(name) for name in one.source_topics]
        return max((count for count in known if count is not None), default=None)

    def _task_count(self, one: Subtopology) -> int:
        count = max((self._count(name) for name in _source_names(one)), default=None)
        if count is None:
            raise _invalid(f"Subtopology {one.subtopology_id} has no source topics.")
        return count

    # --- copartition groups

    def _check_copartitioning(self) -> Pieces[None]:
        internal = [topic for one in self._subtopologies for topic in one.repartition_source_topics]
        fixed = {topic.name: self._count(topic.name) for topic in internal if topic.partitions}
        fixed_counts = set(fixed.values())
        left = GROUP_TOPICS_PER_PIECE
        flexible = {topic.name for topic in internal if not topic.partitions}
        for one in self._subtopologies:
            for group in one.copartition_groups:
                names = {one.source_topics[place] for place in group.source_topics}
                names |= {
                    one.repartition_source_topics[place].name
                    for place in group.repartition_source_topics
                }
                left -= 1 + len(names)
                if left <= 0:
                    left = GROUP_TOPICS_PER_PIECE
                    yield
                if names:
                    self._copartition(names, fixed, fixed_counts, flexible)

    def _copartition(
        self,
        names: set[str],
        fixed: Mapping[str, int],
        fixed_counts: set[int],
        flexible: set[str],
    ) -> None:
        counts = {name: self._count(name) for name in sorted(names, key=java_string_order)}
        repartitioned = {
            name: count for name, count in counts.items() if name in flexible or name in fixed
        }
        external = {name: count for name, count in counts.items() if name not in repartitioned}
        if external:
            if len(set(external.values())) > 1:
                raise _unequal(external)
            count = next(iter(external.values()))
        elif fixed:
            # All that are fixed anywhere, as Kafka has it.
            if len(fixed_counts) > 1:
                raise _unequal(repartitioned)
            count = next(iter(fixed_counts))
        else:
            count = max(repartitioned.values())
        for name, decided in repartitioned.items():
            if name in fixed and decided != count:
                raise _ProblemError(
                    Status.INCORRECTLY_PARTITIONED_TOPICS,
                    f"Number of partitions [{decided}] of repartition topic [{name}] doesn't match "
                    f"number of partitions [{count}] of the source topic.",
                )
            self._decided[name] = count

    # --- the result

    def _configured(self, one: Subtopology) -> ConfiguredSubtopology:
        return ConfiguredSubtopology(
            self._task_count(one),
            frozenset(one.source_topics),
            {topic.name: self._internal(topic) for topic in one.repartition_source_topics},
            frozenset(one.repartition_sink_topics),
            {topic.name: self._internal(topic) for topic in one.state_changelog_topics},
        )

    def _internal(self, topic: TopicInfo) -> InternalTopic:
        return InternalTopic(
            topic.name,
            topic.partitions or self._decided[topic.name],
            topic.replication_factor,
            {one.key: one.value for one in topic.topic_configs},
        )

    def _missing(
        self, configured: Mapping[str, ConfiguredSubtopology]
    ) -> Pieces[dict[str, InternalTopic]]:
        wanted = {
            topic.name: topic
            for one in configured.values()
            for topic in (
                *one.repartition_source_topics.values(),
                *one.state_changelog_topics.values(),
            )
        }
        yield from name_hashes(wanted)
        missing = {}
        for name in map_order(wanted, string_hash):
            existing = self._existing.get(name)
            if existing is None:
                missing[name] = wanted[name]
            elif existing != wanted[name].partitions:
                raise _ProblemError(
                    Status.INCORRECTLY_PARTITIONED_TOPICS,
                    f"Existing topic {name} has different number of partitions: expected "
                    f"{wanted[name].partitions}, found {existing}",
                )
        return missing


def _source_names(one: Subtopology) -> list[str]:
    return [*one.source_topics, *(topic.name for topic in one.repartition_source_topics)]


def _invalid(why: str) -> CoordinatorError:
    return CoordinatorError(Errors.STREAMS_INVALID_TOPOLOGY, why)


def _unequal(counts: Mapping[str, int]) -> _ProblemError:
    shown = ", ".join(f"{name}={count}" for name, count in counts.items())
    return _ProblemError(
        Status.INCORRECTLY_PARTITIONED_TOPICS,
        f"Following topics do not have the same number of partitions: [{{{shown}}}]",
    )


def _named(names: Collection[str]) -> str:
    """Some names, and how many there are besides."""
    shown = ", ".join(list(names)[:STREAMS_TOPICS_NAMED_MAX])
    if len(names) > STREAMS_TOPICS_NAMED_MAX:
        shown += f" and {len(names) - STREAMS_TOPICS_NAMED_MAX} additional topics"
    return shown
