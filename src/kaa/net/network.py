"""Where sockets come from: a Protocol, and the system's sockets as one kind of it.

A node touches the network in five places, and each is handed in:

| Place | Handed in as |
|---|---|
| bind, accept | `Network.bind` and the `ListeningSocket` it gives |
| reader and writer of a connection | `StreamSocket`, under a `Transport` |
| readiness of both | `add_reader` and `add_writer` of the event loop |
| connect of the client | `create_connection` of the event loop |

The Protocols name a part of `socket.socket`, so that the sockets of the system satisfy them as they
are and nothing stands between a connection and its system calls. The twin in `tests/simulation`
has sockets that live in memory and an event loop that knows their numbers.
"""

from __future__ import annotations

import resource
import socket
import sys
from typing import TYPE_CHECKING, Any, Protocol

from kaa.limits import NET_DESCRIPTORS_KEPT_MAX

if TYPE_CHECKING:
    from collections.abc import Sequence

    Buffer = bytes | bytearray | memoryview


class StreamSocket(Protocol):
    """An accepted connection. No call waits: BlockingIOError says that the socket is not ready."""

    @property
    def family(self) -> int: ...

    def fileno(self) -> int: ...

    def setblocking(self, flag: bool, /) -> None: ...

    def setsockopt(self, level: int, name: int, value: int, /) -> None: ...

    def recv(self, size: int, /) -> bytes: ...

    def recv_into(self, buffer: memoryview, /) -> int: ...

    def send(self, data: Buffer, flags: int = ..., /) -> int: ...

    def sendmsg(
        self, parts: Sequence[Buffer], ancillary: Sequence[Any] = ..., flags: int = ..., /
    ) -> int: ...

    def close(self) -> None: ...


class ListeningSocket(Protocol):
    """A bound address; connections wait in it from `listen` on."""

    def fileno(self) -> int: ...

    def getsockname(self) -> Any: ...

    def setsockopt(self, level: int, name: int, value: int, /) -> None: ...

    def listen(self, backlog: int, /) -> None: ...

    def accept(self) -> tuple[StreamSocket, Any]:
        """A connection and the address of its peer, whose first item is the host."""
        ...

    def close(self) -> None: ...


class Network(Protocol):
    """The network as one node sees it."""

    def bind(self, host: str, port: int) -> ListeningSocket:
        """A socket bound to the address; OSError if it cannot be had."""
        ...

    def host_name(self) -> str:
        """The name under which others reach this node, where its settings give none."""
        ...

    def descriptors_max(self) -> int:
        """A connection whose socket has this number, or a greater one, takes what files need."""
        ...


class SystemNetwork:
    """The sockets of the operating system."""

    __slots__ = ()

    def bind(self, host: str, port: int) -> ListeningSocket:
        """An empty host means every interface, of IPv6 too where there is one."""
        is_dual = not host and socket.has_dualstack_ipv6()
        # An empty host asks for every interface.
        wildcard = "::" if is_dual else "0.0.0.0"  # noqa: S104
        found = socket.getaddrinfo(
            host or wildcard, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, _, _, _, address = found[0]
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if is_dual:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            sock.setblocking(False)
            sock.bind(address)
        except OSError:
            sock.close()
            raise
        return sock

    def host_name(self) -> str:
        return socket.gethostname()

    def descriptors_max(self) -> int:
        """The system gives the lowest number that is free, so that numbers count descriptors."""
        most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if most == resource.RLIM_INFINITY:
            return sys.maxsize
        return most - min(most // 4, NET_DESCRIPTORS_KEPT_MAX)
