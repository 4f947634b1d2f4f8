"""Start, stop and what a node leaves behind."""

from __future__ import annotations

import re
import signal
import socket
import threading
import time
from pathlib import Path

import pytest

from kaa.wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from tests.clients.librdkafka import as_sample, consume, create_topic, produce
from tests.clients.samples import FIRST_TIMESTAMP_MS, SAMPLES, Sample
from tests.oracle.environment import wait_until
from tests.support.broker_process import BrokerProcess
from tests.support.broker_thread import broker_thread
from tests.support.ports import LOOPBACK, free_port
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
        # Who waits for more is told that there is none; nobody waits for that.
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
        assert wait_until(lambda: "stopping;" in broker.output, 20)
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
