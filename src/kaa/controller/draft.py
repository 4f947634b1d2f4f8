"""A draft: an image to which very many changes are made in pieces, and which then counts at once.

A batch of the metadata log counts as a whole, and may have ten thousand records. To replay those
takes tens of milliseconds, which is too long for one step of the loop. So they are replayed on a
draft. It is a copy of the image, made in pieces too, which shares the values and owns none of the
topics. Until the image adopts the draft, which is a handful of assignments, a reader of the image
sees nothing of it. One who holds a dictionary or a topic of the image keeps what it was.

To free thousands of old values takes as long as to put in thousands. They are kept in a list,
and `let_go` frees them in pieces too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.controller.image import COLLECTIONS, ClusterImage
from kaa.limits import RECORDS_PER_PIECE

if TYPE_CHECKING:
    from kaa.model.pieces import Pieces


class Draft(ClusterImage):
    """An image that shares what it did not change with the one it is a draft of. That one must not
    be changed before it has adopted the draft. Made by `begin`.
    """

    def __init__(self) -> None:
        super().__init__()
        # What the image will not have any more.
        self._replaced: list[object] = []

    @classmethod
    def begin(cls, image: ClusterImage) -> Pieces[Draft]:
        draft = cls()
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

    def _leave(self, thing: object) -> None:
        if thing is not None:
            self._replaced.append(thing)
