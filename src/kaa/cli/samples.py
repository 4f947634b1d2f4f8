"""Made-up data for the playground: a small shop, drawn from a seed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from random import Random

CUSTOMERS: Final = 50
_NAMES: Final = ("Ada", "Bo", "Cleo", "Dan", "Eve", "Finn", "Gia", "Hal", "Ida", "Jan")
_CITIES: Final = ("Berlin", "Lagos", "Lima", "Osaka", "Oslo", "Pune", "Quito", "Tunis")
_ITEMS: Final = ("kettle", "lamp", "map", "needle", "opal", "pan", "quilt", "rope")
_PAGES: Final = ("/", "/search", "/item", "/cart", "/help")


class SampleTopic(NamedTuple):
    """A topic of the playground."""

    name: str
    partitions: int
    configs: dict[str, str]


TOPICS: Final = (
    SampleTopic("customers", 1, {"cleanup.policy": "compact"}),
    SampleTopic("orders", 3, {}),
    SampleTopic("payments", 3, {}),
    SampleTopic("clicks", 6, {"retention.ms": "3600000"}),
)


class Sample(NamedTuple):
    """A record to write."""

    topic: str
    key: bytes
    value: bytes


def customers(random: Random) -> list[Sample]:
    """All customers, to begin with."""
    return [
        _sample(
            "customers",
            f"customer-{number}",
            {"name": random.choice(_NAMES), "city": random.choice(_CITIES)},
        )
        for number in range(CUSTOMERS)
    ]


def next_samples(random: Random, number: int) -> list[Sample]:
    """What happens next in the shop: mostly clicks, sometimes an order and its payment."""
    customer = f"customer-{random.randrange(CUSTOMERS)}"
    if random.random() < 0.7:
        click = {"page": random.choice(_PAGES), "ms": random.randrange(5, 900)}
        return [_sample("clicks", customer, click)]
    order = f"order-{number}"
    amount = random.randrange(500, 20_000) / 100
    bought = {"id": order, "item": random.choice(_ITEMS), "amount": amount}
    paid = {"order": order, "amount": amount, "ok": random.random() < 0.95}
    return [_sample("orders", customer, bought), _sample("payments", order, paid)]


def _sample(topic: str, key: str, value: dict[str, Any]) -> Sample:
    return Sample(topic, key.encode(), json.dumps(value).encode())
