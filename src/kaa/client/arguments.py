"""What callers hand in, checked at the door: one bad argument must never reach a background task,
where it would end the work of others, and a text is one name, not one name per letter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import index
from typing import Any, Final, TypeGuard

from kaa.config.client_habits import misfit_of
from kaa.limits import WIRE_SHOWN_BYTES_MAX
from kaa.model.kinds import ResourceType
from kaa.model.topics import TopicPartition

INT16_MAX: Final = 2**15 - 1
INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1


def refuse_others(function: str, others: Iterable[str], **ours: str) -> None:
    """Refuses arguments that clients of other libraries have; `ours` has our names for them."""
    name = next(iter(others))
    hint = f"; here it is {ours[name]}" if name in ours else ""
    raise TypeError(f"{function}() has no argument {name!r}{hint}")


def names_of(given: Iterable[str], what: str = "topic") -> list[str]:
    """Names from some of them, or from one."""
    names = [given] if isinstance(given, str) or not isinstance(given, Iterable) else list(given)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"{name!r} is not the name of a {what}; names are text")
        carried(name, f"name of a {what}")
    return names


def carried(text: str, what: str) -> str:
    """A text that requests can carry; `what` says what it is."""
    misfit = misfit_of(text)
    if misfit is not None:
        shown = text if len(text) <= WIRE_SHOWN_BYTES_MAX else f"{text[:WIRE_SHOWN_BYTES_MAX]}..."
        raise ValueError(f"the {what} {shown!r} {misfit}")
    return text


def partitions_of(given: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Partitions from some of them, or from one."""
    is_one = _is_pair(given) or not isinstance(given, Iterable)
    several = [given] if is_one else given
    return [partition_of(one) for one in several]


def partition_of(given: object) -> TopicPartition:
    """A partition from its name, or from a pair of other libraries."""
    if not _is_pair(given):
        raise TypeError(f"{given!r} is not a partition; write TopicPartition(topic, number)")
    topic, number = given
    carried(topic, "name of a topic")
    return TopicPartition(topic, whole_number(number, "a partition", most=INT32_MAX))


def _is_pair(given: object) -> TypeGuard[tuple[str, object]]:
    return isinstance(given, tuple | list) and len(given) == 2 and isinstance(given[0], str)


def broker_ids_of(given: object) -> list[int]:
    """Ids of brokers from some of them, or from one."""
    several = given if isinstance(given, Iterable) and not isinstance(given, str) else [given]
    return [whole_number(one, "a broker id", most=INT32_MAX) for one in several]


def pairs_of(given: object, what: str) -> Iterable[tuple[Any, Any]]:
    """The items of a dictionary; `what` says what one is from and to."""
    if not isinstance(given, Mapping):
        raise TypeError(f"{given!r} is not a dictionary; give one of {what}")
    return given.items()


def wait_ms_of(given: object) -> int | None:
    """How long to wait. A number with a fraction is refused: other clients wait for seconds."""
    if given is None or type(given) is int:
        return given
    try:
        return index(given)  # type: ignore[arg-type]  # What is not a number raises.
    except TypeError:
        raise TypeError(
            f"timeout_ms must be a whole number of milliseconds, not {given!r}; for a second write "
            "timeout_ms=1000"
        ) from None


def resource_type_of(given: object) -> ResourceType:
    """A kind of thing with settings, or its name in letters of either case."""
    if isinstance(given, ResourceType):
        return given
    known = [one for one in ResourceType if one is not ResourceType.UNKNOWN]
    for one in known:
        if isinstance(given, str) and given.upper() == one.name:
            return one
    names = ", ".join(repr(one.name.lower()) for one in known)
    raise TypeError(f"{given!r} has no settings; give a ResourceType, or one of {names}")


def whole_number(given: object, what: str, *, least: int = 0, most: int = INT64_MAX) -> int:
    """A number from `least` on, of any type of whole numbers; `what` begins the sentence if it is
    not.

    Numbers with a fraction are refused, also those whose fraction is 0: they come from sums like
    `time.time() * 1000`, and which whole number is meant is for the caller to say.
    """
    try:
        number = index(given)  # type: ignore[arg-type]  # What is not a number raises.
    except TypeError:
        is_fraction = isinstance(given, float)
        kind = "None" if given is None else f"a {type(given).__name__}"
        advice = "" if given is None else f"; {'round' if is_fraction else 'convert'} it with int()"
        raise TypeError(f"{what} must be a whole number, not {kind}{advice}") from None
    if number < least and least != 0:
        raise ValueError(f"{what} must be at least {least}, not {number}")
    if number < least:
        raise ValueError(f"{what} cannot be negative, as {number} is")
    if number > most:
        raise ValueError(f"{what} must be at most {most}, not {number}")
    return number
