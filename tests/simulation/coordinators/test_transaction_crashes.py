"""A node that is killed between any two changes of its files while a transaction ends.

The steps of an end are: the decision, a marker in each partition, the marker that makes offsets
count, and the completion. Whatever was written when the process died, the next one finishes: a
decision that is in the log holds everywhere, one that is not there is an abort everywhere.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import pytest

from kaa.log.sim_files import CrashError, SimFiles
from kaa.records.batch import iter_batches
from kaa.records.control import ControlRecordType, read_end_transaction_marker
from kaa.wire.errors import Errors
from kaa.wire.messages.k26_end_txn import EndTxnRequest
from kaa.wire.messages.k65_describe_transactions import DescribeTransactionsRequest
from tests.unit.handlers.support import Node
from tests.unit.handlers.transaction_requests import NAME, TOPIC, TransactionalProducer

PARTITIONS = 3
GROUP = "g"
OFFSET = 41
STEPS_MAX = 100


class End(NamedTuple):
    version: int
    is_commit: bool


ENDS = [End(version, is_commit) for version in (0, 2) for is_commit in (True, False)]


def begun(version: int) -> tuple[Node, TransactionalProducer]:
    """A node with a transaction over all partitions and the offsets of a group."""
    node = Node()
    node.__enter__()
    node.create_topic(TOPIC, PARTITIONS)
    node.load_transactions()
    producer = TransactionalProducer(node, version=version).started()
    assert producer.produce(*((TOPIC, number) for number in range(PARTITIONS))) is Errors.NONE
    if version < 2:
        number = node.services.groups.partition_for(GROUP)
        assert producer.add(("__consumer_offsets", number)) is Errors.NONE
    committed = producer.commit_offset(GROUP, TOPIC, OFFSET, 5 if version >= 2 else 3)
    assert committed is Errors.NONE
    return node, producer


def end_until_killed(
    node: Node, producer: TransactionalProducer, end: End, step: int
) -> tuple[bool, bool]:
    """Ends the transaction on a node that dies with the given change of its files; whether the
    client heard of a success, and whether the node did die.
    """
    node.files.crash_at = len(node.files.history) + step
    request = EndTxnRequest(
        transactional_id=NAME,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        committed=end.is_commit,
    )
    died: list[BaseException] = []

    async def ask() -> bool:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: died.append(context["exception"]))
        task = loop.create_task(node.asked(request, 5 if end.version >= 2 else 4))
        await node.markers_written()
        if not task.done():
            task.cancel()
            return False
        return task.exception() is None and task.result().error_code == Errors.NONE

    try:
        is_told = node.run(ask())
    except CrashError:
        return False, True
    assert all(isinstance(error, CrashError) for error in died), died
    return is_told, node.files.dead


def markers(node: Node, number: int) -> list[ControlRecordType]:
    log = node.partition(TOPIC, number).online_log()
    found, offset = [], 0
    while offset < log.log_end_offset:
        read = log.read(offset, bytes_max=1 << 20)
        assert read.region is not None
        for batch in iter_batches(read.region.read()):
            marker = read_end_transaction_marker(batch) if batch.is_control else None
            if marker is not None:
                found.append(marker.control_type)
            offset = batch.next_offset
        read.region.release()
    return found


def committed_offset(node: Node) -> int | None:
    shard = node.services.groups.runtime.shard(node.services.groups.partition_for(GROUP))
    assert shard is not None
    offsets = shard.machine.offsets.of_group(GROUP)
    found = None if offsets is None else offsets.get((TOPIC, 0))
    assert not shard.machine.offsets.pending_of(GROUP)
    return None if found is None else found.offset


def check_after_restart(files: SimFiles, end: End, *, is_told: bool) -> bool:
    """Whether the decision was found in the log."""
    with Node(files=files) as node:
        node.load_transactions()
        node.run(node.markers_written())
        request = DescribeTransactionsRequest(transactional_ids=[NAME])
        (found,) = node.ask(request).transaction_states
        assert found.error_code == Errors.NONE
        state: str = found.transaction_state
        is_decided = state != "Ongoing"
        assert is_decided or not is_told, "what was acknowledged is forgotten"
        if is_decided:
            assert state == ("CompleteCommit" if end.is_commit else "CompleteAbort")
        # The next instance aborts what was not decided, and can go on in any case.
        producer = TransactionalProducer(node, version=end.version).started()
        is_committed = is_decided and end.is_commit
        wanted = ControlRecordType.COMMIT if is_committed else ControlRecordType.ABORT
        for number in range(PARTITIONS):
            assert set(markers(node, number)) == {wanted}
            log = node.partition(TOPIC, number).online_log()
            assert log.last_stable_offset == log.high_watermark == log.log_end_offset
        assert committed_offset(node) == (OFFSET if is_committed else None)
        assert producer.produce() is Errors.NONE
        producer.finish()
    return is_decided


@pytest.mark.parametrize("end", ENDS, ids=lambda end: f"v{end.version}-{end.is_commit}")
def test_a_kill_at_every_step(end: End) -> None:
    decided = []
    for step in range(STEPS_MAX):
        node, producer = begun(end.version)
        is_told, has_died = end_until_killed(node, producer, end, step)
        files = node.abandon()
        decided.append(check_after_restart(files, end, is_told=is_told))
        if not has_died:
            break
    else:
        pytest.fail(f"more than {STEPS_MAX} steps")
    # Dead before the decision, and then always after it: there are partitions and offsets to mark.
    assert decided == sorted(decided)
    assert not decided[0]
    assert decided.count(True) > PARTITIONS + 2


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_prepared_transaction_waits_for_its_coordinator_over_kills(is_commit: bool) -> None:
    """Two-phase commit: a producer that comes back ends what it prepared."""
    setting = "transaction.two.phase.commit.enable=true"
    node = Node(setting)
    node.__enter__()
    node.create_topic(TOPIC, PARTITIONS)
    node.load_transactions()
    first = TransactionalProducer(node)
    assert first.init(6, enable_2pc=True) is Errors.NONE
    assert first.produce(*((TOPIC, number) for number in range(PARTITIONS))) is Errors.NONE
    producer = first
    for _ in range(2):
        files = node.abandon()
        node = Node(setting, files=files)
        node.__enter__()
        node.load_transactions()
        producer = TransactionalProducer(node)
        kept = {"enable_2pc": True, "keep_prepared_txn": True}
        assert producer.init(6, **kept) is Errors.NONE
        assert all(markers(node, number) == [] for number in range(PARTITIONS))
    producer.finish(is_commit=is_commit)
    wanted = ControlRecordType.COMMIT if is_commit else ControlRecordType.ABORT
    assert all(markers(node, number) == [wanted] for number in range(PARTITIONS))
    node.__exit__()
