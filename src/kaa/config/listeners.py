"""Which listeners a node opens, what it tells others, and over which it talks to whom.

Six settings describe this together, so they are resolved and checked together, by Kafka's rules for
a node that is both broker and controller:

- `listeners` are opened. Names differ; ports differ, except that one IPv4 and one IPv6 address
  may share a port.
- `listener.security.protocol.map` has a protocol for every name. While it is unset and no
  listener is named after TLS or SASL, the controller listeners are PLAINTEXT.
- `controller.listener.names` are those of `listeners` that serve the controller; the rest serve
  the broker, and there must be some of each.
- `advertised.listeners` replaces the addresses given to others; its names are among `listeners`,
  and no address is 0.0.0.0 or ::. A controller listener that is not advertised falls back on its
  entry in `controller.quorum.voters`, then on its own address.
- `inter.broker.listener.name`, or else the listener named after
  `security.inter.broker.protocol`, is advertised.
- `early.start.listeners` are among the listeners.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from kaa.config.addresses import Voter, is_wildcard, parse_listener, parse_voter
from kaa.config.definition import ConfigProblem, ConfigValues
from kaa.config.values import ConfigError, parse_pairs, shown
from kaa.model.nodes import Endpoint, SecurityProtocol

_SECURED = frozenset({"SSL", "SASL_PLAINTEXT", "SASL_SSL"})
_MAP = "listener.security.protocol.map"

NAMES = (
    "listeners",
    "advertised.listeners",
    _MAP,
    "controller.listener.names",
    "controller.quorum.voters",
    "node.id",
    "inter.broker.listener.name",
    "security.inter.broker.protocol",
    "early.start.listeners",
)
"""The settings that `resolve_listeners` reads."""


class Listeners(NamedTuple):
    """The listeners of a node, resolved. Names are in capitals."""

    # What is opened, in the order of `listeners`.
    all: tuple[Endpoint, ...]
    # Those of `all` that serve clients and brokers.
    broker: tuple[Endpoint, ...]
    # Those of `all` that serve the controller.
    controller: tuple[Endpoint, ...]
    # What clients and brokers connect to. An empty host stands for the name of the machine.
    advertised_broker: tuple[Endpoint, ...]
    # What other controllers connect to, in the order of `controller.listener.names`.
    advertised_controller: tuple[Endpoint, ...]
    # The listener over which brokers talk.
    inter_broker_name: str
    # Listeners that may open before authorization works.
    early_start_names: frozenset[str]


class _SettingError(ConfigError):
    """What is wrong, and with which setting."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.problem = ConfigProblem(name, message)


def resolve_listeners(
    values: ConfigValues, given: Collection[str]
) -> tuple[Listeners | None, list[ConfigProblem]]:
    """Resolves the listeners; `given` are the names that are set at all."""
    try:
        protocols = security_protocols(values, given)
        opened = _endpoints("listeners", values.get_list("listeners"), protocols)
        _check_ports(opened)
        texts = values.get_optional_list("advertised.listeners")
        advertised = None
        if texts is not None:
            advertised = _endpoints("advertised.listeners", texts, protocols)
        listeners = _assemble(values, given, protocols, opened, advertised)
    except _SettingError as error:
        return None, [error.problem]
    problems = list(_role_problems(values, listeners))
    return (None if problems else listeners), problems


def security_protocols(values: ConfigValues, given: Collection[str]) -> dict[str, SecurityProtocol]:
    """Listener name to protocol, as the map says or implies."""
    protocols: dict[str, SecurityProtocol] = {}
    try:
        pairs = parse_pairs(_MAP, values.get_string(_MAP))
    except ConfigError as error:
        raise _SettingError(_MAP, str(error)) from None
    for name, protocol in pairs.items():
        if not name:
            raise _SettingError(_MAP, f"{_MAP} has an entry without a listener name: remove it.")
        if name.upper() in protocols:
            raise _SettingError(_MAP, f"{_MAP} names the listener {shown(name.upper())} twice.")
        protocols[name.upper()] = _protocol(protocol)
    if _MAP not in given:
        controllers = values.get_list("controller.listener.names")
        names = {entry.partition(":")[0].upper() for entry in values.get_list("listeners")}
        if not _SECURED & {*controllers, *names}:
            protocols |= {
                name: SecurityProtocol.PLAINTEXT for name in controllers if name != "PLAINTEXT"
            }
    return protocols


