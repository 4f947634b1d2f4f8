from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from kaa.testing import Broker, Errors, RefusedError
from tests.support.pace import slowness

# What a start and a stop may cost once everything is imported and compiled, on a slow machine.
START_CPU_SECONDS_MAX = 0.1
STOP_CPU_SECONDS_MAX = 0.1
RESET_CPU_SECONDS_MAX = 0.005


def test_a_broker_serves_inside_its_block() -> None:
    with Broker() as broker:
        host, port = broker.bootstrap_servers.split(":")
        assert host == "127.0.0.1"
        assert int(port) > 0
        topic = broker.topic("orders", partitions=2)
        assert topic.name == "orders"
        assert broker.topic_names() == ["orders"]
        assert broker.reports == []


def test_two_brokers_know_nothing_of_each_other() -> None:
    with Broker() as one, Broker() as other:
        one.topic("mine").seed(["a"])
        assert one.bootstrap_servers != other.bootstrap_servers
        assert other.topic_names() == []


def test_async_with_does_the_same() -> None:
    async def use() -> list[str]:
        async with Broker() as broker:
            broker.topic("orders")
            return broker.topic_names()

    assert asyncio.run(use()) == ["orders"]


def test_settings_of_the_broker_and_of_topics() -> None:
    overrides = {"num.partitions": 3, "auto.create.topics.enable": False}
    with Broker(overrides=overrides) as broker:
        topic = broker.topic("orders", partitions=-1, cleanup_policy="compact")
        assert sorted(topic.offsets()) == [0, 1, 2]
        with pytest.raises(RefusedError, match=r"retention\.ms") as refused:
            broker.topic("other", retention_ms="soon")
        assert refused.value.error is Errors.INVALID_CONFIG


def test_a_number_of_partitions_that_is_none_is_refused() -> None:
    number: Any = "3"
    with Broker() as broker, pytest.raises(TypeError, match="partitions must be a whole number"):
        broker.topic("x", partitions=number)


def test_a_setting_that_cannot_be_is_told_at_start() -> None:
    before = _own_threads()
    with (
        pytest.raises(Exception, match=r"num\.partitions"),
        Broker(overrides={"num.partitions": 0}),
    ):
        pass
    assert _own_threads() <= before


def test_start_and_stop_are_cheap_and_leave_no_thread() -> None:
    before = _own_threads()
    with Broker():
        pass
    starts, stops = [], []
    for _ in range(3):
        begun = time.process_time()
        broker = Broker()
        broker.start()
        started = time.process_time()
        broker.stop()
        starts.append(started - begun)
        stops.append(time.process_time() - started)
    assert min(starts) < START_CPU_SECONDS_MAX * slowness()
    assert min(stops) < STOP_CPU_SECONDS_MAX * slowness()
    assert _own_threads() <= before


def test_stopping_twice_and_starting_again() -> None:
    broker = Broker()
    broker.start()
    with pytest.raises(RuntimeError, match="runs already"):
        broker.start()
    broker.stop()
    broker.stop()
    with pytest.raises(RuntimeError, match="not running"):
        broker.topic_names()


def test_a_test_leaves_nothing_to_the_next() -> None:
    with Broker() as broker:
        broker.topic("lasting")
        with broker.isolated("first-") as same:
            assert same is broker
            assert broker.topic("orders").name == "first-orders"
            assert broker.topic().name.startswith("first-topic-")
            assert broker.name("group") == "first-group"
            broker.on("Metadata").observe()
        assert broker.topic_names() == ["lasting"]
        assert broker.prefix == ""
        with broker.isolated("second-"):
            assert broker.topic("orders").records() == []


def test_a_reset_is_cheap() -> None:
    with Broker() as broker:
        costs = []
        for number in range(5):
            with broker.isolated(f"{number}-"):
                broker.topic("orders").seed(["a"])
                begun = time.process_time()
            costs.append(time.process_time() - begun)
    assert min(costs) < RESET_CPU_SECONDS_MAX * slowness()


def test_kill_loses_what_was_not_flushed_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    with Broker() as broker:
        lazy = broker.topic("lazy")
        careful = broker.topic("careful", flush_messages=1)
        lazy.seed(["lost"])
        careful.seed(["kept"])
        address = broker.bootstrap_servers
        broker.kill()
        assert "not flushed" in caplog.text
        broker.restart()
        assert broker.bootstrap_servers == address
        assert lazy.records() == []
        careful.expect(["kept"])


