"""Columns of JSON that nobody has described."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kaa.spark.formats import field_of, inference
from kaa.spark.formats.conform import list_of, struct_of
from kaa.spark.formats.decoding import inferred_codec
from kaa.spark.formats.inference import grown, has_more, infer, joined, settled, with_doubles
from kaa.spark.formats.untyped import pa


def of(*rows: Any) -> Any:
    return infer([json.dumps(row).encode() for row in rows]).type


def test_each_kind_of_value() -> None:
    found = of(
        {"id": 1, "price": 2, "ok": None, "name": "a", "tags": [], "inner": {"x": 1}, "none": None},
        {"id": 2, "price": 2.5, "ok": True, "tags": ["x"], "inner": {"y": [{"z": False}]}},
    )
    inner = struct_of({"x": pa.int64(), "y": list_of(struct_of({"z": pa.bool_()}))})
    assert found == struct_of(
        {
            "id": pa.int64(),
            "price": pa.float64(),
            "ok": pa.bool_(),
            "name": pa.string(),
            "tags": list_of(pa.string()),
            "inner": inner,
        }
    )
    assert with_doubles(found).field("id").type == pa.float64()
    assert with_doubles(found).field("inner").type.field("x").type == pa.float64()


@pytest.mark.parametrize(
    ("first", "second"), [(1, "a"), ("a", True), ({"x": 1}, [1]), ([1], "a"), (False, 0.5)]
)
def test_two_kinds_at_one_place_are_text(first: Any, second: Any) -> None:
    assert of({"a": first}, {"a": second}).field("a").type == pa.string()
    assert of({"a": [first, second]}).field("a").type == list_of(pa.string())


def test_what_says_nothing_has_no_column() -> None:
    assert of({"a": None, "b": {}, "c": [], "d": [None, {}]}) == struct_of({})
    assert settled(pa.null()) is None
    assert joined(pa.null(), pa.int64()) == joined(pa.int64(), pa.null()) == pa.int64()


def test_large_numbers_deep_and_wide_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    assert of({"a": 2**63}).field("a").type == pa.float64()
    assert of({"a": -(2**63)}).field("a").type == pa.int64()
    monkeypatch.setattr(inference, "FORMAT_INFERRED_DEPTH_MAX", 2)
    monkeypatch.setattr(inference, "FORMAT_INFERRED_FIELDS_MAX", 3)
    assert of({"a": {"b": {"c": 1}}}).field("a").type.field("b").type == pa.string()
    wide = {str(number): 1 for number in range(4)}
    assert of({"ids": wide}).field("ids").type == pa.string()
    assert of({"ids": {"a": 1, "b": 1}}, {"ids": {"c": 1, "d": 1}}).field("ids").type == pa.string()
    assert of(wide) == struct_of({})


def test_names_that_differ_by_case_alone() -> None:
    assert [one.name for one in of({"Id": 1, "id": 2, "ID": 3})] == ["Id"]


def test_what_is_no_json_object() -> None:
    found = infer([b"{}", None, b"text", b"[1]", b'{"a": 1}', b"\xff"])
    assert (found.objects, found.others, found.is_json) == (2, 3, False)
    assert infer([b'{"a": 1}', b"{}", b"x"]).is_json
    assert not infer([None]).is_json
    assert not infer([b"[" * 100_000]).is_json


def test_other_values_in_a_column_of_text_are_their_json() -> None:
    codec = inferred_codec(struct_of({"a": pa.string(), "n": pa.int64()}))
    values = [b'{"a": "x", "n": 1}', b'{"a": [1, 2]}', b'{"n": 1.5}', b'{"n": 2.0}', None, b"{"]
    decoded = codec.decode(pa.array(values, pa.binary()))
    assert decoded.rows.to_pylist() == [
        {"a": "x", "n": 1},
        {"a": "[1,2]", "n": None},
        None,
        {"a": None, "n": 2},
        None,
        None,
    ]
    assert [row for row, _ in decoded.errors] == [2, 5]


def test_without_any_column_values_are_good_or_bad_all_the_same() -> None:
    decoded = inferred_codec(struct_of({})).decode(pa.array([b'{"a": 1}', None, b"x"], pa.binary()))
    assert decoded.rows.to_pylist() == [{}, None, None]
    assert [row for row, _ in decoded.errors] == [2]


@pytest.mark.parametrize(
    ("side", "column", "field"),
    [
        ("value", "price", "price"),
        ("value", "value_timestamp", "timestamp"),
        ("value", "value_key_a", "key_a"),
        ("value", "value_price", "value_price"),
        ("value", "timestamp", None),
        ("value", "kaa_error", None),
        ("value", "key_a", None),
        ("key", "key_a", "a"),
        ("key", "price", None),
    ],
)
def test_the_field_of_a_column(side: Any, column: str, field: str | None) -> None:
    assert field_of(side, column) == field


def test_known_types_grow_by_what_is_new_and_stay_otherwise() -> None:
    known = of({"id": 1, "inner": {"x": 1}, "many": [{"y": 1}]})
    seen = of({"id": 1.5, "ID": 1, "inner": {"x": "a", "z": True}, "many": [{"w": 1}], "new": "n"})
    assert grown(known, seen) == of(
        {"id": 1, "inner": {"x": 1, "z": True}, "many": [{"y": 1, "w": 1}], "new": "n"}
    )
    assert has_more(known, seen)
    assert not has_more(known, of({"id": "text", "ID": 1, "inner": [1]}))
    assert not has_more(known, struct_of({"new": pa.null(), "more": struct_of({})}))


def test_fields_without_a_column_are_told_with_the_rows() -> None:
    codec = inferred_codec(struct_of({"a": pa.int64(), "s": pa.string()}))

    def decode(*values: bytes | None) -> tuple[list[Any], list[int], Any]:
        decoded, seen = codec.decode_seeing(pa.array(values, pa.binary()))
        return decoded.rows.to_pylist(), [row for row, _ in decoded.errors], seen

    plain = [{"a": 1, "s": None}]
    assert decode(b'{"a": 1}') == (plain, [], None)
    assert decode(b'{"a": 1, "none": null, "empty": [{}]}') == (plain, [], None)
    rows, errors, seen = decode(b'{"a": 1, "at": "2026-01-01 00:00:00", "n": [1, 0.5]}', None)
    assert (rows, errors) == ([*plain, None], [])
    assert seen.field("at").type == pa.string()
    assert seen.field("n").type == list_of(pa.float64())
    # pyarrow gives up at these, and Python goes on.
    rows, errors, seen = decode(b'{"b": 1}', b'{"b": "x", "s": 5}', b"bad", b'{"a": 1.5, "c": 1}')
    assert rows == [{"a": None, "s": None}, {"a": None, "s": "5"}, None, None]
    assert errors == [2, 3]
    assert seen.field("b").type == pa.string()
    # What a bad record has makes no column.
    assert seen.get_field_index("c") < 0
    decoded, seen = inferred_codec(struct_of({})).decode_seeing(
        pa.array([b'{"a": 1}'], pa.binary())
    )
    assert (decoded.rows.to_pylist(), seen) == ([{}], struct_of({"a": pa.int64()}))
