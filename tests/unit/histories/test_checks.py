"""Each check finds what it is for, in the smallest history that shows it, and nothing else."""

from __future__ import annotations

import pytest

from tests.histories.checks import check
from tests.histories.model import Operation, Outcome, Poll, Send

OK, FAILED, UNKNOWN = Outcome.OK, Outcome.FAILED, Outcome.UNKNOWN


def sent(client: int, *sends: Send, outcome: Outcome = OK) -> Operation:
    return Operation(client, outcome, sends)


def polled(client: int, *records: tuple[int, int], kept: bool = True) -> Operation:
    return Operation(client, OK, (Poll(0, records),), position_kept=kept)


def transaction(client: int, *steps: Send | Poll, outcome: Outcome = OK) -> Operation:
    return Operation(client, outcome, steps, is_transaction=True)


def names(*operations: Operation) -> list[str]:
    return [anomaly.name for anomaly in check(operations)]


def test_a_sound_history() -> None:
    assert not names(
        sent(0, Send(0, 1, 0), Send(0, 2, 1)),
        sent(0, Send(0, 3), outcome=UNKNOWN),
        sent(0, Send(0, 4), outcome=FAILED),
        transaction(1, Poll(0, ((0, 1), (1, 2))), Send(0, 5, 4)),
        polled(2, (0, 1), (1, 2), (4, 5)),
        # It has been given the partition anew.
        polled(2, (0, 1), kept=False),
    )


def test_a_record_whose_fate_is_unknown_may_be_read() -> None:
    assert not names(sent(0, Send(0, 1), outcome=UNKNOWN), polled(1, (0, 1)))


def test_aborted_read() -> None:
    assert names(sent(0, Send(0, 1), outcome=FAILED), polled(1, (0, 1))) == ["aborted-read"]
    assert names(polled(1, (0, 7))) == ["aborted-read"]


def test_inconsistent_offsets() -> None:
    history = (
        sent(0, Send(0, 1, 0)),
        sent(1, Send(0, 2), outcome=UNKNOWN),
        polled(2, (0, 1)),
        polled(3, (0, 2)),
    )
    assert names(*history) == ["inconsistent-offsets"]


def test_an_acknowledged_offset_counts_as_seen() -> None:
    assert "inconsistent-offsets" in names(
        sent(0, Send(0, 1, 0)), sent(1, Send(0, 2), outcome=UNKNOWN), polled(2, (0, 2), (1, 1))
    )


def test_lost_write() -> None:
    history = (sent(0, Send(0, 1, 0), Send(0, 2, 1)), polled(1, (1, 2)))
    assert names(*history) == ["lost-write"]


def test_unseen() -> None:
    history = (sent(0, Send(0, 1, 0), Send(0, 2, 1)), polled(1, (0, 1)))
    assert names(*history) == ["unseen"]


def test_duplicate() -> None:
    assert names(sent(0, Send(0, 1, 0)), polled(1, (0, 1), (1, 1))) == ["duplicate"]


def test_circular_read() -> None:
    history = (
        transaction(0, Poll(0, ((1, 2),)), Send(0, 1, 0)),
        transaction(1, Poll(0, ((0, 1),)), Send(0, 2, 1)),
    )
    assert names(*history) == ["circular-read"]


def test_a_chain_of_reads_is_no_circle() -> None:
    assert not names(
        transaction(0, Send(0, 1, 0)),
        transaction(1, Poll(0, ((0, 1),)), Send(0, 2, 2)),
        transaction(2, Poll(0, ((0, 1), (2, 2))), Send(0, 3, 4)),
        polled(3, (0, 1), (2, 2), (4, 3)),
    )


@pytest.mark.parametrize("is_one_poll", [True, False])
def test_poll_skip(is_one_poll: bool) -> None:
    polls = [polled(1, (0, 1), (2, 3))] if is_one_poll else [polled(1, (0, 1)), polled(1, (2, 3))]
    history = (
        sent(0, Send(0, 1, 0), Send(0, 2, 1), Send(0, 3, 2)),
        polled(2, (0, 1), (1, 2), (2, 3)),
    )
    assert names(*history, *polls) == ["poll-skip"]


def test_offsets_that_nobody_saw_may_be_passed_over() -> None:
    assert not names(sent(0, Send(0, 1, 0), Send(0, 2, 9)), polled(1, (0, 1)), polled(1, (9, 2)))


def test_nonmonotonic_poll() -> None:
    history = (sent(0, Send(0, 1, 0), Send(0, 2, 1)), polled(1, (0, 1), (1, 2)), polled(1, (1, 2)))
    assert names(*history) == ["nonmonotonic-poll"]


def test_nonmonotonic_send() -> None:
    history = (sent(0, Send(0, 1, 1), Send(0, 2, 0)), polled(1, (0, 2), (1, 1)))
    assert names(*history) == ["nonmonotonic-send"]


def test_precommitted_read() -> None:
    history = (transaction(0, Send(0, 1, 0), Poll(0, ((0, 1),))),)
    assert names(*history) == ["precommitted-read"]


def test_a_value_sent_twice_makes_a_history_unreadable() -> None:
    with pytest.raises(ValueError, match="sent twice"):
        check([sent(0, Send(0, 1, 0)), sent(1, Send(0, 1, 1))])


def test_torn_transaction() -> None:
    torn = transaction(0, Send(0, 1), Send(0, 2), outcome=UNKNOWN)
    assert names(torn, polled(1, (0, 1))) == ["torn-transaction"]
    assert not names(torn, polled(1, (0, 1), (1, 2)))
    assert not names(torn)
