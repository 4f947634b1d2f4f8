from __future__ import annotations

from random import Random

from kaa.quorum.config import QuorumConfig
from kaa.quorum.connections import Connections
from kaa.quorum.voters import Node

CONFIG = QuorumConfig(request_timeout_ms=100, retry_backoff_ms=20)
NODES = (Node(-2, "a", 1), Node(-3, "b", 1), Node(-4, "c", 1))


class Always(Random):
    def __init__(self, number: int) -> None:
        self.number = number

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        return self.number % start


def connections(start: int = 0) -> Connections:
    return Connections(NODES, CONFIG, Always(start))


def test_one_request_at_a_time() -> None:
    some = connections()
    assert some.is_ready(1, 0)
    correlation_id = some.sent(1, 0)
    assert not some.is_ready(1, 99)
    assert some.ready_ms(1, 10) == 100
    assert some.has_request_under_way(50)
    some.answered(1, correlation_id, ok=True, now_ms=50)
    assert some.is_ready(1, 50)
    assert some.next_change_ms(50) is None


def test_a_failure_is_followed_by_a_pause() -> None:
    some = connections()
    some.answered(1, some.sent(1, 0), ok=False, now_ms=50)
    assert some.is_backing_off(1, 69)
    assert not some.has_request_under_way(60)
    assert some.next_change_ms(60) == 70
    assert some.is_ready(1, 70)
    assert not some.is_backing_off(1, 70)


def test_a_request_without_answer_times_out() -> None:
    some = connections()
    some.sent(1, 0)
    assert not some.has_timed_out(1, 99)
    assert some.has_timed_out(1, 100)
    assert some.is_ready(1, 100)
    assert not some.has_request_under_way(100)
    some.forget(1)
    assert not some.has_timed_out(1, 100)


def test_only_the_awaited_answer_is_expected_and_only_in_time() -> None:
    some = connections()
    first = some.sent(1, 0)
    assert some.is_expected(1, first, 99)
    assert not some.is_expected(1, first, 100)
    assert not some.is_expected(1, first + 1, 50)
    assert not some.is_expected(2, first, 50)
    second = some.sent(1, 100)
    assert not some.is_expected(1, first, 101)
    some.answered(1, first, ok=False, now_ms=101)
    assert some.is_expected(1, second, 101)


def test_a_reset_forgets_all_and_reuses_no_number() -> None:
    some = connections()
    first = some.sent(1, 0)
    some.reset()
    assert not some.is_expected(1, first, 1)
    assert some.sent(1, 1) > first


def test_bootstrap_servers_are_asked_in_turn_from_a_random_start() -> None:
    some = connections(start=2)
    assert some.ready_server(0) == NODES[2]
    some.answered(-4, some.sent(-4, 0), ok=False, now_ms=1)
    assert some.ready_server(2) == NODES[0]
    some.sent(-2, 2)
    assert some.ready_server(3) is None
    assert Connections((), CONFIG, Always(0)).ready_server(0) is None
    for node in NODES:
        some.answered(node.id, some.sent(node.id, 200), ok=False, now_ms=200)
    assert some.ready_server(201) is None


def test_voters_are_asked_where_they_are_no_bootstrap_servers() -> None:
    some = connections(start=3)
    voters = (Node(1, "a", 1), Node(7, "d", 1))
    assert some.servers(voters) == [*NODES, voters[1]]
    assert some.ready_server(0, voters) == voters[1]


def test_a_pause_may_be_longer() -> None:
    some = connections()
    some.answered(1, some.sent(1, 0), ok=False, now_ms=50, pause_ms=1000)
    assert some.is_backing_off(1, 1049)
    assert some.is_ready(1, 1050)


def test_the_pause_of_an_epoch_is_over_with_it() -> None:
    some = connections()
    some.pause_epoch(3, 500)
    some.reset()
    assert some.epoch_paused_until_ms(3) == 500
    assert some.epoch_paused_until_ms(2) == some.epoch_paused_until_ms(4) == 0
