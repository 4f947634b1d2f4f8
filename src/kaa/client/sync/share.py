"""The share consumer for scripts without asyncio."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.client.arguments import names_of
from kaa.client.share import consumer as asynchronous
from kaa.client.share.session import AcknowledgeType
from kaa.client.sync.thread import ClientThread

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kaa.client.errors import KafkaError
    from kaa.client.share.consumer import Committed, ShareRecord
    from kaa.model.topics import TopicPartition


class ShareConsumer(ClientThread[asynchronous.ShareConsumer]):
    """`kaa.client.ShareConsumer` without asyncio.

    The callback of acknowledgements is called by the thread of the client.
    """

    def __init__(self, settings: Mapping[str, object] | None = None, **named: object) -> None:
        super().__init__(
            lambda: asynchronous.ShareConsumer(settings, random=None, clock=None, **named)
        )

    def subscribe(self, topics: Iterable[str]) -> None:
        """Reads these topics together with the rest of the share group."""
        self._do(self.asynchronous.subscribe, names_of(topics))

    @property
    def subscription(self) -> frozenset[str]:
        """The topics that are subscribed to."""
        return self.asynchronous.subscription

    def poll(self, timeout_ms: int | None = None) -> list[ShareRecord]:
        """The next records that the group gives; waits at most `timeout_ms` (None: for ever)."""
        return self._call(self.asynchronous.poll(timeout_ms))

    def acknowledge(
        self, record: ShareRecord, kind: AcknowledgeType = AcknowledgeType.ACCEPT
    ) -> None:
        """Says what became of a record: accepted, released to others, or rejected."""
        self._do(self.asynchronous.acknowledge, record, kind)

    def commit(self) -> dict[TopicPartition, KafkaError | None]:
        """Sends the acknowledgements and waits; by partition None, or the error."""
        return self._call(self.asynchronous.commit())

    def set_acknowledgement_commit_callback(self, callback: Committed | None) -> None:
        """Calls back when acknowledgements were stored or refused; None ends that."""
        self._do(self.asynchronous.set_acknowledgement_commit_callback, callback)

    def __iter__(self) -> Iterator[ShareRecord]:
        """Records one by one, for ever; each is accepted when the next is asked for."""
        twin = self.asynchronous
        records = twin.__aiter__()

        async def following() -> ShareRecord:
            return await anext(records)

        while True:
            yield self._call(following())
