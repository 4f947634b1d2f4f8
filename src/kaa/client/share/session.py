"""The share session of a member with one broker: what to fetch there, and what to acknowledge.

Each request has the epoch that follows that of the one before, and names only the partitions that
came or went. Acknowledgements are gathered by offset and leave as ranges; they cannot go with the
request that opens a session. If a session is lost, so is what was to be acknowledged in it: the
broker gives those records to others.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kaa.wire.messages import k78_share_fetch as k78
from kaa.wire.messages import k79_share_acknowledge as k79

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kaa.wire.primitives import PartitionId, Uuid

_OPENING: Final = 0
_CLOSING: Final = -1
_EPOCH_MAX: Final = 2**31 - 1
# What is said of an offset that has no record.
GAP: Final = 0


class AcknowledgeType(IntEnum):
    """What became of a record."""

    # It was processed, and never comes again.
    ACCEPT = 1
    # It was not processed: another delivery is wanted.
    RELEASE = 2
    # It cannot be processed, and never comes again.
    REJECT = 3
    # It is still being processed: more time is wanted.
    RENEW = 4


# What became of records, by offset.
Acknowledged = dict[int, int]


class ShareFetchLimits(NamedTuple):
    """How much one fetch may bring, and how long it may wait."""

    wait_ms: int
    bytes_min: int
    bytes_max: int
    records_max: int
    is_record_limit: bool


class NodeSession:
    """The session with one broker: `fetch` or `acknowledge` gives the next request, and `answered`
    says that the broker took it. One request is under way at a time.
    """

    def __init__(self, group_id: str, member_id: str) -> None:
        self._group_id = group_id
        self._member_id = member_id
        self._epoch = _OPENING
        self._partitions: dict[PartitionId, None] = {}
        self.pending: dict[PartitionId, Acknowledged] = {}

    @property
    def is_open(self) -> bool:
        return self._epoch != _OPENING

    def tell(self, one: PartitionId, offset: int, kind: int) -> None:
        """Notes what became of a record, for the next request."""
        self.pending.setdefault(one, {})[offset] = kind

    def reset(self) -> dict[PartitionId, Acknowledged]:
        """The session is lost; gives what nobody will hear any more."""
        self._epoch = _OPENING
        self._partitions = {}
        lost, self.pending = self.pending, {}
        return lost

    def answered(self) -> None:
        """The broker took the last request: the next has the next epoch."""
        self._epoch = 1 if self._epoch == _EPOCH_MAX else self._epoch + 1

    def fetch(
        self, wanted: Iterable[PartitionId], limits: ShareFetchLimits
    ) -> tuple[k78.ShareFetchRequest, dict[PartitionId, Acknowledged]]:
        """The next request, and what it acknowledges. Nothing may be pending that is renewed."""
        sent, self.pending = self.pending, {}
        now = dict.fromkeys(wanted)
        forgotten = [one for one in self._partitions if one not in now]
        named = [one for one in now if one not in self._partitions or one in sent]
        named += [one for one in sent if one not in now]
        self._partitions = now
        topics: dict[Uuid, k78.FetchTopic] = {}
        for one in named:
            topic = topics.setdefault(one.topic_id, k78.FetchTopic(topic_id=one.topic_id))
            batches = [k78.AcknowledgementBatch(**found) for found in ranges(sent.get(one, {}))]
            topic.partitions.append(
                k78.FetchPartition(partition_index=one.number, acknowledgement_batches=batches)
            )
        gone: dict[Uuid, k78.ForgottenTopic] = {}
        for one in [*forgotten, *(one for one in sent if one not in now)]:
            forgot = gone.setdefault(one.topic_id, k78.ForgottenTopic(topic_id=one.topic_id))
            forgot.partitions.append(one.number)
        request = k78.ShareFetchRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            share_session_epoch=self._epoch,
            max_wait_ms=limits.wait_ms,
            min_bytes=limits.bytes_min,
            max_bytes=limits.bytes_max,
            max_records=limits.records_max,
            batch_size=limits.records_max,
            share_acquire_mode=int(limits.is_record_limit),
            topics=list(topics.values()),
            forgotten_topics_data=list(gone.values()),
        )
        return request, sent

    def acknowledge(
        self, *, is_last: bool = False
    ) -> tuple[k79.ShareAcknowledgeRequest, dict[PartitionId, Acknowledged]]:
        """A request without a fetch, and what it acknowledges; the last one ends the session."""
        sent, self.pending = self.pending, {}
        topics: dict[Uuid, k79.AcknowledgeTopic] = {}
        for one, acknowledged in sent.items():
            topic = topics.setdefault(one.topic_id, k79.AcknowledgeTopic(topic_id=one.topic_id))
            batches = [k79.AcknowledgementBatch(**found) for found in ranges(acknowledged)]
            topic.partitions.append(
                k79.AcknowledgePartition(
                    partition_index=one.number, acknowledgement_batches=batches
                )
            )
        request = k79.ShareAcknowledgeRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            share_session_epoch=_CLOSING if is_last else self._epoch,
            is_renew_ack=has_renewals(sent),
            topics=list(topics.values()),
        )
        return request, sent


def has_renewals(acknowledged: Mapping[PartitionId, Acknowledged]) -> bool:
    """Whether something among it asks for more time."""
    return any(AcknowledgeType.RENEW in some.values() for some in acknowledged.values())


def ranges(acknowledged: Acknowledged) -> list[dict[str, Any]]:
    """Ranges of offsets with what is said of each: one word for all where it is the same."""
    found: list[tuple[int, list[int]]] = []
    for offset in sorted(acknowledged):
        if found and offset == found[-1][0] + len(found[-1][1]):
            found[-1][1].append(acknowledged[offset])
        else:
            found.append((offset, [acknowledged[offset]]))
    return [
        {
            "first_offset": first,
            "last_offset": first + len(kinds) - 1,
            "acknowledge_types": kinds[:1] if len(set(kinds)) == 1 else kinds,
        }
        for first, kinds in found
    ]
