"""Follows a request through a node: which functions of Kaa run, in the order in which they begin.

What is followed is the thread of the node's loop, by the hook for profilers. A *hop* is a function
that calls others of Kaa: leaves are details of the place that they are called from. `wire`,
`records` and `model` are left out, since they have no way of their own.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import kaa

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_SOURCE = str(Path(kaa.__file__).parent) + "/"
_BELOW = ("wire/", "records/", "model/")


class Hop(NamedTuple):
    """A function, and the module it is in, as a path below src/kaa."""

    module: str
    function: str


class Walk:
    """What was seen on the way."""

    def __init__(self) -> None:
        # In the order in which they began; the value says whether it calls others.
        self._seen: dict[Hop, bool] = {}

    def note(self, frame: FrameType, event: str, _: object) -> None:
        hop = _hop(frame)
        if event != "call" or hop is None:
            return
        self._seen.setdefault(hop, False)
        caller = frame.f_back
        while caller is not None and caller.f_code.co_name.startswith("<"):
            caller = caller.f_back
        called_by = None if caller is None else _hop(caller)
        if called_by is not None:
            self._seen[called_by] = True

    @property
    def hops(self) -> list[Hop]:
        return [
            hop
            for hop, calls_others in self._seen.items()
            if calls_others and not hop.module.startswith(_BELOW)
        ]

    @property
    def modules(self) -> list[str]:
        """In the order in which they are come to."""
        return list(dict.fromkeys(hop.module for hop in self.hops))


def _hop(frame: FrameType) -> Hop | None:
    code = frame.f_code
    if code.co_name.startswith("<") or not code.co_filename.startswith(_SOURCE):
        return None
    module = code.co_filename.removeprefix(_SOURCE).removesuffix(".py")
    return Hop(module, code.co_qualname)


@contextmanager
def followed(walk: Walk | None = None) -> Iterator[Walk]:
    """Follows what this thread does, beside what the walk follows already."""
    walk, before = walk or Walk(), sys.getprofile()
    sys.setprofile(walk.note)
    try:
        yield walk
    finally:
        sys.setprofile(before)
