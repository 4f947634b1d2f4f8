"""What a value must fulfil besides its type, as data that can check and describe itself.

A check raises with the reason of refusal, which is short because it travels to clients in error
messages; `describe` gives the "valid values" column of the reference. Patterns are compiled at
first use: the tables are loaded by programs that never check a value.
"""

import re
from typing import Final, Protocol

from kaa import limits
from kaa.config.values import ConfigError, ConfigValue, java_text, shown, trimmed

NON_NULL = "a value is needed"


class Validator(Protocol):
    """A rule for the parsed value of one setting."""

    def check(self, name: str, value: ConfigValue) -> None:
        """Raises `ConfigError` when the value breaks the rule."""

    def describe(self) -> str:
        """The valid values in a few words; empty when there is nothing to say."""


class Range:
    """A number from `minimum` to `maximum`, both included; a bound of `None` is open."""

    __slots__ = ("maximum", "minimum")

    def __init__(self, minimum: float | None, maximum: float | None = None) -> None:
        self.minimum: Final = minimum
        self.maximum: Final = maximum

    def check(self, name: str, value: ConfigValue) -> None:
        if value is None:
            raise ConfigError.invalid(name, None, NON_NULL)
        assert isinstance(value, int | float)
        if self.minimum is not None and value < self.minimum:
            reason = f"it must be at least {java_text(self.minimum)}"
            raise ConfigError.invalid(name, value, reason)
        if self.maximum is not None and value > self.maximum:
            reason = f"it must be at most {java_text(self.maximum)}"
            raise ConfigError.invalid(name, value, reason)

    def describe(self) -> str:
        if self.minimum is None:
            return "[...]" if self.maximum is None else f"[...,{java_text(self.maximum)}]"
        if self.maximum is None:
            return f"[{java_text(self.minimum)},...]"
        return f"[{java_text(self.minimum)},...,{java_text(self.maximum)}]"


class GzipLevel:
    """A level of gzip: 1 to 9, or -1 for the library's own choice."""

    __slots__ = ()

    def check(self, name: str, value: ConfigValue) -> None:
        if value is None:
            raise ConfigError.invalid(name, None, NON_NULL)
        assert isinstance(value, int)
        if value != -1 and not 1 <= value <= 9:
            reason = "it must be -1 or lie between 1 and 9"
            raise ConfigError.invalid(name, value, reason)

    def describe(self) -> str:
        return "[1,...,9] or -1"


class ValidString:
    """One of the given words, exactly."""

    __slots__ = ("words",)

    def __init__(self, words: tuple[str, ...]) -> None:
        self.words: Final = words

    def check(self, name: str, value: ConfigValue) -> None:
        if value not in self.words:
            reason = f"expected one of: {', '.join(self.words)}"
            raise ConfigError.invalid(name, value, reason)

    def describe(self) -> str:
        return f"[{', '.join(self.words)}]"


class ValidStringAnyCase:
    """One of the given words (in capitals here), in any case."""

    __slots__ = ("words",)

    def __init__(self, words: tuple[str, ...]) -> None:
        self.words: Final = words

    def check(self, name: str, value: ConfigValue) -> None:
        if not isinstance(value, str) or value.upper() not in self.words:
            reason = f"expected one of (in any case): {', '.join(self.words)}"
            raise ConfigError.invalid(name, value, reason)

    def describe(self) -> str:
        return f"(case insensitive) [{', '.join(self.words)}]"


class NonEmptyString:
    """Absent, or text with at least one character."""

    __slots__ = ()

    def check(self, name: str, value: ConfigValue) -> None:
        if value == "":
            raise ConfigError.invalid(name, value, "it must not be empty")

    def describe(self) -> str:
        return "non-empty string"


class NonNull:
    """Present, even if empty."""

    __slots__ = ()

    def check(self, name: str, value: ConfigValue) -> None:
        if value is None:
            raise ConfigError.invalid(name, None, NON_NULL)

    def describe(self) -> str:
        return "non-null string"


class ValidList:
    """A list of non-empty entries, each one of `words` if there are any.

    Repeated entries are dropped before the check, as Kafka does since its version 4.2.
    """

    __slots__ = ("empty_allowed", "null_allowed", "words")

    def __init__(
        self,
        words: tuple[str, ...] = (),
        *,
        empty_allowed: bool = True,
        null_allowed: bool = False,
    ) -> None:
        self.words: Final = words
        self.empty_allowed: Final = empty_allowed
        self.null_allowed: Final = null_allowed

    def check(self, name: str, value: ConfigValue) -> None:
        if value is None:
            if not self.null_allowed:
                raise ConfigError(f"Configuration {name} needs a value.")
            return
        assert isinstance(value, tuple)
        if not value and not self.empty_allowed:
            entries = f"at least one of {self.describe()}" if self.words else "at least one entry"
            raise ConfigError(f"Configuration {name} must not be empty: give {entries}.")
        if len(value) > limits.CONFIG_LIST_ENTRIES_MAX:
            raise ConfigError(
                f"Configuration {name} has too many entries: {len(value)}, "
                f"the limit is {limits.CONFIG_LIST_ENTRIES_MAX}."
            )
        for entry in value:
            if not entry:
                raise ConfigError(f"Configuration {name} has an empty entry: remove it.")
            if self.words:
                ValidString(self.words).check(name, entry)

    def describe(self) -> str:
        return f"[{', '.join(self.words)}]" if self.words else ""


