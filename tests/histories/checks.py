"""Nine checks over a history of clients that read committed records only.

| Check | What may not happen |
|---|---|
| aborted-read | a value was polled whose writer certainly failed |
| inconsistent-offsets | two values were seen at one offset of a partition |
| lost-write | an acknowledged value below the highest offset polled was never polled by anyone |
| unseen | an acknowledged value was not polled by anyone, though all was read at the end |
| duplicate | one value was seen at two offsets |
| circular-read | transactions read each other's writes in a circle |
| poll-skip, nonmonotonic-poll | polls of one client passed over a record, or went back |
| nonmonotonic-send | a later send of one client came before an earlier one |
| precommitted-read | a transaction polled a value that it wrote itself |
| torn-transaction | some values of a transaction were polled, and others were not |

That writes of several transactions interleave is normal in Kafka, and so are circles through the
order of writes; only circles through reads are counted. The checks are those of Jepsen's workload
for Kafka, as far as they apply to readers of committed data.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from typing import TYPE_CHECKING

from tests.histories.model import Anomaly, Operation, Outcome, Poll, Send

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

# A place in the log: partition and offset.
_Place = tuple[int, int]


class History:
    """Operations with the indexes that the checks share."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self.operations = operations
        self.writer: dict[int, Operation] = {}
        # Where each value was seen by a poll, or is according to an acknowledgement.
        self.places: dict[int, set[_Place]] = defaultdict(set)
        self.polled: dict[int, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
        for operation in operations:
            for send in operation.sends():
                if send.value in self.writer:
                    raise ValueError(f"value {send.value} is sent twice: no history can tell")
                self.writer[send.value] = operation
                if send.offset is not None and operation.outcome is Outcome.OK:
                    self.places[send.value].add((send.partition, send.offset))
            for poll in operation.polls():
                for offset, value in poll.records:
                    self.polled[poll.partition][offset].add(value)
                    self.places[value].add((poll.partition, offset))
        self.offsets_polled = {key: sorted(offsets) for key, offsets in self.polled.items()}
        self.values_polled = {
            value
            for offsets in self.polled.values()
            for values in offsets.values()
            for value in values
        }

    def acknowledged(self) -> Iterator[Send]:
        for operation in self.operations:
            if operation.outcome is Outcome.OK:
                yield from operation.sends()

    def passed_over(self, partition: int, after: int, before: int) -> list[int]:
        """Offsets between two that were polled by somebody."""
        offsets = self.offsets_polled.get(partition, [])
        return offsets[bisect_right(offsets, after) : bisect_left(offsets, before)]


def check(operations: Sequence[Operation]) -> list[Anomaly]:
    """Gives every anomaly of a history whose clients read everything at its end."""
    history = History(operations)
    return [
        *aborted_reads(history),
        *inconsistent_offsets(history),
        *lost_writes(history),
        *duplicates(history),
        *circular_reads(history),
        *poll_order(history),
        *send_order(history),
        *precommitted_reads(history),
        *torn_transactions(history),
    ]


def aborted_reads(history: History) -> Iterator[Anomaly]:
    for value in sorted(history.values_polled):
        writer = history.writer.get(value)
        if writer is None:
            yield Anomaly("aborted-read", f"{value} was polled and never sent")
        elif writer.outcome is Outcome.FAILED:
            yield Anomaly("aborted-read", f"{value} of client {writer.client} was polled")


def inconsistent_offsets(history: History) -> Iterator[Anomaly]:
    values_at: dict[_Place, set[int]] = defaultdict(set)
    for value, places in history.places.items():
        for place in places:
            values_at[place].add(value)
    for (partition, offset), values in sorted(values_at.items()):
        if len(values) > 1:
            detail = f"partition {partition}, offset {offset}: {sorted(values)}"
            yield Anomaly("inconsistent-offsets", detail)


def lost_writes(history: History) -> Iterator[Anomaly]:
    for send in history.acknowledged():
        if send.value in history.values_polled:
            continue
        highest = max(history.offsets_polled.get(send.partition, [-1]))
        is_passed = send.offset is not None and send.offset <= highest
        yield Anomaly("lost-write" if is_passed else "unseen", str(send))


def duplicates(history: History) -> Iterator[Anomaly]:
    for value, places in sorted(history.places.items()):
        if len(places) > 1:
            yield Anomaly("duplicate", f"{value} at {sorted(places)} (partition, offset)")


def circular_reads(history: History) -> Iterator[Anomaly]:
    """Circles of transactions of which each read what the one before it wrote."""
    readers: dict[int, set[int]] = defaultdict(set)
    number = {id(operation): index for index, operation in enumerate(history.operations)}
    for reader, operation in enumerate(history.operations):
        if not operation.is_transaction or operation.outcome is not Outcome.OK:
            continue
        for poll in operation.polls():
            for _, value in poll.records:
                writer = history.writer.get(value)
                if writer is not None and writer.is_transaction and writer is not operation:
                    readers[number[id(writer)]].add(reader)
    for circle in _circles(readers):
        yield Anomaly("circular-read", f"operations {circle}")


def _circles(edges: dict[int, set[int]]) -> Iterator[list[int]]:
    """What is left after taking away, over and over, nodes that nothing leads to or from."""
    remaining = {node: set(targets) for node, targets in edges.items()}
    while True:
        led_to = {target for targets in remaining.values() for target in targets}
        kept = {
            node: {target for target in targets if target in remaining}
            for node, targets in remaining.items()
            if node in led_to
        }
        kept = {node: targets for node, targets in kept.items() if targets}
        if kept == remaining:
            break
        remaining = kept
    if remaining:
        yield sorted(remaining)


def poll_order(history: History) -> Iterator[Anomaly]:
    """Within an operation always, between operations where the client kept its position."""
    last: dict[tuple[int, int], int] = {}
    for operation in history.operations:
        if not operation.position_kept:
            last = {key: offset for key, offset in last.items() if key[0] != operation.client}
        for poll in operation.polls():
            key = (operation.client, poll.partition)
            for offset, _ in poll.records:
                yield from _step(history, operation, poll, last.get(key), offset)
                last[key] = offset


def _step(
    history: History, operation: Operation, poll: Poll, before: int | None, offset: int
) -> Iterator[Anomaly]:
    if before is None:
        return
    where = f"client {operation.client}, partition {poll.partition}: {before} then {offset}"
    if offset <= before:
        yield Anomaly("nonmonotonic-poll", where)
    elif skipped := history.passed_over(poll.partition, before, offset):
        yield Anomaly("poll-skip", f"{where}, without {skipped[:5]}")


def send_order(history: History) -> Iterator[Anomaly]:
    last: dict[tuple[int, int], int] = {}
    for operation in history.operations:
        for send in operation.sends():
            if send.offset is None or operation.outcome is not Outcome.OK:
                continue
            key = (operation.client, send.partition)
            if send.offset <= last.get(key, -1):
                detail = f"client {operation.client}: {send} after offset {last[key]}"
                yield Anomaly("nonmonotonic-send", detail)
            last[key] = send.offset


def precommitted_reads(history: History) -> Iterator[Anomaly]:
    for operation in history.operations:
        if not operation.is_transaction:
            continue
        own = {send.value for send in operation.sends()}
        for value in _values(operation.polls()):
            if value in own:
                yield Anomaly("precommitted-read", f"client {operation.client} polled its {value}")


def torn_transactions(history: History) -> Iterator[Anomaly]:
    """Whatever became of a transaction became of all of it."""
    for operation in history.operations:
        if not operation.is_transaction or operation.outcome is Outcome.FAILED:
            continue
        values = [send.value for send in operation.sends()]
        seen = [value for value in values if value in history.values_polled]
        if seen and len(seen) < len(values):
            missing = sorted(set(values) - set(seen))
            detail = f"client {operation.client}: {seen[:5]} without {missing[:5]}"
            yield Anomaly("torn-transaction", detail)


def _values(polls: Iterable[Poll]) -> Iterator[int]:
    for poll in polls:
        for _, value in poll.records:
            yield value
