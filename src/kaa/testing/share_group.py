"""A share group in a test: what its members were given, and what became of it."""

from __future__ import annotations

from contextlib import suppress
from operator import ge
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from kaa.client.share.fetched import ShareRecord
from kaa.coordinators.share.state import SharePartitionKey
from kaa.serving.share.in_flight import RecordState
from kaa.testing.client import check, setting_text
from kaa.testing.differences import difference, match
from kaa.testing.group import AnyGroup, Figure, at_most
from kaa.testing.share_outcomes import STATE_TOPIC, outcomes
from kaa.testing.topic import EARLIEST, LATEST, Topic
from kaa.wire.errors import Errors
from kaa.wire.messages.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kaa.wire.messages.k77_share_group_describe import ShareGroupDescribeRequest
from kaa.wire.messages.k90_describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from kaa.wire.messages.k91_alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kaa.client.consumer.records import ConsumerRecord
    from kaa.testing.client import Client
    from kaa.testing.deliveries import Handed

    # Asks the node: everything that a group was handed, or what its members hold now.
    Ask = Callable[[str], list[Handed]]

_GROUP: Final = 32
_SET: Final = 0
_DELETE: Final = 1
_POSITIONS: Final = {"earliest": EARLIEST, "latest": LATEST}


class _Position(NamedTuple):
    """Where a group is in a partition."""

    topic: str
    key: SharePartitionKey
    start_offset: int
    lag: int


