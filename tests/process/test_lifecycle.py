"""Start, stop and what a node leaves behind."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kaa.cli.supervisor import format_cluster, plan_cluster
from kaa.wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from tests.clients.librdkafka import as_sample, consume, create_topic, produce
from tests.clients.samples import FIRST_TIMESTAMP_MS, SAMPLES, Sample
from tests.oracle.environment import wait_until
from tests.support.broker_process import STOP_SECONDS_MAX, BrokerProcess, kaa_command
from tests.support.broker_thread import broker_thread
from tests.support.pace import PATIENCE_SECONDS
from tests.support.ports import LOOPBACK, free_cluster_port, free_port
from tests.support.raw import RawClient, request_frame

CLEAN_MARKER = ".kafka_cleanshutdown"


def long_poll(topic: str, max_wait_ms: int, bytes_max: int = 1_000) -> FetchRequest:
    """A fetch that waits for records."""
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=bytes_max)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=bytes_max,
        topics=[FetchTopic(topic=topic, partitions=[partition])],
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=str)
def test_a_signal_stops_cleanly(broker: BrokerProcess, number: signal.Signals) -> None:
    produce(broker.bootstrap_servers, "t", SAMPLES)
    assert broker.process is not None
    broker.process.send_signal(number)
    assert broker.end() == 0
    assert broker.output.splitlines()[-2:] == ["stopping; a second signal forces it", "stopped"]
    marker = broker.data_dir / CLEAN_MARKER
    assert re.fullmatch(r'\{"version":0,"brokerEpoch":\d+\}', marker.read_text())
    broker.start()
    # The marker speaks of the end before; while the node runs there is none.
    assert not marker.exists()
    assert [as_sample(found) for found in consume(broker.bootstrap_servers, "t", len(SAMPLES))] == (
        SAMPLES
    )


def test_what_it_prints(broker: BrokerProcess) -> None:
    lines = broker.output.splitlines()
    assert lines[0] == f"data       {broker.data_dir}"
    assert lines[1] == f"plaintext  {broker.bootstrap_servers}"
    assert re.fullmatch(r"controller 127\.0\.0\.1:\d+", lines[2])
    assert re.fullmatch(r"ready      node 1 of cluster \S{22}, in \d+\.\d\d s", lines[3])
    assert len(lines) == 4


def test_several_listeners(tmp_path: Path) -> None:
    """Each client is sent where it came in, by IPv6 too."""
    six, four = free_port(), free_port()
    names = "SIX:PLAINTEXT,FOUR:PLAINTEXT,CONTROLLER:PLAINTEXT"
    overrides = (
        f"listeners=SIX://[::1]:{six},FOUR://{LOOPBACK}:{four}",
        f"listener.security.protocol.map={names}",
        "inter.broker.listener.name=FOUR",
    )
    with BrokerProcess(tmp_path / "node", *overrides) as broker:
        assert broker.addresses["six"] == f"[::1]:{six}"
        assert broker.addresses["four"] == f"{LOOPBACK}:{four}"
        produce(broker.addresses["six"], "t", SAMPLES)
        assert len(consume(broker.addresses["four"], "t", len(SAMPLES))) == len(SAMPLES)
        broker.stop()


def test_requests_under_way_are_answered_before_it_stops(broker: BrokerProcess) -> None:
    create_topic(broker.bootstrap_servers, "t")
    with RawClient(broker.bootstrap_servers) as idle, RawClient(broker.bootstrap_servers) as busy:
        # Those who wait for more hear that there is none; nobody waits for that.
        busy.send(request_frame(long_poll("t", 60_000), 12))
        threading.Timer(0.2, broker.stop).start()
        time_of_signal = time.monotonic() + 0.2
        assert busy.receive_frame()
        assert time.monotonic() - time_of_signal < 20
        assert busy.is_closed_by_peer()
        assert idle.is_closed_by_peer()
    assert wait_until(lambda: broker.process is None, 30)
    assert (broker.data_dir / CLEAN_MARKER).exists()


def test_a_second_signal_forces_the_end(broker: BrokerProcess) -> None:
    create_topic(broker.bootstrap_servers, "t")
    produce(broker.bootstrap_servers, "t2", SAMPLES)
    process = broker.process
    assert process is not None
    produce(broker.bootstrap_servers, "t", [Sample(None, bytes(500_000), FIRST_TIMESTAMP_MS)] * 40)
    with RawClient(broker.bootstrap_servers) as busy:
        # An answer that is larger than the buffers of the sockets, and nobody reads it.
        busy.send(request_frame(long_poll("t", 60_000, bytes_max=1 << 30), 12))
        assert busy.socket.recv(1, socket.MSG_PEEK)
        time_of_signal = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert wait_until(lambda: "stopping;" in broker.output, 60)
        process.send_signal(signal.SIGTERM)
        assert broker.end() == 1
    assert time.monotonic() - time_of_signal < 20
    assert "stopping at once" in broker.output
    assert not (broker.data_dir / CLEAN_MARKER).exists()
    broker.start()
    assert len(consume(broker.bootstrap_servers, "t2", len(SAMPLES))) == len(SAMPLES)


def test_many_restarts_leave_nothing_behind(broker: BrokerProcess) -> None:
    create_topic(broker.bootstrap_servers, "t", partitions=3)
    produce(broker.bootstrap_servers, "t", SAMPLES)
    broker.stop()
    before = files(broker.data_dir)
    for _ in range(3):
        broker.start()
        broker.stop()
    # The metadata log goes on, with a snapshot per stop; all else is as it was.
    assert files(broker.data_dir) == before


def files(folder: Path) -> list[str]:
    """The names of all files; of the metadata log and its snapshots only the kinds."""
    names = (str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    return sorted({re.sub(r"^(__cluster_metadata-0/)[\d-]+", r"\1", name) for name in names})


def test_two_nodes_in_one_process(tmp_path: Path) -> None:
    with broker_thread(tmp_path / "one") as one, broker_thread(tmp_path / "two") as two:
        produce(one.bootstrap_servers, "t", SAMPLES)
        produce(two.bootstrap_servers, "t", SAMPLES[:2])
        assert len(consume(one.bootstrap_servers, "t", len(SAMPLES))) == len(SAMPLES)
        assert len(consume(two.bootstrap_servers, "t", 2)) == 2
    with broker_thread(tmp_path / "one") as one:
        assert len(consume(one.bootstrap_servers, "t", len(SAMPLES))) == len(SAMPLES)


# Under nohup these tests would pass the deaf ear on.
_HEARS_SIGHUP = (
    "import signal\n"
    "signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"
    "from kaa.cli import main\n"
    "main()\n"
)


@contextmanager
def started(arguments: list[str], voice: int) -> Iterator[subprocess.Popen[bytes]]:
    """A node that speaks to a descriptor, and is killed at the end if it still runs."""
    command = kaa_command(*arguments, program=_HEARS_SIGHUP)
    process = subprocess.Popen(command, stdout=voice, stderr=voice)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def reads(descriptor: int, text: bytes) -> None:
    """Reads what a node says up to a word."""
    said = b""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while text not in said:
        assert time.monotonic() < deadline, said
        said += os.read(descriptor, 1_000)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=str)
@pytest.mark.parametrize("kind", ["terminal", "pipe"])
def test_it_stops_cleanly_when_nobody_can_hear_it(
    tmp_path: Path, kind: str, number: signal.Signals
) -> None:
    """A terminal that is gone fails with EIO, a pipe without a reader with EPIPE."""
    ear, voice = os.openpty() if kind == "terminal" else os.pipe()
    address = f"{LOOPBACK}:{free_port()}"
    arguments = ["broker", "start", "--data-dir", str(tmp_path)]
    with started([*arguments, "--override", f"listeners=PLAINTEXT://{address}"], voice) as process:
        os.close(voice)
        reads(ear, b"ready ")
        os.close(ear)
        # One more line that nobody hears, while it serves.
        process.send_signal(signal.SIGUSR1)
        produce(address, "t", SAMPLES)
        process.send_signal(number)
        assert process.wait(STOP_SECONDS_MAX) == 0
    assert (tmp_path / CLEAN_MARKER).exists()


def test_it_stops_while_it_is_starting(tmp_path: Path) -> None:
    """Alone of three voters, it would wait for the others for ever."""
    plans = plan_cluster(tmp_path, 3, free_cluster_port(3))
    format_cluster(plans, 0)
    ear, voice = os.pipe()
    with started(list(plans[0].arguments), voice) as process:
        os.close(voice)
        assert wait_until(lambda: is_listening(plans[0].controller_port), PATIENCE_SECONDS)
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOP_SECONDS_MAX) == 0
    reads(ear, b"stopped\n")
    os.close(ear)


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) == 0
