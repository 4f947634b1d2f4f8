"""A node killed at the Nth system call that changes files, while it does everything it can do.

One story touches all that writes: topics are created and deleted, records appended so that segments
roll, logs compacted and trimmed, a replica moved to another directory, checkpoints and metadata
snapshots written, the node stopped. In a rehearsal the calls of each kind are counted. Then the
same story is run with a kill at call N; the test that finds the node dead starts it again, and the
clients, who know nothing of it, carry on.

Afterwards what was acknowledged must be there, at the offset that was answered; what an idempotent
producer sent must be there once and in order; each key of a compacted topic must have its last
value; and no file or folder may be there that belongs to nothing.

Two means exist. `strace` injects the signal into the process as it is, counting the calls of each
thread. Where it is missing or forbidden, `kill_hook` counts calls over all threads from within.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from confluent_kafka import (
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
    admin,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kaa.client.errors import ClientError
from kaa.client.sync import Admin
from kaa.model.topics import TopicPartition as Key
from tests.clients.librdkafka import Delivery, assign_from_the_start, consumer, send, take
from tests.clients.samples import FIRST_TIMESTAMP_MS, Sample
from tests.oracle.environment import wait_until
from tests.process.kill_hook import FUNCTIONS, TORN_WRITE
from tests.support.broker_process import BrokerProcess

ROOT: Final = Path(__file__).resolve().parents[2]
SYSTEM_CALLS: Final = {
    "write": "pwritev,pwrite64,pwritev2",
    "sync": "fsync,fdatasync",
    "rename": "rename,renameat,renameat2",
    "remove": "unlink,unlinkat,rmdir",
    "make": "mkdir,mkdirat,ftruncate",
}
HOOK_KINDS: Final = (*FUNCTIONS, TORN_WRITE)
STRACE_KINDS: Final = tuple(SYSTEM_CALLS)

TICK_SECONDS: Final = 0.1
STOPS_MAX: Final = 3
# A node that recovers on a busy machine takes its time.
PATIENCE_SECONDS: Final = 240
SEGMENT_BYTES: Final = 2_048
RECORDS: Final = 60
KEYS: Final = 7
PARTITIONS: Final = 2
TRIMMED_OFFSET: Final = 10
OVERRIDES: Final = (
    "log.cleaner.backoff.ms=50",
    "log.retention.check.interval.ms=100",
    "log.flush.offset.checkpoint.interval.ms=100",
    "log.flush.start.offset.checkpoint.interval.ms=100",
    "replica.high.watermark.checkpoint.interval.ms=100",
    "log.segment.delete.delay.ms=0",
    "offsets.topic.num.partitions=1",
    # A producer of an earlier story may still ask at this port, and must not make its topics here.
    "auto.create.topics.enable=false",
    "metadata.log.max.record.bytes.between.snapshots=2000",
)
PLAIN: Final = {"internal.segment.bytes": SEGMENT_BYTES, "retention.ms": -1}
# Its records are older than this, so that its segments go while the story runs.
SHORT: Final = {"internal.segment.bytes": SEGMENT_BYTES, "retention.ms": 1000}
COMPACTED: Final = {
    "internal.segment.bytes": SEGMENT_BYTES,
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": 0.01,
}
MOVED: Final = Key("plain", 0)
LOGS: Final = (*(("plain", n) for n in range(PARTITIONS)), ("compacted", 0), ("short", 0))
# The package has no types for these.
_SPECS: Final[Any] = vars(admin)["OffsetSpec"]
_NAMES: Final = re.compile(
    r"\d{20}\.(log|index|timeindex|txnindex|snapshot)|\d{20}-\d{10}\.checkpoint|"
    r"leader-epoch-checkpoint|partition\.metadata|quorum-state|bootstrap\.checkpoint|"
    r"meta\.properties|\.lock|\.kafka_cleanshutdown|"
    r"(cleaner|log-start|recovery-point|replication)-offset-checkpoint"
)


class KillPoint(NamedTuple):
    """The call to die at; number 0 for none, when calls are only counted."""

    kind: str
    number: int
    is_hook: bool


def has_strace() -> bool:
    """Whether strace is there and may trace."""
    if shutil.which("strace") is None:
        return False
    command = ["strace", "-D", "-f", "-qq", "-e", "trace=none", "true"]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


class Node(BrokerProcess):
    """A node with a kill point in its first life, started again by a thread of its own. With an
    arming file, which the hook alone knows, only calls made while it is there count.
    """

    def __init__(self, folder: Path, point: KillPoint, arming_file: Path | None = None) -> None:
        self.directories = (folder / "data", folder / "other")
        paths = ",".join(map(str, self.directories))
        super().__init__(folder, *OVERRIDES, f"log.dirs={paths}", f"metadata.log.dir={folder}/data")
        self.point = point
        self.arming_file = arming_file
        self.counts_file = folder / "counts"
        self.was_killed = False
        self._is_first = True
        self._is_watched = True
        self._watcher = threading.Thread(target=self._watch)

    # --- its command

    def launch(self, *more_overrides: str) -> subprocess.Popen[bytes]:
        lines = [f"import sys; sys.path.insert(0, {str(ROOT)!r}); sys.dont_write_bytecode = True"]
        lines.append("import kaa.broker.duties as duties")
        lines.append(f"duties.LOG_TICK_SECONDS = {TICK_SECONDS}")
        self.prefix = ()
        kind, number, is_hook = self.point
        if self._is_first and is_hook:
            arguments = f"{kind!r}, {number}, {str(self.counts_file)!r}"
            arguments += f", {str(self.arming_file)!r}" if self.arming_file else ""
            lines.append(f"from tests.process.kill_hook import install; install({arguments})")
        elif self._is_first:
            self.prefix = self._strace(kind, number)
        self.preamble = "\n".join(lines)
        self._is_first = False
        return super().launch(*more_overrides)

    def _strace(self, kind: str, number: int) -> tuple[str, ...]:
        """With -D the node stays our child, and strace becomes its."""
        calls = SYSTEM_CALLS[kind]
        command = ("strace", "-D", "-f", "-qq", "-o", str(self.counts_file))
        trace = ("-e", f"trace={calls}", "-e", "signal=none")
        inject = ("-e", f"inject={calls}:signal=KILL:when={number}") if number else ()
        return (*command, *trace, *inject)

    def counted(self) -> int:
        """How many calls the first life made, by strace the most of any thread."""
        text = self.counts_file.read_text()
        kind = self.point.kind
        if self.point.is_hook:
            counts = dict(line.rsplit(" ", 1) for line in text.splitlines())
            return int(counts["write" if kind == TORN_WRITE else kind])
        threads = [line.split()[0] for line in text.splitlines() if "resumed" not in line]
        return max((threads.count(thread) for thread in set(threads)), default=0)

    # --- its lives

    @contextmanager
    def living(self) -> Iterator[None]:
        """Runs, and comes back whenever it dies."""
        self.revive()
        self._watcher.start()
        try:
            yield
        finally:
            self._is_watched = False
            self._watcher.join()

    def revive(self) -> None:
        try:
            self.start()
        except AssertionError:
            # Killed on its way up.
            if self.was_killed or "Traceback" in self.output:
                raise
            self.was_killed = True
            self.start()

    def _watch(self) -> None:
        while self._is_watched:
            process = self.process
            if process is not None and process.poll() is not None:
                self._died(process)
            threading.Event().wait(0.01)

    def _died(self, process: subprocess.Popen[bytes]) -> None:
        assert process.returncode == -signal.SIGKILL, self.output
        self._forget(process)
        assert not self.was_killed, "it died twice"
        self.was_killed = True
        self.start()

    def stop_or_die(self) -> None:
        """A clean stop, on whose way the kill may come."""
        process = self._running()
        process.send_signal(signal.SIGTERM)
        code = self.end()
        if code == -signal.SIGKILL:
            assert not self.was_killed, "it died twice"
            self.was_killed = True
        else:
            assert code == 0, self.output


class Story:
    """What clients did, and the answers they got."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._admin = AdminClient({"bootstrap.servers": node.bootstrap_servers, "log_level": 0})
        self._producer = Producer(
            {
                "bootstrap.servers": node.bootstrap_servers,
                "enable.idempotence": True,
                "linger.ms": 1,
                "batch.num.messages": 5,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 50,
                "retry.backoff.ms": 10,
                "topic.metadata.refresh.interval.ms": 200,
                "log_level": 0,
            }
        )
        self.plain: list[list[Delivery]] = [[] for _ in range(PARTITIONS)]
        self.compacted: list[Delivery] = []
        self.short: list[Delivery] = []

    def tell(self) -> None:
        """Everything but the stop."""
        self._create("plain", PARTITIONS, PLAIN)
        self._create("compacted", 1, COMPACTED)
        self._create("short", 1, SHORT)
        self._create("doomed", 1, {})
        self._produce()
        self._until_done(lambda: self._admin.delete_topics(["doomed"], request_timeout=1.0))
        trimmed = TopicPartition("plain", 0, TRIMMED_OFFSET)
        self._until_done(lambda: self._admin.delete_records([trimmed], request_timeout=1.0))
        threading.Event().wait(2 * TICK_SECONDS)
        self._move(MOVED)
        self._produce()
        threading.Event().wait(3 * TICK_SECONDS)

    def _create(self, name: str, partitions: int, config: dict[str, Any]) -> None:
        topic = NewTopic(name, partitions, 1, config=config)
        self._until_done(lambda: self._admin.create_topics([topic], request_timeout=1.0))

    def _until_done(self, call: Callable[[], dict[Any, Any]]) -> None:
        """Calls again while the answer is lost; done before counts as done."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                for future in call().values():
                    future.result(PATIENCE_SECONDS)
            except KafkaException as error:
                code = error.args[0].code()
                if code in {KafkaError.TOPIC_ALREADY_EXISTS, KafkaError.UNKNOWN_TOPIC_OR_PART}:
                    return
                if time.monotonic() > deadline:
                    raise
                threading.Event().wait(0.05)
            else:
                return

    def _move(self, *keys: Key) -> None:
        """Moves logs to the other directory; a kill may make the request come twice, or lose it
        together with what it began.
        """
        deadline = time.monotonic() + PATIENCE_SECONDS
        targets: dict[Key, str] = {}
        while time.monotonic() < deadline:
            try:
                with Admin({"bootstrap.servers": self._node.bootstrap_servers}) as admin:
                    if self._ask_for_moves(admin, keys, targets):
                        return
            except (ClientError, OSError):
                pass
            threading.Event().wait(0.02)
        raise AssertionError("the move does not end")

    def _ask_for_moves(self, admin: Admin, keys: Sequence[Key], targets: dict[Key, str]) -> bool:
        """Asks for what is not where it shall be; whether all is. Fills in the targets."""
        places: dict[Key, dict[bool, str]] = {key: {} for key in keys}
        for found in admin.describe_log_dirs():
            for replica in found.replicas:
                if replica.partition in places:
                    places[replica.partition][replica.is_future] = found.path
        for key, place in places.items():
            if False in place and key not in targets:
                paths = map(str, self._node.directories)
                targets[key] = next(path for path in paths if path != place[False])
        left = [key for key in keys if places[key] != {False: targets.get(key)}]
        asked = {(1, key): targets[key] for key in left if False in places[key]}
        if asked:
            admin.alter_replica_log_dirs(asked)
        return not left

    def _produce(self) -> None:
        for _ in range(RECORDS // 2):
            for partition, sent in enumerate(self.plain):
                sent.append(self._send("plain", partition, len(sent), None))
            key = b"%d" % (len(self.compacted) % KEYS)
            self.compacted.append(self._send("compacted", 0, len(self.compacted), key))
            self.short.append(self._send("short", 0, len(self.short), None))
            self._producer.poll(0.002)
        assert self._producer.flush(PATIENCE_SECONDS) == 0

    def _send(self, topic: str, partition: int, number: int, key: bytes | None) -> Delivery:
        value = b"%d " % number + bytes(100)
        sample = Sample(key, value, FIRST_TIMESTAMP_MS + number)
        return send(self._producer, topic, sample, partition)

    # --- what must hold

    def check(self) -> None:
        """Looks at a node that was killed, or stopped, and runs again."""
        topics = set(self._admin.list_topics(timeout=PATIENCE_SECONDS).topics)
        assert topics == {"plain", "compacted", "short"}
        starts = self._offsets(_SPECS.earliest())
        assert self._offsets(_SPECS.latest()) == dict.fromkeys(LOGS, RECORDS)
        found = self._read()
        for partition, deliveries in enumerate(self.plain):
            assert {delivery.error for delivery in deliveries} == {None}
            assert [delivery.offset for delivery in deliveries] == list(range(RECORDS))
            start = TRIMMED_OFFSET if partition == 0 else 0
            assert starts["plain", partition] == start
            assert found["plain", partition] == {n: n for n in range(start, RECORDS)}
        latest = {number % KEYS: number for number in range(RECORDS)}
        kept = found["compacted", 0]
        assert {number % KEYS: number for number in kept.values()} == latest
        assert all(kept[number] == number for number in latest.values())
        assert [delivery.offset for delivery in self.compacted] == list(range(RECORDS))
        assert [delivery.offset for delivery in self.short] == list(range(RECORDS))
        # Retention takes its time after a start.
        assert wait_until(
            lambda: self._offsets(_SPECS.earliest())["short", 0] > 0, PATIENCE_SECONDS
        )

    def _offsets(self, spec: Any) -> dict[tuple[str, int], int]:
        asked = {TopicPartition(*log): spec for log in LOGS}
        futures = self._admin.list_offsets(asked)
        return {
            (where.topic, where.partition): future.result(PATIENCE_SECONDS).offset
            for where, future in futures.items()
        }

    def _read(self) -> dict[tuple[str, int], dict[int, int]]:
        """By log the numbers of records by offset; the last record of a log is never missing."""
        found: dict[tuple[str, int], dict[int, int]] = {log: {} for log in LOGS[:-1]}
        with consumer(self._node.bootstrap_servers, check_crcs=True) as reader:
            assign_from_the_start(reader, found)
            while not all(RECORDS - 1 in numbers for numbers in found.values()):
                (message,) = take(reader, 1)
                numbers = found[message.topic(), message.partition()]
                assert message.offset() not in numbers
                numbers[message.offset()] = int(message.value().split()[0])
        return found


class MoveStory(Story):
    """Logs of every kind move at once while they are written to; nothing else counts."""

    def tell(self) -> None:
        assert self._node.arming_file is not None
        self._create("plain", PARTITIONS, PLAIN)
        self._create("compacted", 1, COMPACTED)
        self._create("short", 1, SHORT)
        self._produce()
        trimmed = TopicPartition("plain", 0, TRIMMED_OFFSET)
        self._until_done(lambda: self._admin.delete_records([trimmed], request_timeout=1.0))
        self._node.arming_file.touch()
        with ThreadPoolExecutor(1) as beside:
            moved = beside.submit(self._move, *(Key(*log) for log in LOGS))
            self._produce()
            moved.result()
        self._node.arming_file.unlink()


def left_over(data_dirs: Sequence[Path]) -> list[str]:
    """Files that belong to nothing, and folders on their way out; they may go while they are
    looked through.
    """
    return [
        f"{folder}/{name}"
        for data_dir in data_dirs
        for folder, folders, names in os.walk(data_dir)
        for name in (*names, *(one for one in folders if one.endswith("-delete")))
        if not _NAMES.fullmatch(name)
    ]


def check_files(data_dirs: Sequence[Path]) -> None:
    """Nothing is left over: no temporary name, no folder without a partition, and no second one."""
    # As in Kafka, a deletion that the node did not live to carry out leaves a folder put aside.
    found = [
        path.name
        for data_dir in data_dirs
        for path in data_dir.iterdir()
        if path.is_dir() and not re.fullmatch(r"doomed-0\.\w+-stray", path.name)
    ]
    folders = set(found)
    assert len(found) == len(folders), found
    plain = {f"plain-{number}" for number in range(PARTITIONS)}
    expected = plain | {"compacted-0", "short-0", "__cluster_metadata-0"}
    # A reader of the check that looks for a coordinator makes the topic of offsets.
    folders.discard("__consumer_offsets-0")
    assert folders == expected, folders ^ expected
    assert left_over(data_dirs) == [], left_over(data_dirs)


def stop_when_settled(node: Node) -> None:
    """Stops the node when nothing is on its way out. What it begins to remove meanwhile, the next
    life removes.
    """
    for _ in range(STOPS_MAX):
        assert wait_until(lambda: not left_over(node.directories), PATIENCE_SECONDS), left_over(
            node.directories
        )
        node.stop()
        if not left_over(node.directories):
            return
        node.start()


def run(
    folder: Path, point: KillPoint, kind: type[Story] = Story, arming_file: Path | None = None
) -> tuple[bool, int]:
    """Tells the story with one kill point; whether it killed, and how many calls were counted."""
    node = Node(folder, point, arming_file)
    try:
        with node.living():
            story = kind(node)
            story.tell()
        if not node.was_killed:
            node.stop_or_die()
            node.start()
        story.check()
        stop_when_settled(node)
        check_files(node.directories)
    finally:
        node.kill()
    return node.was_killed, 0 if node.was_killed else node.counted()


def chosen_numbers(total: int, random: Random) -> list[int]:
    """The first call, the last, and three in between."""
    between = range(2, total)
    return sorted({1, total, *random.sample(between, min(3, len(between)))})
