from __future__ import annotations

import asyncio
import os
from io import BytesIO

import pytest

from kaa.cli.input_lines import Stream, pieces_of


def read_all(stream: Stream) -> list[list[bytes]]:
    async def work() -> list[list[bytes]]:
        return [piece async for piece in pieces_of(stream)]

    return asyncio.run(work())


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"a", [b"a"]),
        (b"a\n\nb\n", [b"a", b"", b"b"]),
        (b"x" * 200_000 + b"\ny", [b"x" * 200_000, b"y"]),
    ],
)
def test_lines(data: bytes, lines: list[bytes]) -> None:
    assert [line for piece in read_all(BytesIO(data)) for line in piece] == lines


def test_a_line_is_there_before_the_next_is_written() -> None:
    async def work() -> None:
        reader, writer = os.pipe()
        with os.fdopen(reader, "rb") as stream:
            pieces = pieces_of(stream)
            for number in range(3):
                os.write(writer, b"line %d\n" % number)
                assert await anext(pieces) == [b"line %d" % number]
            os.close(writer)
            assert [piece async for piece in pieces] == []

    asyncio.run(work())


def test_errors_reach_the_reader() -> None:
    class Broken:
        def read1(self, size: int, /) -> bytes:
            raise OSError(5, "broken")

    with pytest.raises(OSError, match="broken"):
        read_all(Broken())
