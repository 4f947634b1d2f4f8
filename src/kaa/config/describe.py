"""Settings as DescribeConfigs reports them: value, source, synonyms, type, documentation.

A broker setting can be set in four places. From strongest to weakest: in the cluster for this
broker, in the cluster for all brokers, statically, and by default. The synonyms of an entry list
what is set anywhere, strongest first, each place with all names that stand for the setting; the
first tells the source. What stands before the first synonym of the very name asked for is left out,
as in Kafka.

A value that is a secret, or whose name nobody knows, is not reported.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kaa.config import group as group_settings
from kaa.config import topic as topic_settings
from kaa.config.broker import BROKER, DYNAMIC_BROKER
from kaa.config.definition import ConfigDef, ConfigKey, ConfigValues
from kaa.config.dynamic import synonyms as broker_synonyms
from kaa.config.entity import CLIENT_METRICS
from kaa.config.server import BrokerConfig
from kaa.config.values import ConfigType, value_text
from kaa.model.kinds import ConfigSource


class Synonym(NamedTuple):
    """One place where a setting, or another name for it, is set."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """One setting of one resource."""

    name: str
    value: str | None
    source: ConfigSource
    is_sensitive: bool
    read_only: bool
    type: ConfigType
    synonyms: tuple[Synonym, ...]
    documentation: str | None


def describe_broker(config: BrokerConfig, names: Iterable[str] | None = None) -> list[ConfigEntry]:
    """All settings of this broker, or those named; internal ones only where they are set."""
    reported = [key.name for key in BROKER if not key.internal]
    reported += [name for name in config.texts if name not in BROKER or BROKER[name].internal]
    return [_broker_entry(config, name) for name in _selected(reported, names)]


def describe_broker_defaults(
    config: BrokerConfig, names: Iterable[str] | None = None
) -> list[ConfigEntry]:
    """What the cluster sets for all brokers, and nothing else."""
    entries = []
    for name in _selected(config.dynamic_default, names):
        entry = _broker_entry(config, name)
        synonyms = tuple(
            synonym
            for synonym in entry.synonyms
            if synonym.source is ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
        )
        value = None if entry.is_sensitive else config.dynamic_default[name]
        source = _source(synonyms)
        entries.append(entry._replace(value=value, source=source, synonyms=synonyms))
    return entries


def describe_topic(
    config: BrokerConfig, overrides: Mapping[str, str], names: Iterable[str] | None = None
) -> list[ConfigEntry]:
    """All settings of a topic with these overrides, or those named."""
    values = topic_settings.topic_values(config, overrides)

    def inherited(key: ConfigKey) -> list[Synonym]:
        on_broker = topic_settings.BROKER_SYNONYMS.get(key.name)
        return _broker_synonyms(config, on_broker[0][0], is_sensitive=False) if on_broker else []

    return [
        _entry(
            topic_settings.TOPIC,
            name,
            values,
            overrides,
            inherited,
            ConfigSource.DYNAMIC_TOPIC_CONFIG,
        )
        for name in _selected(_reported(topic_settings.TOPIC, overrides), names)
    ]


def describe_created_topic(config: BrokerConfig, overrides: Mapping[str, str]) -> list[ConfigEntry]:
    """The settings of a topic as the answer to its creation reports them.

    The controller answers before anything is parsed: texts stay as they were given, units are
    converted, and every synonym counts as a source.
    """
    entries = []
    for name in _selected(_reported(topic_settings.TOPIC, overrides), None):
        key = topic_settings.TOPIC[name]
        value, source = _created_value(config, key, overrides)
        entries.append(
            ConfigEntry(
                name, value, source, key.is_sensitive, False, key.type, (), key.documentation
            )
        )
    return entries


def _created_value(
    config: BrokerConfig, key: ConfigKey, overrides: Mapping[str, str]
) -> tuple[str | None, ConfigSource]:
    if key.name in overrides:
        return overrides[key.name], ConfigSource.DYNAMIC_TOPIC_CONFIG
    for source, layer in _set_layers(config):
        for name, factor in topic_settings.BROKER_SYNONYMS.get(key.name, ()):
            if name in layer:
                text = layer[name]
                return (text if factor == 1 else str(int(text) * factor)), source
    return key.default_text, ConfigSource.DEFAULT_CONFIG


def describe_group(
    config: BrokerConfig, overrides: Mapping[str, str], names: Iterable[str] | None = None
) -> list[ConfigEntry]:
    """All settings of a group with these overrides, or those named."""
    defaults = group_settings.group_defaults(config)
    values = group_settings.GROUP.parse(overrides, defaults)

    def inherited(key: ConfigKey) -> list[Synonym]:
        on_broker = group_settings.BROKER_SYNONYMS.get(key.name)
        if on_broker:
            return _broker_synonyms(config, on_broker, is_sensitive=False)
        return [Synonym(key.name, key.default_text, ConfigSource.DEFAULT_CONFIG)]

    return [
        _entry(group_settings.GROUP, name, values, overrides, inherited, ConfigSource.GROUP_CONFIG)
        for name in _selected(_reported(group_settings.GROUP, overrides), names)
    ]


def describe_client_metrics(
    overrides: Mapping[str, str], names: Iterable[str] | None = None
) -> list[ConfigEntry]:
    """All settings of a metrics subscription, or those named."""
    values = CLIENT_METRICS.parse(overrides)
    source = ConfigSource.CLIENT_METRICS_CONFIG
    return [
        _entry(CLIENT_METRICS, name, values, overrides, lambda key: [], source)  # noqa: ARG005
        for name in _selected(_reported(CLIENT_METRICS, overrides), names)
    ]


def describe_loggers(
    levels: Mapping[str, str], names: Iterable[str] | None = None
) -> list[ConfigEntry]:
    """The level of every logger of a broker, or of those named."""
    source = ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG
    return [
        ConfigEntry(name, levels[name], source, False, False, ConfigType.UNKNOWN, (), None)
        for name in _selected(levels, names)
    ]


def _selected(reported: Iterable[str], names: Iterable[str] | None) -> list[str]:
    wanted = names if isinstance(names, set) else set(names or ())
    return sorted(name for name in reported if not wanted or name in wanted)


def _reported(definition: ConfigDef, overrides: Mapping[str, str]) -> Iterator[str]:
    """Every setting that is not internal, and whatever else is set."""
    yield from (key.name for key in definition if not key.internal)
    yield from (name for name in overrides if name not in definition or definition[name].internal)


def _entry(
    definition: ConfigDef,
    name: str,
    values: ConfigValues,
    overrides: Mapping[str, str],
    inherited: Callable[[ConfigKey], list[Synonym]],
    own_source: ConfigSource,
) -> ConfigEntry:
    """The entry of a resource whose own settings lie above the broker's."""
    key = definition.get(name)
    is_sensitive = key is None or key.is_sensitive
    value = None if is_sensitive else value_text(values.value(name))
    synonyms = [] if key is None else inherited(key)
    if name in overrides:
        synonyms.insert(0, Synonym(name, value, own_source))
    return ConfigEntry(
        name,
        value,
        _source(synonyms),
        is_sensitive,
        False,
        ConfigType.UNKNOWN if key is None else key.type,
        tuple(synonyms),
        None if key is None else key.documentation,
    )


