"""The configuration of one node: all sources merged, every value checked, nothing done yet.

`load_broker_config` reads merged settings and either gives a `BrokerConfig`, with the names
worth a warning, or raises `InvalidConfigError` with one message for every setting that has to
change. It opens no file and no socket, so that a node with a wrong configuration has touched
nothing.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from kaa.config.addresses import Voter, parse_host_port, parse_voter
from kaa.config.broker import BROKER
from kaa.config.definition import (
    ConfigKey,
    ConfigProblem,
    ConfigValues,
    InvalidConfigError,
)
from kaa.config.directories import directory_path, log_directories
from kaa.config.listeners import NAMES as LISTENER_NAMES
from kaa.config.listeners import Listeners, resolve_listeners
from kaa.config.reachability import controller_warnings
from kaa.config.rules import CONSUMER_ASSIGNORS, connection_overrides, rule_problems
from kaa.config.sources import Setting, Settings
from kaa.config.unsupported import (
    INEFFECTIVE,
    is_missing,
    is_removed,
    listener_refusals,
    refusals,
)
from kaa.config.validators import ValidList
from kaa.config.values import ConfigError, ConfigValue, parse_value, shown
from kaa.model.nodes import HostPort

LISTENER_PREFIX = "listener.name."
_SUGGESTION_CUTOFF = 0.8
# Settings handed to plug-ins whole; those plug-ins are refused by a setting of their own.
_PLUGIN_PREFIXES = ("config.providers.", "rlmm.config.", "rsm.config.")


class BrokerConfig(ConfigValues):
    """The settings of a node, checked. Getters take Kafka's names; properties are what needs
    working out.
    """

    __slots__ = (
        "_listener_values",
        "dynamic_broker",
        "dynamic_default",
        "listeners",
        "settings",
        "static_texts",
        "texts",
    )

    def __init__(
        self,
        values: Mapping[str, ConfigValue],
        settings: Settings,
        texts: Mapping[str, str],
        listeners: Listeners,
        listener_values: Mapping[str, Mapping[str, ConfigValue]],
        dynamic_default: Mapping[str, str] | None = None,
        dynamic_broker: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(values)
        # What the file, the environment and the command line say, by name.
        self.settings: Final = settings
        static = {name: setting.text for name, setting in settings.items()}
        self.static_texts: Final = with_id_synonym(static)
        # What all sources together say, the dynamic ones included, before defaults.
        self.texts: Final = texts
        self.listeners: Final = listeners
        self._listener_values = listener_values
        # What the cluster says for every broker.
        self.dynamic_default: Final = dict(dynamic_default or {})
        # What the cluster says for this broker.
        self.dynamic_broker: Final = dict(dynamic_broker or {})

    @property
    def node_id(self) -> int:
        return self.get_int("node.id")

    @property
    def log_dirs(self) -> tuple[str, ...]:
        """`log.dirs`, or `log.dir` where it is not set, as absolute paths."""
        return log_directories(self)

    @property
    def metadata_log_dir(self) -> str:
        """`metadata.log.dir`, or the first of the log directories."""
        path = self.get_optional_string("metadata.log.dir")
        return directory_path(path) if path else self.log_dirs[0]

    @property
    def cordoned_log_dirs(self) -> tuple[str, ...]:
        """Directories that take no new partitions; `*` is worked out."""
        cordoned = self.get_optional_list("cordoned.log.dirs") or ()
        return self.log_dirs if "*" in cordoned else tuple(map(directory_path, cordoned))

    @property
    def quorum_voters(self) -> tuple[Voter, ...]:
        name = "controller.quorum.voters"
        # An entry that is written twice is one voter.
        return tuple(dict.fromkeys(parse_voter(name, entry) for entry in self.get_list(name)))

    @property
    def quorum_bootstrap_servers(self) -> tuple[HostPort, ...]:
        name = "controller.quorum.bootstrap.servers"
        return tuple(
            parse_host_port(name, entry, entry, "{host}:{port}") for entry in self.get_list(name)
        )

    @property
    def max_connections_per_ip_overrides(self) -> dict[str, int]:
        return connection_overrides(self)

    @property
    def consumer_assignors(self) -> tuple[str, ...]:
        """`group.consumer.assignors` by their short names."""
        return tuple(CONSUMER_ASSIGNORS[name] for name in self.get_list("group.consumer.assignors"))

    def listener_values(self, listener: str) -> ConfigValues:
        """The settings as one listener sees them, with its `listener.name.<name>.` settings on
        top.

        Those of a SASL mechanism keep the mechanism in front, as in `plain.sasl.jaas.config`.
        """
        return ConfigValues({**self._values, **self._listener_values.get(listener.lower(), {})})


class LoadedConfig(NamedTuple):
    """A configuration, and what an operator may want to know about it."""

    config: BrokerConfig
    # Set, but no setting of Kafka or Kaa.
    unknown_names: tuple[str, ...]
    # Set, but dropped by Kafka before the version that Kaa follows.
    removed_names: tuple[str, ...]
    # Set, and of no use outside a JVM.
    ineffective_names: tuple[str, ...]
    # Set, and of parts that this version does not have.
    missing_names: tuple[str, ...]
    # Sentences about all of the above, and about settings that do not fit well together.
    warnings: tuple[str, ...]


def load_broker_config(settings: Settings) -> LoadedConfig:
    """Checks merged settings as a whole; raises `InvalidConfigError` with every problem found."""
    config = check_settings(settings, {name: s.text for name, s in settings.items()})
    unknown, removed, ineffective, missing = classify(settings)
    warnings = (
        *_unknown_warnings(unknown, settings),
        *_summary("Kafka has dropped these settings, delete them", removed),
        *_summary("These settings have no effect in Kaa", ineffective),
        *_summary("These settings are of parts that this version of Kaa does not have", missing),
        *_shadow_warnings(settings),
        *_repetition_warnings(settings),
        *_value_warnings(config),
    )
    return LoadedConfig(config, unknown, removed, ineffective, missing, warnings)


def check_settings(
    settings: Settings,
    texts: Mapping[str, str],
    dynamic_default: Mapping[str, str] | None = None,
    dynamic_broker: Mapping[str, str] | None = None,
) -> BrokerConfig:
    """The configuration that `texts` give; `settings` and the dynamic ones are kept for
    reference.
    """
    texts = with_id_synonym(texts)
    parsed, problems = BROKER.parse_collecting(texts)
    listener_values, listener_problems = _parse_listener_settings(texts)
    values = ConfigValues(parsed)
    problems += [*listener_problems, *rule_problems(values), *refusals(values)]
    listeners = None
    if "process.roles" in values and all(name in values for name in LISTENER_NAMES):
        listeners, more = resolve_listeners(values, texts)
        problems += more
        if listeners is not None:
            problems += listener_refusals(listeners)
    if problems or listeners is None:
        raise InvalidConfigError(_one_each(problems, settings))
    return BrokerConfig(
        parsed, settings, texts, listeners, listener_values, dynamic_default, dynamic_broker
    )


def with_id_synonym(texts: Mapping[str, str]) -> dict[str, str]:
    """`node.id` and `broker.id` stand for each other when only one is given."""
    filled = dict(texts)
    if "node.id" in filled:
        filled.setdefault("broker.id", filled["node.id"])
    elif "broker.id" in filled:
        filled["node.id"] = filled["broker.id"]
    return filled


def _one_each(
    problems: list[ConfigProblem], settings: Mapping[str, Setting]
) -> Iterator[ConfigProblem]:
    """The first problem of each setting, saying where the setting is, if anywhere."""
    # The id that was only filled in has the problem of the one that was given.
    filled_in = "node.id" if "broker.id" in settings else "broker.id"
    seen = set() if filled_in in settings else {filled_in}
    for name, message in problems:
        if name in seen:
            continue
        seen.add(name)
        if name in settings:
            message = f"{message.removesuffix('.')} (set in {settings[name].place})"
        yield ConfigProblem(name, message)


def listener_setting(name: str) -> tuple[str, str, ConfigKey | None] | None:
    """Listener, setting and key of a name with a listener prefix; `None` without one.

    The setting of a SASL mechanism carries the mechanism in front, which its key does not have.
    """
    if not name.startswith(LISTENER_PREFIX):
        return None
    listener, dot, base = name.removeprefix(LISTENER_PREFIX).partition(".")
    if not dot:
        return None
    key = BROKER.get(base) or BROKER.get(base.partition(".")[2])
    return listener, base, key


def _parse_listener_settings(
    texts: Mapping[str, str],
) -> tuple[dict[str, dict[str, ConfigValue]], list[ConfigProblem]]:
    values: dict[str, dict[str, ConfigValue]] = {}
    problems: list[ConfigProblem] = []
    for name, text in texts.items():
        parts = listener_setting(name)
        if parts is None or parts[2] is None:
            continue
        listener, base, key = parts[0], parts[1], parts[2]
        try:
            values.setdefault(listener, {})[base] = key.parse(text, name)
        except ConfigError as error:
            problems.append(ConfigProblem(name, str(error)))
    return values, problems


def classify(
    settings: Settings,
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Sorted names that are unknown, removed from Kafka, without effect, and of missing parts."""
    unknown, removed, ineffective, missing = [], [], [], []
    for name in sorted(settings):
        if name in BROKER:
            if name in INEFFECTIVE:
                ineffective.append(name)
            elif is_missing(name):
                missing.append(name)
        elif is_removed(name):
            removed.append(name)
        elif is_unknown(name):
            unknown.append(name)
    return tuple(unknown), tuple(removed), tuple(ineffective), tuple(missing)


