"""The text of a setting turned into a typed value, and back, by the rules of Kafka's ConfigDef.

The rules are those of the Java library, so that a file means the same to both systems:

| type | accepted text, after trimming characters up to and including the space |
|---|---|
| BOOLEAN | `true` or `false`, in any case |
| STRING | anything; the trimmed text |
| INT | optional sign and decimal digits, 32 bits; SHORT 16 bits, LONG 64 bits |
| DOUBLE | Java's floating-point grammar: `1`, `.5`, `1e3`, `1d`, `NaN`, `Infinity`, hex |
| LIST | entries between commas, white space around them dropped; empty text, no entries |
| CLASS | the name of a Java class, kept as text: Kaa has no class loader |
| PASSWORD | anything; wrapped so that it never shows in a message or a log |
"""

import math
import re
from enum import Enum, IntEnum
from typing import Final

from kaa import limits


class ConfigType(IntEnum):
    """The type of a setting; the numbers are those of the DescribeConfigs response."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Importance(Enum):
    """How likely an operator is to need a setting."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Password:
    """A secret value. Its text shows nowhere but through `reveal`."""

    __slots__ = ("_text",)

    HIDDEN: Final = "[hidden]"

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The secret itself, for the code that has to present it."""
        return self._text

    def __repr__(self) -> str:
        return self.HIDDEN

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Password) and other._text == self._text

    def __hash__(self) -> int:
        return hash((Password, self._text))


ConfigValue = bool | int | float | str | tuple[str, ...] | Password | None


class ConfigError(Exception):
    """A setting, or a set of settings, that is refused; `str()` is the message for the user."""

    @classmethod
    def invalid(cls, name: str, value: object, reason: str) -> "ConfigError":
        """The refusal of one value, worded as Kafka's tools show it."""
        return cls(f"Invalid value {shown(value)} for configuration {name}: {reason}")


INT_BITS: Final = {ConfigType.SHORT: 16, ConfigType.INT: 32, ConfigType.LONG: 64}

# Java's String.trim drops every character up to the space; str.strip() would drop other sets.
_TRIMMED: Final = "".join(map(chr, range(0x21)))
# Patterns are compiled at first use: the tables are loaded by programs that never parse a value.
_COMMA: Final = r"[ \t\n\x0b\f\r]*,[ \t\n\x0b\f\r]*"
_INTEGER: Final = r"[+-]?\d+\Z"
_DECIMAL_DOUBLE: Final = (
    r"([+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?))[fFdD]?\Z"
)
_HEX_DOUBLE: Final = (
    r"([+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?\Z"
)
_LONG_DIGITS_MAX: Final = 19
_PLAIN_DOUBLE_MIN: Final = 1e-3
_PLAIN_DOUBLE_MAX: Final = 1e7


def trimmed(text: str) -> str:
    """The text without leading and trailing characters up to the space, as Java trims."""
    return text.strip(_TRIMMED)


def shown(value: object) -> str:
    """A value as it may appear in a message: bounded, and never a secret."""
    if isinstance(value, tuple):
        text = "[" + ", ".join(map(str, value)) + "]"
    elif value is None:
        text = "null"
    else:
        text = java_text(value)
    if len(text) > limits.CONFIG_SHOWN_CHARACTERS_MAX:
        return text[: limits.CONFIG_SHOWN_CHARACTERS_MAX] + "..."
    return text


def parse_value(name: str, text: str, type_: ConfigType) -> ConfigValue:
    """The typed value of a setting's text, or `ConfigError`."""
    if len(text) > limits.CONFIG_VALUE_CHARACTERS_MAX:
        raise ConfigError(
            f"Invalid value for configuration {name}: it has {len(text)} characters, "
            f"the limit is {limits.CONFIG_VALUE_CHARACTERS_MAX}"
        )
    text_trimmed = trimmed(text)
    match type_:
        case ConfigType.BOOLEAN:
            return _parse_boolean(name, text, text_trimmed)
        case ConfigType.INT | ConfigType.SHORT | ConfigType.LONG:
            return _parse_integer(name, text, text_trimmed, type_)
        case ConfigType.DOUBLE:
            return _parse_double(name, text, text_trimmed)
        case ConfigType.LIST:
            return split_list(text_trimmed)
        case ConfigType.PASSWORD:
            return Password(text_trimmed)
        case _:
            return text_trimmed


def split_list(text: str) -> tuple[str, ...]:
    """The entries of a comma-separated list; text without any entry is the empty list."""
    return tuple(re.split(_COMMA, text)) if text else ()


def parse_pairs(name: str, text: str) -> dict[str, str]:
    """`key:value` pairs between commas; the last colon of a pair parts it."""
    pairs: dict[str, str] = {}
    # Java's split drops empty entries at the end.
    for entry in split_list(text.rstrip(",")):
        key, colon, value = entry.rpartition(":")
        if not colon:
            raise ConfigError(
                f"Cannot read the entry {shown(entry)} of {name}: write name:value pairs."
            )
        pairs[trimmed(key)] = trimmed(value)
    return pairs


def _parse_boolean(name: str, text: str, text_trimmed: str) -> bool:
    upper = text_trimmed.upper()
    if upper == "TRUE":
        return True
    if upper == "FALSE":
        return False
    raise ConfigError.invalid(name, text, "expected true or false")


def _parse_integer(name: str, text: str, text_trimmed: str, type_: ConfigType) -> int:
    if re.match(_INTEGER, text_trimmed):
        # Counting digits first keeps a hostile run of digits from costing a big-number conversion.
        digits = text_trimmed.lstrip("+-0")
        if len(digits) <= _LONG_DIGITS_MAX:
            number = int(text_trimmed)
            bound = 1 << (INT_BITS[type_] - 1)
            if -bound <= number < bound:
                return number
    raise ConfigError.invalid(name, text, f"expected a whole number of {INT_BITS[type_]} bits")


def _parse_double(name: str, text: str, text_trimmed: str) -> float:
    if match := re.match(_DECIMAL_DOUBLE, text_trimmed):
        return float(match[1])
    if match := re.match(_HEX_DOUBLE, text_trimmed):
        try:
            return float.fromhex(match[1])
        except OverflowError:
            return float("-inf") if match[1].startswith("-") else float("inf")
    raise ConfigError.invalid(name, text, "expected a number")


def java_text(value: object) -> str:
    """The text Java's `toString` gives for a value that is not a list."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _java_double(value)
    return str(value)


def value_text(value: ConfigValue) -> str | None:
    """The text of a typed value, as DescribeConfigs reports it. Secrets give their hidden mark."""
    if value is None:
        return None
    if isinstance(value, tuple):
        return ",".join(value)
    return java_text(value)


def _java_double(number: float) -> str:
    """`Double.toString`: plain from 10^-3 up to 10^7, outside of that with an exponent."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    magnitude = abs(number)
    if number == 0 or _PLAIN_DOUBLE_MIN <= magnitude < _PLAIN_DOUBLE_MAX:
        return repr(number)
    digits, _, exponent = f"{magnitude!r}".partition("e")
    whole, _, fraction = digits.partition(".")
    fraction = "" if fraction == "0" else fraction
    shift = int(exponent or "0")
    if whole.strip("0"):
        significant = (whole + fraction).rstrip("0")
        shift += len(whole) - 1
    else:
        significant = fraction.lstrip("0")
        shift -= len(fraction) - len(significant) + 1
    sign = "-" if number < 0 else ""
    return f"{sign}{significant[0]}.{significant[1:] or '0'}E{shift}"
