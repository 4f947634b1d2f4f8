"""Subscriptions by regular expression."""

from __future__ import annotations

from itertools import pairwise

import pytest

from kaa.coordinators.group.consumer import regex as regex_module
from kaa.coordinators.group.consumer.group import ConsumerGroupState, ResolvedRegex
from kaa.coordinators.group.consumer.regex import resolve, resolved_records
from kaa.limits import (
    CONSUMER_GROUP_ASSIGNOR_SLICE_STEPS_MAX,
    CONSUMER_GROUP_REGEX_HASHES_PER_STEP_MAX,
    CONSUMER_GROUP_REGEX_MATCHES_PER_STEP_MAX,
    LOOP_HELD_MS_MAX,
    NAMES_ANSWERED_PER_SLICE_MAX,
)
from kaa.model.pieces import finish
from kaa.wire.errors import Errors
from tests.unit.coordinators.group.consumer.bench import ConsumerBench, assigned


def test_it_is_resolved_after_the_heartbeat() -> None:
    bench = ConsumerBench()
    first = bench.beat("a", regex="[tx]")
    assert (first.member_epoch, assigned(first)) == (1, {})
    bench.advance(0)
    group = bench.consumer_group()
    assert group.regexes["[tx]"].topics == {"t"}
    assert group.regexes["[tx]"].version == bench.offset
    answer = bench.beat("a", 1, owned={})
    assert (answer.member_epoch, assigned(answer)) == (2, {"t": [0, 1, 2, 3]})


def test_the_whole_name_must_match() -> None:
    bench = ConsumerBench()
    bench.create("tt", 1)
    bench.beat("a", regex="t")
    bench.advance(0)
    assert bench.consumer_group().regexes["t"].topics == {"t"}


def test_the_hash_of_what_matches_is_prepared_in_pieces() -> None:
    bench = ConsumerBench()
    names = [f"many-{number}" for number in range(3 * CONSUMER_GROUP_REGEX_HASHES_PER_STEP_MAX)]
    for name in names:
        bench.create(name, 1)
    prepared = [
        sum(bench.topics.is_prepared([name]) for name in names)
        for _ in resolve(["many-.*"], bench.topics, 0)
    ]
    step = CONSUMER_GROUP_REGEX_HASHES_PER_STEP_MAX
    # It is compiled in a step of its own, and matched with these names and t.
    before = 1 + (len(names) + 1) // CONSUMER_GROUP_REGEX_MATCHES_PER_STEP_MAX
    assert prepared == [0] * before + [step, 2 * step, 3 * step]
    assert bench.topics.is_prepared(names)
    assert not bench.topics.is_prepared(["t"])


def test_many_expressions_are_matched_in_as_small_steps_as_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done = dict.fromkeys(("compiled", "matched"), 0)

    class Matcher:
        def __init__(self, _: str) -> None:
            done["compiled"] += 1

        def fullmatch(self, _: str) -> None:
            done["matched"] += 1

    monkeypatch.setattr(regex_module, "compile_regex", Matcher)
    bench = ConsumerBench()
    for number in range(98):
        bench.create(f"many-{number}", 1)
    found = resolve([f"{number}-.*" for number in range(30)], bench.topics, 0)
    steps = [dict(done), *(dict(done) for _ in found)]
    assert done == {"compiled": 30, "matched": 3_000}
    most = {what: max(b[what] - a[what] for a, b in pairwise(steps)) for what in done}
    assert most == {"compiled": 1, "matched": CONSUMER_GROUP_REGEX_MATCHES_PER_STEP_MAX}


def test_a_slice_of_expensive_matches_is_short() -> None:
    # In an expression of the largest size, a match has been seen to take 40 us.
    matches = CONSUMER_GROUP_REGEX_MATCHES_PER_STEP_MAX * CONSUMER_GROUP_ASSIGNOR_SLICE_STEPS_MAX
    assert matches * 0.04 <= LOOP_HELD_MS_MAX / 2