def test_kill_can_keep_what_was_written() -> None:
    with Broker() as broker:
        topic = broker.topic("orders")
        topic.seed(["a", "b"])
        broker.kill(keep_unflushed=True)
        broker.restart()
        topic.expect(["a", "b"])


def test_restart_keeps_everything() -> None:
    with Broker() as broker:
        topic = broker.topic("orders")
        topic.seed(["a"])
        broker.restart()
        topic.seed(["b"])
        topic.expect(["a", "b"])


def test_a_killed_broker_runs_again_for_the_next_test() -> None:
    with Broker() as broker:
        with broker.isolated("first-"):
            broker.kill()
        assert broker.topic_names() == []


def test_wait_for_gives_the_answer_or_says_what_was_waited_for() -> None:
    broker = Broker()
    answers = iter([0, 0, 7])
    assert broker.wait_for(lambda: next(answers)) == 7

    def never() -> bool:
        return False

    with pytest.raises(TimeoutError, match="never"):
        broker.wait_for(never, timeout=0.02)

    def refused() -> bool:
        raise RefusedError("asking", Errors.NOT_COORDINATOR)

    with pytest.raises(TimeoutError, match="NOT_COORDINATOR"):
        broker.wait_for(refused, timeout=0.02)

    def refused_for_good() -> bool:
        raise RefusedError("asking", Errors.INVALID_GROUP_ID)

    with pytest.raises(RefusedError, match="INVALID_GROUP_ID"):
        broker.wait_for(refused_for_good)


def _in_child(broker: Broker, results: multiprocessing.Queue[str]) -> None:
    try:
        broker.topic_names()
    except RuntimeError as error:
        results.put(str(error))
    broker.stop()
    results.put("stopped")


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork.*:DeprecationWarning")
def test_a_forked_child_leaves_the_broker_alone() -> None:
    context = multiprocessing.get_context("fork")
    with Broker() as broker:
        topic = broker.topic("orders")
        results = context.Queue()
        child = context.Process(target=_in_child, args=(broker, results))
        child.start()
        assert "another process" in results.get(timeout=20)
        assert results.get(timeout=20) == "stopped"
        child.join(20)
        assert child.exitcode == 0
        results.close()
        results.join_thread()
        topic.seed(["still here"])
        topic.expect(["still here"])


def test_a_script_that_forgets_to_stop_still_ends() -> None:
    program = """
from kaa.testing import Broker
broker = Broker()
broker.start()
print(broker.topic("orders").name)
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "orders\n", "")


def test_nothing_is_left_in_the_temporary_folder(tmp_path: Path) -> None:
    program = "from kaa.testing import Broker\nwith Broker() as b: b.topic('x').seed(['1'])"
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", program], env=environment, timeout=60, check=True)
    assert list(tmp_path.iterdir()) == []


def test_a_foreign_cluster_is_used_and_left_alone() -> None:
    with Broker() as own, Broker(bootstrap_servers=own.bootstrap_servers) as guest:
        own.topic("theirs")
        with guest.isolated("mine-"):
            guest.topic("orders").seed(["a"])
            own.topic("appeared-meanwhile")
        assert own.topic_names() == ["appeared-meanwhile", "theirs"]
        for refused in (guest.kill, guest.restart, lambda: guest.on("Fetch")):
            with pytest.raises(RuntimeError):
                refused()
    with pytest.raises(ValueError, match="its own"):
        Broker(bootstrap_servers="x:1", overrides={"num.partitions": 1})


def _own_threads() -> set[threading.Thread]:
    """Threads of brokers; another test of this process may keep one for itself."""
    gc.collect()
    return {thread for thread in threading.enumerate() if thread.name.startswith("kaa")}


def test_names_that_are_none() -> None:
    bad: Any
    for bad in ({1: 1}, {None: 1}):
        with pytest.raises(TypeError, match="is not the name of a setting"):
            Broker(overrides=bad)
    with Broker() as broker:
        for bad in (5, b"orders", ["orders"]):
            with pytest.raises(TypeError, match="is not a name; names are text"):
                broker.topic(bad)
            with pytest.raises(TypeError, match="is not a name; names are text"):
                broker.group(bad)
