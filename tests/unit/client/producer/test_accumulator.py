from __future__ import annotations

from random import Random

import pytest

from kaa.client.producer.accumulator import (
    Accumulator,
    AccumulatorSettings,
    ProducerBatch,
    record_bytes_max,
)
from kaa.model.topics import TopicPartition
from kaa.records import CompressionType, RecordBatch, encode_record, iter_records
from kaa.wire.errors import Errors

PARTITION = TopicPartition("topic", 0)
OTHER = TopicPartition("topic", 1)


def make(batch_bytes: int = 100, linger_ms: int = 10, *, idempotent: bool = True) -> Accumulator:
    settings = AccumulatorSettings(
        batch_bytes, linger_ms, 1000, 10, CompressionType.NONE, None, idempotent
    )
    accumulator = Accumulator(settings)
    if idempotent:
        accumulator.begin_epoch(7, 0)
    return accumulator


def add(
    accumulator: Accumulator, now_ms: float = 0, partition: TopicPartition = PARTITION
) -> ProducerBatch:
    """A record that fills a batch of 100 bytes."""
    return accumulator.append(partition, 5, None, b"v", (), 100, now_ms)[0]


def drain_one(accumulator: Accumulator, now_ms: float = 100) -> ProducerBatch:
    (batch,) = accumulator.drain([PARTITION], 10_000, now_ms)
    return batch


def test_batch_leaves_when_it_is_full_old_or_flushed() -> None:
    accumulator = make(batch_bytes=200)
    accumulator.append(PARTITION, 5, None, b"v", (), 40, 0)
    assert accumulator.ready_ms(PARTITION, 3) == 10
    assert accumulator.drain([PARTITION], 1000, 9) == []
    for reason in ("is_flushing", "is_exhausted"):
        setattr(accumulator, reason, True)
        assert accumulator.ready_ms(PARTITION, 3) == 3
        setattr(accumulator, reason, False)
    assert not accumulator.append(PARTITION, 6, None, b"v", (), 40, 1)[1]
    assert accumulator.ready_ms(PARTITION, 3) == 10
    assert accumulator.append(PARTITION, 5, None, bytes(100), (), 140, 2)[1], "it needs a new one"
    first = drain_one(accumulator, 3)
    assert first.record_count == 2
    assert first.data is not None
    view = RecordBatch(first.data)
    view.ensure_valid()
    assert [(one.offset, one.timestamp) for one in iter_records(view)] == [(0, 5), (1, 6)]
    assert view.max_timestamp == 6
    assert accumulator.ready_ms(PARTITION, 3) == 12


def test_what_is_no_record_leaves_nothing_behind() -> None:
    accumulator = make()
    with pytest.raises(TypeError):
        accumulator.append(PARTITION, 5, None, "text", (), 10, 0)  # type: ignore[arg-type]
    assert accumulator.is_idle
    assert accumulator.buffered_bytes == 0


def test_nothing_leaves_without_a_producer_id() -> None:
    accumulator = Accumulator(make().settings)
    add(accumulator)
    assert accumulator.drain([PARTITION], 1000, 100) == []
    assert not accumulator.has_producer


def test_sequences_follow_each_other() -> None:
    accumulator = make()
    for _ in range(3):
        add(accumulator)
    batches = [drain_one(accumulator) for _ in range(3)]
    assert [batch.base_sequence for batch in batches] == [0, 1, 2]
    assert batches[1].data is not None
    view = RecordBatch(batches[1].data)
    assert (view.producer_id, view.producer_epoch, view.base_sequence) == (7, 0, 1)
    for batch in batches:
        accumulator.succeeded(batch)
    assert accumulator.is_idle
    assert accumulator.buffered_bytes == 0


def may_begin_epoch(accumulator: Accumulator) -> bool:
    """Now; it differs from question to question."""
    return accumulator.may_begin_epoch


def fail(accumulator: Accumulator, batch: ProducerBatch, error: Errors, now_ms: float = 0) -> bool:
    return accumulator.failed(batch, error, retriable=error.retriable, now_ms=now_ms, pause_ms=10)


