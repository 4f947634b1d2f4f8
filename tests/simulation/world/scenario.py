"""One story of the world: faults and clients, then healing, then what must have come of it.

1. The nodes start, and the clients begin.
2. Safety: faults come and go within a budget, while invariants are looked at.
3. Everything is healed. Liveness: within deadlines nodes serve, clients make progress, groups read
   to the end, transactions are settled, and queues are worked off.
4. Everything is read, and histories, groups and topics are compared with what clients know.
5. Nodes stop in order, and nothing is left over.

A story in which too little happened fails: it proved nothing. Not every story can have everything;
a set of them has to (`COVERED`).
"""

from __future__ import annotations

import gc
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

from tests.histories.checks import check
from tests.simulation.world import archives, queues
from tests.simulation.world.archives import Archives, Archivist, Historian
from tests.simulation.world.copies import Copies
from tests.simulation.world.faults import Faults
from tests.simulation.world.invariants import Invariants
from tests.simulation.world.kernel import Kernel
from tests.simulation.world.kinds import KINDS, TIER_KINDS, VOTER_KINDS
from tests.simulation.world.network import SimNetwork
from tests.simulation.world.processes import ClientProcess, Node
from tests.simulation.world.queue_watch import QueueWatch
from tests.simulation.world.queues import Queue, Visitor, Worker, configure_group
from tests.simulation.world.store import SimStore
from tests.simulation.world.voters import Elector, are_settled, first_voters
from tests.simulation.world.workload import (
    TOPIC,
    Client,
    Member,
    Operator,
    Sender,
    Transactor,
    Workload,
    committed_offsets,
    create_topic,
    read_all,
    topic_names,
)
from tests.support.quiet import quiet_logs

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.log.sim_files import CrashMode
    from tests.simulation.world.kinds import Kind
    from tests.simulation.world.loop import SimLoop

LOOK_ROUNDS = 40
START_SECONDS = 60.0
HEALED_SECONDS = 90.0
PROGRESS_SECONDS = 90.0
READ_SECONDS = 120.0
STOP_SECONDS = 60.0
HEARD_SECONDS = 10.0
# Far more than nodes and clients together need for a second of their lives.
ROUNDS_PER_SECOND_MAX = 100_000
ACKNOWLEDGED_MIN = 20
VOTER_CHANGES_MIN = 2
# Local starts that moved, and ranges that were read from the store.
TIERED_MIN = 5
# How many stories about voters have controllers that join by themselves.
JOINING_SHARE = 0.3
# Numbers of clients that work under the transactional id of another one.
FIRST_DOUBLE = 100
# What has to happen somewhere in a set of stories of three nodes.
COVERED = (
    "quorum elections",
    "metadata truncations",
    "leader changes",
    "deposed leaders",
    "ISR shrinks",
    "ISR growths",
    "ELR changes",
    "truncations",
    "reassignments",
    "transaction OK",
    "transaction FAILED",
    "group commits",
    "topics created",
    "topics deleted",
    "settings changed",
    "records ACCEPT",
    "records RELEASE",
    "records REJECT",
    "records delivered again",
    "voters added",
    "voters removed",
    "voters replaced",
    "leaders removed",
    "objects written",
    "objects deleted",
    "ranges read",
    "local starts moved",
    "archives tiered",
    "archives trimmed",
    "archives deleted",
    "requests refused",
    "times of uploads cut",
    "times of answers lost",
    "times of short ranges",
    "times of damaged ranges",
)


COMMON = (
    "offsets.topic.num.partitions=3",
    "transaction.state.log.num.partitions=3",
    "group.initial.rebalance.delay.ms=0",
    "group.consumer.session.timeout.ms=6000",
    "group.consumer.heartbeat.interval.ms=1000",
    "group.consumer.min.session.timeout.ms=6000",
    "group.consumer.min.heartbeat.interval.ms=1000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms=2000",
)
SINGLE = (
    *COMMON,
    "offsets.topic.replication.factor=1",
    "transaction.state.log.replication.factor=1",
    "transaction.state.log.min.isr=1",
)
REPLICATED = (
    *COMMON,
    "offsets.topic.replication.factor=3",
    "transaction.state.log.replication.factor=3",
    "transaction.state.log.min.isr=2",
    "default.replication.factor=3",
    "min.insync.replicas=2",
    "broker.session.timeout.ms=6000",
    "replica.lag.time.max.ms=5000",
)


