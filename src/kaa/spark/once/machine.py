"""How a batch of rows becomes visible exactly once, whatever dies. Pure.

Spark calls `write` in tasks, which may be repeated, and then `commit` or `abort` on the
driver, in a new object each time. A batch that was not finished is replayed after a restart, with
the same number and the same rows, and `commit` is called again. Kafka lets anyone who knows the
name, producer id and epoch of a transaction complete it. So:

1. Each task with rows writes one transaction, leaves it open, and tells the driver its *entry*:
   name, producer id and epoch.
2. The driver writes down that these entries are the batch: the *decision*. It is one record in a
   compacted topic, keyed by the query, itself written in a transaction, whose commit is the moment
   at which the batch counts.
3. The driver commits the entries, marks the decision as done, and aborts what else of the query is
   open: it *sweeps*.

A driver that dies before the decision leaves open transactions, which nobody has seen and which the
next run sweeps away. One that dies after it leaves a decision, and the next run completes that one
and aborts what it wrote itself in the meantime. Without the decision, a driver that died between
two commits would replay the batch and write the rows of the finished tasks twice.

Two drivers at once: each begins by taking the id under which decisions are written, which fences
the other. The one that was fenced cannot decide any more; what it had decided before, the other
one reads.

A sweep must not meet what a newer driver is about to decide: between the moment at which that one
saw its transactions open and its decision, an abort would cost rows. No look before an abort can
rule that out, since the abort may come late. So a driver first writes down which transactions it is
going to abort, by name, producer id and epoch, in the record that marks its decision as done; only
who was not fenced can. A newer driver has fenced it and then reads either that record, and does not
decide transactions that stand in it, or none, and then none will follow. Each record carries the
list on until a newer list replaces it, which has all that is still open. An abort names producer id
and epoch too, so that however late it comes it never meets a newer transaction of that name. (It
does not fence the producer: a task that is still at work notices by itself, see `tasks`.)

The functions here are generators: they yield what is to be done and are sent the answer. A commit
goes through these effects:

    Fence -> ReadDecision -> Describe -> Decide -> End... -> ListOpen -> MarkDone -> End...
                  |                        |         ^                                |
                  |                        |         |                              Await
                  |                        `-- outcome unknown: begin again
                  `-- decided already: abort own entries that are not in it --> End...
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from kaa.limits import SPARK_ABORT_SWEEPS, SPARK_DECISION_ATTEMPTS_MAX
from kaa.spark.errors import LostTransactionError, SupersededError
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence


class Entry(NamedTuple):
    """The open transaction of a task."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class KnownTransaction(NamedTuple):
    """What a coordinator knows of a transaction."""

    is_ongoing: bool
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class Decision:
    """These entries are that batch; `is_done` when all of them are known to be committed.

    `swept` are other transactions of the query, which may be aborted at any time from now on.
    """

    batch_id: int
    entries: tuple[Entry, ...]
    is_done: bool = False
    swept: tuple[Entry, ...] = ()


# What stands in the place of a decision where a sweep comes before the first one.
_NOTHING_DECIDED: Final = Decision(-1, (), is_done=True)


class Outcome(Enum):
    """What is known of a decision that was sent."""

    DECIDED = "decided"
    UNKNOWN = "unknown"


# --- effects


@dataclass(frozen=True, slots=True)
class Fence:
    """Take the id under which decisions of this query are written; others lose it."""


@dataclass(frozen=True, slots=True)
class ReadDecision:
    """The newest decision of this query, or None. Answer: `Decision | None`."""


@dataclass(frozen=True, slots=True)
class Describe:
    """The states of these transactions. Answer: by name; unknown ones are absent."""

    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Decide:
    """Write a decision. Answer: `Outcome`; raises SupersededError if the id was taken."""

    decision: Decision


@dataclass(frozen=True, slots=True)
class End:
    """Commit or abort transactions, several at a time and in any order; what may pass is tried
    again. Answer: `list[Errors]`, in the order of the entries.
    """

    entries: tuple[Entry, ...]
    is_commit: bool


@dataclass(frozen=True, slots=True)
class ListOpen:
    """Every open transaction of this query. Answer: `tuple[Entry, ...]`."""


@dataclass(frozen=True, slots=True)
class MarkDone:
    """Write that a decision is done, and what is swept. Answer and errors are those of Decide."""

    decision: Decision


