"""Stories of moves, faults planted into them, and a crash at each operation of a move."""

from __future__ import annotations

import errno
from contextlib import suppress
from itertools import product
from typing import TYPE_CHECKING, get_args

import pytest

from kaa.log.errors import CorruptFileError, LogError
from kaa.log.sim_files import CrashError, Fault, Inspection, Operation
from kaa.wire.errors import Errors
from tests.simulation.moves.bench import KEY, PATHS, SECONDS_MAX, directory_id
from tests.simulation.moves.mutants import (
    FAULTS,
    MOMENT_FAULTS,
    SWAP_FAULTS,
    PlantedFault,
    failed_source_is_not_told,
    found_copies_are_not_read,
    m7_copies_of_logs_that_are_not_loaded_are_removed,
)
from tests.simulation.moves.stories import Story, quiet, tell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaa.log.sim_files import CrashMode

SEEDS = 30
# How many stories a fault may take to be found.
STORIES_MAX = 80
# What a broken promise looks like; anything else is a mistake of the test.
FOUND = (AssertionError, LogError, CorruptFileError)
# The length of a moment, of which a swap has several.
MOMENT_SECONDS = 0.0001
# Of a story with group commit.
GROUP_COMMITTED_SEED = 8
MODES: tuple[CrashMode, ...] = ("kill", "lost", "torn")


@pytest.fixture(scope="module", autouse=True)
def _quiet() -> Iterator[None]:
    with quiet():
        yield


@pytest.mark.parametrize("seed", range(SEEDS))
def test_replica_is_the_same_wherever_it_moves(seed: int) -> None:
    tell(seed)


@pytest.mark.parametrize(
    ("fault", "first_seed"), FAULTS, ids=[fault.__name__ for fault, _ in FAULTS]
)
def test_planted_fault_is_found(fault: PlantedFault, first_seed: int) -> None:
    for seed in (first_seed, *range(STORIES_MAX)):
        try:
            with fault():
                tell(seed)
        except FOUND:
            return
    pytest.fail(f"{fault.__name__} is not found by {STORIES_MAX} stories")


def begun(crash_at: int | None) -> tuple[Story, str]:
    """A log of some segments, most of it durable, whose move begins; the story and the source."""
    story = Story(7)
    for _ in range(5):
        story.append()
    story.bench.broker.log().flush(story.bench.wall_ms())
    story.append()
    (source,) = story.allowed
    files = story.bench.files
    if crash_at is not None:
        files.crash_at = len(files.history) + crash_at
    target = next(path for path in PATHS if path != source)
    story.allowed.add(target)
    with suppress(CrashError):
        story.bench.alter(target)
    if not files.dead:
        story.bench.kernel.run_until(
            lambda: files.dead or story.is_at_rest(), SECONDS_MAX, "the move ends"
        )
    return story, source


def operations() -> int:
    """How many operations on files a move is."""
    story, _ = begun(10**9)
    files = story.bench.files
    assert files.crash_at is not None
    return len(files.history) - (files.crash_at - 10**9)


def crash_everywhere(modes: tuple[CrashMode, ...], *, loses_source: bool) -> int:
    """Crashes at each operation; the log must be right, and the move go on, or be done. How often
    it goes on.
    """
    goes_on = 0
    for crash_at in range(operations() + 1):
        for mode in modes:
            story, source = begun(crash_at)
            story.restart(mode, (source,) if loses_source else ())
            goes_on += bool(story.bench.broker.logs.futures.logs)
            story.settle()
    return goes_on


def test_crash_at_each_operation_of_a_move_leaves_one_right_log() -> None:
    assert operations() > 30
    assert crash_everywhere(MODES, loses_source=False) > operations()


def test_crash_with_the_disk_of_the_source_gone_for_a_while_costs_nothing() -> None:
    crash_everywhere(("kill",), loses_source=True)


