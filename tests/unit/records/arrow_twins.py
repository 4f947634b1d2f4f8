"""Runs a test against each kernel: the Python twin, and the compiled one if it was built."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kaa.records import (
    _pure_arrow,
    _pure_compaction,
    _pure_murmur2,
    arrow,
    arrow_encode,
    compaction,
    partitioner,
)

if TYPE_CHECKING:
    from types import ModuleType

    import pytest


class Kernel(NamedTuple):
    """The modules that hold the loops of one kernel."""

    name: str
    arrow: Any
    compaction: Any
    murmur2: Any


def _kernels() -> list[Kernel]:
    kernels = [Kernel("python", _pure_arrow, _pure_compaction, _pure_murmur2)]
    try:
        compiled: ModuleType = import_module("kaa.records._kernel")
    except ImportError:
        return kernels
    return [*kernels, Kernel("cython", compiled, compiled, compiled)]


KERNELS: Final = _kernels()

_USES: Final = (
    (arrow, "arrow", ("ArrowDecoder",)),
    (arrow_encode, "arrow", ("encode_rows", "order_by_partition")),
    (
        compaction,
        "compaction",
        (
            "offset_map_flags",
            "offset_map_get",
            "offset_map_scan",
            "offset_table",
            "retain_records",
        ),
    ),
    (partitioner, "murmur2", ("murmur2", "murmur2_partitions")),
)


def use(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the modules of the package call the loops of `kernel`."""
    for module, part, names in _USES:
        for name in names:
            monkeypatch.setattr(module, name, getattr(getattr(kernel, part), name))
