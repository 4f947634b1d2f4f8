"""A program: kafka-python sends numbers to a topic, with pauses, and prints the offset of each.

`python -m tests.clients.numbers BOOTSTRAP TOPIC COUNT`. It has a process of its own because the
client forgets to close sockets whose connection was refused.
"""

from __future__ import annotations

import sys
import threading
from contextlib import closing

from tests.clients.kafka_python import SECONDS_MAX, KafkaProducer

PAUSE_SECONDS = 0.01


def main(bootstrap: str, topic: str, count: str) -> None:
    pause = threading.Event()
    settings = {"enable_idempotence": True, "reconnect_backoff_max_ms": 200}
    with closing(KafkaProducer(bootstrap_servers=bootstrap, **settings)) as producer:
        sent = []
        for number in range(int(count)):
            sent.append(producer.send(topic, b"%d" % number, partition=0))
            pause.wait(PAUSE_SECONDS)
        for future in sent:
            sys.stdout.write(f"{future.get(SECONDS_MAX).offset}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