def test_copies_that_are_removed_because_a_disk_is_away_are_missed() -> None:
    with m7_copies_of_logs_that_are_not_loaded_are_removed(), pytest.raises(AssertionError):
        crash_everywhere(("kill",), loses_source=True)


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EROFS], ids=errno.errorcode.get)
def test_disk_that_fails_at_any_operation_goes_offline_alone(code: int) -> None:
    """Of the source or the target of a move, at appends, flushes, rolls, checkpoints, retention,
    cleaning, the copy and the swap.
    """
    events = ["append", "compact", "move", "append", "flush", "trim", "retain", "append"]
    failed = 0
    for operation, is_source, skip in product(get_args(Operation), (True, False), (0, 1, 4, 9)):
        failed += fails_alone(operation, code, skip, events, is_source=is_source)
    assert failed > 30


@pytest.mark.parametrize("event", ["consume", "look_up", "compact", "retain", "append", "move"])
def test_disk_that_cannot_be_read_goes_offline_alone(event: str) -> None:
    """Whatever finds out: fetches, searches by time, the cleaner, retention, a roll, a copy. What
    nobody looked at since the start is not in memory.
    """
    events = [event, "append", "consume"]
    failed = 0
    sides = (True, False) if event == "move" else (True,)
    for operation, is_source, skip in product(get_args(Inspection), sides, (0, 1, 4, 9)):
        failed += fails_alone(
            operation, errno.EIO, skip, events, is_source=is_source, is_restarted=True
        )
    assert failed > 4


def fails_alone(
    operation: Operation | Inspection,
    code: int,
    skip: int,
    events: list[str],
    *,
    is_source: bool,
    is_restarted: bool = False,
) -> bool:
    """Tells a story in which one disk fails at an operation; whether it came to that."""
    story = Story(skip)
    for _ in range(6):
        story.append()
    story.bench.broker.flush_rolled()
    (source,) = story.allowed
    if is_restarted:
        story.restart("kill")
        # The first one was followed by a comparison, which reads everything.
        story.bench.restart("kill")
    target = next(path for path in PATHS if path != source)
    story.target = target
    path = source if is_source else target
    offline = story.break_a_disk(path, operation, code, skip, events)
    if offline:
        handles = story.bench.files.open_paths()
        assert not [name for name in handles if name.startswith(f"{path}/t-0")]
        others = [each for each in story.bench.broker.logs.directories if each.path != path]
        assert all(each.is_online for each in others)
        if not is_source:
            story.append()
    story.restart("kill")
    story.settle()
    return bool(offline)


def held_before_its_swap(seed: int = 7) -> tuple[Story, str, str]:
    """A move whose target the controller knows, and which waits for its source: the story, the
    source and the target.
    """
    story = Story(seed)
    for _ in range(5):
        story.append()
    (source,) = story.allowed
    # The folder of the new log is durable: nothing syncs its directory by chance later on.
    story.bench.kernel.run_for(1)
    log = story.bench.broker.log()
    log.flush(story.bench.wall_ms())
    log.is_cleaning = True
    target = next(path for path in PATHS if path != source)
    story.allowed.add(target)
    story.targets.add(target)
    assert story.bench.alter(target) is Errors.NONE
    story.bench.kernel.run_until(
        lambda: story.bench.assigned == directory_id(target), SECONDS_MAX, "the target is known"
    )
    story.append()
    return story, source, target


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("is_back", [True, False])
@pytest.mark.parametrize("is_source", [True, False])
def test_disk_that_fails_at_each_step_of_a_swap_costs_nothing(
    is_source: bool, is_back: bool, mode: CrashMode
) -> None:
    """The broker goes on, as far as it can, and is killed then; the disk is back, or not yet."""
    assert fail_at_each_step(mode, is_source=is_source, is_back=is_back) > 3


@pytest.mark.parametrize("fault", SWAP_FAULTS, ids=lambda fault: fault.__name__)
def test_fault_that_is_planted_in_the_swap_is_found(fault: PlantedFault) -> None:
    with pytest.raises(FOUND), fault():
        fail_at_each_step_of_either_side()


