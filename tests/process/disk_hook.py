"""A node on whose second directory every write or sync fails, from the moment a file appears.

`python -c` of a test calls `install` before the node starts; see `kill_hook`. The directory of a
descriptor is asked of the system, so that nothing of the node needs to know.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any


def install(directory: str, functions: tuple[str, ...], code: int, trigger: str) -> None:
    """Lets these functions of `os` fail with an error for files below the directory."""
    for name in functions:
        setattr(os, name, _failing(getattr(os, name), directory, code, Path(trigger)))


def _failing(
    call: Callable[..., Any], directory: str, code: int, trigger: Path
) -> Callable[..., Any]:
    def failing(descriptor: int, *arguments: Any) -> Any:
        path = str(Path(f"/proc/self/fd/{descriptor}").readlink())
        if path.startswith(directory) and trigger.exists():
            raise OSError(code, os.strerror(code), path)
        return call(descriptor, *arguments)

    return failing
