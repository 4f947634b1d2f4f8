"""A small service on confluent-kafka: it reads orders and writes invoices."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, Producer

from kaa.testing import ApiKey, Errors

if TYPE_CHECKING:
    from kaa.testing import Broker


def write_invoices(bootstrap_servers: str, group: str, orders: str, invoices: str) -> None:
    """The code under test: handles every order that is there, then returns."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 0})
    consumer.subscribe([orders])
    try:
        while (message := consumer.poll(10)) is not None and message.error() is None:
            order = json.loads(message.value() or b"{}")
            invoice = {"order": order["id"], "total": order["price"] * order["count"]}
            producer.produce(invoices, json.dumps(invoice), key=message.key())
            producer.flush()
            consumer.commit(message=message, asynchronous=False)
    finally:
        consumer.close()


def test_every_order_becomes_an_invoice(kafka: Broker) -> None:
    orders, invoices = kafka.topic("orders"), kafka.topic("invoices")
    group = kafka.group("invoicing")
    orders.seed(
        [
            ("alice", '{"id": 1, "price": 10, "count": 2}'),
            ("bob", '{"id": 2, "price": 5, "count": 1}'),
        ]
    )

    write_invoices(kafka.bootstrap_servers, group.id, orders.name, invoices.name)

    invoices.expect(
        [
            ("alice", '{"order": 1, "total": 20}'),
            {"key": "bob", "value": '{"order": 2, "total": 5}', "partition": 0},
        ]
    )
    kafka.wait_for_group(group, lag=0)


def test_invoices_survive_a_leader_that_moves(kafka: Broker) -> None:
    orders, invoices = kafka.topic("orders"), kafka.topic("invoices")
    orders.seed([("alice", '{"id": 1, "price": 10, "count": 2}')])
    fault = kafka.on(ApiKey.PRODUCE, topic=invoices).fail(Errors.NOT_LEADER_OR_FOLLOWER, times=2)

    write_invoices(kafka.bootstrap_servers, kafka.name("group"), orders.name, invoices.name)

    assert fault.count == 2
    invoices.expect(['{"order": 1, "total": 20}'])
