"""CRC-32C, the checksum of record batches and of some of Kafka's files.

The function is that of the `crc32c` package. Its `__init__` reads the metadata of the installed
packages and loads a command line, which takes as long as a tenth of all that a node imports: so the
compiled module in it is loaded by itself, where it is found.
"""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import TYPE_CHECKING

__all__ = ["crc32c"]

if TYPE_CHECKING:
    from types import ModuleType


def _compiled() -> ModuleType | None:
    """The module alone; None if the package is in use already, or is not built as it was."""
    package = None if "crc32c" in sys.modules else find_spec("crc32c")
    if package is None or not package.submodule_search_locations:
        return None
    spec = PathFinder.find_spec("_crc32c", list(package.submodule_search_locations))
    if spec is None or spec.loader is None:
        return None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module if hasattr(module, "crc32c") else None


if TYPE_CHECKING or (_module := _compiled()) is None:
    from crc32c import crc32c
else:
    crc32c = _module.crc32c
