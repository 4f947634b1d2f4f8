"""Programs of Kafka's own as processes: they are started, watched, and killed when it is time."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Self

from tests.oracle.environment import wait_until

if TYPE_CHECKING:
    from pathlib import Path

HEAP_MB = 256


class Program:
    """One process; what it prints goes to a file."""

    def __init__(self, name: str, command: list[str], output_file: Path) -> None:
        self.name = name
        self._output_file = output_file
        with output_file.open("wb") as output:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )

    @property
    def output(self) -> str:
        return self._output_file.read_text(errors="replace")

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """Ends it as a power cut would."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Asks it to end, and waits."""
        self._process.terminate()
        self.end(60)

    def end(self, seconds: float) -> int:
        """Waits for its end; gives its exit code."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} still runs:\n{self.output[-2000:]}") from None

    def wait_for(self, text: str, seconds: float) -> None:
        """Waits until it has printed a text."""
        wait_until(lambda: text in self.output or not self.is_running, seconds)
        assert text in self.output, f"{self.name} never said {text!r}:\n{self.output[-2000:]}"


class Java:
    """Starts programs by the names of their classes; as a context it kills what is left."""

    def __init__(self, command: str, jars: Path, folder: Path) -> None:
        self._start = [command, f"-Xmx{HEAP_MB}m", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*"]
        self._folder = folder
        self._programs: list[Program] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        for program in self._programs:
            program.kill()

    def run(self, class_name: str, *arguments: str) -> Program:
        """Starts a program and does not wait."""
        name = class_name.rpartition(".")[2]
        output_file = self._folder / f"{name}-{len(self._programs)}.log"
        program = Program(name, [*self._start, class_name, *arguments], output_file)
        self._programs.append(program)
        return program
