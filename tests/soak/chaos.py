"""Brokers and controllers as processes, under faults of processes, networks, disks and clocks:
`scripts/soak chaos --system kaa --minutes 60`.

Needs Linux and root: namespaces for the network, mounted files as disks. A report in Markdown and a
time line as PNG go to `--into`; the run fails if anything was lost, doubled, torn or stuck, or if a
node ended or complained without having been asked to. The same runs against Apache Kafka (the
control of the checks) and against a cluster of both.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import get_args

from tests.chaos import report
from tests.chaos.faults import Fault
from tests.chaos.machines import System, clock_library
from tests.chaos.network import unsupported
from tests.chaos.story import tell

SECONDS = 600


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/soak chaos", description=__doc__)
    parser.add_argument("--system", choices=get_args(System), default="kaa")
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--minutes", type=float, help="the same in minutes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--combined", action="store_true", help="three nodes in both roles")
    parser.add_argument("--kinds", help="faults, with commas between them; all if none is named")
    parser.add_argument("--into", type=Path, help="folder of the report")
    options = parser.parse_args(arguments)
    if reason := unsupported():
        sys.stdout.write(f"chaos cannot run here: {reason}\n")
        return 1
    if not clock_library():
        sys.stdout.write("clocks will not jump: install libfaketime (apt or pip)\n")
    seconds = options.seconds if options.minutes is None else 60 * options.minutes
    kinds = [Fault(name.replace("_", " ")) for name in (options.kinds or "").split(",") if name]
    into = options.into or Path(tempfile.mkdtemp(prefix="kaa-chaos-"))
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        story = tell(
            Path(folder), options.system, options.seed, seconds, kinds, is_combined=options.combined
        )
    name = f"chaos-{options.system}-{options.seed}"
    text = "\n".join(report.lines(story)) + "\n"
    (into / f"{name}.md").write_text(text)
    report.draw(story, into / f"{name}.png")
    sys.stdout.write(f"{text}\n{into / name}.md and .png\n")
    return 0 if story.is_sound else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
