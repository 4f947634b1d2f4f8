"""Mistakes that others made with share groups, planted one at a time: each must be found by a test.

Stories of a queue find most of these too, some of them seldom, and not what makes a broker slower
with its topics or a partition wait for another. So each names the test that is there for it, which
is run over the planted fault and has to fail.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.simulation.mutants.planted import SHARE_LED, Mutant, by_name

SHARE_FETCH = "kaa.handlers.k78_share_fetch"
_UNIT = "tests/unit/serving/share"
_HANDLERS = "tests/unit/handlers"
_GROUPS = "tests/unit/coordinators/group/share"
_LEADERSHIP = (
    f"{_UNIT}/test_manager.py::test_it_goes_with_leadership_and_comes_back_from_what_was_written"
)


class FoundBy(NamedTuple):
    """A fault, and the test that finds it."""

    mutant: Mutant
    test: str


SHARE_MUTANTS = (
    # Stories find these as well, by what nodes do with the queue (`queue_watch`) and by where share
    # partitions are.
    FoundBy(by_name("a share partition outlives leadership"), _LEADERSHIP),
    FoundBy(by_name("a share partition keeps its first leader epoch"), _LEADERSHIP),
    FoundBy(
        by_name("anybody may acknowledge what a member holds"),
        f"{_HANDLERS}/test_k79_share_acknowledge.py::test_a_stranger_holds_nothing",
    ),
    FoundBy(
        by_name("how much is done with is not written"),
        f"{_UNIT}/test_offsets.py::test_the_lag_is_what_is_left",
    ),
    FoundBy(
        by_name("fenced share state is kept"),
        f"{_UNIT}/test_led.py::test_a_fenced_write_drops_it",
    ),
    FoundBy(
        by_name("share state is begun twice at once"),
        f"{_GROUPS}/test_states.py::test_state_in_use_is_not_begun_again",
    ),
    FoundBy(
        by_name("state is begun for a group that is elsewhere"),
        f"{_GROUPS}/test_states.py::test_who_no_longer_coordinates_a_group_begins_nothing_for_it",
    ),
    # These two cost time, and nothing else.
    FoundBy(
        Mutant(
            "share partitions write their state one after the other",
            SHARE_LED,
            "            await self._persister.write(self.key, change)\n",
            "            async with _ONE:\n"
            "                await self._persister.write(self.key, change)\n",
            also=(
                (
                    "class _Unwritten(NamedTuple):\n",
                    "from asyncio import Lock\n_ONE = Lock()\nclass _Unwritten(NamedTuple):\n",
                ),
            ),
        ),
        f"{_UNIT}/test_led.py::test_a_slow_coordinator_delays_one_share_partition_alone",
    ),
    FoundBy(
        Mutant(
            "all topics are walked through for one",
            SHARE_FETCH,
            "    shares, topics = services.share_partitions, services.image.topics_by_id\n",
            "    shares = services.share_partitions\n"
            "    topics = {topic.id: topic for topic in services.image.topics.values()}\n",
        ),
        f"{_HANDLERS}/test_k79_share_acknowledge.py::test_topics_are_looked_up_in_one_step",
    ),
)
