from __future__ import annotations

import subprocess
import sys

import pytest

from kaa.client.sync import Consumer, at_exit
from kaa.model.topics import TopicPartition
from tests.support.ports import LOOPBACK, free_port

# Neither `with` nor `close()`: the program just ends.
PROGRAM = """
import logging, sys
from kaa.client.sync import Producer
logging.basicConfig(format="%(message)s")
address, topic, count = sys.argv[1:]
producer = Producer(bootstrap_servers=address)
producer.start()
for number in range(int(count)):
    producer.send(topic, f"{number}")
"""


def run(*arguments: str) -> str:
    command = [sys.executable, "-W", "error", "-c", PROGRAM, *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    return done.stderr


def test_what_waits_is_sent_when_the_program_ends(bootstrap: str, topic_name: str) -> None:
    # A name has to be resolved, by an executor that the end of the program shuts down.
    printed = run(bootstrap.replace(LOOPBACK, "localhost"), topic_name, "1000")
    assert "was not closed; what waits is sent now" in printed
    partition = TopicPartition(topic_name, 0)
    with Consumer({"bootstrap.servers": bootstrap}) as consumer:
        assert consumer.end_offsets([partition]) == {partition: 1000}


class Open:
    def __init__(self, outcome: bool | Exception) -> None:
        self._outcome = outcome

    def finish(self, seconds_max: float) -> bool:
        assert seconds_max > 0
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome


@pytest.mark.parametrize(
    ("outcome", "said"),
    [(True, None), (False, "not delivered within"), (OSError("no way"), "are lost: no way")],
)
def test_what_is_lost_is_said(
    outcome: bool | Exception, said: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    producer, closed = Open(outcome), Open(AssertionError("it was closed"))
    at_exit.watch(producer)
    at_exit.watch(closed)
    at_exit.forget(closed)
    at_exit.finish_all()
    at_exit.forget(producer)
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 1 + (said is not None)
    assert "use 'with', or call close()" in messages[0]
    assert said is None or said in messages[1]


def test_nobody_listens_and_the_program_ends() -> None:
    printed = run(f"{LOOPBACK}:{free_port()}", "nowhere", "1")
    assert "records of a producer that was not closed are lost" in printed
