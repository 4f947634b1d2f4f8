"""The reference of all settings as Markdown, written from the tables."""

from collections.abc import Iterable, Iterator

from kaa.config.broker import BROKER
from kaa.config.client import ADMIN, CONSUMER, PRODUCER
from kaa.config.definition import ConfigDef, ConfigKey, Required, UpdateMode
from kaa.config.entity import CLIENT_METRICS, IP, USER
from kaa.config.group import BROKER_SYNONYMS as GROUP_SYNONYMS
from kaa.config.group import GROUP
from kaa.config.tables.broker import replication
from kaa.config.topic import BROKER_SYNONYMS as TOPIC_SYNONYMS
from kaa.config.topic import TOPIC
from kaa.config.unsupported import INEFFECTIVE, REFUSED_NAMES, is_missing
from kaa.config.values import value_text

_UNITS = (
    ("ms", ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))),
    ("bytes", ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))),
)


def reference() -> str:
    """The whole page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# Settings"
    yield ""
    yield "Names, types, defaults and valid values are those of Apache Kafka 4.3.1; settings that"
    yield "start with `kaa.` are Kaa's own. A setting marked *refused* stops the start when it asks"
    yield "for what this version does not have; one marked *no effect* is accepted and changes"
    yield "nothing, and so does one marked *not yet*, whose part does not exist in this version."
    yield from _section(
        "Broker",
        "Set in `server.properties`, as `KAFKA_*` environment variables, or with `--override`; "
        "the later of these wins. *Dynamic* settings can change while the broker runs.",
        (key for key in BROKER if not key.internal),
    )
    yield from _section(
        "Broker, at run time only",
        "Set in the cluster, for one broker or for all.",
        replication.DYNAMIC_KEYS,
    )
    yield from _section(
        "Topic",
        "Set when a topic is created or later; otherwise the broker setting named is the default.",
        (key for key in TOPIC if not key.internal),
        {name: tuple(each for each, _ in names) for name, names in TOPIC_SYNONYMS.items()},
    )
    yield from _section(
        "Group",
        "Set for one group; otherwise the broker setting named is the default.",
        GROUP,
        {name: (synonym,) for name, synonym in GROUP_SYNONYMS.items()},
    )
    for title, definition in (
        ("Client metrics subscription", CLIENT_METRICS),
        ("User and client", USER),
        ("IP address", IP),
        ("Producer", PRODUCER),
        ("Consumer", CONSUMER),
        ("Admin client", ADMIN),
    ):
        yield from _section(title, "", _public(definition))


def _public(definition: ConfigDef) -> Iterator[ConfigKey]:
    return (key for key in definition if not key.internal)


def _section(
    title: str,
    introduction: str,
    keys: Iterable[ConfigKey],
    defaults_from: dict[str, tuple[str, ...]] | None = None,
) -> Iterator[str]:
    yield ""
    yield f"## {title}"
    yield ""
    if introduction:
        yield introduction
        yield ""
    for key in sorted(keys, key=lambda key: key.name):
        yield f"### {key.name}"
        yield ""
        yield key.documentation
        yield ""
        yield "; ".join(_facts(key, title == "Broker", (defaults_from or {}).get(key.name, ())))
        yield ""


def _facts(key: ConfigKey, is_broker: bool, synonyms: tuple[str, ...]) -> Iterator[str]:
    yield f"*{key.type.name.lower()}*, {key.importance.value} importance"
    yield _default(key)
    valid = "" if key.validator is None else key.validator.describe()
    if valid:
        yield f"valid values `{valid}`"
    if synonyms:
        yield "broker setting " + ", then ".join(f"`{name}`" for name in synonyms)
    if key.update_mode is not UpdateMode.READ_ONLY:
        yield f"dynamic, {key.update_mode.value}"
    if is_broker and key.name in REFUSED_NAMES:
        yield "*refused* where this version lacks it"
    if is_broker and key.name in INEFFECTIVE:
        yield "*no effect* in Kaa"
    if is_broker and is_missing(key.name):
        yield "*not yet*"


def _default(key: ConfigKey) -> str:
    if isinstance(key.default, Required):
        return "must be set"
    text = value_text(key.default)
    if text is None:
        return "no default"
    return f"default `{text}`{_readable(key)}" if text else "default empty"


def _readable(key: ConfigKey) -> str:
    """The default of a time or size in its largest whole unit."""
    for suffix, units in _UNITS:
        if key.name.endswith(f".{suffix}") and isinstance(key.default, int):
            for size, unit in units:
                if key.default > 0 and key.default % size == 0:
                    return f" ({key.default // size} {unit})"
    return ""
