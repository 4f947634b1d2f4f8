"""One request at a time per node, with a time limit, and a pause after a failure.

A response counts only if its correlation id is the one awaited from that node, within the time
limit. So an answer that is late, comes twice, or belongs to a state that is over (every transition
forgets all connections) is dropped here, and the rest of the machine can trust that the answer it
handles was asked for in the state it is in. In particular a replica has never two fetches open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaa.model.seams import RandomSource
    from kaa.quorum.config import QuorumConfig
    from kaa.quorum.voters import Node


class _Connection:
    """A node that is busy; a node without one is ready."""

    __slots__ = ("correlation_id", "until_ms")

    def __init__(self, correlation_id: int | None, until_ms: int) -> None:
        # Of the request under way; None while pausing after a failure.
        self.correlation_id = correlation_id
        # When the request is given up, or the pause ends.
        self.until_ms = until_ms


class Connections:
    """Which nodes have a request under way, and which are to be left alone for a while. Asked
    before every request, and about every response before it counts.
    """

    __slots__ = ("_bootstrap", "_busy", "_config", "_paused", "_random", "last_correlation_id")

    def __init__(
        self, bootstrap: tuple[Node, ...], config: QuorumConfig, random: RandomSource
    ) -> None:
        self._bootstrap = bootstrap
        self._config = config
        self._random = random
        # By node id; an entry whose time has passed counts as ready.
        self._busy: dict[int, _Connection] = {}
        # An epoch whose leader is not asked before that time; stays over a reset.
        self._paused = (-1, 0)
        # Only rises, also over a reset, so that no old answer is taken for a new one.
        self.last_correlation_id = 0

    def reset(self) -> None:
        """Forget all requests under way and all pauses."""
        self._busy.clear()

    def pause_epoch(self, epoch: int, until_ms: int) -> None:
        """Leave the leader of an epoch alone, whatever elections come to nothing meanwhile."""
        self._paused = (epoch, until_ms)

    def epoch_paused_until_ms(self, epoch: int) -> int:
        paused_epoch, until_ms = self._paused
        return until_ms if epoch == paused_epoch else 0

    def forget(self, node_id: int) -> None:
        self._busy.pop(node_id, None)

    def is_ready(self, node_id: int, now_ms: int) -> bool:
        connection = self._busy.get(node_id)
        return connection is None or now_ms >= connection.until_ms

    def is_backing_off(self, node_id: int, now_ms: int) -> bool:
        connection = self._busy.get(node_id)
        return (
            connection is not None
            and connection.correlation_id is None
            and now_ms < connection.until_ms
        )

    def has_timed_out(self, node_id: int, now_ms: int) -> bool:
        """Whether the last request was not answered in time and nothing was sent since."""
        connection = self._busy.get(node_id)
        return (
            connection is not None
            and connection.correlation_id is not None
            and now_ms >= connection.until_ms
        )

    def ready_ms(self, node_id: int, now_ms: int) -> int:
        """When the node can be sent to again."""
        connection = self._busy.get(node_id)
        return now_ms if connection is None else max(now_ms, connection.until_ms)

    def has_request_under_way(self, now_ms: int) -> bool:
        return any(
            connection.correlation_id is not None and now_ms < connection.until_ms
            for connection in self._busy.values()
        )

    def next_change_ms(self, now_ms: int) -> int | None:
        """When the first busy node becomes ready; None when there is none."""
        return min(
            (
                connection.until_ms
                for connection in self._busy.values()
                if now_ms < connection.until_ms
            ),
            default=None,
        )

    def sent(self, node_id: int, now_ms: int) -> int:
        """Note that a request leaves; gives its correlation id."""
        self.last_correlation_id += 1
        self._busy[node_id] = _Connection(
            self.last_correlation_id, now_ms + self._config.request_timeout_ms
        )
        return self.last_correlation_id

    def is_expected(self, node_id: int, correlation_id: int, now_ms: int) -> bool:
        """Whether an answer is still wanted: after the time limit others may have been asked."""
        connection = self._busy.get(node_id)
        return (
            connection is not None
            and connection.correlation_id == correlation_id
            and now_ms < connection.until_ms
        )

    def answered(
        self,
        node_id: int,
        correlation_id: int,
        ok: bool,
        now_ms: int,
        pause_ms: int | None = None,
    ) -> None:
        """Note the end of a request; unless it was `ok`, the node is left alone for `pause_ms`, by
        default the pause before any retry.

        Handling the answer may have reset the connections; then there is nothing to note.
        """
        if not self.is_expected(node_id, correlation_id, now_ms):
            return
        if ok:
            del self._busy[node_id]
        else:
            pause_ms = self._config.retry_backoff_ms if pause_ms is None else pause_ms
            self._busy[node_id] = _Connection(None, now_ms + pause_ms)

    def servers(self, voters: Iterable[Node] = ()) -> list[Node]:
        """The bootstrap servers, then such voters as are not among them."""
        known = {(node.host, node.port) for node in self._bootstrap}
        return [
            *self._bootstrap,
            *(node for node in voters if (node.host, node.port) not in known),
        ]

    def ready_server(self, now_ms: int, voters: Iterable[Node] = ()) -> Node | None:
        """One of the `servers` to ask, from a random start; None while any request is under way."""
        servers = self.servers(voters)
        count = len(servers)
        if count == 0 or self.has_request_under_way(now_ms):
            return None
        start = self._random.randrange(count)
        for step in range(count):
            node = servers[(start + step) % count]
            if self.is_ready(node.id, now_ms):
                return node
        return None
