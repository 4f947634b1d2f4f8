from __future__ import annotations

from kaa.limits import PRODUCE_ON_LOOP_EXPANDED_BYTES_MAX
from kaa.model.kinds import ACKS_ALL
from kaa.model.pieces import finish
from kaa.records.batch import CompressionType
from kaa.serving.appending import Accepted, Appending, Deferred, RefusedBatch
from kaa.serving.transactions.verification import Verified
from kaa.wire.errors import Errors
from kaa.wire.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.unit.handlers.support import NOW_MS, Node
from tests.unit.log.batches import batch
from tests.unit.records.samples import build

VERSION = 12


def fresh(count: int = 1) -> memoryview:
    return memoryview(batch(count, timestamp=NOW_MS))


def appending(node: Node, acks: int = ACKS_ALL) -> Appending:
    return Appending(node.services, acks, VERSION, node.services.clock.wall_ms())


def test_a_batch_is_judged_and_appended(node: Node) -> None:
    node.create_topic("t")
    found = appending(node).append(node.partition("t"), fresh(3))
    assert isinstance(found, Accepted)
    assert (found.info.first_offset, found.info.last_offset) == (0, 2)
    assert node.partition("t").online_log().log_end_offset == 3


def test_what_may_not_enter_is_refused_in_the_order_of_kafka(node: Node) -> None:
    node.create_topic("t")
    node.create_topic("__consumer_offsets")
    damaged = fresh()
    damaged[-1] ^= 1
    some = appending(node)
    assert some.append(node.partition("t"), None) == RefusedBatch(Errors.INVALID_RECORD)
    internal = some.append(node.partition("__consumer_offsets"), damaged)
    assert internal == RefusedBatch(Errors.INVALID_TOPIC_EXCEPTION)
    corrupt = some.append(node.partition("t"), damaged)
    assert isinstance(corrupt, RefusedBatch)
    assert corrupt.error is Errors.CORRUPT_MESSAGE
    node.partition("t").stop_leading()
    lost = some.append(node.partition("t"), damaged)
    assert lost == RefusedBatch(Errors.NOT_LEADER_OR_FOLLOWER)


def test_a_sequence_out_of_order_is_told_with_the_start_of_the_log(node: Node) -> None:
    node.create_topic("t")
    ahead = batch(1, timestamp=NOW_MS, producer_id=7, producer_epoch=0, sequence=5)
    assert isinstance(appending(node).append(node.partition("t"), memoryview(ahead)), Accepted)
    later = batch(1, timestamp=NOW_MS, producer_id=7, producer_epoch=0, sequence=9)
    refused = appending(node).append(node.partition("t"), memoryview(later))
    assert refused == RefusedBatch(Errors.OUT_OF_ORDER_SEQUENCE_NUMBER, log_start_offset=0)


def test_a_transaction_that_may_not_write_is_refused(node: Node) -> None:
    node.create_topic("t")
    some = appending(node)
    some.verified = Verified({}, {("t", 0): Errors.INVALID_TXN_STATE})
    refused = some.append(node.partition("t"), fresh())
    assert isinstance(refused, RefusedBatch)
    assert refused.error is Errors.INVALID_TXN_STATE


def test_what_expands_to_much_is_deferred_and_judged_off_the_loop(node: Node) -> None:
    node.create_topic("t")
    value = b"a" * (PRODUCE_ON_LOOP_EXPANDED_BYTES_MAX + 1)
    large = build([(NOW_MS, None, value, ())], compression_type=CompressionType.GZIP)
    some = appending(node)
    deferred = some.append(node.partition("t"), memoryview(large))
    assert isinstance(deferred, Deferred)
    assert deferred.verdict is None
    assert node.partition("t").online_log().log_end_offset == 0
    assert isinstance(node.run(some.finish(deferred)), Accepted)


def test_leadership_that_is_lost_meanwhile_refuses_what_was_deferred(node: Node) -> None:
    node.create_topic("t")
    partition = node.partition("t")
    deferred = Deferred(partition, fresh())
    partition.stop_leading()
    refused = node.run(appending(node).finish(deferred))
    assert refused == RefusedBatch(Errors.NOT_LEADER_OR_FOLLOWER)


def test_acks_that_do_not_exist_refuse_the_whole_request(node: Node) -> None:
    assert appending(node).refusal is None
    some = appending(node, acks=2)
    assert some.refusal == RefusedBatch(Errors.INVALID_REQUIRED_ACKS)
    assert finish(some.unverified(ProduceRequest(transactional_id="x"))) is None


def test_of_whom_a_coordinator_is_asked(node: Node) -> None:
    node.create_topic("t")

    def request(transactional_id: str | None, *producer_ids: int) -> ProduceRequest:
        batches = [
            batch(1, producer_id=one, producer_epoch=3, sequence=0, transactional=True)
            for one in producer_ids
        ]
        data = [PartitionProduceData(index=0, records=memoryview(one)) for one in batches]
        topic = TopicProduceData(name="t", partition_data=data)
        return ProduceRequest(transactional_id=transactional_id, topic_data=[topic])

    known = appending(node)
    found = finish(known.unverified(request("x", 7)))
    assert found is not None
    assert (found.transactional_id, found.producer, list(found.guards)) == (
        "x",
        (7, 3),
        [("t", 0)],
    )
    assert known.refusal is None
    unnamed, mixed = appending(node), appending(node)
    assert finish(unnamed.unverified(request(None, 7))) is None
    assert unnamed.refusal == RefusedBatch(Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    assert finish(mixed.unverified(request("x", 7, 8))) is None
    assert mixed.refusal == RefusedBatch(Errors.INVALID_PRODUCER_ID_MAPPING)