def _protocol(name: str) -> SecurityProtocol:
    try:
        return SecurityProtocol[name.upper()]
    except KeyError:
        known = ", ".join(protocol.name for protocol in SecurityProtocol)
        raise _SettingError(
            _MAP, f"{_MAP} has the unknown security protocol {shown(name)}: use one of {known}."
        ) from None


def _endpoints(
    name: str, texts: tuple[str, ...], protocols: Mapping[str, SecurityProtocol]
) -> tuple[Endpoint, ...]:
    endpoints: dict[str, Endpoint] = {}
    for text in texts:
        try:
            listener = parse_listener(name, text)
        except ConfigError as error:
            raise _SettingError(name, str(error)) from None
        protocol = protocols.get(listener.name)
        if protocol is None:
            raise _SettingError(
                name,
                f"The listener {shown(listener.name)} in {name} has no security protocol: "
                f"add {shown(listener.name)}:PLAINTEXT, or another protocol, to {_MAP}.",
            )
        if listener.name in endpoints:
            raise _SettingError(name, f"{name} names the listener {shown(listener.name)} twice.")
        endpoints[listener.name] = Endpoint(listener.name, listener.host, listener.port, protocol)
    return tuple(endpoints.values())


def _check_ports(endpoints: tuple[Endpoint, ...]) -> None:
    by_port: dict[int, list[Endpoint]] = {}
    for endpoint in endpoints:
        if endpoint.port:
            by_port.setdefault(endpoint.port, []).append(endpoint)
    for port, sharing in by_port.items():
        if len(sharing) > 1 and {ip_version(endpoint.host) for endpoint in sharing} != {4, 6}:
            names = ", ".join(endpoint.listener for endpoint in sharing)
            raise _SettingError(
                "listeners", f"The listeners {names} need different ports, not {port}."
            )
        if len(sharing) > 2:
            raise _SettingError("listeners", f"More than two listeners share port {port}.")


def ip_version(host: str) -> int | None:
    """4 or 6 for an IP address, `None` for anything else."""
    import ipaddress

    try:
        return ipaddress.ip_address(host).version
    except ValueError:
        return None


def _assemble(
    values: ConfigValues,
    given: Collection[str],
    protocols: Mapping[str, SecurityProtocol],
    opened: tuple[Endpoint, ...],
    advertised: tuple[Endpoint, ...] | None,
) -> Listeners:
    controller_names = values.get_list("controller.listener.names")
    broker_advertised = opened if advertised is None else advertised
    return Listeners(
        opened,
        tuple(endpoint for endpoint in opened if endpoint.listener not in controller_names),
        tuple(endpoint for endpoint in opened if endpoint.listener in controller_names),
        tuple(end for end in broker_advertised if end.listener not in controller_names),
        _advertised_controllers(values, opened, advertised or ()),
        _inter_broker_name(values, given, protocols),
        _early_start_names(values, opened, controller_names),
    )


def _inter_broker_name(
    values: ConfigValues, given: Collection[str], protocols: Mapping[str, SecurityProtocol]
) -> str:
    name = values.get_optional_string("inter.broker.listener.name")
    if name is None:
        return values.get_string("security.inter.broker.protocol")
    if "security.inter.broker.protocol" in given:
        raise _SettingError(
            "inter.broker.listener.name",
            "Set only one of inter.broker.listener.name and security.inter.broker.protocol.",
        )
    if name.upper() not in protocols:
        raise _SettingError(
            "inter.broker.listener.name",
            f"inter.broker.listener.name is {shown(name.upper())}, which {_MAP} does not have: "
            "name one of the listeners there.",
        )
    return name.upper()


def _early_start_names(
    values: ConfigValues, opened: tuple[Endpoint, ...], controller_names: tuple[str, ...]
) -> frozenset[str]:
    names = values.get_optional_list("early.start.listeners")
    known = {endpoint.listener for endpoint in opened}
    if names is None:
        return frozenset(known & set(controller_names))
    for name in names:
        if name not in known:
            raise _SettingError(
                "early.start.listeners",
                f"early.start.listeners has {shown(name)}, which is not in listeners.",
            )
    return frozenset(names)


