"""The fixtures beside other plugins that users have: each the real one, in a run of its own."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]


@pytest.fixture(autouse=True)
def _no_other_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    options = ["-p", "kaa.testing.plugin", "-p", "no:cacheprovider", "--strict-markers"]
    return pytester.runpytest_subprocess(*options, "-W", "error", *arguments)


PRODUCE = """
import confluent_kafka

def produce(kafka, topic):
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap_servers})
    producer.produce(topic.name, b"a")
    assert producer.flush(10) == 0
    topic.expect(["a"])
"""


def test_freezegun(pytester: pytest.Pytester) -> None:
    pytest.importorskip("freezegun")
    pytester.makepyfile(
        PRODUCE
        + """
import time
from freezegun import freeze_time

@freeze_time("2001-02-03")
def test_time_stands_still(kafka):
    before = time.time()
    produce(kafka, kafka.topic("orders"))
    kafka.wait_for(lambda: True)
    assert time.time() == before

@freeze_time("2001-02-03")
def test_started_then(kafka_fresh):
    produce(kafka_fresh, kafka_fresh.topic("orders"))
"""
    )
    run(pytester).assert_outcomes(passed=2)


def test_time_machine(pytester: pytest.Pytester) -> None:
    pytest.importorskip("time_machine")
    pytester.makepyfile(
        PRODUCE
        + """
import time_machine

def test_travelling(kafka):
    with time_machine.travel("2031-02-03", tick=False):
        produce(kafka, kafka.topic("orders"))

@time_machine.travel("2031-02-03")
def test_started_then(kafka_fresh):
    produce(kafka_fresh, kafka_fresh.topic("orders"))
"""
    )
    run(pytester, "-p", "time_machine").assert_outcomes(passed=2)


def test_pytest_socket(pytester: pytest.Pytester) -> None:
    pytest.importorskip("pytest_socket")
    pytester.makepyfile(
        PRODUCE
        + """
import socket
import pytest

def test_inside_the_machine(kafka):
    produce(kafka, kafka.topic("orders"))
    with pytest.raises(Exception, match="allowed: "):
        socket.create_connection(("192.0.2.1", 9), 1)
"""
    )
    run(pytester, "-p", "pytest_socket", "--allow-hosts=127.0.0.1").assert_outcomes(passed=1)


ASYNC = """
from aiokafka import AIOKafkaProducer
from kaa.testing import Broker
import pytest

{mark}
async def test_client_and_broker_on_two_loops(kafka):
    topic = kafka.topic("orders")
    async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        await producer.send_and_wait(topic.name, b"a")
    topic.expect(["a"])

{mark}
async def test_own_broker():
    async with Broker() as broker:
        broker.topic("orders").expect([])
"""


def test_pytest_asyncio(pytester: pytest.Pytester) -> None:
    pytest.importorskip("pytest_asyncio")
    pytester.makepyfile(ASYNC.format(mark="@pytest.mark.asyncio"))
    options = ["-p", "asyncio"]
    run(pytester, *options).assert_outcomes(passed=2)


def test_anyio(pytester: pytest.Pytester) -> None:
    pytest.importorskip("anyio")
    pytester.makepyfile(
        ASYNC.format(mark="@pytest.mark.anyio")
        + """
@pytest.fixture
def anyio_backend():
    return "asyncio"
"""
    )
    run(pytester, "-p", "anyio").assert_outcomes(passed=2)
