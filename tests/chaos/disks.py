"""A disk of its own for each node: a file with a file system in it, mounted.

A power cut takes a copy of the file while the file system is still mounted: what was synced is in
it, and what only the kernel knew is not. A full disk has a file that takes all the space.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pathlib import Path

SIZE_MB = 512


class Disk:
    """See the module's text. As a context it is mounted at `place`."""

    def __init__(self, folder: Path) -> None:
        self.place = folder / "disk"
        self._image = folder / "disk.img"
        self._filler = self.place / "filler"

    def __enter__(self) -> Self:
        self.place.mkdir(parents=True)
        with self._image.open("wb") as image:
            image.truncate(SIZE_MB << 20)
        _run("mkfs.ext4", "-q", "-m", "0", "-E", "lazy_itable_init=0", str(self._image))
        self._mount()
        return self

    def __exit__(self, *exception: object) -> None:
        self._unmount()

    def _mount(self) -> None:
        # The kernel writes back by itself seldom, so that a power cut has something to take.
        _run("mount", "-o", "loop,commit=300", str(self._image), str(self.place))

    def _unmount(self) -> None:
        # Lazily: a process that was killed a moment ago may still hold its files.
        subprocess.run(["umount", "-l", str(self.place)], capture_output=True, check=False)

    def cut_power(self) -> None:
        """Forgets what was not synced; nobody may be using the disk."""
        remaining = self._image.with_suffix(".cut")
        _run("cp", "--sparse=always", str(self._image), str(remaining))
        self._unmount()
        remaining.replace(self._image)
        self._mount()

    def fill(self) -> None:
        """Takes all space but a little, which the node finds out about when it writes."""
        free = shutil.disk_usage(self.place).free
        with self._filler.open("wb") as filler:
            while free > 4096:
                try:
                    os.posix_fallocate(filler.fileno(), filler.seek(0, os.SEEK_END), free)
                    filler.seek(0, os.SEEK_END)
                except OSError:
                    free //= 2
                else:
                    free = shutil.disk_usage(self.place).free

    def make_room(self) -> None:
        self._filler.unlink(missing_ok=True)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
