from __future__ import annotations

from kaa.coordinators.group.classic.records import group_tombstone
from kaa.coordinators.group.outcome import Outcome


class Waiting:
    def keep(self, answer: object, /) -> None:
        raise AssertionError("a machine answers by its result")


def test_what_is_gathered_becomes_a_result() -> None:
    outcome = Outcome()
    waiting = Waiting()
    outcome.reply(waiting, "answer")
    outcome.reply(None, "nobody hears it")
    result = outcome.result("response")
    assert [tuple(reply) for reply in result.replies] == [(waiting, "answer")]
    assert (result.response, result.is_replayed, result.then) == ("response", True, None)


def test_a_stored_record_is_not_replayed() -> None:
    outcome = Outcome()
    outcome.store(group_tombstone("g"), "event")
    result = outcome.result()
    assert (len(result.records), result.then, result.is_replayed) == (1, "event", False)
