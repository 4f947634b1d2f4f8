"""Names of a package that are imported from their modules when they are first used.

A package that offers classes of many modules would load them all at its own import. Instead it
says which name lives where, and takes its `__getattr__` and `__dir__` from here (PEP 562):

    __getattr__, __dir__ = lazy_names(__name__, {"kaa.client.producer.producer": ["Producer"]})

The package keeps nothing of what was found: pytest's `pytester` takes modules out of `sys.modules`
and has them imported again, and a name from before would belong to another copy of its module.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


def lazy_names(
    package: str, modules: Mapping[str, Iterable[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Gives `__getattr__` and `__dir__` for a package, from the names of each module."""
    homes = {name: module for module, names in modules.items() for name in names}

    def find(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(home), name)

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return find, names