@dataclass(frozen=True)
class Plan:
    """What a story is made of; a smaller one may fail the same way and is easier to read."""

    seed: int
    seconds: float = 40.0
    budget: int = 10
    kinds: tuple[Kind, ...] = KINDS
    transactors: int = 2
    senders: int = 2
    members: int = 4
    operators: int = 1
    nodes: int = 1
    # Without any there is no queue, and what was there before them has the story it had.
    workers: int = 0
    # Clients that come to the queue with one new group after the other.
    visitors: int = 0
    # Nodes without the role of a broker; with any, voters change.
    controllers: int = 0
    # Clients of the tier, who write and read archives; without any nothing is tiered.
    archivists: int = 0


def queue_plan(
    seed: int, seconds: float, kinds: tuple[Kind, ...] = KINDS, *, visitors: int = 0
) -> Plan:
    """A story about a queue: three nodes, those who write, and workers. One with visitors has more
    workers than partitions, so that some share one.
    """
    return Plan(
        seed,
        seconds,
        kinds=kinds,
        nodes=3,
        transactors=1,
        senders=1,
        members=0,
        workers=6 if visitors else 3,
        visitors=visitors,
    )


def voter_plan(seed: int, seconds: float, kinds: tuple[Kind, ...] = VOTER_KINDS) -> Plan:
    """A story about voters: three brokers, two controllers beside them, and few clients."""
    return Plan(
        seed,
        seconds,
        kinds=kinds,
        nodes=3,
        controllers=2,
        transactors=1,
        senders=1,
        members=0,
    )


def tier_plan(seed: int, seconds: float, kinds: tuple[Kind, ...] = TIER_KINDS) -> Plan:
    """A story about the tier: three brokers, a store, and readers of what left their disks."""
    return Plan(
        seed,
        seconds,
        budget=14,
        kinds=kinds,
        nodes=3,
        transactors=1,
        senders=1,
        members=0,
        archivists=2,
    )


@dataclass
class Result:
    """What happened in a story."""

    seed: int
    digest: str
    virtual_seconds: float
    rounds: int
    counts: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)


