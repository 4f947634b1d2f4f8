"""Answers to Metadata, kept encoded for as long as the image they tell of stands.

Clients ask the same again and again: for everything, or for the few topics that their kind of
program uses. Until the metadata changes, the answer is the same bytes for everyone who came in by
the same listener and asked for the same in the same version. With any change all of them are
dropped, and also when they have become too many: nothing here is worth to be looked after.

The answer to a request whose topics are yet to be created is not kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.limits import METADATA_ANSWERS_BYTES_MAX, METADATA_ANSWERS_MAX

if TYPE_CHECKING:
    from collections.abc import Hashable

    from kaa.serving.view import NodeView

# Encoded answers by their question. Once the image has changed there is another dictionary.
Kept = dict["Hashable", bytes]


class MetadataAnswers:
    """The answers of one broker."""

    def __init__(self, view: NodeView) -> None:
        self._view = view
        self._image = view.image
        self._changes = view.image.changes
        self._kept: Kept = {}
        self._bytes = 0

    def current(self) -> Kept:
        """What is kept of the image as it is now."""
        image = self._view.image
        if image is not self._image or image.changes != self._changes:
            self._image, self._changes = image, image.changes
            self._drop()
        return self._kept

    def keep(self, kept: Kept, question: Hashable, answer: bytes) -> None:
        """Keeps an answer that was made while `kept` was current; it may not be any more."""
        if kept is not self.current():
            return
        size = self._bytes + len(answer)
        if len(kept) >= METADATA_ANSWERS_MAX or size > METADATA_ANSWERS_BYTES_MAX:
            self._drop()
        if len(answer) <= METADATA_ANSWERS_BYTES_MAX:
            self._kept[question] = answer
            self._bytes += len(answer)

    def _drop(self) -> None:
        self._kept = {}
        self._bytes = 0
