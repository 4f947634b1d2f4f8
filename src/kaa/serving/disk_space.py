"""How large the disk of a log directory is, and how much of it this process may still fill."""

from __future__ import annotations

import os
from typing import NamedTuple


class DiskSpace(NamedTuple):
    """Both -1 if the operating system does not tell."""

    total_bytes: int
    usable_bytes: int


def disk_space(path: str) -> DiskSpace:
    try:
        found = os.statvfs(path)
    except OSError:
        return DiskSpace(-1, -1)
    return DiskSpace(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)