def test_failed_batches_go_out_again_in_their_order() -> None:
    accumulator = make()
    for _ in range(4):
        add(accumulator)
    first, second, third = (drain_one(accumulator) for _ in range(3))
    assert fail(accumulator, first, Errors.NOT_LEADER_OR_FOLLOWER)
    assert accumulator.drain([PARTITION], 1000, 100) == [], "others are still under way"
    assert fail(accumulator, second, Errors.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert fail(accumulator, third, Errors.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert accumulator.drain([PARTITION], 1000, 5) == [], "the pause is not over"
    again = [drain_one(accumulator) for _ in range(4)]
    assert again[:3] == [first, second, third]
    assert [batch.base_sequence for batch in again] == [0, 1, 2, 3]


def test_batch_given_up_starts_a_new_epoch_when_nothing_is_under_way() -> None:
    accumulator = make()
    for _ in range(3):
        add(accumulator)
    first, second = drain_one(accumulator), drain_one(accumulator)
    assert not fail(accumulator, first, Errors.MESSAGE_TOO_LARGE)
    assert accumulator.needs_new_epoch
    assert accumulator.drain([PARTITION], 1000, 100) == []
    assert not may_begin_epoch(accumulator)
    assert fail(accumulator, second, Errors.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert may_begin_epoch(accumulator)
    accumulator.begin_epoch(7, 1)
    again, third = drain_one(accumulator), drain_one(accumulator)
    assert again is second
    assert [again.base_sequence, third.base_sequence] == [0, 1]
    assert again.data is not None
    view = RecordBatch(again.data)
    view.ensure_valid()
    assert (view.producer_epoch, view.base_sequence) == (1, 0)
    assert [record.value for record in iter_records(view)] == [b"v"]


def test_what_may_be_in_the_log_keeps_its_number_over_a_batch_that_is_given_up() -> None:
    """Under another number it would be there twice."""
    accumulator = make()
    for partition in (PARTITION, OTHER, OTHER, OTHER):
        add(accumulator, partition=partition)
    given_up, unanswered = accumulator.drain([PARTITION, OTHER], 10_000, 100)
    (later,) = accumulator.drain([OTHER], 10_000, 100)
    for batch in (unanswered, later):
        assert fail(accumulator, batch, Errors.REQUEST_TIMED_OUT)
    assert not fail(accumulator, given_up, Errors.MESSAGE_TOO_LARGE)
    assert not may_begin_epoch(accumulator)
    assert accumulator.drain([OTHER], 10_000, 1_000) == [unanswered]
    assert (unanswered.base_sequence, accumulator.producer_epoch) == (0, 0)
    accumulator.succeeded(unanswered)
    # The broker has the first, and says that it does not have the second.
    assert accumulator.drain([OTHER], 10_000, 1_000) == [later]
    assert later.base_sequence == 1
    assert not may_begin_epoch(accumulator)
    assert fail(accumulator, later, Errors.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert accumulator.drain([OTHER], 10_000, 1_000) == []
    assert may_begin_epoch(accumulator)
    accumulator.begin_epoch(7, 1)
    assert accumulator.drain([OTHER], 10_000, 1_000) == [later]
    assert later.base_sequence == 0
    assert later.data is not None
    assert RecordBatch(later.data).producer_epoch == 1
    (last,) = accumulator.drain([OTHER], 10_000, 1_000)
    assert last.base_sequence == 1


def unanswered(count: int) -> tuple[Accumulator, list[ProducerBatch]]:
    """Batches that were sent, whose answers were lost, and that are sent again."""
    accumulator = make()
    for _ in range(count):
        add(accumulator)
    batches = [drain_one(accumulator) for _ in range(count)]
    for batch in batches:
        assert fail(accumulator, batch, Errors.NETWORK_EXCEPTION)
    assert [drain_one(accumulator) for _ in range(count)] == batches
    return accumulator, batches


def test_a_broker_that_knows_the_last_batch_alone_has_those_before_it() -> None:
    """As one that was started again: under new numbers they would be in the log twice."""
    accumulator, (first, second, third) = unanswered(3)
    assert fail(accumulator, first, Errors.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert fail(accumulator, second, Errors.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert accumulator.succeeded(third) == [first, second]
    assert accumulator.is_idle
    assert not accumulator.needs_new_epoch
    assert accumulator.buffered_bytes == 0


def test_batches_are_missing_if_none_after_them_is_known() -> None:
    accumulator, (first, second) = unanswered(2)
    assert fail(accumulator, first, Errors.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert fail(accumulator, second, Errors.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert [drain_one(accumulator), drain_one(accumulator)] == [first, second]
    # What was acknowledged before it is lost, which its sender has to know.
    assert not fail(accumulator, first, Errors.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert fail(accumulator, second, Errors.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert may_begin_epoch(accumulator)
    accumulator.begin_epoch(7, 1)
    again = drain_one(accumulator)
    assert again is second
    assert again.base_sequence == 0
    assert accumulator.succeeded(again) == []


def test_an_answer_that_is_lost_again_proves_nothing() -> None:
    accumulator, (first, second) = unanswered(2)
    assert fail(accumulator, first, Errors.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert fail(accumulator, second, Errors.NETWORK_EXCEPTION)
    assert [drain_one(accumulator), drain_one(accumulator)] == [first, second]
    assert fail(accumulator, first, Errors.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert accumulator.succeeded(second) == [first]
    assert accumulator.is_idle


def test_first_batch_out_of_order_is_given_up() -> None:
    accumulator = make()
    add(accumulator)
    assert not fail(accumulator, drain_one(accumulator), Errors.OUT_OF_ORDER_SEQUENCE_NUMBER)


def test_time_runs_out() -> None:
    accumulator = make()
    add(accumulator, 0)
    add(accumulator, 500)
    batch = drain_one(accumulator)
    assert not fail(accumulator, batch, Errors.NOT_LEADER_OR_FOLLOWER, now_ms=995)
    assert accumulator.expire(1400) == []
    assert len(accumulator.expire(1500)) == 1
    assert accumulator.is_idle


def test_without_idempotence_there_are_no_sequences() -> None:
    accumulator = make(idempotent=False)
    add(accumulator)
    batch = drain_one(accumulator)
    assert batch.data is not None
    assert RecordBatch(batch.data).producer_id == -1
    assert not fail(accumulator, batch, Errors.MESSAGE_TOO_LARGE)
    assert not accumulator.needs_new_epoch


def test_request_is_bounded() -> None:
    accumulator = make()
    for partition in (PARTITION, OTHER):
        add(accumulator, 0, partition)
    both = [PARTITION, OTHER]
    assert len(accumulator.drain(both, 100, 100)) == 1
    assert len(accumulator.drain(both, 100, 100)) == 1


@pytest.mark.parametrize("seed", range(20))
def test_broker_that_fails_by_chance_gets_every_record_once_and_in_order(seed: int) -> None:
    """A model of a broker: it takes the sequence it expects, refuses others, and loses answers."""
    random = Random(seed)
    accumulator = make()
    log: list[int] = []
    under_way: list[ProducerBatch] = []
    sent = 0
    now_ms = 0.0
    while len(log) < 60 or not accumulator.is_idle:
        now_ms += 20
        if sent < 60:
            sent += 1
            add(accumulator, now_ms)
        if len(under_way) < 5:
            under_way += accumulator.drain([PARTITION], 1000, now_ms)
        if not under_way or random.random() < 0.5:
            continue
        batch = under_way.pop(0)
        chance = random.random()
        if chance < 0.2:
            error = Errors.NOT_LEADER_OR_FOLLOWER
        elif batch.base_sequence > len(log):
            error = Errors.OUT_OF_ORDER_SEQUENCE_NUMBER
        else:
            if batch.base_sequence == len(log):
                log.append(batch.base_sequence)
            error = Errors.REQUEST_TIMED_OUT if chance < 0.4 else Errors.NONE
        if error is Errors.NONE:
            accumulator.succeeded(batch)
        else:
            batch.created_ms = now_ms
            batch.attempts = 1
            assert fail(accumulator, batch, error, now_ms)
    assert log == list(range(60))


def test_size_of_a_record_is_never_below_what_it_takes() -> None:
    headers = [("häder", b"x" * 300), ("n", None)]
    size = record_bytes_max(b"k" * 200, b"v" * 5000, headers)
    assert size >= len(encode_record(2**31 - 1, 2**62, b"k" * 200, b"v" * 5000, headers))
