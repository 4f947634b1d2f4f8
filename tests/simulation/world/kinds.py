"""The names of what may go wrong in a story; `faults` says what each of them does."""

from __future__ import annotations

from typing import Literal, get_args

Kind = Literal[
    "kill",
    "power cut",
    "crash in the middle of a write",
    "restart",
    "pause",
    "cut",
    "one-way cut",
    "slow link",
    "reset",
    "slow disk",
    "clock jump",
    "disk error",
    "client killed",
    "isolation",
    "kill of all",
    "lost fsync",
    "corrupted sector",
    "full disk",
    "rolling restart",
    "power cut of all",
    "client doubled",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
