"""Plans for the compiled decoder. What it decodes is tested with its twin in `test_decoder`."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kaa.wire.plan import KERNEL_NAME, compile_plan, kernel
from kaa.wire.primitives import WireError
from tests.unit.wire.samples import FLEXIBLE, OLD, Sample, flexible_sample, old_sample


def test_a_plan_exists_exactly_where_the_kernel_was_built() -> None:
    assert (KERNEL_NAME == "python") == (kernel is None)
    assert (compile_plan(Sample, OLD) is None) == (kernel is None)


def test_the_environment_asks_for_the_python_twin() -> None:
    program = "from kaa.wire.plan import KERNEL_NAME, compile_plan; print(KERNEL_NAME)"
    for value, names in (("1", {"python"}), ("0", {KERNEL_NAME, "cython"})):
        ran = subprocess.run(
            [sys.executable, "-c", program],
            env={"KAA_PURE_PYTHON": value, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert ran.stdout.strip() in names


def test_a_plan_reads_within_its_bounds_alone() -> None:
    for version, (sample, data) in ((OLD, old_sample()), (FLEXIBLE, flexible_sample())):
        decode = compile_plan(Sample, version)
        if decode is None:
            continue
        padded = memoryview(b"\xff" + data + b"\xff")
        assert decode(padded, 1, len(data) + 1, 100, 100) == (sample, len(data) + 1)
        for position, end in ((-1, 5), (5, 4), (0, len(padded) + 1), (1, len(data))):
            with pytest.raises(WireError):
                decode(padded, position, end, 100, 100)