class ShareGroup(AnyGroup):
    """A share group by its id, whether it exists or not."""

    def __init__(
        self,
        group_id: str,
        client: Callable[[], Client],
        wait_for: Callable[..., Any],
        delivered: Ask,
        held: Ask,
    ) -> None:
        super().__init__(group_id, client, wait_for)
        self._delivered = delivered
        self._held = held
        self._configured: set[str] = set()

    # --- as an operator sees it

    def state(self) -> str:
        """Kafka's word for it: Empty, Stable, or Dead if there is no such group."""
        row = self._described()
        return "Dead" if row is None else str(row.group_state)

    def member_count(self) -> int:
        """Members that the coordinator knows now; 0 if there is no such group."""
        row = self._described()
        return 0 if row is None else len(row.members)

    def assignment(self) -> dict[str, list[tuple[str, int]]]:
        """Topics and partitions by member id; a partition may be with several members."""
        row = self._described()
        return {
            member.member_id: sorted(
                (topic.topic_name, number)
                for topic in member.assignment.topic_partitions
                for number in topic.partitions
            )
            for member in ([] if row is None else row.members)
        }

    def start_offsets(self) -> dict[tuple[str, int], int]:
        """Up to where everything is done with, by topic and partition."""
        return {
            (found.topic, found.key.partition): found.start_offset
            for found in self._positions()
            if found.start_offset >= 0
        }

    def lag(self) -> int | None:
        """Records that are not done with yet; None before the group has begun with a partition."""
        lags = [found.lag for found in self._positions() if found.lag >= 0]
        return sum(lags) if lags else None

    # --- what became of records

    def acknowledged(self) -> list[ConsumerRecord]:
        """The records that were accepted, which is stored: they never come again."""
        return self._ended(RecordState.ACKNOWLEDGED)

    def archived(self) -> list[ConsumerRecord]:
        """The records that were given up: rejected, or delivered as often as is allowed."""
        return self._ended(RecordState.ARCHIVED)

    def in_flight(self, member_id: str | None = None) -> list[ShareRecord]:
        """The records that members hold now, or that one of them holds."""
        handed = sorted(self._held(self.id))
        return self._records_of(handed, member_id)

    def delivered(self, member_id: str | None = None) -> list[ShareRecord]:
        """Every record that members were given, in that order, each time it was; `delivery_count`
        says the how many-th time.
        """
        return self._records_of(self._delivered(self.id), member_id)

    def expect(
        self,
        acknowledged: Sequence[object] = (),
        *,
        archived: Sequence[object] | None = None,
        timeout: float = 5.0,
    ) -> list[ConsumerRecord]:
        """Fails unless exactly these records are, or soon are, acknowledged; returns them. If
        `archived` is given, exactly those have been given up besides.

        Each may be a value, a pair (key, value), a mapping of the fields that matter, or a
        function, in any order.
        """
        __tracebackhide__ = True
        wanted = {RecordState.ACKNOWLEDGED: acknowledged}
        if archived is not None:
            wanted[RecordState.ARCHIVED] = archived
        found: dict[RecordState, list[ConsumerRecord]] = {state: [] for state in wanted}

        def is_so() -> bool:
            found.update({state: self._ended(state) for state in wanted})
            # More than was expected will not become fewer.
            return any(len(found[state]) > len(wanted[state]) for state in wanted) or all(
                match(wanted[state], found[state], in_order=False) for state in wanted
            )

        with suppress(TimeoutError):
            self._wait_for(is_so, timeout=timeout)
        for state, expected in wanted.items():
            if not match(expected, found[state], in_order=False):
                subject = f"share group {self.id}, {state.name.lower()}"
                raise AssertionError(difference(subject, expected, found[state], in_order=False))
        return found[RecordState.ACKNOWLEDGED]

    # --- changes

    def reset(
        self, topic: Topic | str, to: str | int | Mapping[int, int] = "earliest"
    ) -> dict[int, int]:
        """Lets a group without members start over in a topic: at its `earliest` or `latest`
        records, at an offset, or at one for each partition. Returns the offsets.
        """
        found = topic if isinstance(topic, Topic) else self._topic(topic)
        if isinstance(to, str):
            if to not in _POSITIONS:
                raise ValueError(f"{to!r} is not a position: say earliest, latest or an offset")
            offsets = found.offsets(_POSITIONS[to])
        elif isinstance(to, int):
            offsets = dict.fromkeys(range(found.partition_count()), to)
        else:
            offsets = dict(to)
        rows = [
            AlterShareGroupOffsetsRequestPartition(partition_index=number, start_offset=offset)
            for number, offset in offsets.items()
        ]
        moved = AlterShareGroupOffsetsRequestTopic(topic_name=found.name, partitions=rows)
        answer = self._ask(AlterShareGroupOffsetsRequest(group_id=self.id, topics=[moved]))
        what = f"resetting share group {self.id}"
        check(what, answer.error_code, answer.error_message)
        for row in answer.responses[0].partitions:
            check(what, row.error_code, row.error_message)
        return offsets

    def configure(self, **configs: object) -> None:
        """Changes settings of the group, written with `_` for `.`:
        `share_auto_offset_reset="earliest"`.
        """
        values = {name.replace("_", "."): setting_text(value) for name, value in configs.items()}
        self._alter(
            AlterableConfig(name=name, config_operation=_SET, value=value)
            for name, value in values.items()
        )
        self._configured |= values.keys()

    def take_back_settings(self) -> None:
        """Settings that this object changed are the cluster's again."""
        names, self._configured = sorted(self._configured), set()
        if names:
            self._alter(
                AlterableConfig(name=name, config_operation=_DELETE, value=None) for name in names
            )

    def _alter(self, rows: Iterable[AlterableConfig]) -> None:
        one = AlterConfigsResource(resource_type=_GROUP, resource_name=self.id, configs=list(rows))
        answer = self._client().send(IncrementalAlterConfigsRequest(resources=[one]))
        row = answer.responses[0]
        check(f"settings of share group {self.id}", row.error_code, row.error_message)

    _figures: ClassVar = {
        "lag": Figure(lag, at_most),
        "state": Figure(state),
        "members": Figure(member_count),
        "acknowledged": Figure(lambda group: len(group.acknowledged()), ge),
        "archived": Figure(lambda group: len(group.archived()), ge),
        "delivered": Figure(lambda group: len(group.delivered()), ge),
        "in_flight": Figure(lambda group: len(group.in_flight())),
    }

    # --- the parts of these

    def _described(self) -> Any:
        row = self._ask(ShareGroupDescribeRequest(group_ids=[self.id])).groups[0]
        if row.error_code == Errors.GROUP_ID_NOT_FOUND:
            return None
        check(f"share group {self.id}", row.error_code, row.error_message)
        return row

    def _positions(self) -> list[_Position]:
        """Of every partition with which the group has begun."""
        asked = DescribeShareGroupOffsetsRequestGroup(group_id=self.id, topics=None)
        row = self._ask(DescribeShareGroupOffsetsRequest(groups=[asked])).groups[0]
        if row.error_code == Errors.GROUP_ID_NOT_FOUND:
            return []
        what = f"the offsets of share group {self.id}"
        check(what, row.error_code, row.error_message)
        found = []
        for topic in row.topics:
            for one in topic.partitions:
                check(what, one.error_code, one.error_message)
                key = SharePartitionKey(self.id, topic.topic_id, one.partition_index)
                found.append(_Position(topic.topic_name, key, one.start_offset, one.lag))
        return found

    def _ended(self, wanted: RecordState) -> list[ConsumerRecord]:
        topics = {found.key: found.topic for found in self._positions()}
        found = outcomes(self._topic(STATE_TOPIC), topics)
        places = {
            (topics[key], key.partition, offset)
            for key, states in found.items()
            for offset, state in states.items()
            if state is wanted
        }
        records = self._records({topic for topic, _, _ in places})
        return [record for place, record in sorted(records.items()) if place in places]

    def _records_of(self, handed: Iterable[Handed], member_id: str | None) -> list[ShareRecord]:
        mine = [each for each in handed if member_id in {None, each.member_id}]
        names = self._topic_names(mine)
        records = self._records(names.values())
        found = []
        for each in mine:
            for offset in range(each.first_offset, each.last_offset + 1):
                record = records.get((names.get(each.topic_id, ""), each.partition, offset))
                # Offsets may have no record: markers, and what compaction took.
                if record is not None:
                    found.append(ShareRecord(*record[:7], each.delivery_count))
        return found

    def _topic_names(self, handed: Iterable[Handed]) -> dict[Any, str]:
        wanted = {each.topic_id for each in handed}
        if not wanted:
            return {}
        rows = self._client().metadata(None).topics
        return {row.topic_id: row.name or "" for row in rows if row.topic_id in wanted}

    def _records(self, topics: Iterable[str]) -> dict[tuple[str, int, int], ConsumerRecord]:
        return {
            (record.topic, record.partition, record.offset): record
            for name in topics
            for record in self._topic(name).records()
        }

    def _topic(self, name: str) -> Topic:
        return Topic(name, self._client, self._wait_for)
