"""What the world decides and a test decides instead: time and chance.

A part of a node that needs one of them gets it as an argument; nothing that a node runs reads a
clock or a generator of its own, so that a run can be repeated. Logins of clients, which nodes do
not make, do: nobody may choose a nonce, and a token expires by the date.
"""

from typing import Any, Protocol


class Clock(Protocol):
    """The two clocks: one that tells the date, one that never jumps."""

    def wall_ms(self) -> int: ...

    def monotonic_ms(self) -> int: ...


class RandomSource(Protocol):
    """Chance from outside; `random.Random` has these methods."""

    def random(self) -> float:
        """A number of at least 0 and below 1."""
        ...

    def randrange(self, stop: int, /) -> int:
        """A number from 0 to `stop` - 1, all equally likely; `stop` is at least 1."""
        ...

    def randbytes(self, n: int, /) -> bytes: ...

    def shuffle(self, x: list[Any], /) -> None: ...