class ThrottledReplicas:
    """`*`, or entries `partition:broker`; entries may be empty."""

    __slots__ = ()

    def check(self, name: str, value: ConfigValue) -> None:
        assert isinstance(value, tuple)
        entries = [trimmed(entry) for entry in value]
        if "".join(entries) == "*" or all(re.match(_THROTTLED_REPLICA, entry) for entry in entries):
            return
        raise ConfigError.invalid(
            name, value, f"expected * or entries of the form {self.describe()}"
        )

    def describe(self) -> str:
        return "[partitionId]:[brokerId],[partitionId]:[brokerId],..."


class AutoOffsetReset:
    """`earliest`, `latest`, perhaps `none`, or `by_duration:` and an ISO 8601 duration."""

    __slots__ = ("none_allowed",)

    def __init__(self, *, none_allowed: bool) -> None:
        self.none_allowed: Final = none_allowed

    def words(self) -> tuple[str, ...]:
        return ("latest", "earliest", "none") if self.none_allowed else ("latest", "earliest")

    def check(self, name: str, value: ConfigValue) -> None:
        if isinstance(value, str):
            if value in self.words():
                return
            prefix, _, duration = value.partition(":")
            if prefix == "by_duration" and is_duration_at_least_zero(duration):
                return
        raise ConfigError.invalid(name, value, f"expected one of {self.describe()}")

    def describe(self) -> str:
        return f"[{', '.join(self.words())}, by_duration:PnDTnHnMn.nS]"


class QuorumVoters:
    """Entries `id@host:port`, each id once; the list may be empty."""

    __slots__ = ()

    def check(self, name: str, value: ConfigValue) -> None:
        assert isinstance(value, tuple)
        from kaa.config.addresses import parse_voter

        if len(value) > limits.QUORUM_VOTERS_MAX:
            raise ConfigError(
                f"Configuration {name} has {len(value)} voters, the limit is "
                f"{limits.QUORUM_VOTERS_MAX}."
            )
        entries: dict[int, str] = {}
        for entry in value:
            voter_id = parse_voter(name, entry).node_id
            other = entries.setdefault(voter_id, entry)
            if other != entry:
                raise ConfigError(
                    f"Configuration {name} names voter {voter_id} twice, {shown(other)} and "
                    f"{shown(entry)}: give each controller a node.id of its own, or remove one."
                )

    def describe(self) -> str:
        return "non-empty list"


class HostPorts:
    """Entries `host:port`; the list may be empty."""

    __slots__ = ()

    def check(self, name: str, value: ConfigValue) -> None:
        assert isinstance(value, tuple)
        from kaa.config.addresses import parse_host_port

        for entry in value:
            parse_host_port(name, entry, entry, "{host}:{port}")

    def describe(self) -> str:
        return "non-empty list"


_THROTTLED_REPLICA = r"([0-9]+:[0-9]+)?\Z"
_DURATION = (
    r"([-+]?)P(?:([-+]?[0-9]{1,19})D)?"
    r"(T(?:([-+]?[0-9]{1,19})H)?(?:([-+]?[0-9]{1,19})M)?"
    r"(?:([-+]?[0-9]{1,19})(?:[.,]([0-9]{0,9}))?S)?)?\Z"
)
_DURATION_SECONDS_MAX = 1 << 63


def is_duration_at_least_zero(text: str) -> bool:
    """Whether Java's `Duration.parse` takes the text and the result is not negative."""
    match = re.match(_DURATION, text, re.IGNORECASE)
    if not match:
        return False
    sign, days, time, hours, minutes, seconds, fraction = match.groups()
    if time is not None and len(time) == 1:
        return False
    if days is None and time is None:
        return False
    total_s = int(days or 0) * 86_400 + int(hours or 0) * 3_600
    total_s += int(minutes or 0) * 60 + int(seconds or 0)
    total_ns = total_s * 10**9
    fraction_ns = int((fraction or "").ljust(9, "0"))
    total_ns += -fraction_ns if (seconds or "").startswith("-") else fraction_ns
    if abs(total_ns) >= _DURATION_SECONDS_MAX * 10**9:
        return False
    return total_ns <= 0 if sign == "-" else total_ns >= 0


def at_least(minimum: float) -> Range:
    """A number not below `minimum`."""
    return Range(minimum)


def between(minimum: float, maximum: float) -> Range:
    """A number from `minimum` to `maximum`, both included."""
    return Range(minimum, maximum)


def one_of(*words: str) -> ValidString:
    """Exactly one of the words."""
    return ValidString(words)


def one_of_any_case(*words: str) -> ValidStringAnyCase:
    """One of the words, given in capitals, in any case."""
    return ValidStringAnyCase(words)
