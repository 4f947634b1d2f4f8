"""SIGKILL at the first, the last and three more calls of each kind; the soak takes every one."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.process.kill_hook import TORN_WRITE
from tests.process.syscall_kills import (
    STRACE_KINDS,
    KillPoint,
    check_files,
    chosen_numbers,
    has_strace,
    run,
)

SEED = 1
# A kill near the end may come too late, since no two runs make quite the same calls: the longer one
# takes, the more checkpoints it writes.
MISSED_MAX = 1
# On a busy machine a story makes far fewer calls than its rehearsal.
ATTEMPTS_MAX = 6


# Some lives of a node, each with two starts.
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kind", [*STRACE_KINDS, TORN_WRITE])
def test_node_killed_at_a_call(kind: str, tmp_path: Path) -> None:
    is_hook = kind == TORN_WRITE or not has_strace()
    _, total = run(tmp_path / "rehearsal", KillPoint(kind, 0, is_hook))
    assert total > 1
    numbers = chosen_numbers(total, Random(f"{SEED} {kind}"))
    missed = [number for number in numbers if not kill(tmp_path, kind, number, total, is_hook)]
    assert len(missed) <= MISSED_MAX, f"no call {missed} of {total}"


def kill(folder: Path, kind: str, number: int, total: int, is_hook: bool) -> bool:
    """Whether the kill came; a run with fewer calls than the rehearsal gets more chances, each at a
    call that should come sooner.
    """
    chosen = number
    for attempt in range(ATTEMPTS_MAX):
        point = KillPoint(kind, number, is_hook)
        try:
            was_killed, count = run(folder / f"{chosen}-{attempt}", point)
        except BaseException as error:
            error.add_note(f"{point} of {total}")
            raise
        if was_killed:
            return True
        number = max(1, min(number, count) * 8 // 10)
    return False


def test_what_is_left_over_is_seen(tmp_path: Path) -> None:
    for name in ("plain-0", "plain-1", "compacted-0", "short-0", "__cluster_metadata-0"):
        (tmp_path / name).mkdir()
    (tmp_path / "__consumer_offsets-0").mkdir()
    (tmp_path / "plain-0" / "00000000000000000000.log").touch()
    check_files([tmp_path])
    left_over = tmp_path / "plain-0" / "00000000000000000000.log.cleaned"
    left_over.touch()
    with pytest.raises(AssertionError):
        check_files([tmp_path])
    left_over.rename(tmp_path / "recovery-point-offset-checkpoint.tmp")
    with pytest.raises(AssertionError):
        check_files([tmp_path])
