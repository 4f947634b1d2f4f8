"""A web service that publishes what it is sent, made of the standard library and a client."""

from __future__ import annotations

import threading
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

from confluent_kafka import Producer

from kaa.testing import ApiKey, Errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaa.testing import Broker


@contextmanager
def service(bootstrap_servers: str, topic: str) -> Iterator[str]:
    """The code under test: POST publishes the body; 503 if Kafka did not take it."""
    producer = Producer(
        {"bootstrap.servers": bootstrap_servers, "linger.ms": 0, "message.timeout.ms": 5000}
    )

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            failures: list[object] = []
            producer.produce(
                topic, body, on_delivery=lambda error, _: failures.append(error) if error else None
            )
            is_published = producer.flush(10) == 0 and not failures
            self.send_response(202 if is_published else 503)
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            """Says nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def post(address: str, body: bytes) -> int:
    with closing(HTTPConnection(address, timeout=20)) as connection:
        connection.request("POST", "/", body)
        return connection.getresponse().status


def test_what_is_posted_is_published(kafka: Broker) -> None:
    topic = kafka.topic("events")
    with service(kafka.bootstrap_servers, topic.name) as address:
        assert post(address, b"hello") == 202
    topic.expect(["hello"])


def test_a_record_that_is_refused_is_no_success(kafka: Broker) -> None:
    topic = kafka.topic("events")
    kafka.on(ApiKey.PRODUCE).fail(Errors.TOPIC_AUTHORIZATION_FAILED)
    with service(kafka.bootstrap_servers, topic.name) as address:
        assert post(address, b"hello") == 503
    topic.expect([])
