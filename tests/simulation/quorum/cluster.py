"""A whole quorum on virtual time: nodes, a bad network, and one queue of things to come.

Everything that happens is an entry of the queue, ordered by time and then by when it was put in;
all chance comes from one generator. So a seed is a run, and the same seed is the same run.
"""

from __future__ import annotations

import heapq
import random
import re
from collections import Counter
from collections.abc import Callable

from kaa.model.seams import RandomSource
from kaa.quorum import (
    Effect,
    ErrorResponse,
    Event,
    LogWritten,
    Node,
    OffsetAndEpoch,
    QuorumConfig,
    ReceivedRequest,
    ReceivedResponse,
    Request,
    Respond,
    Response,
    Start,
    Tick,
    VoteResponse,
)
from kaa.wire.errors import Errors
from tests.simulation.quorum.disk import Batch, Disk, Snapshot
from tests.simulation.quorum.invariants import Invariants
from tests.simulation.quorum.node import SimulatedNode, static_voters

TRACE_LINES_MAX = 400
TRANSITION = re.compile(r"(\w+)\(\d+\) -> (\w+)\(")


class Network:
    """How bad the network is."""

    def __init__(self) -> None:
        self.loss = 0.0
        self.duplication = 0.0
        self.delay_ms_max = 5
        # A few messages take this long.
        self.straggler_ms_max = 5
        # Pairs (from, to) that nothing passes.
        self.cut: set[tuple[int, int]] = set()


