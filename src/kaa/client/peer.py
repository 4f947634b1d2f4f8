"""The connection from one node of a cluster to another: kept, opened again, one per address.

Consensus, heartbeats, forwarding, markers, verification and replication all talk through a `Peer`.
It connects when it is first needed, resolves the name at every dial, and keeps the connection until
it breaks. After a failed dial it refuses for a moment, longer each time and with some chance
in it, so that nodes that lost one together do not all come back at once. Callers who come while it
connects wait for the same connection. Every request has a deadline, which covers connecting too.

There is no answer but from the other node: a broken connection, a deadline that passes and a node
that cannot be reached are all a ConnectionError, after which the request may or may not have been
carried out. Only a request in a version that the other does not have is an UnsupportedApiError.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from kaa.client.backoff import Backoff
from kaa.client.connection import Connection, ConnectionSettings
from kaa.client.errors import ClientError, UnsupportedApiError
from kaa.limits import PEER_RECONNECT_PAUSE_MS, PEER_RECONNECT_PAUSE_MS_MAX
from kaa.model.nodes import HostPort, SecurityProtocol

if TYPE_CHECKING:
    from collections.abc import Container

    from kaa.model.seams import RandomSource
    from kaa.wire.schema import Request

Answer = TypeVar("Answer")


def peer_settings(
    protocol: SecurityProtocol, *, client_id: str, request_timeout_ms: int
) -> ConnectionSettings:
    """How nodes connect under a security protocol; the one place that a new protocol changes."""
    if protocol is not SecurityProtocol.PLAINTEXT:
        raise ValueError(f"nodes cannot talk to each other over {protocol.name} yet; use PLAINTEXT")
    return ConnectionSettings(
        client_id=client_id,
        request_timeout_ms=request_timeout_ms,
        setup_timeout_ms=request_timeout_ms,
    )


class Peer:
    """Another node of the cluster. `request` connects where that is needed, and may be called by
    many at once.
    """

    def __init__(
        self, address: HostPort, settings: ConnectionSettings, random: RandomSource
    ) -> None:
        self.address = address
        self._settings = settings
        self._backoff = Backoff(PEER_RECONNECT_PAUSE_MS, PEER_RECONNECT_PAUSE_MS_MAX, random)
        self._connection: Connection | None = None
        # Held by the one who connects.
        self._connecting = asyncio.Lock()
        # No dial before this time of the loop.
        self._dial_at = 0.0
        self._is_closed = False
        # Callers who wait for an answer, and whether the last of them ends the connection.
        self._waiting = 0
        self._is_retired = False

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    async def request(
        self,
        request: Request[Answer],
        *,
        version_max: int | None = None,
        timeout_ms: int | None = None,
    ) -> Answer:
        """The answer, in the highest version that both nodes have, but at most `version_max`."""
        if timeout_ms is None:
            timeout_ms = self._settings.request_timeout_ms
        self._waiting += 1
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                connection = await self._connected()
                version = connection.version_of(request.api_key, version_max)
                return await connection.request(request, version=version, timeout_ms=timeout_ms)
        except TimeoutError:
            raise ConnectionError(f"{self.address} did not answer in {timeout_ms} ms") from None
        except UnsupportedApiError:
            raise
        except ClientError as error:
            raise ConnectionError(str(error)) from error
        finally:
            self._waiting -= 1
            if self._is_retired and not self._waiting:
                self.close()

    async def _connected(self) -> Connection:
        connection = self._connection
        if connection is not None and connection.is_open and not connection.is_to_be_renewed:
            return connection
        async with self._connecting:
            if self._connection is not connection and self._connection is not None:
                # Somebody else connected meanwhile.
                return self._connection
            self._check_open()
            loop = asyncio.get_running_loop()
            if loop.time() < self._dial_at:
                raise ConnectionError(f"{self.address} could not be reached a moment ago")
            if connection is not None:
                connection.close()
                self._connection = None
            # As if it failed, which a dial that is cancelled by its deadline has.
            self._dial_at = loop.time() + self._backoff.next_ms() / 1000
            self._connection = connection = await Connection.open(*self.address, self._settings)
            self._backoff.reset()
            self._dial_at = 0.0
        self._check_open()
        return connection

    def _check_open(self) -> None:
        if self._is_closed:
            self.close()
            raise ConnectionError(f"the connection to {self.address} was closed here")

    def close(self) -> None:
        """Ends the connection for good; what waits for an answer fails."""
        self._is_closed = True
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def retire(self) -> None:
        """Ends the connection when nobody waits for an answer any more."""
        self._is_retired = True
        if not self._waiting:
            self.close()


class Peers:
    """The other nodes by id; an address that changed gets a new connection. Those that are not
    known by an id yet have negative ones.
    """

    def __init__(self, settings: ConnectionSettings, random: RandomSource) -> None:
        self._settings = settings
        self._random = random
        self._peers: dict[int, Peer] = {}
        # Nobody asks them any more, but somebody waits for an answer.
        self._retired: list[Peer] = []

    def at(self, node_id: int, host: str, port: int) -> Peer:
        """The node at this address; one that moved is connected to again."""
        address = HostPort(host, port)
        known = self._peers.get(node_id)
        if known is None or known.address != address:
            if known is not None:
                known.close()
            known = self._peers[node_id] = Peer(address, self._settings, self._random)
        return known

    @property
    def node_ids(self) -> frozenset[int]:
        """The nodes that were asked and are not gone."""
        return frozenset(self._peers)

    def keep(self, node_ids: Container[int]) -> None:
        """Lets go of all other nodes that have an id: each connection ends with the last answer
        that somebody waits for. Who asks one of them again gets a new one.
        """
        gone = [each for each in self._peers if each >= 0 and each not in node_ids]
        for node_id in gone:
            peer = self._peers.pop(node_id)
            peer.retire()
            self._retired.append(peer)
        self._retired = [peer for peer in self._retired if not peer.is_closed]

    def close(self) -> None:
        """Closes every connection."""
        for peer in (*self._peers.values(), *self._retired):
            peer.close()