class Scenario:
    """See the module's text."""

    def __init__(self, plan: Plan, *, is_traced: bool = False) -> None:
        self.plan = plan
        self.kernel = Kernel(plan.seed, is_traced=is_traced)
        self.network = SimNetwork(self.kernel)
        random = Random(plan.seed)
        self.has_group_commit = random.random() < 0.6
        settings = [
            *(SINGLE if plan.nodes == 1 else REPLICATED),
            f"kaa.log.group.commit.enable={'true' if self.has_group_commit else 'false'}",
            f"log.segment.bytes={random.choice((1_048_576, 4_194_304))}",
        ]
        if plan.workers:
            settings += queues.SINGLE if plan.nodes == 1 else queues.REPLICATED
        if plan.archivists:
            settings += archives.SINGLE if plan.nodes == 1 else archives.REPLICATED
        self.queue = Queue(queues.VISITED_SLOW_SHARE if plan.visitors else queues.SLOW_SHARE)
        self.queue_watch = QueueWatch()
        self.archives = Archives()
        self.store = SimStore(self.kernel)
        self.nodes = self._make_nodes(random, settings)
        self.brokers = [node for node in self.nodes if node.is_broker]
        self.store.nodes = self.brokers
        self.invariants = Invariants(self.nodes, self.store, min_isr=min(2, plan.nodes))
        by_loop = {node.name: node for node in self.nodes}

        def after_round(loop: SimLoop) -> None:
            node = by_loop.get(loop.host)
            if node is not None and node.loop is loop:
                self.invariants.after_round(node)
                if plan.workers:
                    self.queue_watch.see(node)

        self.kernel.after_round = after_round
        self.workload = Workload(
            ",".join(node.bootstrap for node in self.brokers),
            min(3, plan.nodes),
            self.invariants.acknowledged,
        )
        self.random = random
        self.clients: list[Client] = []
        self._client_names = 0
        # When the second began that is counted now, and after how many rounds.
        self._second = (0.0, 0)
        modes: tuple[CrashMode, ...] = ("kill", "lost", "torn")
        if plan.nodes == 1 and not self.has_group_commit:
            # A power cut may take what was acknowledged then, as with Kafka.
            modes = ("kill",)
        self.faults = Faults(
            self.kernel,
            self.network,
            self.nodes,
            Copies(self.nodes),
            lambda: [client.process.name for client in self.clients],
            self._replace_client,
            self._double_client,
            kinds=plan.kinds,
            budget=plan.budget,
            crash_modes=modes,
            has_group_commit=self.has_group_commit,
            store=self.store,
        )

    def _make_nodes(self, random: Random, settings: list[str]) -> list[Node]:
        plan = self.plan
        node_ids = tuple(range(1, plan.nodes + plan.controllers + 1))
        first = None
        if plan.controllers:
            first = first_voters(node_ids[: plan.nodes], random)
            joins = random.random() < JOINING_SHARE
            settings.append(f"controller.quorum.auto.join.enable={str(joins).lower()}")
        return [
            Node(
                self.kernel,
                self.network,
                node_id,
                node_ids,
                random.randrange(2**31),
                *settings,
                first_voters=first,
                is_broker=node_id <= plan.nodes,
                store=self.store,
            )
            for node_id in node_ids
        ]

    # --- the story

    # What nodes and clients have to say about faults is in the trace.
    @quiet_logs()
    def run(self) -> Result:
        try:
            return self._tell()
        finally:
            self.kernel.end()

    def _tell(self) -> Result:
        # What is there now stays, and need not be looked at whenever a process is buried.
        gc.freeze()
        for node in self.nodes:
            node.boot()
        self._expect(
            lambda: all(node.is_ready for node in self.nodes), START_SECONDS, "nodes did not start"
        )
        first = self._process()
        replicas = min(3, len(self.brokers))
        tiered = archives.TIERED if self.plan.archivists else None
        self._run_reader(first, create_topic(self.workload, first, replicas, tiered))
        if self.plan.workers:
            self._run_reader(first, configure_group(self.workload, first))
        self._begin_clients()
        self.faults.begin()
        self._step_until(self._after(self.plan.seconds))
        self.faults.heal()
        self._expect(
            lambda: all(node.is_ready for node in self.nodes), HEALED_SECONDS, "nodes did not serve"
        )
        self._expect_progress()
        self._expect(self.faults.is_whole, HEALED_SECONDS, "replicas did not get in sync")
        if self.plan.controllers:
            what = "a voter without its disk was not removed"
            self._expect(lambda: are_settled(self.nodes), HEALED_SECONDS, what)
        self.workload.is_over = True
        self._expect_end(lambda client: not isinstance(client, Worker))
        self._check_all(first)
        if self.plan.workers:
            self._check_queue()
        if self.plan.archivists:
            self._check_store()
        self._end(first)
        return self._result()

    def _begin_clients(self) -> None:
        plan = self.plan
        kinds: list[Callable[..., Client]] = []
        kinds += [Transactor] * plan.transactors + [Sender] * plan.senders
        kinds += [Member] * plan.members + [Operator] * plan.operators
        kinds += [self._new_worker] * plan.workers + [Visitor] * plan.visitors
        kinds += [self._new_elector] * bool(plan.controllers)
        kinds += [self._new_archivist] * plan.archivists + [Historian] * bool(plan.archivists)
        for number, kind in enumerate(kinds):
            self._begin_client(kind, number)

    def _begin_client(self, kind: Callable[..., Client], number: int) -> Client:
        client = kind(self.workload, self._process(), number)
        client.begin()
        self.clients.append(client)
        return client

    def _process(self) -> ClientProcess:
        self._client_names += 1
        name = f"client-{self._client_names}"
        seed = self.random.randrange(2**31)
        return ClientProcess(self.kernel, self.network, name, seed)

    def _replace_client(self) -> None:
        """A client is killed in the middle of what it does, and another takes its place."""
        if not self.clients:
            return
        client = self.kernel.random.choice(self.clients)
        self.kernel.say(client.process.name, "is killed")
        self.clients.remove(client)
        self.network.host_down(client.process.name, is_silent=False)
        client.process.close()
        client.killed()
        if client.number < FIRST_DOUBLE:
            self._begin_client(self._maker(client), client.number)

    def _double_client(self) -> None:
        """Another client takes the transactional id of one that goes on: one of them is fenced."""
        clients = [client for client in self.clients if isinstance(client, Transactor)]
        if clients and len(clients) < 2 * self.plan.transactors:
            client = self.kernel.random.choice(clients)
            number = FIRST_DOUBLE + self._client_names
            double = Transactor(self.workload, self._process(), number, client.id_number)
            double.begin()
            self.clients.append(double)
            self.kernel.say(double.process.name, f"takes the place of {client.process.name}")

    def _maker(self, client: Client) -> Callable[..., Client]:
        """What makes another one like it."""
        makers: dict[type[Client], Callable[..., Client]] = {
            Worker: self._new_worker,
            Elector: self._new_elector,
            Archivist: self._new_archivist,
        }
        return makers.get(type(client), type(client))

    def _new_elector(self, workload: Workload, process: ClientProcess, number: int) -> Elector:
        return Elector(workload, process, number, self.nodes)

    def _new_archivist(self, workload: Workload, process: ClientProcess, number: int) -> Archivist:
        return Archivist(workload, process, number, self.archives)

    def _new_worker(self, workload: Workload, process: ClientProcess, number: int) -> Worker:
        return Worker(workload, process, number, self.queue)

    # --- time

    def _after(self, seconds: float) -> Callable[[], bool]:
        end = self.kernel.now + seconds
        return lambda: self.kernel.now >= end

    def _step_until(self, is_done: Callable[[], bool]) -> None:
        kernel = self.kernel
        next_look = kernel.rounds
        while not is_done():
            kernel.step()
            if kernel.rounds >= next_look:
                next_look = kernel.rounds + LOOK_ROUNDS
                self.invariants.look_at_groups()
                if self.plan.workers:
                    self._look_at_queue()
                self._check_processes()
                self._check_time()

    def _check_time(self) -> None:
        """Somebody who tries again and again without a pause keeps time from going on."""
        since, rounds = self._second
        if self.kernel.now >= since + 1:
            self._second = (self.kernel.now, self.kernel.rounds)
        elif self.kernel.rounds > rounds + ROUNDS_PER_SECOND_MAX:
            raise AssertionError(f"liveness: time stands still at {self.kernel.now:.3f} s")

    def _expect(self, is_so: Callable[[], bool], seconds: float, what: str) -> None:
        is_late = self._after(seconds)
        self._step_until(lambda: is_so() or is_late())
        assert is_so(), f"liveness: {what} within {seconds:g} s"

    def _check_processes(self) -> None:
        if self.store.violation is not None:
            raise self.store.violation
        for node in self.nodes:
            node.tick()
            if node.failure is not None and node.name not in self.faults.failing:
                raise AssertionError(f"{node.name} ended by itself: {node.failure!r}")
        for client in self.clients:
            client.check()
            if client.process.loop.complaints:
                raise AssertionError(f"{client.process.name}: {client.process.loop.complaints}")

    def _look_at_queue(self) -> None:
        self.queue_watch.check()
        for name, number, machine in self.invariants.share_partitions(TOPIC, queues.GROUP):
            self.queue.check_leader(number, machine, name)

    # --- what must have come of it

    def _expect_end(self, is_meant: Callable[[Client], bool]) -> None:
        self._expect(
            lambda: all(client.is_done for client in self.clients if is_meant(client)),
            PROGRESS_SECONDS,
            "clients did not come to an end",
        )

    def _expect_progress(self) -> None:
        """Everybody who works gets something done after all is healed."""
        before = self.workload.counts + self.store.counts

        def has_moved() -> bool:
            counts = self.workload.counts
            names = ["acknowledged", "polled"]
            names += ["transaction OK"] * bool(self.plan.transactors)
            names += ["records ACCEPT"] * bool(self.plan.workers)
            names += ["voter changes answered"] * bool(self.plan.controllers)
            if self.plan.archivists:
                counts = counts + self.store.counts
                names += ["archives read", "histories read", "objects written", "ranges read"]
            return all(counts[name] > before[name] for name in names)

        self._expect(has_moved, PROGRESS_SECONDS, "there was no progress after healing")

    def _check_all(self, process: ClientProcess) -> None:
        self._run_reader(process, self._settle(process))
        operation = self._run_reader(process, read_all(self.workload, process))
        self.workload.operations.append(operation)
        anomalies = check(self.workload.operations)
        assert not anomalies, "history: " + "; ".join(map(str, anomalies[:5]))
        for (group, partition), offset in sorted(self.workload.committed.items()):
            found = self._run_reader(process, committed_offsets(self.workload, process, group))
            assert found.get(partition, -1) >= offset, (
                f"group {group}: {TOPIC}-{partition} was committed to {offset}, has {found}"
            )
        self._check_topics(process)

    def _check_topics(self, process: ClientProcess) -> None:
        """A broker may hear a moment later than the client of what was answered."""
        is_late = self._after(HEARD_SECONDS)
        problems = ["nobody was asked"]
        while problems and not is_late():
            names = self._run_reader(process, topic_names(self.workload, process))
            problems = self.workload.topics.problems(names)
            self._step_until(self._after(1 if problems else 0))
        assert not problems, f"topics: {problems}"

    def _check_queue(self) -> None:
        """Everything that is committed is taken, and ends."""
        everything = self.workload.operations[-1]
        self.queue.check_delivered(everything)
        offsets = {
            poll.partition: [offset for offset, _ in poll.records] for poll in everything.polls()
        }
        self.queue.is_draining = True

        def is_drained() -> bool:
            found = {
                number: machine
                for _, number, machine in self.invariants.share_partitions(TOPIC, queues.GROUP)
            }
            return all(
                number in found and queues.is_drained(found[number], some)
                for number, some in offsets.items()
            )

        self._expect(is_drained, PROGRESS_SECONDS, "not-drained: the queue was not worked off")
        self.queue.is_over = True
        self._expect_end(lambda _: True)
        self.queue.check_delivered(everything)

    def _check_store(self) -> None:
        """The store has what metadata names, and nothing else."""
        is_late = self._after(HEALED_SECONDS)
        problems = self.store.problems(self.archives.deleted)
        while problems:
            if is_late():
                break
            self._step_until(self._after(1))
            problems = self.store.problems(self.archives.deleted)
        assert not problems, f"store: {'; '.join(problems[:5])}"

    async def _settle(self, process: ClientProcess) -> None:
        """Ends the transactions that killed clients left open."""
        from kaa.client import Producer

        for number in range(self.plan.transactors):
            settings = self.workload.settings(transactional_id=f"transactor-{number}")
            given: Any = {"random": process.random, "clock": process.clock}
            async with Producer(settings, **given) as producer:
                await producer.init_transactions()

    def _run_reader(self, process: ClientProcess, work: Any) -> Any:
        task = process.begin(work)
        self._expect(task.done, READ_SECONDS, "a reader was not done")
        return task.result()

    def _end(self, first: ClientProcess) -> None:
        for client in self.clients:
            self.network.host_down(client.process.name, is_silent=False)
            client.process.close()
        self.network.host_down(first.name, is_silent=False)
        first.close()
        for node in self.nodes:
            node.begin_stop()
        self._expect(
            lambda: not any(node.is_up for node in self.nodes), STOP_SECONDS, "nodes did not stop"
        )
        found = [left for node in self.nodes for left in node.left]
        assert not found, f"leftovers: {found}"
        counts = self.workload.counts
        assert counts["acknowledged"] >= ACKNOWLEDGED_MIN, f"too little was done: {counts}"
        seen = self.invariants.seen
        assert seen["quorum elections"], f"too little was done: {seen}"
        assert seen["partition leaders"], f"too little was done: {seen}"
        assert self.invariants.looks > 100, "the invariants were hardly looked at"
        if self.plan.controllers:
            changes = seen["voters added"] + seen["voters removed"]
            assert changes >= VOTER_CHANGES_MIN, f"too little was done: {seen}"
        if self.plan.archivists:
            assert seen["local starts moved"] >= TIERED_MIN, f"too little was done: {seen}"
            assert self.store.counts["ranges read"] >= TIERED_MIN, f"too little: {seen}"

    def _result(self) -> Result:
        counts = Counter(self.workload.counts)
        counts["boots"] = sum(node.boots for node in self.nodes)
        counts["connections"] = self.network.connection_count
        counts["resets"] = self.network.reset_count
        counts["messages"] = self.network.message_count
        counts["looks"] = self.invariants.looks
        counts += self.invariants.seen
        counts += self.queue_watch.seen
        counts += self.store.counts
        return Result(
            self.plan.seed,
            self.kernel.digest(),
            self.kernel.now,
            self.kernel.rounds,
            counts,
            self.faults.counts,
        )
