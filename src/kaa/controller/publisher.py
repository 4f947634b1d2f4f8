"""How a node learns of committed metadata: a queue of its own between the quorum and the rest.

Consensus must neither wait for those who follow the metadata nor fall with them. So committed
records change the image at once, and what that means for the node (partitions to open, settings to
apply) is published in turns of the loop of its own:

- in the order of the log: what is published later never belongs before what was published;
- in slices: a change of thousands of partitions is handed over a few hundred at a time, as are
  thousands of deletions, settings and quotas, which come before the partitions;
- with a fault policy of its own: a subscriber that fails is reported and counted, the others and
  what follows go on. It is not asked to take the same change again.

Readers of the image may see more than was published. `published_offset` says up to where every
subscriber has followed; a broker counts as caught up to that offset and no further, and answers of
the controller on this node wait for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.controller.feature_table import METADATA_VERSION

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from kaa.controller.image import ClusterImage, Delta

    Subscriber = Callable[[ClusterImage, Delta], None]


class ImagePublisher:
    """Hands committed changes of the image to the parts of the node that subscribed. `committed`
    returns at once; subscribers are called in later turns of the loop.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        image: ClusterImage,
        report: Callable[[str], None],
        on_published: Callable[[int], None],
    ) -> None:
        self._loop = loop
        self._image = image
        self._report = report
        self._on_published = on_published
        # By their names in reports, in the order of their calls.
        self._subscribers: dict[str, Subscriber] = {}
        # Everything below is in the image, and in what is left to publish.
        self._committed_offset = 0
        # The one that subscribers have; a snapshot brings another, even if nothing else changed.
        self._published_image: ClusterImage | None = None
        # What is left of the change being published.
        self._left: Delta | None = None
        # Where that change ends.
        self._left_offset = 0
        self._is_scheduled = False
        # Every subscriber has followed everything below it.
        self.published_offset = 0
        # Changes that a subscriber could not follow.
        self.fault_count = 0

    def subscribe(self, name: str, subscriber: Subscriber) -> None:
        """Has a function called with every change from now on, after those before it."""
        assert name not in self._subscribers
        self._subscribers[name] = subscriber

    def committed(self, image: ClusterImage, offset: int) -> None:
        """The image, a new one after a snapshot, has everything below `offset`."""
        self._image = image
        self._committed_offset = offset
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._is_scheduled = False
        image = self._image
        if METADATA_VERSION in image.features:
            if self._left is None:
                # Both are of the same moment, so that the slices end at this offset.
                self._left, self._left_offset = image.take_delta(), self._committed_offset
            part = self._left.take(image)
            if part or image is not self._published_image:
                self._publish(image, part)
            if self._left:
                self._schedule()
                return
            self._left = None
            offset = self._left_offset
        else:
            offset = self._committed_offset
        self.published_offset = max(self.published_offset, offset)
        self._on_published(self.published_offset)
        if self._committed_offset > offset:
            self._schedule()

    def _publish(self, image: ClusterImage, delta: Delta) -> None:
        self._published_image = image
        for name, subscriber in self._subscribers.items():
            try:
                subscriber(image, delta)
            except Exception as error:  # noqa: BLE001  The fault policy of the module's text.
                self.fault_count += 1
                self._report(
                    f"{name} could not follow a change of the metadata below offset "
                    f"{self._committed_offset}: {error!r}; restart the node if something is "
                    "missing on it"
                )
