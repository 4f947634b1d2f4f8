"""Broker settings that change while the broker runs, kept in the cluster's metadata.

There are two layers above the static settings: one for every broker, and above it one for this
broker. A dynamic setting replaces its static synonyms too: once `log.retention.ms` is set
dynamically, a static `log.retention.hours` no longer counts, and neither does a lower layer's.

A change is refused as a whole, with Kafka's rules: the name can change at all; a security setting
is named with its listener; a per-broker setting is not set for all; the values are good, alone and
together.
"""

from collections.abc import Iterable, Iterator, Mapping

from kaa.config.broker import BROKER, DYNAMIC_BROKER
from kaa.config.definition import (
    ConfigProblem,
    InvalidConfigError,
    UpdateMode,
)
from kaa.config.directories import unknown_cordons
from kaa.config.rules import tied_to
from kaa.config.server import BrokerConfig, check_settings, listener_setting
from kaa.config.values import ConfigError, parse_value, shown

_ROLL = ("log.roll.ms", "log.roll.hours")
_ROLL_JITTER = ("log.roll.jitter.ms", "log.roll.jitter.hours")
_RETENTION = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
_FLUSH = ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")
_SYNONYMS = {
    **{name: group for group in (_ROLL, _ROLL_JITTER, _RETENTION) for name in group},
    _FLUSH[0]: _FLUSH,
}

# Security settings of a listener; without its prefix they cannot change.
_LISTENER_ONLY = frozenset(
    {
        "ssl.keystore.type",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.key.password",
        "ssl.truststore.type",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.truststore.certificates",
    }
)
_CLUSTER_LEVEL_LISTENER = frozenset(
    {"max.connections", "max.connection.creation.rate", "num.network.threads"}
)
_THREADS = (
    "num.io.threads",
    "num.replica.fetchers",
    "num.recovery.threads.per.data.dir",
    "background.threads",
    "log.cleaner.threads",
)
_CORDONED = "cordoned.log.dirs"
_CLAMPED = tuple(
    f"group.{kind}.assignment.interval.ms" for kind in ("consumer", "share", "streams")
)


def synonyms(name: str) -> tuple[str, ...]:
    """The broker settings that stand for the same thing, strongest first, itself among them.

    For a name with a listener prefix these are the name and the setting without the prefix.
    """
    if name in _SYNONYMS:
        return _SYNONYMS[name]
    parts = listener_setting(name)
    if parts is None:
        return (name,)
    return (name, parts[1] if parts[2] is None else parts[2].name)


def update_problems(changes: Mapping[str, str], *, per_broker: bool) -> Iterator[ConfigProblem]:
    """What is wrong with a layer by itself: names that cannot be in it, and values that do not
    parse.
    """
    for name, text in changes.items():
        parts = listener_setting(name)
        base = name if parts is None else parts[1]
        if name in BROKER and name not in DYNAMIC_BROKER:
            yield ConfigProblem(name, f"{name} cannot change while the broker runs.")
        elif name in _LISTENER_ONLY:
            yield ConfigProblem(
                name, f"{name} can only change for one listener: write listener.name.<name>.{name}."
            )
        elif not per_broker and _is_per_broker(name, base):
            yield ConfigProblem(name, f"{name} can only change for one broker: give its id.")
        elif (key := DYNAMIC_BROKER.get(base)) is not None:
            try:
                key.parse(text, name)
            except ConfigError as error:
                yield ConfigProblem(name, str(error))


def _is_per_broker(name: str, base: str) -> bool:
    if name != base:
        return base not in _CLUSTER_LEVEL_LISTENER
    key = DYNAMIC_BROKER.get(name)
    return key is not None and key.update_mode is UpdateMode.PER_BROKER


def apply_dynamic(
    config: BrokerConfig, dynamic_default: Mapping[str, str], dynamic_broker: Mapping[str, str]
) -> BrokerConfig:
    """The configuration with these two layers in place of its present ones, checked as a whole."""
    texts = {name: setting.text for name, setting in config.settings.items()}
    for layer in (dynamic_default, dynamic_broker):
        for name, text in layer.items():
            for synonym in _SYNONYMS.get(name, (name,)):
                texts.pop(synonym, None)
            texts[name] = text
    _clamp(texts)
    return check_settings(config.settings, texts, dynamic_default, dynamic_broker)


