"""What a fuzz target is.

A target takes any bytes and returns, or raises if a promise is broken: an exception that was not
declared, more memory than the input pays for, two twins that differ.

The corpus of a target is a text file, `corpus/NAME.hex`, one input to a line: those that fuzzing
found to reach code that no other reaches. It is replayed by the tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"
# What is checked in stays small: the shortest inputs are kept.
CORPUS_BYTES_MAX = 20_000


@dataclass(frozen=True, slots=True)
class Target:
    name: str
    run: Callable[[bytes], None]
    # Honest inputs to start from; made anew for each run, never checked in.
    seeds: Callable[[], Iterable[bytes]] = tuple
    input_bytes_max: int = 2_048

    @property
    def corpus_file(self) -> Path:
        return CORPUS / f"{self.name}.hex"

    def corpus(self) -> list[bytes]:
        if not self.corpus_file.exists():
            return []
        return [bytes.fromhex(line) for line in self.corpus_file.read_text().split()]

    def keep(self, inputs: Iterable[bytes]) -> None:
        """Makes `inputs` the corpus, the shortest first, as far as they fit."""
        kept, size = [], 0
        for data in sorted(set(inputs), key=lambda data: (len(data), data)):
            size += len(data)
            if data and size <= CORPUS_BYTES_MAX:
                kept.append(f"{data.hex()}\n")
        self.corpus_file.write_text("".join(kept))
