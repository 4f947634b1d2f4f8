"""Conversations: text files of commands to a small quorum and everything it does in return.

A block is a command, a line of dashes, and the output up to an empty line. Comments start with #.
Nothing happens by itself: no time passes, no message arrives, unless a command says so.

| Command                     | What it does                                                     |
|-----------------------------|------------------------------------------------------------------|
| quorum voters=N observers=M | nodes 0, 1, ..., the first N of them voters; none is started     |
| start I                     | starts a node, on the disk that it has                           |
| kill I                      | a power cut: what was not flushed is lost                        |
| stop I timeout=MS           | a clean shutdown                                                 |
| deliver [I>J]               | delivers the messages on their way, or those of one way          |
| drop [I>J]                  | loses them                                                       |
| refuse I>J                  | tells the sender that nobody listens                             |
| cut I>J ... / mend          | messages of that way are lost from now on / no more              |
| advance MS                  | lets time pass; no message arrives                               |
| run MS [quietly]            | the same, but messages arrive at once; quietly shows states only |
| append I NUMBER ...         | a client of the state machine on the node appends                |
| hold I / flush I            | the node's disk takes its time / has finished                    |
| snapshot I                  | the node takes a snapshot and cuts its log there                 |
| resign I                    | the node's state machine gives its leadership up                 |
| states / log I              | shows them                                                       |

Election timeouts are 1000 ms plus 100 ms times the node's id, so who stands first is known.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from random import Random

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
    Resign,
    Respond,
    RespondWithRecords,
    RespondWithSnapshot,
    Response,
    SendRequest,
    Shutdown,
    Start,
    Tick,
)
from kaa.wire.errors import Errors
from tests.simulation.quorum.disk import Batch, Disk, Snapshot
from tests.simulation.quorum.node import SimulatedNode, static_voters
from tests.transcripts.quorum.wording import (
    batches_text,
    effect_text,
    request_text,
    response_text,
    state_text,
)

CONFIG = QuorumConfig(fetch_max_bytes=4, fetch_snapshot_max_bytes=10)


class FixedJitter(Random):
    """Chance without chance: 100 ms times the node's id on every election timeout."""

    def __init__(self, node_id: int) -> None:
        self._node_id = node_id

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        return (100 * self._node_id) % start


class Message:
    """A request or response on its way."""

    def __init__(self, sender: int, receiver: int, text: str, arrive: Callable[[], None]) -> None:
        self.sender = sender
        self.receiver = receiver
        self.text = text
        self.arrive = arrive
        # Tells the sender that nobody listens; only for requests.
        self.refuse: Callable[[], None] = lambda: None

    def is_on(self, way: str | None) -> bool:
        return way is None or way == f"{self.sender}>{self.receiver}"


