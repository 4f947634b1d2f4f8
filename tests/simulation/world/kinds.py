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
    # Of stories in which voters change.
    "disk replaced",
    # Of stories with a store.
    "store slow",
    "store down",
    "uploads cut",
    "answers lost",
    "short ranges",
    "damaged ranges",
]
_ALL: tuple[Kind, ...] = get_args(Kind)
KINDS = _ALL[: _ALL.index("disk replaced")]
VOTER_KINDS: tuple[Kind, ...] = (*KINDS, *("disk replaced",) * 3)
"""Disks that are lost come as often as three others."""
STORE_KINDS = _ALL[_ALL.index("store slow") :]
TIER_KINDS: tuple[Kind, ...] = (*KINDS, *STORE_KINDS * 2)