def fail_at_each_step_of_either_side() -> None:
    for mode, is_source in product(MODES, (True, False)):
        fail_at_each_step(mode, is_source=is_source, is_back=True)


def fail_at_each_step(mode: CrashMode, *, is_source: bool, is_back: bool) -> int:
    """How many steps there are at which the disk of the source or the target can fail."""
    failed = 0
    for operation in (*get_args(Operation), "read"):
        for skip in range(20):
            story, source, target = held_before_its_swap()
            path, files = source if is_source else target, story.bench.files
            files.faults = [Fault(operation, path, skip=skip, times=10**9)]
            log = story.bench.broker.partition().online_log()
            log.is_cleaning = False
            story.bench.kernel.run_for(1)
            files.faults = []
            assert story._offline() <= {path}
            if not story._offline():
                break
            failed += 1
            story.append()
            story.restart(mode, () if is_back else (path,))
            story.settle()
    return failed


def test_source_that_fails_before_its_swap_is_told_to_the_controller() -> None:
    fail_before_the_swap()
    with pytest.raises(AssertionError), failed_source_is_not_told():
        fail_before_the_swap()


def fail_before_the_swap() -> None:
    story, source, _ = held_before_its_swap()
    story.bench.broker.partition().online_log().directory.fail(OSError("it failed"))
    story.bench.kernel.run_for(1)
    assert story.bench.assigned == directory_id(source)
    story.restart("kill")
    story.settle()


def test_bytes_of_a_copy_that_change_while_the_broker_is_down_are_not_swapped_in() -> None:
    assert change_bytes_of_a_copy() > 20
    with pytest.raises(FOUND), found_copies_are_not_read():
        change_bytes_of_a_copy()


def change_bytes_of_a_copy() -> int:
    """In how many places, in all segments but the last, which is scanned by recovery."""
    position, segments = 0, 1
    places = 0
    while segments:
        story, _, _ = held_before_its_swap()
        copy = story.bench.broker.logs.futures.logs[KEY]
        copy.flush(story.bench.wall_ms())
        copy.directory.checkpoint_recovery_points()
        closed = [each for each in list(copy.segments)[:-1] if each.size > position]
        segments = len(closed)
        for segment in closed:
            byte = segment.file.read(1, position)[0]
            segment.file.write([bytes([byte ^ 0x21])], position)
            places += 1
        story.restart("kill")
        story.settle()
        position += 31
    return places


def interrupt_the_swap(seed: int, mode: CrashMode, *, is_trimmed: bool) -> int:
    """Crashes at every moment from the last append before a swap to its end, perhaps just after
    records were deleted; in how many of them the swap was under way.
    """
    under_way = 0
    for moment in range(60):
        story, source, _ = held_before_its_swap(seed)
        log = story.bench.broker.partition().online_log()
        log.is_cleaning = False
        story.append()
        story.bench.kernel.run_for(moment * MOMENT_SECONDS)
        under_way += log.pending is not None
        is_over = story.bench.broker.partition().online_log().directory.path != source
        if is_trimmed:
            story.trim()
        story.restart(mode)
        story.settle()
        if is_over:
            break
    return under_way


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("is_trimmed", [True, False])
def test_crash_at_any_moment_of_a_swap_undoes_nothing_that_was_answered(
    is_trimmed: bool, mode: CrashMode
) -> None:
    assert interrupt_the_swap(GROUP_COMMITTED_SEED, mode, is_trimmed=is_trimmed) > 1


@pytest.mark.parametrize("fault", MOMENT_FAULTS, ids=lambda fault: fault.__name__)
def test_fault_of_a_moment_is_found(fault: PlantedFault) -> None:
    with pytest.raises(FOUND), fault():
        interrupt_the_swap_in_every_way()


def interrupt_the_swap_in_every_way() -> None:
    for mode, is_trimmed in product(MODES, (True, False)):
        interrupt_the_swap(GROUP_COMMITTED_SEED, mode, is_trimmed=is_trimmed)
