"""Settings of a client as people write them, and what they mean by Kafka's names.

The clients of other libraries have trained their users: numbers and lists as values, librdkafka's
names (`sasl.username`), keyword names (`bootstrap_servers`), a host without a port. `read_settings`
turns all that into texts by Kafka's names. What it does not know it reports, with the name that was
most likely meant; what it cannot read it refuses with a message that says what to write instead.

| Written | Read as |
|---|---|
| `5`, `2.0`, `True` | `5`, `2`, `true` |
| `["a:9092", ("b", 9092)]` | `a:9092,b:9092` |
| `None` | not set |
| `bootstrap_servers` | `bootstrap.servers` |
| `sasl.username` and `sasl.password` | a line for `sasl.jaas.config` |
| a callable as a serializer or deserializer | kept as it is |

Pure: files that some of librdkafka's settings name are read by `kaa.client.settings`.
"""

from __future__ import annotations

from difflib import get_close_matches
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeGuard

from kaa.config.client import ADMIN, CONSUMER, PRODUCER
from kaa.config.definition import ConfigProblem, InvalidConfigError
from kaa.limits import WIRE_STRING_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kaa.config.definition import ConfigDef

DEFAULT_PORT: Final = 9092

CALLABLES: Final = frozenset(
    {"key.serializer", "value.serializer", "key.deserializer", "value.deserializer"}
)
"""Settings that may be functions."""

FILES: Final = frozenset({"ssl.certificate.location", "ssl.key.location"})
"""Settings of librdkafka that name files whose content Kafka's settings hold."""

_ALIASES: Final = {
    "batch.num.bytes": "batch.size",
    "compression.codec": "compression.type",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "message.max.bytes": "max.request.size",
    "message.send.max.retries": "retries",
    "message.timeout.ms": "delivery.timeout.ms",
    "metadata.broker.list": "bootstrap.servers",
    "queue.buffering.max.ms": "linger.ms",
    "request.required.acks": "acks",
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.oauthbearer.client.id": "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.secret": "sasl.oauthbearer.client.credentials.client.secret",
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
    "socket.send.buffer.bytes": "send.buffer.bytes",
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.pem": "ssl.keystore.key",
}
"""librdkafka's names."""

# With these names comes the format of the file or text, which in Kafka is a setting of its own.
_PEM_TYPES: Final = {
    "ssl.ca.location": "ssl.truststore.type",
    "ssl.ca.pem": "ssl.truststore.type",
    "ssl.certificate.pem": "ssl.keystore.type",
    "ssl.key.pem": "ssl.keystore.type",
}
_USER: Final = "sasl.username"
_PASSWORD: Final = "sasl.password"  # noqa: S105  A name.
_JAAS: Final = "sasl.jaas.config"
_LOGIN_MODULES: Final = {
    "PLAIN": "plain.PlainLoginModule",
    "SCRAM-SHA-256": "scram.ScramLoginModule",
    "SCRAM-SHA-512": "scram.ScramLoginModule",
}
_VALUES: Final = {
    "auto.offset.reset": {
        "beginning": "earliest",
        "smallest": "earliest",
        "end": "latest",
        "largest": "latest",
    },
    "ssl.endpoint.identification.algorithm": {"none": ""},
}
"""librdkafka's words for values, by Kafka's name of the setting."""

_SERVERS: Final = frozenset({"bootstrap.servers", "bootstrap.controllers"})
_SERVERS_HINT: Final = "give HOST:PORT as text, or a list of these or of pairs (host, port)"
# What requests carry as it is.
_CARRIED: Final = frozenset(
    {
        "client.id",
        "client.rack",
        "group.id",
        "group.instance.id",
        "group.remote.assignor",
        "transactional.id",
    }
)

_ALL: Final = (PRODUCER, CONSUMER, ADMIN)


class GivenSettings(NamedTuple):
    """What was given, by Kafka's names."""

    texts: dict[str, str]
    callables: dict[str, Callable[..., Any]]
    # Names that no client has.
    unknown: tuple[str, ...]
    # Names of another kind of client, as `group.id` for a producer.
    foreign: tuple[str, ...]


def kafka_name(name: str) -> str:
    """Kafka's name of a setting; the name itself if it has no other."""
    dotted = _dotted(name)
    return _ALIASES.get(dotted, dotted)


def _dotted(name: str) -> str:
    return name if "." in name else name.replace("_", ".")


def is_known(name: str) -> bool:
    """Whether some client has a setting of this name, or of one that means it."""
    given = kafka_name(name)
    return given in {_USER, _PASSWORD} | FILES or any(given in table for table in _ALL)


def unknown_text(name: str) -> str:
    """What to say about a setting that no client has."""
    known = {*_ALIASES, _USER, _PASSWORD, *(key.name for table in _ALL for key in table)}
    near = get_close_matches(kafka_name(name), sorted(known), 1)
    meant = f"; did you mean {near[0]}?" if near else ""
    return f"no client of Kafka has a setting {name}{meant}"


