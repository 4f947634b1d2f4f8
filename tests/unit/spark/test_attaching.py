"""Names of views; tests/spark/test_attaching.py makes them."""

from __future__ import annotations

from kaa.spark.attaching import view_names


def test_names_need_no_quotes() -> None:
    assert view_names(["orders", "orders.eu-1", "2024-orders", "42"]) == {
        "orders": "orders",
        "orders.eu-1": "orders_eu_1",
        "2024-orders": "2024_orders",
        "42": "_42",
    }
    assert view_names(["shop.orders", "orders"], "lake_") == {
        "shop.orders": "lake_shop_orders",
        "orders": "lake_orders",
    }


def test_of_topics_with_one_name_the_one_that_has_it_exactly_gets_it() -> None:
    names = view_names(["a-b", "a_b", "A_B"])
    assert names["a_b"] == "a_b"
    assert names["a-b"] != names["A_B"]
    assert {one[:4] for one in (names["a-b"], names["A_B"])} == {"a_b_"}
    # A name depends on those that it collides with, and on no others.
    assert view_names(["a-b", "a_b", "A_B", "c"])["a-b"] == names["a-b"]
    assert view_names(["a-b", "a.b"]).keys() == {"a-b", "a.b"}
    assert len(set(view_names(["a-b", "a.b"]).values())) == 2
