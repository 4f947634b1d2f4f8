"""What members of a share group saw, and whether a queue may behave so.

1. A record whose end (accepted, rejected) was answered as stored is never handed out again.
2. No record is handed out more often than the limit says, by the count that comes with it.
3. At the end every record was accepted or rejected, or was given up after the last delivery.

A record that ends without an answer may come again: nobody was promised that it would not.
"""

from __future__ import annotations

from typing import Final, NamedTuple

# Partition and offset.
Place = tuple[int, int]

DELIVERED: Final = "delivered"
ENDED: Final = "ended"


class Event(NamedTuple):
    """Something that a member saw, in the order in which it was seen."""

    kind: str
    place: Place
    member: str
    # Of a delivery: the how many-th it is.
    deliveries: int = 0


def problems(history: list[Event], everything: set[Place], count_max: int) -> list[str]:
    """What must not have happened."""
    found = []
    ended: dict[Place, str] = {}
    counts: dict[Place, int] = {}
    for event in history:
        if event.kind == ENDED:
            ended[event.place] = event.member
            continue
        if event.place in ended:
            found.append(f"{event.place} ended with {ended[event.place]}, then came again: {event}")
        if not 1 <= event.deliveries <= count_max:
            found.append(f"a delivery that must not be: {event}")
        counts[event.place] = max(counts.get(event.place, 0), event.deliveries)
    found += [
        f"{place} never ended; it was delivered {counts.get(place, 0)} times"
        for place in sorted(everything - ended.keys())
        if counts.get(place, 0) < count_max
    ]
    found += [f"{place} was never written" for place in sorted(counts.keys() - everything)]
    return found
