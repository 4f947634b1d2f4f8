"""The disk of a node inside a test: memory, and what a power cut would leave of it."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from kaa.log.sim_files import SimFiles

if TYPE_CHECKING:
    from kaa.log.sim_files import CrashMode, Operation


class MemoryFiles(SimFiles):
    """The in-memory twin without its plan of crashes, and without a history that would grow."""

    def step(self, operation: Operation, path: str) -> None:
        """Nothing fails here."""

    def left_by(self, mode: CrashMode) -> MemoryFiles:
        """A copy of the disk as a crash now would leave it.

        These files stay usable: the node that wrote them is still to be taken down, and whatever it
        writes meanwhile nobody reads. Threads may write while this runs; every step of the copy
        takes a folder or a file at once, and a power cut promises no more than that.
        """
        found = MemoryFiles()
        found._root = self._root.after_crash(mode, Random(0))
        return found