class Cluster:
    """Nodes, network and time."""

    def __init__(
        self, rng: random.Random, voters: int, observers: int, config: QuorumConfig
    ) -> None:
        self.rng = rng
        self.now_ms = 0
        self.config = config
        self.voters = static_voters(voters)
        self.network = Network()
        self.disks = {node_id: Disk() for node_id in range(voters + observers)}
        self.nodes: dict[int, SimulatedNode] = {}
        self.flush_ms_max = 0
        # How likely the power fails after any effect, and after an answer that grants a vote.
        self.power_cut_chance = 0.0
        self.power_cut_after_vote_chance = 0.0
        self.invariants = Invariants(self)
        # What happened, to see that a run, or many, reached everything that can happen.
        self.events = 0
        self.effects: Counter[str] = Counter()
        self.transitions: set[tuple[str, str]] = set()
        self.lines: list[str] = []
        self.is_traced = False
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._order = 0
        # Delivered requests that wait for an answer: the sender's process, its name for the
        # receiver, its correlation id.
        self._requests: dict[int, tuple[SimulatedNode, int, int]] = {}
        self._next_request_id = 0

    # --- processes

    def start(self, node_id: int) -> None:
        node = SimulatedNode(
            node_id, self.disks[node_id], self.voters, self.config, self, self.flush_ms_max
        )
        self.nodes[node_id] = node
        self.trace(node, "starts")
        self._handle_now(node, Start())

    def kill(self, node_id: int) -> None:
        """A power cut: the process ends, and what was not flushed is lost."""
        node = self.nodes.pop(node_id)
        node.is_running = False
        self._note_story(node)
        self.trace(node, "is killed")
        node.disk.log.crash(self.rng)

    def replace_disk(self, node_id: int) -> None:
        """The node comes back with nothing."""
        self.disks[node_id] = Disk()
        self.invariants.disk_replaced(node_id)

    def running(self) -> list[SimulatedNode]:
        return [node for _, node in sorted(self.nodes.items())]

    def leader(self) -> SimulatedNode | None:
        """The leader of the highest epoch."""
        leaders = [node for node in self.running() if node.machine.is_leader]
        return max(leaders, key=lambda node: node.machine.epoch, default=None)

    # --- time

    def at(self, time_ms: int, action: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._queue, (time_ms, self._order, action))

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        self.at(self.now_ms + delay_ms, action)

    def run_until(self, end_ms: int, is_done: Callable[[], bool] = lambda: False) -> bool:
        """Let time pass; whether it was done before the end."""
        while self._queue and self._queue[0][0] <= end_ms:
            time_ms, _, action = heapq.heappop(self._queue)
            self.now_ms = max(self.now_ms, time_ms)
            action()
            if is_done():
                return True
        self.now_ms = max(self.now_ms, end_ms)
        return is_done()

    def handle(self, node: SimulatedNode, event: Event) -> None:
        """Hand an event to a process, if it still runs; later and in order, if it is paused."""
        if not node.is_running:
            return
        if node.paused_until_ms > self.now_ms or node.backlog:
            if not node.backlog:
                self.at(node.paused_until_ms, lambda: self._resume(node))
            node.backlog.append(event)
            return
        self._handle_now(node, event)

    def _resume(self, node: SimulatedNode) -> None:
        backlog, node.backlog = node.backlog, []
        for event in backlog:
            self.handle(node, event)

    def _handle_now(self, node: SimulatedNode, event: Event) -> None:
        if isinstance(event, LogWritten):
            event = node.flushed(event)
        self.events += 1
        node.handle(event)
        self._after(node)

    def append(self, node: SimulatedNode, append_id: int, values: tuple[int, ...]) -> None:
        """Let a client of the node's state machine append."""
        node.append(append_id, values)
        self._after(node)

    def performed(self, node: SimulatedNode, effect: Effect) -> bool:
        self.effects[type(effect).__name__] += 1
        has_voted = (
            isinstance(effect, Respond)
            and isinstance(effect.response, VoteResponse)
            and effect.response.vote_granted
            and node.machine.state.voted_key is not None
        )
        chance = self.power_cut_after_vote_chance if has_voted else self.power_cut_chance
        if not node.is_running or chance == 0.0 or self.rng.random() >= chance:
            return False
        self.kill(node.id)
        down_ms = self.rng.randint(0, self.rng.choice((0, 5, 50)))
        self.after(down_ms, lambda: self.restart(node.id))
        return True

    def restart(self, node_id: int) -> None:
        """Start a node unless it runs."""
        if node_id not in self.nodes:
            self.start(node_id)

    def _after(self, node: SimulatedNode) -> None:
        if self.nodes.get(node.id) is not node:
            return
        if not node.is_running:
            # A clean stop flushes; the disk is as the process left it.
            self._note_story(node)
            node.disk.log.flush()
            self.nodes.pop(node.id, None)
            return
        self.invariants.check(node)
        deadline_ms = node.machine.next_deadline_ms
        if deadline_ms is not None:
            self.at(max(deadline_ms, self.now_ms), lambda: self._tick(node))

    def _note_story(self, node: SimulatedNode) -> None:
        self.transitions.update(TRANSITION.findall("\n".join(node.machine.story)))

    def note_stories(self) -> None:
        """Count the transitions of the processes that still run."""
        for node in self.running():
            self._note_story(node)

    def _tick(self, node: SimulatedNode) -> None:
        """Wake the machine only if this is still what it waits for."""
        deadline_ms = node.machine.next_deadline_ms
        if deadline_ms is not None and deadline_ms <= self.now_ms:
            self.handle(node, Tick())

    # --- Surroundings of a node

    def jitter(self, node_id: int) -> RandomSource:
        return self.rng

    def later(self, delay_ms: int, node: SimulatedNode, event: Event) -> None:
        self.after(delay_ms, lambda: self.handle(node, event))

    def send_request(
        self, sender: SimulatedNode, to: Node, correlation_id: int, request: Request
    ) -> None:
        receiver_id = int(to.host.removeprefix("node-"))
        for delay_ms in self._deliveries(sender.id, receiver_id):
            self.after(
                delay_ms,
                lambda: self._deliver(sender, to.id, receiver_id, correlation_id, request),
            )

    def _deliver(
        self,
        sender: SimulatedNode,
        known_as: int,
        receiver_id: int,
        correlation_id: int,
        request: Request,
    ) -> None:
        receiver = self.nodes.get(receiver_id)
        if receiver is None:
            # Nobody listens: the sender learns so at once.
            refused = ErrorResponse(Errors.BROKER_NOT_AVAILABLE)
            self.handle(sender, ReceivedResponse(known_as, correlation_id, refused))
            return
        self._next_request_id += 1
        self._requests[self._next_request_id] = (sender, known_as, correlation_id)
        self.handle(receiver, ReceivedRequest(self._next_request_id, request))

    def send_response(self, sender: SimulatedNode, request_id: int, response: Response) -> None:
        receiver, known_as, correlation_id = self._requests.pop(request_id)
        event = ReceivedResponse(known_as, correlation_id, response)
        for delay_ms in self._deliveries(sender.id, receiver.id):
            self.after(delay_ms, lambda: self.handle(receiver, event))

    def _deliveries(self, sender_id: int, receiver_id: int) -> list[int]:
        """After how long a message arrives: never, once or twice."""
        network, rng = self.network, self.rng
        if (sender_id, receiver_id) in network.cut or rng.random() < network.loss:
            return []
        copies = 2 if rng.random() < network.duplication else 1
        delays = []
        for _ in range(copies):
            is_straggler = rng.random() < 0.05
            slowest_ms = network.straggler_ms_max if is_straggler else network.delay_ms_max
            delays.append(rng.randint(0, slowest_ms))
        return delays

    def applied(self, node: SimulatedNode, batch: Batch) -> None:
        self.invariants.applied(node, batch)

    def loaded(self, node: SimulatedNode, snapshot_id: OffsetAndEpoch, snapshot: Snapshot) -> None:
        self.invariants.loaded(node, snapshot_id, snapshot)

    def acknowledged(self, node: SimulatedNode, batch: Batch) -> None:
        self.invariants.acknowledged(batch)

    def trace(self, node: SimulatedNode, what: object) -> None:
        if self.is_traced:
            self.lines.append(f"{self.now_ms:7d} {node.id} {what}")
            del self.lines[:-TRACE_LINES_MAX]
