"""`python -m benches [part ...]`: runs the named benchmarks, or all."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Final

from benches.figure import report

if TYPE_CHECKING:
    from benches.figure import Figure

# By the name of the module, the title of its table.
PARTS: Final = {
    "wire": "Messages: time of one decode or encode, beside the other Python codecs",
    "kernel": "Records: the kernel on one core, uncompressed, 100-byte values",
}


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        print(f"no benchmark is named {', '.join(unknown)}; there are {', '.join(PARTS)}")
        return 2
    behind = 0
    for part in names or PARTS:
        figures: list[Figure] = importlib.import_module(f"benches.{part}").run()
        report(part, PARTS[part], figures)
        behind += sum(figure.verdict == "behind" for figure in figures)
    print(f"{behind} figures behind" if behind else "every figure ahead")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
