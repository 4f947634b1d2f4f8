"""The broker without pytest."""

from __future__ import annotations

import unittest

from confluent_kafka import Producer

from kaa.testing import Broker


class OrdersTest(unittest.TestCase):
    broker: Broker

    @classmethod
    def setUpClass(cls) -> None:
        cls.broker = cls.enterClassContext(Broker())

    def test_an_order_is_written(self) -> None:
        topic = self.broker.topic("orders")
        producer = Producer({"bootstrap.servers": self.broker.bootstrap_servers})
        producer.produce(topic.name, "one", key="a")
        producer.flush()
        topic.expect([("a", "one")])

    def test_the_broker_goes_away_and_comes_back(self) -> None:
        topic = self.broker.topic("ledger", flush_messages=1)
        topic.seed(["kept"])
        self.broker.kill()
        self.broker.restart()
        topic.expect(["kept"])


if __name__ == "__main__":
    unittest.main()
