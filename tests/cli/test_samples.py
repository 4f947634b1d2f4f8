from __future__ import annotations

import json
from random import Random

from kaa.cli.samples import CUSTOMERS, TOPICS, customers, next_samples


def test_the_same_seed_makes_the_same_shop() -> None:
    first, second = (
        [one for number in range(200) for one in next_samples(random, number)]
        for random in (Random(5), Random(5))
    )
    assert first == second
    names = {topic.name for topic in TOPICS}
    assert {sample.topic for sample in first} == names - {"customers"}
    assert all(json.loads(sample.value) for sample in first)


def test_every_order_is_paid() -> None:
    samples = [one for number in range(200) for one in next_samples(Random(number), number)]
    orders = {json.loads(one.value)["id"] for one in samples if one.topic == "orders"}
    paid = {json.loads(one.value)["order"] for one in samples if one.topic == "payments"}
    assert orders == paid


def test_customers() -> None:
    found = customers(Random(1))
    assert len({sample.key for sample in found}) == CUSTOMERS
