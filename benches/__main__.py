"""`python -m benches`: the yardstick and the smaller benchmarks, by name."""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benches.brokers import raise_descriptor_limit, use_checkout
from benches.cells import CELLS, beside_checkout, find
from benches.figure import report
from benches.report import RESULTS, keep, print_table, raw
from benches.scale import FULL, QUICK

if TYPE_CHECKING:
    from benches.cells import Cell
    from benches.figure import Figure
    from benches.scale import Scale

# Benchmarks of single parts, in this process: by the name of the module, the title of its table.
PARTS: Final = {
    "wire": "Messages: time of one decode or encode, beside the other Python codecs",
    "kernel": "Records: the kernel on one core, uncompressed, 100-byte values",
    "client": "Client: Kaa's beside aiokafka, one client at a time against one node of Kaa",
    "formats": "Formats: values to Arrow columns on one core, beside dicts",
    "moves": "Moves: replicas from one log directory to another, beside Apache Kafka",
    "quorum": "Quorum: three controllers beside three of Apache Kafka",
    "replication": "Replication: three brokers beside three of Apache Kafka",
    "queues": "Queues: share groups beside those of Apache Kafka",
    "lake": "Tables: topics to Parquet and Iceberg, per core",
    "upserts": "Upserts of many keys, beside MERGE of the Iceberg runtime on Spark 4.1.4",
    "tier": "History of a tiered topic in Spark: from the store, beside through brokers",
}
_LIMIT_BYTES: Final = 512 * 1024 * 1024
_EPILOG: Final = """
examples:
  scripts/bench quick                      every cell of the short list, in at most 15 minutes
  scripts/bench full                       every cell, in at most 3 hours
  scripts/bench produce/librdkafka latency the cells whose names begin so
  scripts/bench wire kernel limit          single parts
  scripts/bench upserts --keys 200000      upserts of a table beside the Iceberg runtime
  scripts/bench moves                      replicas that change their log directory, 25 GiB of disk
  scripts/bench quick --before ../kaa-main  the same for another checkout of Kaa instead of Kafka
  scripts/bench --profile latency/one-in-flight
  scripts/bench --list                     the names of all cells
"""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description="Measures Kaa beside Apache Kafka.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="*", help="quick, full, a part, or the beginning of cells")
    parser.add_argument("--list", action="store_true", help="print the names of all cells")
    parser.add_argument("--minutes", type=float, help="another time box")
    parser.add_argument("--rounds", type=int, help="another number of rounds")
    parser.add_argument("--full", action="store_true", help="named cells at the scale of full")
    parser.add_argument(
        "--keep", metavar="FOLDER", default="named",
        help="where in benches/results named cells are kept; without it they are not committed",
    )  # fmt: skip
    parser.add_argument(
        "--before", metavar="CHECKOUT", type=Path,
        help="another checkout of Kaa in the place of Kafka; kept in the folder `before`",
    )  # fmt: skip
    parser.add_argument("--profile", metavar="NAME", help="a flame graph of Kaa under this cell")
    parser.add_argument("--keys", type=int, help="of `upserts`, instead of ten million")
    options = parser.parse_args(arguments)
    if options.keys is not None and ("upserts" not in options.name or options.keys < 1):
        parser.error("--keys takes a number above 0, and belongs to `upserts`")
    if options.list:
        print("\n".join(cell.name for cell in CELLS))
        return 0
    raise_descriptor_limit()
    # Ended from outside, it still ends what it started and keeps what it measured.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if options.profile:
        from benches.profiling import profile

        return profile(options.profile)
    names = options.name or ["quick"]
    parts = [name for name in names if name in PARTS]
    for part in parts:
        module = importlib.import_module(f"benches.{part}")
        by_keys = options.keys is not None and part == "upserts"
        figures: list[Figure] = module.run(options.keys) if by_keys else module.run()
        report(part, PARTS[part], figures)
    others = [name for name in names if name not in PARTS]
    return _measure(others, options) if others else 0


def _measure(names: list[str], options: argparse.Namespace) -> int:
    from dataclasses import replace

    scale: Scale = FULL if names == ["full"] or options.full else QUICK
    if options.rounds:
        scale = replace(scale, rounds=options.rounds)
    if names in (["quick"], ["full"]):
        cells = [cell for cell in CELLS if cell.is_quick or scale.name == FULL.name]
    elif names == ["limit"]:
        cells, scale = [], replace(scale, name="named")
    else:
        try:
            cells = find([name for name in names if name != "limit"])
        except LookupError as error:
            print(f"no cell is named {error.args[0]}; scripts/bench --list names them all")
            return 2
        scale = replace(scale, name="named")
    if options.before is not None:
        use_checkout(options.before.resolve())
        cells, scale = beside_checkout(cells), replace(scale, name="named")
        if options.keep == "named":
            options.keep = "before"
    # Named cells do not take the place of a whole run.
    folder = RESULTS / options.keep if scale.name == "named" else RESULTS
    return _run(cells, scale, None if options.minutes is None else options.minutes * 60, folder)


def _run(cells: list[Cell], scale: Scale, box_seconds: float | None, folder: Path) -> int:
    from benches import plots
    from benches.limit import measure
    from benches.runner import run_cells

    console = Console()
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,
    ) as progress:
        total = sum(len(cell.sides) for cell in cells) * scale.rounds
        task = progress.add_task("the limit of this machine", total=total)
        limit = measure(_LIMIT_BYTES)

        def report(cell: Cell, number: int, side: str) -> None:
            text = f"{cell.name}, round {number + 1}, {side}"
            progress.update(task, advance=1, description=text)
            if not console.is_terminal:
                print(text, flush=True)

        results = run_cells(cells, scale, report, box_seconds)
    print_table(results, Console(width=max(150, console.width)))
    for name, found in limit.items():
        print(
            f"limit, {name}: {found['mb_per_second']:,.0f} MB/s, "
            f"{found['cpu_seconds_per_gb']:.2f} CPU s/GB"
        )
    left_out = [cell.name for cell in CELLS if cell not in cells]
    keep(results, limit, left_out, folder)
    for path in plots.draw(raw(results, limit), folder):
        print(f"drawn: {os.path.relpath(path)}")
    print(f"kept in {os.path.relpath(folder)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
