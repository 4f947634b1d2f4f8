"""A consumer that reads every partition of the node in one session."""

from __future__ import annotations

from kaa.wire.errors import Errors
from kaa.wire.messages.k01_fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)
from tests.scale.requests import NAMES, NUMBERS, PARTITIONS, TOPICS, records_of
from tests.scale.steps import Scale

FIRST, LAST = 0, -1


class Reader:
    def __init__(self, scale: Scale) -> None:
        self._ask = scale.node.client.ask
        self._topics = scale.node.broker.services.image.topics
        self.session_id = 0

    def fetch(self, epoch: int, *, names: list[str], forgets: bool = False) -> FetchResponse:
        """The partitions of these topics, or no longer these."""
        topics = [
            FetchTopic(
                topic_id=self._topics[name].id,
                partitions=[
                    FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1024)
                    for number in NUMBERS
                ],
            )
            for name in (() if forgets else names)
        ]
        forgotten = [
            ForgottenTopic(topic_id=self._topics[name].id, partitions=NUMBERS)
            for name in (names if forgets else ())
        ]
        request = FetchRequest(
            max_wait_ms=100,
            min_bytes=1,
            session_id=self.session_id,
            session_epoch=epoch,
            topics=topics,
            forgotten_topics_data=forgotten,
        )
        answer: FetchResponse = self._ask(request)
        assert answer.error_code == Errors.NONE
        self.session_id = answer.session_id
        return answer


def test_fetches_of_everything(scale: Scale) -> None:
    produce = records_of(scale.node.broker.services.image, NAMES, NUMBERS)
    scale.node.client.ask(produce, decodes=False)

    def read() -> None:
        reader = Reader(scale)
        answer = reader.fetch(FIRST, names=NAMES)
        assert sum(len(topic.partitions) for topic in answer.responses) == TOPICS * PARTITIONS
        # What is not repeated in the session is read again, since it has more than was wanted.
        reader.fetch(1, names=[])
        # One that has nothing left would be over.
        most = NAMES[1:]
        reader.fetch(2, names=most, forgets=True)
        reader.fetch(3, names=most)
        reader.fetch(LAST, names=[])

    scale.undisturbed("Fetch", read)
