"""A node on whose second directory every call of some kinds fails, from the moment a file appears.

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
        # The second descriptor of `sendfile` is the file.
        place = 1 if name == "sendfile" else 0
        setattr(os, name, _failing(getattr(os, name), place, directory, code, Path(trigger)))


def _failing(
    call: Callable[..., Any], place: int, directory: str, code: int, trigger: Path
) -> Callable[..., Any]:
    def failing(*arguments: Any) -> Any:
        path = str(Path(f"/proc/self/fd/{arguments[place]}").readlink())
        if path.startswith(directory) and trigger.exists():
            raise OSError(code, os.strerror(code), path)
        return call(*arguments)

    return failing