def _advertised_controllers(
    values: ConfigValues, opened: tuple[Endpoint, ...], advertised: tuple[Endpoint, ...]
) -> tuple[Endpoint, ...]:
    advertised_by_name = {endpoint.listener: endpoint for endpoint in advertised}
    bound = {endpoint.listener: endpoint for endpoint in opened}
    endpoints = []
    for position, name in enumerate(values.get_list("controller.listener.names")):
        endpoint = advertised_by_name.get(name) or bound.get(name)
        if endpoint is None:
            continue
        if name not in advertised_by_name and (not endpoint.host or is_wildcard(endpoint.host)):
            voter = _own_voter(values) if position == 0 else None
            host, port = (voter.host, voter.port) if voter else ("", endpoint.port)
            endpoint = endpoint._replace(host=host, port=port)
        endpoints.append(endpoint)
    return tuple(endpoints)


def _own_voter(values: ConfigValues) -> Voter | None:
    for entry in values.get_list("controller.quorum.voters"):
        voter = parse_voter("controller.quorum.voters", entry)
        if is_wildcard(voter.host):
            raise _SettingError(
                "controller.quorum.voters",
                f"controller.quorum.voters has {shown(entry)}, which other nodes cannot reach: "
                f"write a host name or address instead of {voter.host}.",
            )
        if voter.node_id == values.get_int("node.id"):
            return voter
    return None


def _role_problems(values: ConfigValues, listeners: Listeners) -> Iterator[ConfigProblem]:
    """The rules that tie the resolved listeners together, each reported once."""
    roles = values.get_list("process.roles")
    if "controller" in roles:
        yield from _controller_problems(values, listeners)
    elif listeners.controller:
        names = ", ".join(endpoint.listener for endpoint in listeners.controller)
        yield ConfigProblem(
            "listeners",
            f"listeners has {shown(names)}, a name of controller.listener.names, and this node is "
            "only a broker: remove the listener, or add controller to process.roles.",
        )
    if "broker" in roles:
        yield from _broker_problems(listeners)
    elif listeners.broker:
        names = ", ".join(endpoint.listener for endpoint in listeners.broker)
        yield ConfigProblem(
            "listeners",
            f"listeners has {shown(names)}, and this node is only a controller: name the listener "
            "in controller.listener.names, or add broker to process.roles.",
        )
    for endpoint in (*listeners.advertised_broker, *listeners.advertised_controller):
        if is_wildcard(endpoint.host):
            yield ConfigProblem(
                "advertised.listeners",
                f"{endpoint} would be advertised, and clients cannot connect to {endpoint.host}: "
                "set advertised.listeners to an address that clients can reach.",
            )
            break


def _controller_problems(values: ConfigValues, listeners: Listeners) -> Iterator[ConfigProblem]:
    known = {endpoint.listener for endpoint in listeners.all}
    unknown = set(values.get_list("controller.listener.names")) - known
    if unknown:
        yield ConfigProblem(
            "controller.listener.names",
            f"controller.listener.names has {shown(', '.join(sorted(unknown)))}, which listeners "
            f"does not have: use names from it, in capitals ({', '.join(sorted(known))}).",
        )


def _broker_problems(listeners: Listeners) -> Iterator[ConfigProblem]:
    known = {endpoint.listener for endpoint in listeners.all}
    advertised = {endpoint.listener for endpoint in listeners.advertised_broker}
    if not advertised:
        yield ConfigProblem(
            "listeners",
            "No listener is left for clients: listeners, or advertised.listeners if set, needs a "
            "name that controller.listener.names does not have.",
        )
    elif listeners.inter_broker_name not in advertised:
        yield ConfigProblem(
            "inter.broker.listener.name",
            f"Brokers would talk over the listener {shown(listeners.inter_broker_name)}, which is "
            "not advertised: set inter.broker.listener.name to one of "
            f"{', '.join(sorted(advertised))}.",
        )
    if advertised - known:
        yield ConfigProblem(
            "advertised.listeners",
            f"advertised.listeners has {shown(', '.join(sorted(advertised - known)))}, which "
            f"listeners does not have: use names from it ({', '.join(sorted(known))}).",
        )
