"""Our part of JSON Schema, beside the package jsonschema."""

from __future__ import annotations

import copy
from typing import Any

import jsonschema
import pytest

from kaa.spark.pipeline.shape import problems
from kaa.spark.pipeline.spec import schema
from tests.unit.spark.pipeline.test_spec import DOCUMENT

CHANGES: list[tuple[tuple[str, ...], Any]] = [
    (("name",), "ok"),
    (("name",), 5),
    (("name",), "no spaces"),
    (("kafka", "x"), True),
    (("kafka", "x"), []),
    (("trigger",), {"availableNow": 1}),
    (("trigger",), {"other": 1}),
    (("steps", "totals"), []),
    (("steps", "shaped", "inputs"), ["a", 2]),
    (("steps", "shaped", "function"), "nocolon"),
    (("sinks", "raw"), {}),
    (("sinks", "raw", "mode"), "never"),
    (("sources", "orders", "watermark"), {"column": "a"}),
]


@pytest.mark.parametrize(("path", "value"), CHANGES)
def test_the_same_documents_are_valid(path: tuple[str, ...], value: Any) -> None:
    document = copy.deepcopy(DOCUMENT)
    place = document
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    validator = jsonschema.Draft202012Validator(schema())
    assert (not list(problems(document, schema()))) == validator.is_valid(document)


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    assert list(problems(DOCUMENT, schema())) == []
