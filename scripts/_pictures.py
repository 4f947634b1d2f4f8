"""Makes the pictures in docs/pictures: of terminals from real runs, and drawings (`_drawings`).

For terminals, a playground (`kaa dev`) runs on a free port. Each picture is a list of commands,
which run one after the other in a terminal of their own (a pty), so that what is shown is what a
user sees, colours included. The prompt and the address of the broker, which nobody has to see, are
the only things that are not as they were.
"""

from __future__ import annotations

import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from scripts._drawings import drawings

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "pictures"
COLUMNS = 92
KAA = [sys.executable, "-c", "from kaa.cli import main; main()"]
START_SECONDS_MAX = 60
COMMAND_SECONDS_MAX = 60


class Picture(NamedTuple):
    """A file, and the lines that are typed in it."""

    name: str
    title: str
    commands: tuple[str, ...]


PICTURES = (
    Picture(
        "records",
        "kaa topic, produce, consume",
        (
            "kaa topic create greetings -p 3",
            "echo hello | kaa produce greetings -k world",
            "kaa consume greetings -e -f '%p@%o %k: %s\\n'",
            "kaa topic describe greetings",
        ),
    ),
    Picture(
        "groups",
        "kaa tail, kaa group",
        (
            "kaa tail orders payments -n 4",
            "kaa group lag billing",
            "kaa group seek billing --to @-1m",
        ),
    ),
    Picture(
        "perf",
        "kaa perf e2e",
        ("kaa topic create probe", "kaa perf e2e probe -n 2000"),
    ),
    Picture(
        "errors",
        "an error",
        ("kaa topic create orders", "kaa consume no-such-topic -e"),
    ),
)

# Fonts come from the reader's machine: a picture asks nobody for anything.
FONT_FACE = re.compile(r"@font-face\s*{[^}]*}\s*")


@contextmanager
def playground() -> Iterator[str]:
    """A broker with sample topics; gives its address."""
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [*KAA, "dev", "--port", "0", "--rate", "30"],
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
        )
        try:
            assert process.stderr is not None
            address = ""
            deadline = time.monotonic() + START_SECONDS_MAX
            for line in process.stderr:
                name, _, rest = line.partition(" ")
                if name == "plaintext":
                    address = rest.strip()
                if name == "try":
                    break
                if time.monotonic() > deadline:
                    raise TimeoutError("the playground did not start")
            # A few seconds of life, so that there is something to look at.
            time.sleep(5)  # noqa: TID251 - a program that takes pictures may wait.
            yield address
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=COMMAND_SECONDS_MAX)


def run_in_terminal(command: str, address: str) -> str:
    """What a terminal shows of a command."""
    master, slave = pty.openpty()
    program = f'kaa() {{ {shlex.join(KAA)} "$@"; }}\nstty cols {COLUMNS} rows 50\n{command}'
    environment = {
        **os.environ,
        "TERM": "xterm-256color",
        "KAA_BOOTSTRAP_SERVERS": address,
        "KAA_NO_PROGRESS": "1",
        "COLUMNS": str(COLUMNS),
    }
    for name in ("NO_COLOR", "CI"):
        environment.pop(name, None)
    process = subprocess.Popen(
        ["bash", "--norc", "-c", program],  # noqa: S607 - wherever it is.
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=environment,
        close_fds=True,
    )
    os.close(slave)
    output = b""
    deadline = time.monotonic() + COMMAND_SECONDS_MAX
    while time.monotonic() < deadline:
        ready, _, _ = select.select([master], [], [], 1)
        if not ready:
            continue
        try:
            data = os.read(master, 65_536)
        except OSError:  # The other side has closed it.
            break
        if not data:
            break
        output += data
    process.wait(COMMAND_SECONDS_MAX)
    os.close(master)
    return output.decode(errors="replace").replace("\r\n", "\n").replace(address, "localhost:9092")


def draw(picture: Picture, shown: list[tuple[str, str]]) -> str:
    """The picture as SVG."""
    from rich.console import Console
    from rich.text import Text

    with open(os.devnull, "w", encoding="utf-8") as nowhere:  # noqa: PTH123 - not a path.
        console = Console(record=True, width=COLUMNS, file=nowhere, force_terminal=True)
        for number, (command, output) in enumerate(shown):
            if number:
                console.print()
            console.print(Text.assemble(("$ ", "green"), (command, "bold")), soft_wrap=True)
            console.print(Text.from_ansi(output.rstrip("\n")), overflow="fold")
        svg = console.export_svg(title=picture.title, unique_id=picture.name)
    return FONT_FACE.sub("", svg)


def main(names: list[str]) -> int:
    """Makes all pictures, or those named; `drawings` are all that need no broker."""
    FOLDER.mkdir(exist_ok=True)
    for name, svg in drawings(FOLDER).items():
        (FOLDER / name).write_text(svg, "utf-8")
        print(f"docs/pictures/{name}, {len(svg) / 1024:.0f} KiB")
    wanted = [picture for picture in PICTURES if not names or picture.name in names]
    if not wanted:
        return 0
    with playground() as address:
        for picture in wanted:
            shown = [(command, run_in_terminal(command, address)) for command in picture.commands]
            svg = draw(picture, shown)
            (FOLDER / f"{picture.name}.svg").write_text(svg, "utf-8")
            print(f"docs/pictures/{picture.name}.svg, {len(svg) / 1024:.0f} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
