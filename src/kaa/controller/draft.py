"""A draft: an image to which very many changes are made in pieces, and which then counts at once.

A batch of the metadata log counts as a whole, and may have ten thousand records. To replay those
takes tens of milliseconds, which is too long for one step of the loop. So they are replayed on a
draft. It starts as a copy of the image's dictionaries, which is cheap, and shares the values in
them: brokers, partitions and records are replaced as a whole anyway, and topics and settings, which
change in place, are copied when the first change comes to them. Until the image adopts the draft,
which is a handful of assignments, a reader of the image sees nothing of it. One who holds a
dictionary or a topic of the image keeps what it was.

To free thousands of old values takes as long as to put in thousands. They are kept in a list,
and `let_go` frees them in pieces too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.controller.image import COLLECTIONS, ClusterImage
from kaa.limits import RECORDS_PER_PIECE

if TYPE_CHECKING:
    from kaa.controller.image import Key, TopicImage, Value
    from kaa.model.pieces import Pieces
    from kaa.wire.primitives import Uuid


class Draft(ClusterImage):
    """An image that shares what it did not change with the one it is a draft of. That one must not
    be changed before it has adopted the draft. Made by `begin`.
    """

    def __init__(self, image: ClusterImage) -> None:
        super().__init__()
        self._before = image
        # What the image will not have any more.
        self._replaced: list[object] = []

    @classmethod
    def begin(cls, image: ClusterImage) -> Pieces[Draft]:
        draft = cls(image)
        for name in COLLECTIONS:
            found = getattr(image, name)
            setattr(draft, name, dict(found))
            if len(found) > RECORDS_PER_PIECE:
                yield
        draft.next_producer_id = image.next_producer_id
        draft.producer_ids_record = image.producer_ids_record
        return draft

    def let_go(self) -> Pieces[None]:
        """Frees what the adopted draft replaced."""
        while self._replaced:
            yield
            del self._replaced[-RECORDS_PER_PIECE:]

    def _topic_to_change(self, topic_id: Uuid) -> TopicImage:
        topic = self.topics_by_id[topic_id]
        if topic is self._before.topics_by_id.get(topic_id):
            self._replaced.append(topic)
            topic = topic.copy()
            self.topics[topic.name] = self.topics_by_id[topic_id] = topic
        return topic

    def _values_to_change(
        self, collection: dict[Key, dict[str, Value]], key: Key
    ) -> dict[str, Value]:
        values = collection.get(key)
        if values is None:
            return {}
        before = self._before.configs if collection is self.configs else self._before.quotas
        if values is before.get(key):  # type: ignore[call-overload]  # Each has its own keys.
            self._replaced.append(values)
            values = dict(values)
        return values

    def _leave(self, thing: object) -> None:
        if thing is not None:
            self._replaced.append(thing)
