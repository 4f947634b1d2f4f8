"""A large replica that moves while it is written: `scripts/soak large_move`.

A partition of some GiB goes to the other directory of its node and back, while an idempotent
producer writes to it. The segments of the source are kept under second names: what arrives has the
same bytes, so every record and every gap, and the partition remembers its producers as before.
Ends when time is over; one story is always told to its end.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from confluent_kafka import Producer

from kaa.client import NewTopic
from kaa.client.sync import Admin
from kaa.model.topics import TopicPartition
from tests.oracle.environment import wait_until
from tests.support.broker_process import BrokerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB: Final = 1024 * 1024
MIB_MOVED: Final = 5 * 1024
KEY: Final = TopicPartition("large", 0)
VALUE_BYTES: Final = 64 * 1024
PIECE_BYTES: Final = 4 * MIB
SECONDS_MAX: Final = 900


def tell(folder: Path, mib: int, segment_bytes: int = 1024 * MIB) -> str:
    """There and back; what was seen."""
    paths = [folder / name for name in ("one", "two")]
    kept = folder / "kept"
    dirs = f"log.dirs={paths[0]},{paths[1]}"
    with (
        BrokerProcess(folder / "node", dirs, f"log.segment.bytes={segment_bytes}") as node,
        Admin({"bootstrap.servers": node.bootstrap_servers}) as admin,
    ):
        admin.create_topics([NewTopic(KEY.topic, 1)])
        count = mib * MIB // VALUE_BYTES
        _fill(node, count)
        seconds = []
        for _ in paths:
            source = Path(_place(admin)[0])
            (target,) = (path for path in paths if path != source)
            kept.mkdir()
            for name in (source / f"{KEY}").glob("*.log"):
                os.link(name, kept / name.name)
            began = time.monotonic()
            with _producing(node) as acknowledged:
                moved = admin.alter_replica_log_dirs({(1, KEY): str(target)})
                assert moved == {(1, KEY): None}
                assert wait_until(lambda: _place(admin) == [str(target)], SECONDS_MAX)  # noqa: B023
                seconds.append(time.monotonic() - began)
            count += acknowledged[0]
            _check(admin, kept, target / f"{KEY}", count, acknowledged[0])
        node.stop()
    taken = ", ".join(f"{one:.1f}" for one in seconds)
    return f"{mib} MiB there and back in {taken} s, {count} records, every byte as it was"


def _check(admin: Admin, kept: Path, folder: Path, count: int, acknowledged: int) -> None:
    """Bytes, end and producers are those of the source."""
    for old in sorted(kept.iterdir()):
        _check_beginning(folder / old.name, old)
        old.unlink()
    kept.rmdir()
    (end,) = admin.list_offsets({KEY: "latest"}).values()
    assert getattr(end, "offset", None) == count, (end, count)
    producers = admin.describe_producers([KEY])[KEY]
    assert not isinstance(producers, Exception), producers
    newest = max(producers, key=lambda one: one.last_timestamp_ms)
    assert newest.last_sequence == acknowledged - 1, (newest, acknowledged)


def _check_beginning(path: Path, old: Path) -> None:
    """A file begins with another one, which is not shorter by what its log has no room for."""
    with path.open("rb") as ours, old.open("rb") as theirs:
        while expected := theirs.read(PIECE_BYTES):
            place = theirs.tell() - len(expected)
            assert ours.read(len(expected)) == expected, f"{path} differs from {place} on"


def _place(admin: Admin) -> list[str]:
    """Where the replica is, and its copy."""
    return [
        found.path
        for found in admin.describe_log_dirs()
        for replica in found.replicas
        if replica.partition == KEY
    ]


def _fill(node: BrokerProcess, count: int) -> None:
    producer = Producer(
        {
            "bootstrap.servers": node.bootstrap_servers,
            "batch.size": 1_000_000,
            "queue.buffering.max.kbytes": 65_536,
        }
    )
    value = os.urandom(VALUE_BYTES)
    for _ in range(count):
        while True:
            try:
                producer.produce(KEY.topic, value, partition=KEY.partition)
            except BufferError:
                producer.poll(0.1)
            else:
                break
    assert producer.flush(SECONDS_MAX) == 0


@contextmanager
def _producing(node: BrokerProcess) -> Iterator[list[int]]:
    """An idempotent producer, and how many of its records were acknowledged."""
    acknowledged = [0]
    is_over = threading.Event()

    def produce() -> None:
        producer = Producer(
            {
                "bootstrap.servers": node.bootstrap_servers,
                "enable.idempotence": True,
                "linger.ms": 0,
            }
        )

        def delivered(error: object, _: object) -> None:
            assert error is None, error
            acknowledged[0] += 1

        while not is_over.is_set():
            producer.produce(KEY.topic, b"v" * 1024, partition=KEY.partition, callback=delivered)
            producer.poll(0.002)
        assert producer.flush(SECONDS_MAX) == 0

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield acknowledged
    finally:
        is_over.set()
        thread.join()


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.large_move", description=__doc__)
    parser.add_argument("--seconds", type=int, required=True)
    parser.add_argument("--mib", type=int, default=MIB_MOVED, help="how large the replica is")
    options = parser.parse_args(arguments)
    deadline = time.monotonic() + options.seconds
    while True:
        with tempfile.TemporaryDirectory(prefix="kaa-large-move-") as folder:
            print(tell(Path(folder), options.mib), flush=True)
        if time.monotonic() > deadline:
            return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
