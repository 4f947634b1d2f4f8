"""Addresses as they are written in settings: hosts, ports, listeners and voters. Nothing is
resolved.

A listener is `NAME://host:port`. The host may be empty (every interface), a name, an IPv4 address
or an IPv6 address, in brackets or not, perhaps with a zone (`fe80::1%eth0`). The last colon
starts the port. Port 0 means "any free port". Names are compared in capitals. The labels of a host
name, between its dots, have 1 to 63 characters: no other can be looked up.
"""

import re
from typing import NamedTuple

from kaa.config.values import ConfigError, shown
from kaa.model.nodes import HostPort

PORT_MAX = 65_535
_LABEL_CHARACTERS = range(1, 64)
_INT32_MAX = 0x7FFFFFFF
_HOST = r"\[?([0-9a-zA-Z\-%._:]*)\]?"
_HOST_PORT = rf"(?:[0-9a-zA-Z\-%._]*://)?{_HOST}:([0-9]{{1,10}})\Z"
_LISTENER = rf"(.*)://{_HOST}:(-?[0-9]{{1,10}})\Z"
_VOTER_ID = r"[+-]?[0-9]{1,10}\Z"


class Voter(NamedTuple):
    """One entry of `controller.quorum.voters`."""

    node_id: int
    host: str
    port: int


class ListenerText(NamedTuple):
    """An entry of `listeners` before its security protocol is known."""

    name: str
    host: str
    port: int


def is_wildcard(host: str) -> bool:
    """Whether an address stands for every interface: one can listen on it, not connect to it."""
    return bool(host) and not host.strip("0.:")


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to it, as far as it can be seen."""
    is_ipv6 = ":" in host and host.lstrip("0:") == "1"
    return is_ipv6 or host.startswith("127.") or host.lower() == "localhost"


def parse_host_port(name: str, entry: str, address: str, form: str) -> HostPort:
    """Host and port of an address; `entry` and `form` are for the message."""
    match = re.match(_HOST_PORT, address)
    if not match or int(match[2]) > PORT_MAX:
        raise ConfigError(
            f"Cannot read host and port from {shown(entry)} in {name}. "
            f"Each entry must have the form {form}, with a port from 0 to {PORT_MAX}."
        )
    _check_labels(match[1], name, entry)
    return HostPort(match[1], int(match[2]))


def parse_voter(name: str, entry: str) -> Voter:
    """One voter from `id@host:port`."""
    form = "{id}@{host}:{port}"
    # Java's split drops empty parts at the end.
    parts = entry.rstrip("@").split("@")
    if len(parts) != 2 or not re.match(_VOTER_ID, parts[0]):
        raise ConfigError(
            f"Cannot read a voter from {shown(entry)} in {name}. "
            f"Each entry must have the form {form}."
        )
    node_id = int(parts[0])
    if not -_INT32_MAX - 1 <= node_id <= _INT32_MAX:
        raise ConfigError(f"The voter id in {shown(entry)} in {name} is not a 32-bit number.")
    address = parse_host_port(name, entry, parts[1], form)
    return Voter(node_id, address.host, address.port)


def parse_listener(name: str, entry: str) -> ListenerText:
    """One entry of `listeners` or of `advertised.listeners`; `name` says of which."""
    match = re.match(_LISTENER, entry)
    if not match or not match[1].strip():
        raise ConfigError(
            f"Cannot read a listener from {shown(entry)} in {name}. "
            "Each entry must have the form NAME://host:port."
        )
    port = int(match[3])
    if not 0 <= port <= PORT_MAX:
        raise ConfigError(
            f"The port of {shown(entry)} in {name} must lie between 0 and {PORT_MAX}."
        )
    _check_labels(match[2], name, entry)
    return ListenerText(match[1].upper(), match[2], port)


def _check_labels(host: str, name: str, entry: str) -> None:
    """Whether a host name can be looked up, as far as its form goes."""
    if host and ":" not in host:
        for label in host.removesuffix(".").split("."):
            if len(label) not in _LABEL_CHARACTERS:
                raise ConfigError(
                    f"The host of {shown(entry)} in {name} is not a host name. It must have "
                    "1 to 63 characters between its dots."
                )