def _broker_entry(config: BrokerConfig, name: str) -> ConfigEntry:
    key = next((key for each in (name, *broker_synonyms(name)) if (key := _broker_key(each))), None)
    is_sensitive = key is None or key.is_sensitive
    if is_sensitive:
        value = None
    elif name in config and not BROKER[name].internal:
        value = value_text(config.value(name))
    else:
        value = config.texts.get(name)
    synonyms = tuple(_broker_synonyms(config, name, is_sensitive=is_sensitive))
    return ConfigEntry(
        name,
        value,
        _source(synonyms),
        is_sensitive,
        name not in DYNAMIC_BROKER,
        ConfigType.UNKNOWN if key is None else key.type,
        synonyms,
        BROKER[name].documentation if name in BROKER else None,
    )


def _broker_key(name: str) -> ConfigKey | None:
    return BROKER.get(name) or DYNAMIC_BROKER.get(name)


def _broker_synonyms(config: BrokerConfig, name: str, *, is_sensitive: bool) -> list[Synonym]:
    names = broker_synonyms(name)
    found = [
        Synonym(each, None if is_sensitive else layer[each], source)
        for source, layer in _set_layers(config)
        for each in names
        if each in layer
    ]
    for each in names:
        text = BROKER[each].default_text if each in BROKER else None
        if text is not None:
            found.append(Synonym(each, None if is_sensitive else text, ConfigSource.DEFAULT_CONFIG))
    own = next((index for index, synonym in enumerate(found) if synonym.name == name), len(found))
    return found[own:]


def _set_layers(config: BrokerConfig) -> Iterator[tuple[ConfigSource, Mapping[str, str]]]:
    """The places where a broker setting can be set, strongest first."""
    yield ConfigSource.DYNAMIC_BROKER_CONFIG, config.dynamic_broker
    yield ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, config.dynamic_default
    yield ConfigSource.STATIC_BROKER_CONFIG, config.static_texts


def _source(synonyms: Sequence[Synonym]) -> ConfigSource:
    return synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
