"""Which partitions are meant: `-p 0,2-3`, and `orders:0,2-3` where topics come with theirs.

No partition at all stands for every partition of a topic, and some commands destroy records. So
whatever may be a slip is refused: a range that runs backwards, a partition that is named twice,
and one that the topic does not have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kaa.limits import CLI_PARTITIONS_NAMED_MAX
from kaa.model.words import partitions_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaa.client.errors import KafkaError

    StringType = click.ParamType[str]
else:
    # Only the newest releases of click have parameters of the class.
    StringType = click.ParamType


def read_partitions(text: str) -> list[int]:
    """The numbers that `0`, `0,1`, `0-3` or several of these name; raises ValueError."""
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = (one.strip() for one in part.partition("-"))
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(f"{text!r} names no partitions; write 0 or 0,1 or 0-3")
        low, high = int(first), int(last or first)
        if low > high:
            raise ValueError(f"{part.strip()!r} runs backwards; write {high}-{low}")
        if len(found) + high - low >= CLI_PARTITIONS_NAMED_MAX:
            raise ValueError(
                f"{text!r} names more than {CLI_PARTITIONS_NAMED_MAX} partitions; name fewer, or "
                "none for all of them"
            )
        found += range(low, high + 1)
    refuse_repeated(found)
    return found


def refuse_repeated(numbers: Iterable[int]) -> None:
    """Raises ValueError where a partition is named twice."""
    seen: set[int] = set()
    for number in numbers:
        if number in seen:
            raise ValueError(f"partition {number} is named twice; name it once")
        seen.add(number)


def refuse_absent(topic: str, numbers: Iterable[int], count: int) -> None:
    """Raises KafkaError where a topic of so many partitions does not have one of the numbers."""
    for number in numbers:
        if not 0 <= number < count:
            raise _absence(topic, number, count)


def _absence(topic: str, number: int, count: int) -> KafkaError:
    from kaa.client.errors import KafkaError
    from kaa.wire.errors import Errors

    error = KafkaError(
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
        f"partition {topic}-{number}",
        message=f"the topic has {partitions_text(count)}",
    )
    error.hint = f"name partitions that it has (kaa topic describe {topic})"
    return error


class Partitions(StringType):
    """Partitions as `0`, `0,1` or `0-3`, or several of these."""

    name = "partitions"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return tuple(read_partitions(str(value)))
        except ValueError as error:
            self.fail(str(error), param, ctx)

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """As in the text of help."""
        return "N,..."


def _flat(context: click.Context, parameter: click.Parameter, value: Any) -> tuple[int, ...]:
    found = tuple(number for numbers in value for number in numbers)
    try:
        refuse_repeated(found)
    except ValueError as error:
        raise click.BadParameter(str(error), context, parameter) from error
    return found


def partitions_option(command: Any) -> Any:
    """Adds `-p`, which may be given many times; it arrives as one tuple of numbers."""
    return click.option(
        "-p",
        "--partition",
        "--partitions",
        "partitions",
        type=Partitions(),
        multiple=True,
        callback=_flat,
        help="Only these, as 0 or 0,1 or 0-3.  [default: all]",
    )(command)
