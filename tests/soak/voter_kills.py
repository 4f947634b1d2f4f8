"""Voters killed at every system call of elections and of changes: `scripts/soak voter_kills`.

Goes through scenes and parts, and in each through kinds of calls and numbers; a kind ends where the
scene has fewer calls. It stops when time is up and says what it did not reach: all of it takes an
hour or so. A failure prints the command that plays its scene again.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
import traceback
from itertools import count
from pathlib import Path

from tests.process.syscall_kills import HOOK_KINDS
from tests.process.voter_kills import SCENES, Point, VoterStory

PARTS = tuple(f"{scene}/{part}" for scene, parts in SCENES.items() for part in parts)


class Run:
    """Points until time is up, and what came of them."""

    def __init__(self, seconds: float) -> None:
        self._started = time.monotonic()
        self._seconds = seconds
        self.kills = 0
        self.failed: list[Point] = []
        self.unfinished: list[str] = []

    @property
    def taken(self) -> float:
        return time.monotonic() - self._started

    def play_part(self, place: str) -> None:
        """Every kind of call of one part; a failure ends it, since its nodes are not to be
        trusted any more.
        """
        if self.taken > self._seconds:
            self.unfinished.append(place)
            return
        scene, part = place.split("/")
        with tempfile.TemporaryDirectory(prefix="kaa-voters-") as folder:
            point = Point(scene, part, HOOK_KINDS[0], 1)
            try:
                with VoterStory(Path(folder)) as story:
                    for kind in HOOK_KINDS:
                        for number in count(1):
                            if self.taken > self._seconds:
                                self.unfinished.append(f"{place}/{kind} from {number} on")
                                break
                            point = Point(scene, part, kind, number)
                            if not story.play(point):
                                self._say(f"{place}/{kind}: {number - 1} calls")
                                break
                            self.kills += 1
                    story.end()
            except Exception:  # noqa: BLE001  Whatever it is, the point is what matters.
                traceback.print_exc()
                self.failed.append(point)
                self._say(f"failed: {point}; replay: {replay_command(point)}")
                for path in sorted(Path(folder).glob("output-*")):
                    self._say(f"--- {path.name}\n{path.read_text()}")

    def _say(self, text: str) -> None:
        print(f"{self.taken:6.0f} s  {text}", flush=True)


def replay_command(point: Point) -> str:
    return f"python -m tests.soak.voter_kills --point '{point}'"


def replay(point: Point) -> int:
    with (
        tempfile.TemporaryDirectory(prefix="kaa-voters-") as folder,
        VoterStory(Path(folder)) as story,
    ):
        was_killed = story.play(point)
        story.end()
    print(f"{point}: {'killed' if was_killed else 'the scene has fewer calls'}, all is well")
    return 0


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.voter_kills", description=__doc__)
    parser.add_argument("--seconds", type=int, default=7200)
    parser.add_argument("--point", type=Point.parse, help="play this one alone")
    parser.add_argument(
        "--part", choices=PARTS, action="append", help="only this part; may be given many times"
    )
    options = parser.parse_args(arguments)
    # That a node that was killed cannot be reached is not news.
    logging.getLogger("kaa.client").setLevel(logging.ERROR)
    if options.point is not None:
        return replay(options.point)
    run = Run(options.seconds)
    for place in options.part or PARTS:
        run.play_part(place)
    print(f"{run.kills} kills, {len(run.failed)} failed, {run.taken:.0f} s")
    if run.unfinished:
        print("not gone through: " + "; ".join(run.unfinished))
    return 1 if run.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
