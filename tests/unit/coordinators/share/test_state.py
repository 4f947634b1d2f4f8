"""Records of a share partition and what they become."""

from __future__ import annotations

from kaa.coordinators.records import encode_key
from kaa.coordinators.share.batches import StateBatch
from kaa.coordinators.share.state import (
    RECORD_TYPES,
    SharePartitionKey,
    ShareState,
    batches_of,
    new_state,
    state_of_update,
    state_tombstone,
    stored,
    update_record,
)
from kaa.model.pieces import finish
from kaa.wire.messages.share_state import ShareSnapshotValue, ShareUpdateValue
from kaa.wire.primitives import Uuid

KEY = SharePartitionKey("g:h", Uuid(b"0123456789abcdef"), 3)
STATE = ShareState(2, 1, 4, 10, 3, (StateBatch(10, 12, 1, 2),), 100, 200)


def test_the_key_names_group_topic_and_partition() -> None:
    assert str(KEY) == f"g:h:{KEY.topic_id}:3"


def test_a_snapshot_is_the_whole_state() -> None:
    record = finish(STATE.snapshot(KEY))
    found = RECORD_TYPES.decode(*record.encode())
    assert found is not None
    assert isinstance(found[1], ShareSnapshotValue)
    again = finish(new_state(found[1], 7))
    assert again == STATE._replace(leader_epoch_max=4, state_epoch_max=1, snapshot_offset=7)


def test_an_update_changes_what_it_names() -> None:
    record = finish(
        update_record(
            KEY,
            snapshot_epoch=2,
            leader_epoch=5,
            start_offset=-1,
            delivery_complete_count=4,
            batches=(StateBatch(12, 14, 2, 0),),
        )
    )
    assert isinstance(record.value, ShareUpdateValue)
    after = finish(STATE.replay_update(record.value))
    assert (after.leader_epoch, after.start_offset, after.updates) == (5, 10, 1)
    assert after.batches == (StateBatch(10, 11, 1, 2), StateBatch(12, 14, 2, 0))
    alone = finish(state_of_update(record.value))
    assert (alone.state_epoch, alone.state_epoch_max, alone.snapshot_offset) == (0, -1, None)


def test_an_update_that_was_written_late_does_not_take_the_start_back() -> None:
    record = finish(
        update_record(
            KEY,
            snapshot_epoch=2,
            leader_epoch=4,
            start_offset=STATE.start_offset - 5,
            delivery_complete_count=STATE.delivery_complete_count + 5,
            batches=(StateBatch(5, 9, 1, 2),),
        )
    )
    assert isinstance(record.value, ShareUpdateValue)
    after = finish(STATE.replay_update(record.value))
    assert after._replace(updates=0) == STATE._replace(leader_epoch_max=4)


def test_a_snapshot_keeps_the_epochs_that_fence() -> None:
    known = STATE._replace(leader_epoch_max=9, state_epoch_max=8, updates=5)
    value = finish(STATE.snapshot(KEY)).value
    assert isinstance(value, ShareSnapshotValue)
    after = finish(known.replay_snapshot(value, 11, 5))
    assert (after.leader_epoch_max, after.state_epoch_max, after.updates) == (9, 8, 0)
    assert finish(known.replay_snapshot(value, 11, 6)).updates == 5


def test_a_tombstone_has_the_key_of_the_snapshot() -> None:
    tombstone = state_tombstone(KEY)
    assert tombstone.value is None
    assert encode_key(tombstone.key) == encode_key(finish(STATE.snapshot(KEY)).key)
    assert finish(batches_of(finish(stored(STATE.batches)))) == list(STATE.batches)
