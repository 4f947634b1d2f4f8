"""What a node hands to members of share groups: every delivery, and what is in flight now.

Deliveries are seen where answers to ShareFetch pass (`faults` puts this in front of the handler).
What is in flight is known to the share-partition leader alone, in memory, so it is asked there: on
the loop of the node, or through a command where the node is a child process.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from kaa import limits
from kaa.serving.share.in_flight import RecordState
from kaa.testing.fault_actions import then

if TYPE_CHECKING:
    from kaa.broker import Broker
    from kaa.handlers.context import Answer, Handle, RequestContext
    from kaa.wire.primitives import Uuid
    from kaa.wire.schema import Response


class Handed(NamedTuple):
    """Offsets that a member was given together."""

    topic_id: Uuid
    partition: int
    first_offset: int
    last_offset: int
    member_id: str
    delivery_count: int


class Deliveries:
    """What was handed out, by group, oldest first."""

    def __init__(self) -> None:
        self._handed: deque[tuple[str, Handed]] = deque(
            maxlen=limits.TESTING_DELIVERIES_REMEMBERED_MAX
        )

    def of_group(self, group_id: str) -> list[Handed]:
        """What members of a group were handed, in order."""
        return [handed for group, handed in tuple(self._handed) if group == group_id]

    def clear(self) -> None:
        """Forgets everything."""
        self._handed.clear()

    def watching(self, handle: Handle) -> Handle:
        """The handler of ShareFetch, with what it hands out noted."""

        def look_after(services: Any, request: Any, context: RequestContext) -> Answer[Response]:
            def note(answer: Response | None) -> Response | None:
                self._note(request, answer)
                return answer

            return then(handle(services, request, context), note)

        return look_after

    def _note(self, request: Any, answer: Any) -> None:
        self._handed += [
            (
                request.group_id,
                Handed(
                    topic.topic_id,
                    row.partition_index,
                    acquired.first_offset,
                    acquired.last_offset,
                    request.member_id,
                    acquired.delivery_count,
                ),
            )
            for topic in answer.responses
            for row in topic.partitions
            for acquired in row.acquired_records
        ]


def held(broker: Broker, group_id: str) -> list[Handed]:
    """What members of a group hold now, of the partitions that a node leads. On its loop."""
    return [
        Handed(
            led.key.topic_id,
            led.key.partition,
            max(first, led.machine.start_offset),
            last,
            state.member_id,
            state.delivery_count,
        )
        for led in broker.services.share_partitions.of_group(group_id)
        for batch in led.machine.window
        for first, last, state in batch.states()
        if state.state is RecordState.ACQUIRED and last >= led.machine.start_offset
    ]
