"""How many partitions internal topics have, and what stands in the way."""

from __future__ import annotations

import pytest

from kaa.coordinators.group.streams.topology import (
    ConfiguredTopology,
    Status,
    check_topology,
    configure,
    topology_of,
    topology_value,
)
from kaa.coordinators.machine import CoordinatorError
from kaa.model.pieces import finish
from kaa.wire.errors import Errors
from kaa.wire.messages.k88_streams_group_heartbeat import Subtopology
from tests.unit.coordinators.group.streams.bench import (
    StreamsBench,
    copartitioned,
    info,
    subtopology,
    topology,
)


def configured(*subtopologies: Subtopology, **existing: int) -> ConfiguredTopology:
    """With topics t of four partitions, u of two, and others."""
    bench = StreamsBench()
    for name, count in existing.items():
        bench.create(name, count)
    value = finish(topology_value(topology(*subtopologies)))
    check_topology(value)
    return finish(configure(topology_of(value), bench.topics))


def missing(found: ConfiguredTopology) -> dict[str, int]:
    return {name: topic.partitions for name, topic in found.missing.items()}


def reads(name: str, *sources: str, repartitioned: list[tuple[str, int]]) -> Subtopology:
    topics = [info(*one) for one in repartitioned]
    return subtopology(name, source_topics=list(sources), repartition_source_topics=topics)


def test_numbers_follow_from_the_largest_source() -> None:
    found = configured(
        subtopology("0", "t", "u", repartition_sink_topics=["r"]),
        subtopology("1", source_topics=[], repartition_source_topics=[info("r")],
                    repartition_sink_topics=["s"], state_changelog_topics=[info("c")]),
        reads("2", "u", repartitioned=[("s", 0)]),
    )  # fmt: skip
    assert missing(found) == {"r": 4, "s": 4, "c": 4}
    assert found.subtopologies is not None
    assert {name: one.task_count for name, one in found.subtopologies.items()} == {
        "0": 4,
        "1": 4,
        "2": 4,
    }
    assert found.missing["c"].configs == {"cleanup.policy": "compact"}


def test_copartitioned_topics_have_the_same_number() -> None:
    joined = reads("1", "u", repartitioned=[("r", 0)])
    joined.copartition_groups = [copartitioned([0], [0])]
    found = configured(subtopology(repartition_sink_topics=["r"]), joined)
    assert missing(found) == {"r": 2}
    joined = reads("1", repartitioned=[("r", 0), ("s", 0)])
    joined.copartition_groups = [copartitioned([], [0, 1])]
    found = configured(
        subtopology(repartition_sink_topics=["r"]),
        subtopology("2", "u", repartition_sink_topics=["s"]),
        joined,
    )
    assert missing(found) == {"r": 4, "s": 4}


@pytest.mark.parametrize(
    ("repartitioned", "sources"),
    [([("r", 3)], ["u"]), ([("r", 3), ("s", 5)], []), ([], ["t", "u"])],
)
def test_numbers_that_contradict_each_other(
    repartitioned: list[tuple[str, int]], sources: list[str]
) -> None:
    joined = reads("1", *sources, repartitioned=repartitioned)
    joined.copartition_groups = [
        copartitioned(list(range(len(sources))), list(range(len(repartitioned))))
    ]
    found = configured(subtopology(repartition_sink_topics=["r", "s"]), joined)
    assert found.problem is not None
    assert found.problem.status is Status.INCORRECTLY_PARTITIONED_TOPICS


def test_topics_that_are_missing_or_have_another_number() -> None:
    names = ("gone", "away", "lost", "never")
    found = configured(subtopology("0", *names))
    assert found.problem == (
        Status.MISSING_SOURCE_TOPICS,
        "Source topics away, gone, lost and 1 additional topics are missing.",
    )
    stateful = subtopology(state_changelog_topics=[info("c")])
    found = configured(stateful, c=3)
    assert found.problem == (
        Status.INCORRECTLY_PARTITIONED_TOPICS,
        "Existing topic c has different number of partitions: expected 4, found 3",
    )
    assert configured(stateful, c=4).is_ready


def test_topologies_that_make_no_sense() -> None:
    loop = subtopology(source_topics=[], repartition_source_topics=[info("r")],
                       repartition_sink_topics=["r"])  # fmt: skip
    unwritten = reads("0", "t", repartitioned=[("r", 0)])
    for refused in (loop, unwritten, subtopology(source_topics=[])):
        with pytest.raises(CoordinatorError) as invalid:
            configured(refused)
        assert invalid.value.error is Errors.STREAMS_INVALID_TOPOLOGY
    outside = subtopology(copartition_groups=[copartitioned([1], [])])
    for broken in ([outside], [subtopology(), subtopology()]):
        with pytest.raises(CoordinatorError) as failed:
            configured(*broken)
        assert failed.value.error is Errors.UNKNOWN_SERVER_ERROR
