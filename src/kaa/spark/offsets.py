"""Offsets of topics as JSON: in options, and in the checkpoints of streaming queries.

`{"topic": {"0": 123, "1": 45}}` is the form of Spark's connector for Kafka. In options, -2 stands
for the earliest and -1 for the latest offset. In a checkpoint, further keys may stand beside the
topics; each begins with `@`, which no name of a topic can hold:

`@start`    the offsets at which the query began, in the first batch alone
`@ids`      the id of each topic, so that one that was created again is noticed
`@group`    the consumer group to which progress is published
`@cluster`  the id of the cluster that the group is in, which is the source's

and in what the progress of a query shows as its latest offsets, which is in no checkpoint:

`@lag`      records that the batch leaves unread
`@bytes`    the stored bytes of what it reads, estimated by the mean size of records

Spark asks for an initial offset more than once, does not keep it, and takes it again when the first
batch has to be repeated. So the initial offset says nothing (`{}`), and the first batch carries
the start that was resolved for it. It differs from the initial offset even where there is no
record yet, so that Spark always writes it down. Offsets without any of these keys are taken as
well: that is how a checkpoint of Spark's own connector goes on.

Spark compares offsets by their text, so keys are in order: topics by name, partitions by number.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from kaa.model.topics import TopicPartition
from kaa.spark.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping

EARLIEST: Final = -2
LATEST: Final = -1

START: Final = "@start"
IDS: Final = "@ids"
GROUP: Final = "@group"
CLUSTER: Final = "@cluster"
LAG: Final = "@lag"
BYTES: Final = "@bytes"

PartitionOffsets = dict[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """A point in a streaming query: the next offset of each partition."""

    offsets: PartitionOffsets
    start: PartitionOffsets | None = None
    topic_ids: dict[str, str] = field(default_factory=dict)
    group: str | None = None
    cluster_id: str | None = None

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> StreamOffset | None:
        """From the JSON of a checkpoint; None for the initial offset."""
        if not given:
            return None
        start = given.get(START)
        topics = {name: value for name, value in given.items() if not name.startswith("@")}
        return cls(
            offsets=_flat(topics),
            start=None if start is None else _flat(start),
            topic_ids=dict(given.get(IDS, {})),
            group=given.get(GROUP),
            cluster_id=given.get(CLUSTER),
        )

    def write(self) -> dict[str, Any]:
        """As JSON for the checkpoint."""
        written: dict[str, Any] = {}
        if self.group is not None:
            written[GROUP] = self.group
            if self.cluster_id is not None:
                written[CLUSTER] = self.cluster_id
        if self.topic_ids:
            written[IDS] = dict(sorted(self.topic_ids.items()))
        if self.start is not None:
            written[START] = nested(self.start)
        return written | nested(self.offsets)


def nested(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """Offsets by topic and partition, in order."""
    topics: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        topics.setdefault(topic, {})[str(partition)] = offset
    return topics


def _flat(topics: Mapping[str, Mapping[str, int]]) -> PartitionOffsets:
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, partitions in topics.items()
        for partition, offset in partitions.items()
    }


def parse_partition_numbers(option: str, text: str) -> PartitionOffsets:
    """A number for each partition, `{"topic": {"0": 23}}`; raises OptionError."""
    expected = f'option {option}: expected e.g. {{"topicA":{{"0":23,"1":-1}}}}, got {text}'
    parsed = _json(text, expected)
    try:
        numbers = _flat(parsed)
    except (AttributeError, TypeError, ValueError) as error:
        raise OptionError(expected) from error
    if any(partition < 0 for _, partition in numbers):
        raise OptionError(expected)
    return numbers


def parse_partitions(option: str, text: str) -> list[TopicPartition]:
    """Partitions by topic, `{"topic": [0, 1]}`; raises OptionError."""
    expected = f'option {option}: expected e.g. {{"topicA":[0,1],"topicB":[2]}}, got {text}'
    parsed = _json(text, expected)
    try:
        found = [
            TopicPartition(topic, int(number))
            for topic, numbers in parsed.items()
            for number in numbers
        ]
    except (TypeError, ValueError) as error:
        raise OptionError(expected) from error
    if not found or any(number < 0 for _, number in found):
        raise OptionError(expected)
    return sorted(set(found))


def _json(text: str, expected: str) -> dict[str, Any]:
    try:
        parsed = json.loads(text)
    except ValueError as error:
        raise OptionError(expected) from error
    if not isinstance(parsed, dict):
        raise OptionError(expected)
    return parsed
