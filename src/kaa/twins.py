"""Finds the compiled twin of a pure-Python part, where it was built.

Kaa's few compiled modules are optional: without a C compiler at installation each is replaced by
its Python twin, which gives the same results. `KAA_PURE_PYTHON=1` in the environment asks for the
twins.
"""

from __future__ import annotations

from importlib import import_module
from os import environ
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType


def compiled(name: str) -> ModuleType | None:
    """The compiled module `name`, or None if it was not built or is not wanted."""
    if environ.get("KAA_PURE_PYTHON", "0") not in {"", "0"}:
        return None
    try:
        return import_module(name)
    except ImportError:
        return None
