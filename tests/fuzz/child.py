"""Fuzzes one target in a process of its own, since the fuzzer never returns.

`python -m tests.fuzz.child NAME [arguments of libFuzzer]`. Coverage is that of Kaa's Python code,
the decoders that are generated at run time among it.
"""

from __future__ import annotations

import sys
from random import Random
from typing import Any

import atheris

# There are hundreds of decoders, and to prepare one takes long. Others are taken in the next run.
DECODERS_SHARE = 0.25


def main(arguments: list[str]) -> None:
    name, *options = arguments
    with atheris.instrument_imports(include=["kaa"]):
        from kaa.wire.source import FunctionSource
        from tests.fuzz.targets import TARGETS

    plain = FunctionSource.compiled
    random = Random()

    def compiled(self: FunctionSource) -> Any:
        # Only what reads hostile bytes is worth the time that this takes.
        is_decoder = self.lines[0].startswith("def decode(")
        is_chosen = is_decoder and random.random() < DECODERS_SHARE
        return atheris.instrument_func(plain(self)) if is_chosen else plain(self)

    FunctionSource.compiled = compiled  # type: ignore[method-assign]
    atheris.Setup([sys.argv[0], *options], TARGETS[name].run)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1:])