@dataclass(frozen=True, slots=True)
class Await:
    """Wait until the markers of these transactions are written, so that readers see their end."""

    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait a moment, for tasks that Spark has killed and that are not gone yet."""


Effect: TypeAlias = (
    Fence | ReadDecision | Describe | Decide | End | ListOpen | MarkDone | Await | Pause
)
Protocol: TypeAlias = "Generator[Effect, object, None]"


def commit_batch(batch_id: int, entries: Sequence[Entry], *, skips_older: bool = False) -> Protocol:
    """Makes a batch visible, once.

    A newer decision means that another run went on without this one, which must stop. With
    `skips_older` it means that this batch was done long ago, as where users number batches.
    """
    for _ in range(SPARK_DECISION_ATTEMPTS_MAX):
        yield Fence()
        last = yield ReadDecision()
        assert last is None or isinstance(last, Decision)
        if last is not None and last.batch_id >= batch_id:
            yield from _drop_repeated(batch_id, last, entries, skips_older=skips_older)
            decision = last
            break
        if last is not None and not last.is_done and skips_older:
            # Users may go on to another number without having repeated the one that failed.
            yield from _complete(last)
        if not entries:
            # No row: there is nothing that could be seen twice.
            yield from _sweep(last or _NOTHING_DECIDED)
            return
        yield from _check_open(batch_id, entries, last)
        decision = Decision(batch_id, tuple(entries), swept=last.swept if last else ())
        outcome = yield Decide(decision)
        if outcome is Outcome.DECIDED:
            break
    else:
        raise LostTransactionError(
            f"whether batch {batch_id} is decided is still not known after "
            f"{SPARK_DECISION_ATTEMPTS_MAX} attempts; restart the query, which will find out"
        )
    if not decision.is_done:
        yield from _complete(decision)
    swept = yield from _sweep(decision)
    yield Await(tuple(dict.fromkeys((*decision.entries, *entries, *swept))))


def _drop_repeated(
    batch_id: int, last: Decision, entries: Sequence[Entry], *, skips_older: bool
) -> Protocol:
    """The batch is decided: what this run wrote of it is too much."""
    if last.batch_id > batch_id and not skips_older:
        raise SupersededError(
            f"batch {batch_id} was superseded by a newer run of the query, which has decided "
            f"batch {last.batch_id}; this run must stop"
        )
    decided = frozenset(last.entries if last.batch_id == batch_id else ())
    yield from _abort([entry for entry in entries if entry not in decided])


def _abort(entries: Sequence[Entry]) -> Protocol:
    if entries:
        yield End(tuple(entries), is_commit=False)


def _check_open(batch_id: int, entries: Sequence[Entry], last: Decision | None) -> Protocol:
    """Before the decision a lost transaction costs a replay; after it, rows."""
    states = yield Describe(tuple(entries))
    assert isinstance(states, dict)
    swept = last.swept if last else ()
    for entry in entries:
        if states.get(entry.transactional_id) != (True, *entry[1:]) or entry in swept:
            raise LostTransactionError(
                f"transaction {entry.transactional_id} of batch {batch_id} is no longer open: "
                "it timed out, or another run of the query aborts it. Nothing of the batch is "
                "visible; restart the query, and raise transactionTimeoutMs if batches take longer "
                "than that"
            )


def _complete(decision: Decision) -> Protocol:
    if not decision.entries:
        return
    errors = yield End(decision.entries, is_commit=True)
    assert isinstance(errors, list)
    for entry, error in zip(decision.entries, errors, strict=True):
        if error is not Errors.NONE:
            raise LostTransactionError(
                f"transaction {entry.transactional_id} (producer id {entry.producer_id}, epoch "
                f"{entry.producer_epoch}) of batch {decision.batch_id} was decided and cannot be "
                f"committed: {error.name}. Its rows are lost"
            )


def _sweep(decision: Decision) -> Generator[Effect, object, tuple[Entry, ...]]:
    """Marks a decision as done and aborts what else is open, which is written down first."""
    swept = yield ListOpen()
    assert isinstance(swept, tuple)
    if decision.is_done and not swept:
        return ()
    outcome = yield MarkDone(replace(decision, is_done=True, swept=swept))
    if outcome is not Outcome.DECIDED:
        # Nobody may know yet, so they stay open until the next batch sweeps, or they time out.
        return ()
    yield from _abort(swept)
    return swept


def abort_batch(
    batch_id: int, entries: Sequence[Entry], *, has_lost_tasks: bool = False
) -> Protocol:
    """Takes a batch back, unless it is decided: then the next run completes it.

    Tasks that failed or were killed said nothing, and may have left transactions open; some of them
    are still at work for a moment, so that one look is not enough.
    """
    yield Fence()
    last = yield ReadDecision()
    assert last is None or isinstance(last, Decision)
    if last is not None and last.batch_id == batch_id:
        return
    yield from _abort(entries)
    yield Await(tuple(entries))
    if last is not None and (last.batch_id > batch_id or not last.is_done):
        # A newer run is at work, or has to complete what it decided: what is open may be its own.
        return
    for number in range(SPARK_ABORT_SWEEPS if has_lost_tasks else 1):
        if number:
            yield Pause()
        yield from _sweep(last or _NOTHING_DECIDED)
