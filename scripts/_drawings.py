"""Drawings as SVG: those that are written as text, and the states of machines from their tables.

A text drawing (docs/pictures/drawn) is a grid of characters. `-`, `|` and `+` are lines, `<`, `>`,
`^` and `v` at the end of a line are arrows, everything else is text. A state drawing has the states
of a machine on an ellipse, with an arrow for each legal transition; it is made from the table that
the code runs on, and cannot differ from it.

Both follow the colours of the reader's system, light or dark, and name no font that has to be
fetched.
"""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_CELL_WIDTH: Final = 8.4
_CELL_HEIGHT: Final = 18
_MARGIN: Final = 14
_ARROWS: Final = {
    ">": ("-+<", 0, -1, "0,-4 8,0 0,4"),
    "<": ("-+>", 0, 1, "0,-4 -8,0 0,4"),
    "v": ("|+^", -1, 0, "-4,0 0,8 4,0"),
    "^": ("|+v", 1, 0, "-4,0 0,-8 4,0"),
}
_STYLE: Final = """\
<style>
text { font: 14px ui-monospace, Menlo, Consolas, monospace; fill: #1f2328; white-space: pre }
text.title { font-weight: bold }
line, path { stroke: #57606a; stroke-width: 1.3; fill: none }
polygon { fill: #57606a }
rect { fill: #f6f8fa; stroke: #57606a }
rect.ground { fill: #ffffff; stroke: none }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  line, path { stroke: #9198a1 }
  polygon { fill: #9198a1 }
  rect { fill: #212830; stroke: #9198a1 }
  rect.ground { fill: #151b23 }
}
</style>
"""


def _svg(width: float, height: float, parts: Iterable[str]) -> str:
    """A whole picture."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}">'
    ground = f'<rect class="ground" width="{width:.0f}" height="{height:.0f}"/>'
    return "\n".join([head, _STYLE + ground, *parts, "</svg>"]) + "\n"


def draw_text(text: str) -> str:
    """A text drawing as SVG."""
    lines = text.rstrip("\n").split("\n")
    columns = max(map(len, lines))
    grid = _Grid([line.ljust(columns) for line in lines])
    width = columns * _CELL_WIDTH + 2 * _MARGIN
    return _svg(width, len(lines) * _CELL_HEIGHT + 2 * _MARGIN, grid.parts())


class _Grid:
    """The characters of a drawing, and what each is."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines

    def _at(self, row: int, column: int) -> str:
        if 0 <= row < len(self._lines) and 0 <= column < len(self._lines[row]):
            return self._lines[row][column]
        return " "

    def _is_line(self, row: int, column: int) -> bool:
        character = self._at(row, column)
        if character in "|+":
            return True
        beside = self._at(row, column - 1) + self._at(row, column + 1)
        return character == "-" and not beside.replace(" ", "").isalnum() and beside.strip() != ""

    def _is_arrow(self, row: int, column: int) -> bool:
        arrow = _ARROWS.get(self._at(row, column))
        return arrow is not None and self._at(row + arrow[1], column + arrow[2]) in arrow[0]

    def parts(self) -> Iterator[str]:
        across: list[_Stroke] = []
        down: list[_Stroke] = []
        for row, line in enumerate(self._lines):
            yield from self._texts(row, line)
            for column in range(len(line)):
                if self._is_arrow(row, column):
                    yield self._arrow(row, column)
                x, y = 2 * column + 1, 2 * row + 1
                for side_x, side_y in self._sides(row, column):
                    if side_y == 0:
                        across.append((y, min(x, x + side_x), max(x, x + side_x)))
                    else:
                        down.append((x, min(y, y + side_y), max(y, y + side_y)))
        for y, start, end in _joined(across):
            yield _line(start, y, end, y)
        for x, start, end in _joined(down):
            yield _line(x, start, x, end)

    def _texts(self, row: int, line: str) -> Iterator[str]:
        """Runs of text, which end at two blanks or at a line."""
        kept = "".join(
            " " if self._is_line(row, column) or self._is_arrow(row, column) else character
            for column, character in enumerate(line)
        )
        column = 0
        for piece in kept.split("  "):
            if piece.strip():
                left = column + len(piece) - len(piece.lstrip())
                x, y = _MARGIN + left * _CELL_WIDTH, _MARGIN + (row + 0.75) * _CELL_HEIGHT
                yield f'<text x="{x:.1f}" y="{y:.1f}">{html.escape(piece.strip())}</text>'
            column += len(piece) + 2

    def _arrow(self, row: int, column: int) -> str:
        x, y = _place(2 * column + 1, 2 * row + 1)
        points = _ARROWS[self._at(row, column)][3]
        return f'<polygon transform="translate({x:.1f} {y:.1f})" points="{points}"/>'

    def _sides(self, row: int, column: int) -> Iterator[tuple[int, int]]:
        """To which sides of its cell a line goes from the middle."""
        character = self._at(row, column)
        if self._is_arrow(row, column):
            _, side_y, side_x, _ = _ARROWS[character]
            yield side_x, side_y
        if not self._is_line(row, column):
            return
        for side, others in ((-1, "-+<"), (1, "-+>")):
            if character in "-+" and self._at(row, column + side) in others:
                yield side, 0
        for side, others in ((-1, "|+^"), (1, "|+v")):
            if character == "|" or (character == "+" and self._at(row + side, column) in others):
                yield 0, side


_Stroke = tuple[int, int, int]
"""Where a line is, and from where to where it goes, in halves of cells."""