class Conversation:
    """The small quorum, and what it says; the surroundings of its nodes."""

    def __init__(self) -> None:
        self.rng = random.Random(0)
        self.now_ms = 0
        self.lines: list[str] = []
        self._voters = static_voters(0)
        self._disks: dict[int, Disk] = {}
        self._nodes: dict[int, SimulatedNode] = {}
        self._messages: list[Message] = []
        self._cut: set[str] = set()
        self._held: set[int] = set()
        # Events that a node's driver owes its machine, in order.
        self._owed: dict[int, list[Event]] = {}
        self._requests: dict[int, tuple[SimulatedNode, int, int]] = {}
        self._next_request_id = 0

    # --- commands

    def execute(self, command: str) -> list[str]:
        """Do what a command says; gives the lines of output."""
        self.lines = []
        name, *arguments = command.split()
        getattr(self, f"_do_{name}")(*arguments)
        return self.lines or ["nothing"]

    def _do_quorum(self, voters: str, observers: str = "observers=0") -> None:
        count = int(voters.removeprefix("voters="))
        self._voters = static_voters(count)
        others = int(observers.removeprefix("observers="))
        self._disks = {node_id: Disk() for node_id in range(count + others)}
        self.lines.append(f"voters {', '.join(map(str, self._voters.ids()))}; {others} observers")

    def _do_start(self, node_id: str) -> None:
        node = SimulatedNode(
            int(node_id), self._disks[int(node_id)], self._voters, CONFIG, self, flush_ms_max=0
        )
        self._nodes[node.id] = node
        self._owed[node.id] = []
        self._handle(node, Start())

    def _do_kill(self, node_id: str) -> None:
        node = self._nodes.pop(int(node_id))
        node.is_running = False
        # The worst case: all that was not flushed is lost.
        node.disk.log.batches = node.disk.log.batches[:0] + node.disk.log._durable
        node.disk.log.crash(random.Random(0))
        self._say(node, f"is killed; its log ends at {node.disk.log.end()}")

    def _do_stop(self, node_id: str, timeout: str) -> None:
        node = self._nodes[int(node_id)]
        self._handle(node, Shutdown(int(timeout.removeprefix("timeout="))))

    def _do_deliver(self, way: str | None = None) -> None:
        for message in self._take(way):
            self._arrive(message)

    def _do_drop(self, way: str | None = None) -> None:
        for message in self._take(way):
            self.lines.append(f"lost: {message.sender} > {message.receiver} {message.text}")

    def _do_refuse(self, way: str) -> None:
        for message in self._take(way):
            message.refuse()

    def _do_cut(self, *ways: str) -> None:
        self._cut |= set(ways)

    def _do_mend(self) -> None:
        self._cut.clear()

    def _do_advance(self, time_ms: str) -> None:
        self._pass_time(int(time_ms), deliver=False)

    def _do_run(self, time_ms: str, quietly: str = "") -> None:
        self._pass_time(int(time_ms), deliver=True)
        if quietly:
            self.lines = []
            self._do_states()

    def _do_append(self, node_id: str, *numbers: str) -> None:
        node = self._nodes[int(node_id)]
        if node.claimed_epoch is None:
            self._say(node, "has not been told that it leads")
        node.append(1, tuple(map(int, numbers)))
        self._settle(node)

    def _do_hold(self, node_id: str) -> None:
        self._held.add(int(node_id))

    def _do_flush(self, node_id: str) -> None:
        self._held.discard(int(node_id))
        self._settle(self._nodes[int(node_id)])

    def _do_snapshot(self, node_id: str) -> None:
        node = self._nodes[int(node_id)]
        log = node.disk.log
        log.delete_before(log.take_snapshot(node.applied_offset, node.value))
        self._say(node, f"has the snapshot {log.latest_snapshot_id()} and starts its log there")

    def _do_resign(self, node_id: str) -> None:
        node = self._nodes[int(node_id)]
        self._handle(node, Resign(node.machine.epoch))

    def _do_states(self) -> None:
        for node_id in self._disks:
            node = self._nodes.get(node_id)
            text = "down" if node is None else state_text(node.machine)
            self.lines.append(f"{node_id}: {text}")

    def _do_log(self, node_id: str) -> None:
        log = self._disks[int(node_id)].log
        content = batches_text(tuple(log.batches))
        self.lines.append(f"{node_id}: from {log.start_offset()} to {log.end()}: [{content}]")

    # --- what happens

    def _say(self, node: SimulatedNode, text: str) -> None:
        self.lines.append(f"{self.now_ms:5d} {node.id} {text}")

    def _handle(self, node: SimulatedNode, event: Event) -> None:
        if not node.is_running:
            return
        if isinstance(event, LogWritten):
            event = node.flushed(event)
        before = state_text(node.machine)
        node.handle(event)
        after = state_text(node.machine)
        if after != before or isinstance(event, Start):
            self._say(node, f"is {after}")
        if node.machine.is_stopped:
            self._nodes.pop(node.id)
        self._settle(node)

    def _settle(self, node: SimulatedNode) -> None:
        while self._owed[node.id] and node.id not in self._held:
            self._handle(node, self._owed[node.id].pop(0))

    def _take(self, way: str | None) -> list[Message]:
        taken = [message for message in self._messages if message.is_on(way)]
        self._messages = [message for message in self._messages if not message.is_on(way)]
        return taken

    def _arrive(self, message: Message) -> None:
        self.lines.append(f"{self.now_ms:5d} {message.sender} > {message.receiver} {message.text}")
        message.arrive()

    def _pass_time(self, time_ms: int, deliver: bool) -> None:
        end_ms = self.now_ms + time_ms
        while True:
            while deliver and self._messages:
                self._arrive(self._messages.pop(0))
            due = [
                (deadline_ms, node_id)
                for node_id, node in self._nodes.items()
                if (deadline_ms := node.machine.next_deadline_ms) is not None
                and deadline_ms <= end_ms
            ]
            if not due:
                break
            deadline_ms, node_id = min(due)
            self.now_ms = max(self.now_ms, deadline_ms)
            self._handle(self._nodes[node_id], Tick())
        self.now_ms = end_ms

    def _send(self, message: Message) -> None:
        if f"{message.sender}>{message.receiver}" not in self._cut:
            self._messages.append(message)

    # --- Surroundings of a node

    def jitter(self, node_id: int) -> FixedJitter:
        return FixedJitter(node_id)

    def send_request(
        self, sender: SimulatedNode, to: Node, correlation_id: int, request: Request
    ) -> None:
        receiver_id = int(to.host.removeprefix("node-"))

        def refuse() -> None:
            response = ErrorResponse(Errors.BROKER_NOT_AVAILABLE)
            self._say(sender, f"is refused by {receiver_id}")
            self._handle(sender, ReceivedResponse(to.id, correlation_id, response))

        def arrive() -> None:
            receiver = self._nodes.get(receiver_id)
            if receiver is None:
                refuse()
                return
            self._next_request_id += 1
            self._requests[self._next_request_id] = (sender, to.id, correlation_id)
            self._handle(receiver, ReceivedRequest(self._next_request_id, request))

        message = Message(sender.id, receiver_id, request_text(request), arrive)
        message.refuse = refuse
        self._send(message)

    def send_response(self, sender: SimulatedNode, request_id: int, response: Response) -> None:
        receiver, known_as, correlation_id = self._requests.pop(request_id)
        event = ReceivedResponse(known_as, correlation_id, response)
        text = response_text(response)
        self._send(Message(sender.id, receiver.id, text, lambda: self._handle(receiver, event)))

    def later(self, delay_ms: int, node: SimulatedNode, event: Event) -> None:
        self._owed[node.id].append(event)

    def performed(self, node: SimulatedNode, effect: Effect) -> bool:
        return False

    def trace(self, node: SimulatedNode, what: object) -> None:
        is_message = isinstance(
            what, SendRequest | Respond | RespondWithRecords | RespondWithSnapshot
        )
        if isinstance(what, Effect) and not is_message:
            self._say(node, effect_text(what))

    def applied(self, node: SimulatedNode, batch: Batch) -> None:
        """Nothing to show: the high watermark says it."""

    def loaded(self, node: SimulatedNode, snapshot_id: OffsetAndEpoch, snapshot: Snapshot) -> None:
        self._say(node, f"loads the snapshot {snapshot_id}: {snapshot.value}")

    def acknowledged(self, node: SimulatedNode, batch: Batch) -> None:
        self._say(node, f"acknowledges {'+'.join(map(str, batch.values))}")
