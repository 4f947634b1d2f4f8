"""The definition of a set of settings: one table that parses, validates, describes and documents.

A `ConfigKey` is one row: Kafka's name, type, default, importance, rule, who may change it while
the broker runs, and a sentence of documentation. A `ConfigDef` is a table of rows. Reading a set
of texts with it gives a `ConfigValues`: typed access by name, where asking for a wrong type is a
programming error.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import Final, NamedTuple

from kaa.config.validators import Validator, ValidList
from kaa.config.values import (
    ConfigError,
    ConfigType,
    ConfigValue,
    Importance,
    Password,
    parse_value,
    value_text,
)


class UpdateMode(Enum):
    """Whether a broker setting can change while the broker runs, and for whom."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class Required(Enum):
    """The default of a setting that has none: it must be given."""

    REQUIRED = "required"


REQUIRED: Final = Required.REQUIRED


class ConfigKey:
    """One setting of one scope."""

    __slots__ = (
        "default",
        "documentation",
        "importance",
        "internal",
        "name",
        "type",
        "update_mode",
        "validator",
    )

    def __init__(
        self,
        name: str,
        type: ConfigType,  # noqa: A002 # Kafka's noun.
        default: ConfigValue | Required,
        importance: Importance,
        documentation: str,
        validator: Validator | None = None,
        update_mode: UpdateMode = UpdateMode.READ_ONLY,
        internal: bool = False,
    ) -> None:
        self.name: Final = name
        self.type: Final = type
        self.default: Final = default
        self.importance: Final = importance
        self.documentation: Final = documentation
        self.validator: Final = validator
        self.update_mode: Final = update_mode
        self.internal: Final = internal

    @property
    def is_sensitive(self) -> bool:
        """Whether the value must never be shown."""
        return self.type is ConfigType.PASSWORD

    @property
    def default_text(self) -> str | None:
        """The default as text; `None` for the absent value and where there is no default."""
        return None if isinstance(self.default, Required) else value_text(self.default)

    def parse(self, text: str, shown_name: str | None = None) -> ConfigValue:
        """The typed, validated value of a text; messages name `shown_name` if given."""
        name = shown_name or self.name
        value = parse_value(name, text, self.type)
        if isinstance(self.validator, ValidList) and isinstance(value, tuple):
            value = tuple(dict.fromkeys(value))
        if self.validator is not None:
            self.validator.check(name, value)
        return value


class ConfigProblem(NamedTuple):
    """One thing an operator has to change, with the setting it is about."""

    name: str
    message: str


class InvalidConfigError(ConfigError):
    """Everything that is wrong with a set of settings, one message per wrong setting."""

    def __init__(self, problems: Iterable[ConfigProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(problem.message for problem in self.problems))


class ConfigValues:
    """Parsed settings by name. Every getter states the type its caller relies on."""

    __slots__ = ("_values",)
    __hash__ = None  # type: ignore[assignment]  # It wraps a dict.

    def __init__(self, values: Mapping[str, ConfigValue]) -> None:
        self._values = values

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConfigValues) and dict(self._values) == dict(other._values)

    def __repr__(self) -> str:
        return f"ConfigValues({dict(self._values)!r})"

    def as_dict(self) -> dict[str, ConfigValue]:
        """A copy: Kafka's names to typed values."""
        return dict(self._values)

    def value(self, name: str) -> ConfigValue:
        """The value of a setting of this scope, whatever its type."""
        return self._values[name]

    def get_boolean(self, name: str) -> bool:
        value = self._values[name]
        assert isinstance(value, bool), name
        return value

    def get_int(self, name: str) -> int:
        """A setting of type SHORT, INT or LONG."""
        value = self._values[name]
        assert isinstance(value, int), name
        assert not isinstance(value, bool), name
        return value

    def get_optional_int(self, name: str) -> int | None:
        return None if self._values[name] is None else self.get_int(name)

    def get_double(self, name: str) -> float:
        value = self._values[name]
        assert isinstance(value, float), name
        return value

    def get_string(self, name: str) -> str:
        """A setting of type STRING or CLASS."""
        value = self._values[name]
        assert isinstance(value, str), name
        return value

    def get_optional_string(self, name: str) -> str | None:
        return None if self._values[name] is None else self.get_string(name)

    def get_list(self, name: str) -> tuple[str, ...]:
        value = self._values[name]
        assert isinstance(value, tuple), name
        return value

    def get_optional_list(self, name: str) -> tuple[str, ...] | None:
        return None if self._values[name] is None else self.get_list(name)

    def get_password(self, name: str) -> Password | None:
        value = self._values[name]
        assert value is None or isinstance(value, Password), name
        return value


class ConfigDef:
    """A table of settings, in the order in which they were given."""

    __slots__ = ("keys", "scope")

    def __init__(self, scope: str, keys: Iterable[ConfigKey]) -> None:
        self.scope = scope
        self.keys: dict[str, ConfigKey] = {}
        for key in keys:
            assert key.name not in self.keys, f"{scope}: {key.name} is defined twice"
            self.keys[key.name] = key

    def __contains__(self, name: object) -> bool:
        return name in self.keys

    def __iter__(self) -> Iterator[ConfigKey]:
        return iter(self.keys.values())

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, name: str) -> ConfigKey:
        return self.keys[name]

    def get(self, name: str) -> ConfigKey | None:
        return self.keys.get(name)

    def names(self) -> tuple[str, ...]:
        return tuple(self.keys)

    def parse_collecting(
        self, texts: Mapping[str, str], defaults: Mapping[str, ConfigValue] | None = None
    ) -> tuple[dict[str, ConfigValue], list[ConfigProblem]]:
        """Reads every setting of the table: values of the good ones, problems of the bad ones.

        `defaults` replace those of the table, as a broker's settings do for its topics.
        """
        values: dict[str, ConfigValue] = {}
        problems: list[ConfigProblem] = []
        for name, key in self.keys.items():
            text = texts.get(name)
            try:
                if text is not None:
                    values[name] = key.parse(text)
                elif defaults is not None and name in defaults:
                    values[name] = defaults[name]
                elif isinstance(key.default, Required):
                    raise ConfigError(
                        f"Missing configuration {name}: it has no default and must be set."
                    )
                else:
                    values[name] = key.default
            except ConfigError as error:
                problems.append(ConfigProblem(name, str(error)))
        return values, problems

    def parse(
        self, texts: Mapping[str, str], defaults: Mapping[str, ConfigValue] | None = None
    ) -> ConfigValues:
        """Reads every setting of the table, or raises `InvalidConfigError` with all problems."""
        values, problems = self.parse_collecting(texts, defaults)
        if problems:
            raise InvalidConfigError(problems)
        return ConfigValues(values)