def _joined(strokes: list[_Stroke]) -> Iterator[_Stroke]:
    """Strokes that touch, as one."""
    last: _Stroke | None = None
    for place, start, end in sorted(strokes):
        if last is not None and last[0] == place and start <= last[2]:
            last = (place, last[1], max(last[2], end))
            continue
        if last is not None:
            yield last
        last = (place, start, end)
    if last is not None:
        yield last


def _place(x: int, y: int) -> tuple[float, float]:
    return _MARGIN + x * _CELL_WIDTH / 2, _MARGIN + y * _CELL_HEIGHT / 2


def _line(x1: int, y1: int, x2: int, y2: int) -> str:
    (left, top), (right, bottom) = _place(x1, y1), _place(x2, y2)
    return f'<line x1="{left:.1f}" y1="{top:.1f}" x2="{right:.1f}" y2="{bottom:.1f}"/>'


def draw_states(title: str, transitions: Iterable[tuple[str, str]]) -> str:
    """The states of a machine as SVG; a transition from a state to itself is not drawn."""
    arrows = [(old, new) for old, new in dict.fromkeys(transitions) if old != new]
    names = list(dict.fromkeys(name for arrow in arrows for name in arrow))
    width, height = 720, 420
    radius_x, radius_y = width / 2 - 120, height / 2 - 60
    places = {}
    for number, name in enumerate(names):
        angle = 2 * math.pi * number / len(names) - math.pi / 2
        x = width / 2 + radius_x * math.cos(angle)
        places[name] = (x, height / 2 + 12 + radius_y * math.sin(angle))
    parts = [f'<text class="title" x="{_MARGIN}" y="26">{html.escape(title)}</text>']
    for old, new in arrows:
        parts.append(_arrow(places[old], places[new], half_width=_half_width(new)))
    for name, (x, y) in places.items():
        half = _half_width(name)
        rect = f'x="{x - half:.0f}" y="{y - 16:.0f}" width="{2 * half:.0f}" height="32"'
        parts.append(f'<rect {rect} rx="8"/>')
        parts.append(f'<text x="{x - half + 12:.0f}" y="{y + 5:.0f}">{html.escape(name)}</text>')
    return _svg(width, height, parts)


def _half_width(name: str) -> float:
    return len(name) * _CELL_WIDTH / 2 + 12


def _arrow(start: tuple[float, float], end: tuple[float, float], *, half_width: float) -> str:
    """A curve that bends to its right, so that there and back are two."""
    (x1, y1), (x2, y2) = start, end
    length = math.hypot(x2 - x1, y2 - y1)
    bend = 0.12 * length
    middle_x = (x1 + x2) / 2 - (y2 - y1) / length * bend
    middle_y = (y1 + y2) / 2 + (x2 - x1) / length * bend
    # It ends where the last piece meets the border of the box.
    dx, dy = x2 - middle_x, y2 - middle_y
    share = min(half_width / abs(dx) if dx else math.inf, 16 / abs(dy) if dy else math.inf, 1)
    tip_x, tip_y = x2 - dx * share, y2 - dy * share
    angle = math.degrees(math.atan2(dy, dx))
    path = f"M{x1:.0f} {y1:.0f} Q{middle_x:.0f} {middle_y:.0f} {tip_x:.1f} {tip_y:.1f}"
    head = f"translate({tip_x:.1f} {tip_y:.1f}) rotate({angle:.0f})"
    return f'<path d="{path}"/><polygon transform="{head}" points="-9,-4 0,0 -9,4"/>'


def tables() -> dict[str, tuple[str, list[tuple[str, str]]]]:
    """Name of the picture -> its title, and the transitions of the code's own table."""
    from kaa.client.producer.transaction_machine import LEGAL_TRANSITIONS as PRODUCER
    from kaa.coordinators.group.classic.group import PREVIOUS_STATES
    from kaa.coordinators.transaction.state import BEFORE
    from kaa.quorum.transitions import LEGAL_TRANSITIONS
    from kaa.tier.metadata.model import SEGMENT_TRANSITIONS

    return {
        "states-quorum": (
            "a replica of the quorum",
            [(old.__name__, new.__name__) for old, new in LEGAL_TRANSITIONS],
        ),
        "states-transaction": (
            "a transaction, at its coordinator",
            [(old.title, new.title) for new, before in BEFORE.items() for old in sorted(before)],
        ),
        "states-classic-group": (
            "a group of the classic protocol",
            [
                (old.value, new.value)
                for new, before in PREVIOUS_STATES.items()
                for old in sorted(before, key=list(PREVIOUS_STATES).index)
            ],
        ),
        "states-producer": (
            "a transactional producer",
            [
                (old.name, new.name)
                for old, after in PRODUCER.items()
                for new in sorted(after, key=list(PRODUCER).index)
            ],
        ),
        "states-remote-segment": (
            "a remote segment",
            [
                ("unknown" if old is None else old.name, new.name)
                for old, after in SEGMENT_TRANSITIONS.items()
                for new in sorted(after)
            ],
        ),
    }


def drawings(folder: Path) -> dict[str, str]:
    """Every drawing by the name of its file."""
    drawn = {
        f"{path.stem}.svg": draw_text(path.read_text("utf-8"))
        for path in sorted((folder / "drawn").glob("*.txt"))
    }
    for name, (title, transitions) in tables().items():
        drawn[f"{name}.svg"] = draw_states(title, transitions)
    return drawn
