"""Chooses the kernel once, at import: the compiled one where it was built, else its Python twin.

``KAA_PURE_PYTHON=1`` in the environment asks for the twin. Both give the same results; only the
speed differs (``KERNEL_NAME`` says which one is in use: ``cython`` or ``python``).
"""

from importlib import import_module
from os import environ
from typing import TYPE_CHECKING


def _kernel_name() -> str:
    if environ.get("KAA_PURE_PYTHON", "0") not in {"", "0"}:
        return "python"
    try:
        import_module("kaa.records._kernel")
    except ImportError:
        return "python"
    return "cython"


KERNEL_NAME = _kernel_name()

if TYPE_CHECKING or KERNEL_NAME == "python":
    from kaa.records._pure_validate import RecordScanner
else:
    from kaa.records._kernel import RecordScanner

__all__ = ["KERNEL_NAME", "RecordScanner"]
