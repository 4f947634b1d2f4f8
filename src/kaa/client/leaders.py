"""Warnings about partitions that nobody leads, or that a topic does not have, or no longer has.

A client waits for them, since an election is over in a moment; when it is not, its user hears which
partition it is, long before a timeout says so.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from kaa.client.complaints import Complaints
from kaa.client.errors import DELETED, DELETED_HINT, HINTS
from kaa.client.metadata import NO_NODE
from kaa.model.words import count_text
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaa.client.metadata import Metadata
    from kaa.model.seams import Clock
    from kaa.model.topics import TopicPartition

# How often a partition may be without a leader, or not be there yet, in silence.
ELECTION_ATTEMPTS: Final = 4

_log = logging.getLogger(__name__)


class Leaders:
    """Tells the user of partitions without a leader, once until they have one."""

    def __init__(self, metadata: Metadata, clock: Clock) -> None:
        self._metadata = metadata
        self._complaints = Complaints(_log, clock)

    def complain(self, partitions: Iterable[TopicPartition]) -> None:
        """After an answer about their topics, by those who go on asking."""
        for name in partitions:
            if name.topic not in self._metadata.topics:
                continue
            text = self.trouble_of(name)
            if text is None:
                self._complaints.settle(name, "partition %s has a leader", name)
            else:
                self._complaints.warn(name, "%s", text, after=ELECTION_ATTEMPTS)

    def complain_of_topic(self, name: str) -> None:
        """The same of a topic that may have been deleted."""
        if self._metadata.is_deleted(name):
            self._complaints.warn(("topic", name), "topic %r was deleted; %s", name, DELETED_HINT)
        else:
            self._complaints.settle(("topic", name), "topic %r exists again", name)

    def trouble_of(self, name: TopicPartition) -> str | None:
        """Why nothing can be asked of a partition whose topic is, or was, known."""
        if self._metadata.is_deleted(name.topic):
            return f"{DELETED}; {DELETED_HINT}"
        topic = self._metadata.topics.get(name.topic)
        if topic is not None and name.partition >= len(topic.partitions):
            there = count_text(len(topic.partitions), "partition")
            return f"topic {name.topic!r} has no partition {name.partition}; it has {there}"
        if topic is not None and self._metadata.leader_of(*name) == NO_NODE:
            return f"partition {name} has no leader; {HINTS[Errors.LEADER_NOT_AVAILABLE]}"
        return None