def is_unknown(name: str) -> bool:
    """Whether neither Kafka nor Kaa has, or had, such a setting of a broker."""
    if name in BROKER or is_removed(name) or name.startswith(_PLUGIN_PREFIXES):
        return False
    parts = listener_setting(name)
    return parts is None or parts[2] is None or parts[0] != parts[0].lower()


def hint_for_unknown(name: str) -> str:
    """What was most likely meant by an unknown name; empty if nothing comes near."""
    import difflib

    if name.startswith(LISTENER_PREFIX) and name != name.lower():
        return " Write the name of the listener in small letters."
    close = difflib.get_close_matches(name, BROKER.names(), 1, _SUGGESTION_CUTOFF)
    return f" Did you mean {close[0]}?" if close else ""


def _unknown_warnings(unknown: tuple[str, ...], settings: Settings) -> Iterator[str]:
    for name in unknown:
        hint = hint_for_unknown(name)
        yield f"Unknown setting {name} in {settings[name].place} is ignored.{hint}"


def _summary(what: str, names: tuple[str, ...]) -> Iterator[str]:
    if names:
        yield f"{what}: {', '.join(names)}."


_SYNONYMS = (
    ("log.dirs", "log.dir"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
)


def _shadow_warnings(settings: Settings) -> Iterator[str]:
    """An override that loses against a synonym from elsewhere surprises; say so."""
    for synonyms in _SYNONYMS:
        given = [settings[name] for name in synonyms if name in settings]
        for loser in given[1:]:
            if loser.source is not given[0].source:
                yield (
                    f"{loser.name} in {loser.place} has no effect, because {given[0].name} in "
                    f"{given[0].place} comes first."
                )


def _repetition_warnings(settings: Settings) -> Iterator[str]:
    """As in Kafka an entry that is written twice counts once; it may have been meant otherwise."""
    for name, setting in settings.items():
        key = BROKER.get(name)
        if key is None or not isinstance(key.validator, ValidList):
            continue
        entries = parse_value(name, setting.text, key.type)
        assert isinstance(entries, tuple)
        repeated = dict.fromkeys(entry for entry in entries if entries.count(entry) > 1)
        if repeated:
            yield (
                f"{name} in {setting.place} has {shown(', '.join(repeated))} more than once; "
                "repeated entries are ignored."
            )


def _value_warnings(config: BrokerConfig) -> Iterator[str]:
    heartbeat_ms = config.get_int("broker.heartbeat.interval.ms")
    session_ms = config.get_int("broker.session.timeout.ms")
    if heartbeat_ms * 2 > session_ms:
        yield (
            f"broker.heartbeat.interval.ms ({heartbeat_ms}) should be at most half of "
            f"broker.session.timeout.ms ({session_ms}), or one lost heartbeat fences the broker."
        )
    opened = {endpoint.listener.lower() for endpoint in config.listeners.all}
    named = {parts[0] for name in config.settings if (parts := listener_setting(name))}
    for listener in sorted(named - opened):
        yield f"There is no listener for the settings that start with {LISTENER_PREFIX}{listener}."
    voters = (HostPort(voter.host, voter.port) for voter in config.quorum_voters)
    yield from controller_warnings(config.listeners, (*voters, *config.quorum_bootstrap_servers))