def read_settings(definition: ConfigDef, given: Mapping[str, object]) -> GivenSettings:
    """Texts by Kafka's names; raises InvalidConfigError with everything that cannot be read."""
    texts: dict[str, str] = {}
    callables: dict[str, Callable[..., Any]] = {}
    unknown: list[str] = []
    foreign: list[str] = []
    problems = _unnamed(given)
    for written, value in given.items():
        if value is None or not isinstance(written, str):
            continue
        name = kafka_name(written)
        if callable(value) and name in CALLABLES and name in definition:
            callables[name] = value
            continue
        text = _servers(value) if name in _SERVERS else _text(value)
        if text is None:
            problems.append(ConfigProblem(name, _unreadable(name, value)))
        elif name in definition or name in {_USER, _PASSWORD} | FILES:
            texts[name] = _VALUES.get(name, {}).get(text.lower(), text)
            if (dotted := _dotted(written)) in _PEM_TYPES:
                texts.setdefault(_PEM_TYPES[dotted], "PEM")
        elif is_known(name):
            foreign.append(written)
        else:
            unknown.append(written)
    for name in sorted(_CARRIED & texts.keys()):
        misfit = misfit_of(texts[name])
        if misfit is not None:
            problems.append(ConfigProblem(name, f"The value of {name} {misfit}."))
    problems += _sign_in(texts)
    if "bootstrap.servers" in texts:
        texts["bootstrap.servers"] = with_ports(texts["bootstrap.servers"])
    if problems:
        raise InvalidConfigError(problems)
    return GivenSettings(texts, callables, tuple(unknown), tuple(foreign))


def config_text(name: str, value: object) -> str | None:
    """A value of a topic's or broker's setting as text; None takes the setting back."""
    if value is None:
        return None
    text = _text(value)
    if text is None:
        raise InvalidConfigError([ConfigProblem(name, _unreadable(name, value))])
    return text


def _text(value: object) -> str | None:
    """A value as Kafka's files have it; None if it has no such form."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else str(value)
    if isinstance(value, PathLike):
        path = fspath(value)
        return path if isinstance(path, str) else path.decode()
    if isinstance(value, list | tuple | set | frozenset):
        parts = [_text(one) for one in value]
        if all(part is not None for part in parts):
            return ",".join(part for part in parts if part is not None)
    return None


def _unnamed(names: Iterable[object]) -> list[ConfigProblem]:
    return [
        ConfigProblem(
            repr(name),
            f"Names of settings are text, as 'client.id'; {name!r} is of type "
            f"{type(name).__name__}.",
        )
        for name in names
        if not isinstance(name, str)
    ]


def _unreadable(name: str, value: object) -> str:
    kind = type(value).__name__
    if name in _SERVERS:
        return f"{value!r} is not a list of servers for {name}; {_SERVERS_HINT}."
    if callable(value):
        hint = f"only {', '.join(sorted(CALLABLES))} may be functions"
    elif isinstance(value, bytes):
        hint = "give text, not bytes"
    else:
        hint = "give text, a number, True or False, or a list of these"
    return f"The value of {name} is a {kind}; {hint}."


def _servers(value: object) -> str | None:
    """A list of servers; one of them may be a pair of host and port, and none is a mere number."""
    if _is_pair(value):
        return _joined(value)
    if isinstance(value, list | tuple | set | frozenset):
        parts = [_servers(one) for one in value]
        return None if None in parts else ",".join(filter(None, parts))
    if not isinstance(value, str) or any(one.strip().isdecimal() for one in value.split(",")):
        return None
    return value


def _is_pair(value: object) -> TypeGuard[Sequence[object]]:
    if not isinstance(value, list | tuple) or len(value) != 2:
        return False
    host, port = value
    # With one colon it has a port; an address of IPv6 has more.
    return isinstance(host, str) and host.count(":") != 1 and type(port) is int


def _joined(pair: Sequence[object]) -> str:
    host, port = pair
    host = str(host)
    is_address = ":" in host and not host.startswith("[")
    return f"[{host}]:{port}" if is_address else f"{host}:{port}"


def misfit_of(text: str) -> str | None:
    """Why no request can carry a text, as the end of a sentence; None if one can."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return "has half of a character (a lone surrogate), which UTF-8 cannot write"
    if size > WIRE_STRING_BYTES_MAX:
        return f"has {size:,} bytes; requests carry texts of {WIRE_STRING_BYTES_MAX:,} at most"
    return None


def with_ports(servers: str) -> str:
    """A list of servers in which each has a port."""
    return ",".join(_with_port(one.strip()) for one in servers.split(",") if one.strip())


def _with_port(server: str) -> str:
    host = server.rpartition("://")[2]
    has_port = "]:" in host if host.startswith("[") else ":" in host
    return server if has_port else f"{server}:{DEFAULT_PORT}"


def _sign_in(texts: dict[str, str]) -> list[ConfigProblem]:
    """Turns user and password into the line that Kafka has for them."""
    user, password = texts.pop(_USER, None), texts.pop(_PASSWORD, None)
    if user is None and password is None:
        return []
    if user is None or password is None:
        missing = _USER if user is None else _PASSWORD
        return [ConfigProblem(missing, f"{_USER} and {_PASSWORD} belong together; set {missing}.")]
    if _JAAS in texts:
        return [ConfigProblem(_JAAS, f"Set either {_JAAS} or {_USER} and {_PASSWORD}.")]
    mechanism = texts.setdefault("sasl.mechanism", "PLAIN")
    module = _LOGIN_MODULES.get(mechanism)
    if module is None:
        known = ", ".join(_LOGIN_MODULES)
        return [
            ConfigProblem(
                "sasl.mechanism",
                f"{_USER} is for {known}; sasl.mechanism is {mechanism}.",
            )
        ]
    texts[_JAAS] = (
        f"org.apache.kafka.common.security.{module} required "
        f'username="{_quoted(user)}" password="{_quoted(password)}";'
    )
    return []


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
