"""A program: kafka-python sends numbers to a topic, with pauses, until its input ends; then it
prints the offset of each.

`python -m tests.clients.numbers BOOTSTRAP TOPIC`. It has a process of its own because the client
forgets to close sockets whose connection was refused.
"""

from __future__ import annotations

import sys
import threading
from contextlib import closing
from itertools import takewhile

from tests.clients.kafka_python import KafkaProducer
from tests.support.pace import PATIENCE_SECONDS

PAUSE_SECONDS = 0.01
# Nobody waits for more: it ends a program that was forgotten.
NUMBERS_MAX = 100_000


def main(bootstrap: str, topic: str) -> None:
    has_ended = threading.Event()

    def wait_for_end() -> None:
        sys.stdin.read()
        has_ended.set()

    threading.Thread(target=wait_for_end, daemon=True).start()
    settings = {"enable_idempotence": True, "reconnect_backoff_max_ms": 200}
    with closing(KafkaProducer(bootstrap_servers=bootstrap, **settings)) as producer:
        sent = [
            producer.send(topic, b"%d" % number, partition=0)
            for number in takewhile(lambda _: not has_ended.wait(PAUSE_SECONDS), range(NUMBERS_MAX))
        ]
        for future in sent:
            sys.stdout.write(f"{future.get(PATIENCE_SECONDS).offset}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
