"""What a share group is done with, read from the records of its share coordinator.

The log of `__share_group_state` has every record's end: a leader writes it before a member hears,
and moves the start of the group over it only afterwards. So one reads the whole log, over the wire
as any client may, of a broker of one's own or of another's. It begins where the coordinator has
deleted what it does not need any more, which takes minutes: longer than a test.

What an administrator moved starts over with another state epoch, and what was deleted is forgotten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaa.coordinators.runtime import partition_for
from kaa.coordinators.share.state import RECORD_TYPES, SharePartitionKey
from kaa.model.topics import SHARE_GROUP_STATE
from kaa.serving.share.in_flight import RecordState
from kaa.testing.topic import EARLIEST
from kaa.wire.messages.share_state import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaa.client.consumer.records import ConsumerRecord
    from kaa.testing.topic import Topic

# Which of two reports counts, as the coordinator has it: the delivery, and then the state.
Progress = tuple[int, RecordState]
STATE_TOPIC: Final = SHARE_GROUP_STATE


def outcomes(
    state_topic: Topic, keys: Iterable[SharePartitionKey]
) -> dict[SharePartitionKey, dict[int, RecordState]]:
    """The state of every offset that was reported, by share partition."""
    wanted = set(keys)
    if not wanted:
        return {}
    count = state_topic.partition_count()
    numbers = {partition_for(str(key), count) for key in wanted}
    found: dict[SharePartitionKey, _History] = {key: _History() for key in wanted}
    for record in state_topic.records_from(state_topic.offsets(EARLIEST, numbers)):
        _replay(record, found)
    return {
        key: {offset: state for offset, (_, state) in sorted(history.progress.items())}
        for key, history in found.items()
    }


class _History:
    """What was reported of one share partition."""

    def __init__(self) -> None:
        self.state_epoch = -1
        self.progress: dict[int, Progress] = {}


def _replay(record: ConsumerRecord, found: dict[SharePartitionKey, _History]) -> None:
    decoded = RECORD_TYPES.decode(record.key, record.value)
    if decoded is None:
        return
    key, value = decoded
    assert isinstance(key, ShareSnapshotKey | ShareUpdateKey)
    name = SharePartitionKey(key.group_id, key.topic_id, key.partition)
    history = found.get(name)
    if history is None:
        return
    if not isinstance(value, ShareSnapshotValue | ShareUpdateValue):
        found[name] = _History()
        return
    if isinstance(value, ShareSnapshotValue) and value.state_epoch > history.state_epoch:
        history.state_epoch = value.state_epoch
        history.progress = {}
    for batch in value.state_batches:
        progress = (batch.delivery_count, RecordState(batch.delivery_state))
        for offset in range(batch.first_offset, batch.last_offset + 1):
            if history.progress.get(offset, (0, RecordState.AVAILABLE)) <= progress:
                history.progress[offset] = progress