def test_records_of_many_expressions_are_made_in_pieces() -> None:
    bench = ConsumerBench()
    bench.beat("a", regex="t")
    bench.beat("b", regex="u")
    names = frozenset(f"many-{number}" for number in range(NAMES_ANSWERED_PER_SLICE_MAX))
    found = {regex: ResolvedRegex(names, 1, 0) for regex in ("t", "u", "left")}
    pieces = resolved_records(bench.consumer_group(), found, bench.topics)
    assert sum(1 for _ in pieces) == 2
    assert len(finish(resolved_records(bench.consumer_group(), found, bench.topics))) == 3


def test_new_topics_are_found_but_not_at_once() -> None:
    bench = ConsumerBench()
    bench.beat("a", regex="t.*")
    bench.advance(0)
    bench.settle("a")
    bench.create("tt", 1)
    bench.settle("a")
    bench.advance(10_000)
    bench.settle("a")
    assert "tt" not in bench.owned("a")
    bench.advance(1)
    bench.settle("a", rounds=1)
    bench.advance(0)
    bench.settle("a")
    assert bench.owned("a")["tt"] == [0]


def test_they_are_resolved_again_after_a_long_time() -> None:
    bench = ConsumerBench(regex_refresh_interval_ms=30_000)
    bench.beat("a", regex="t.*")
    bench.advance(0)
    bench.settle("a")
    resolved = bench.consumer_group().regexes["t.*"]
    bench.advance(30_000)
    bench.settle("a", rounds=1)
    bench.advance(0)
    assert bench.consumer_group().regexes["t.*"] == resolved
    bench.advance(1)
    bench.settle("a", rounds=1)
    bench.advance(0)
    again = bench.consumer_group().regexes["t.*"]
    assert again.timestamp_ms == resolved.timestamp_ms + 30_001
    # Nothing else matches: no other epoch.
    assert bench.consumer_group().state is ConsumerGroupState.STABLE


def test_two_members_with_one_expression() -> None:
    bench = ConsumerBench()
    bench.beat("a", regex="t.*")
    bench.advance(0)
    bench.settle("a")
    assert bench.beat("b", regex="t.*").member_epoch == 3
    bench.settle("a", "b")
    assert sorted(bench.owned("a")["t"] + bench.owned("b")["t"]) == [0, 1, 2, 3]
    bench.beat("a", -1)
    assert "t.*" in bench.consumer_group().regexes
    bench.beat("b", -1)
    assert "t.*" not in bench.consumer_group().regexes


def test_another_expression_and_none() -> None:
    bench = ConsumerBench()
    bench.beat("a", regex="t")
    bench.advance(0)
    bench.settle("a")
    epoch = bench.consumer_group().members["a"].member_epoch
    answer = bench.beat("a", epoch, regex="u", owned=bench.owned("a"))
    # What it had is not subscribed to any more, and the new one is not resolved yet.
    assert assigned(answer) == {}
    bench.advance(10_001)
    bench.settle("a", rounds=1)
    bench.advance(0)
    bench.settle("a")
    assert bench.owned("a") == {"u": [0, 1]}
    epoch = bench.consumer_group().members["a"].member_epoch
    bench.beat("a", epoch, regex="", owned=bench.owned("a"))
    bench.settle("a")
    assert bench.owned("a") == {}
    assert len(bench.consumer_group().regexes) == 0


def test_names_and_expression_together() -> None:
    bench = ConsumerBench()
    bench.beat("a", topics=["t"], regex="u")
    bench.advance(0)
    bench.settle("a")
    assert bench.owned("a") == {"t": [0, 1, 2, 3], "u": [0, 1]}


def test_what_is_no_expression_is_refused() -> None:
    assert ConsumerBench().beat("a", regex="(") is Errors.INVALID_REGULAR_EXPRESSION


def test_an_expression_that_another_broker_has_taken_matches_nothing() -> None:
    bench = ConsumerBench()
    found = finish(resolve(["(?=t)t", "u"], bench.topics, 0))
    assert {regex: set(resolved.topics) for regex, resolved in found.items()} == {"u": {"u"}}