def validate_update(
    config: BrokerConfig, changes: Mapping[str, str], *, per_broker: bool
) -> BrokerConfig:
    """Checks a whole new layer for this broker, or for all, and gives the configuration it leads
    to.
    """
    problems = list(update_problems(changes, per_broker=per_broker))
    if problems:
        raise InvalidConfigError(problems)
    if per_broker:
        changed = apply_dynamic(config, config.dynamic_default, changes)
    else:
        changed = apply_dynamic(config, changes, config.dynamic_broker)
    problems = list(_reconfiguration_problems(config, changed))
    if problems:
        raise InvalidConfigError(problems)
    return changed


def usable_update(
    changes: Mapping[str, str], *, per_broker: bool
) -> tuple[dict[str, str], list[ConfigProblem]]:
    """A stored layer without what cannot be used of it, and why: a broker must start in spite of
    it.
    """
    problems = list(update_problems(changes, per_broker=per_broker))
    bad = {problem.name for problem in problems}
    return {name: text for name, text in changes.items() if name not in bad}, problems


def in_force(
    config: BrokerConfig, stored_default: Mapping[str, str], stored_broker: Mapping[str, str]
) -> tuple[BrokerConfig, list[ConfigProblem]]:
    """The configuration with stored layers above the static settings as far as they can be used,
    and what is wrong with the rest.

    Values that are good alone and not together may have been stored: the one who stores them does
    not know the static settings of every broker. The one that a broken rule complains about does
    not count then, or, if that one is static, those that the rule ties to it.
    """
    default, problems = usable_update(stored_default, per_broker=False)
    broker, more = usable_update(stored_broker, per_broker=True)
    problems += more
    default, broker = (_with_known_cordons(config, layer, problems) for layer in (default, broker))
    while default or broker:
        try:
            return apply_dynamic(config, default, broker), problems
        except InvalidConfigError as error:
            problems += error.problems
            bad = _culprits(error.problems, {*default, *broker})
        default, broker = (
            {name: text for name, text in layer.items() if name not in bad}
            for layer in (default, broker)
        )
    return apply_dynamic(config, {}, {}), problems


def _with_known_cordons(
    config: BrokerConfig, stored: Mapping[str, str], problems: list[ConfigProblem]
) -> dict[str, str]:
    """Without directories that were taken out of `log.dirs` since they were cordoned. The others
    stay cordoned: one of them may be the next to go.
    """
    layer = dict(stored)
    names = [name.strip() for name in layer.get(_CORDONED, "").split(",")]
    unknown = [name for name in unknown_cordons(config, names) if name]
    if unknown:
        layer[_CORDONED] = ",".join(name for name in names if name not in unknown)
        text = f"{_CORDONED} has {shown(', '.join(unknown))}, which is not in log.dirs."
        problems.append(ConfigProblem(_CORDONED, text))
    return layer


def _culprits(problems: Iterable[ConfigProblem], stored: set[str]) -> set[str]:
    """Which of the stored settings to do without; all of them if nothing tells which it is."""
    bad: set[str] = set()
    for problem in problems:
        bad |= stored.intersection(synonyms(problem.name)) or stored & tied_to(problem.name)
    return bad or stored


def _reconfiguration_problems(
    current: BrokerConfig, changed: BrokerConfig
) -> Iterable[ConfigProblem]:
    for name in _THREADS:
        before, after = current.get_int(name), changed.get_int(name)
        if after != before and not before // 2 <= after <= before * 2:
            yield ConfigProblem(
                name,
                f"{name} ({after}) must lie between half and double of its present value {before}: "
                "change it in steps.",
            )
    advertised = {endpoint.listener for endpoint in current.listeners.advertised_broker}
    if gone := advertised - {endpoint.listener for endpoint in changed.listeners.all}:
        yield ConfigProblem(
            "listeners", f"listeners must keep what is advertised: {', '.join(sorted(gone))}."
        )


def _clamp(texts: dict[str, str]) -> None:
    """Moves the assignment intervals within bounds that a file may have narrowed meanwhile."""
    for name in _CLAMPED:
        if name not in texts:
            continue
        try:
            key = BROKER[name]
            value, lower, upper = (
                parse_value(each, texts.get(each, BROKER[each].default_text or ""), key.type)
                for each in (name, _bound(name, "min"), _bound(name, "max"))
            )
        except ConfigError:
            continue  # The check of the whole reports it.
        assert isinstance(value, int)
        assert isinstance(lower, int)
        assert isinstance(upper, int)
        if not lower <= value <= upper:
            texts[name] = str(lower if value < lower else upper)


def _bound(name: str, which: str) -> str:
    kind, _, rest = name.removeprefix("group.").partition(".")
    return f"group.{kind}.{which}.{rest}"
