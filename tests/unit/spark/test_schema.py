"""The columns of a row."""

from __future__ import annotations

import pytest

from kaa.records.arrow import Columns
from kaa.spark.errors import OptionError
from kaa.spark.schema import COLUMN_TYPES, check_schema, columns_of, ddl, flags_of


def test_the_schema_as_spark_reads_it() -> None:
    assert ddl(("key", "timestampType")) == "`key` binary, `timestampType` int"


def test_a_schema_of_the_user() -> None:
    fields = [("offset", "bigint"), ("value", "binary")]
    assert check_schema(fields) == ("offset", "value")
    with pytest.raises(OptionError, match="there are key"):
        check_schema([("color", "string")])
    with pytest.raises(OptionError, match="is of type binary, the schema says string"):
        check_schema([("value", "string")])


def test_what_the_decoder_fills() -> None:
    assert flags_of(COLUMN_TYPES) == Columns.ALL
    assert flags_of(("value", "topic")) == Columns.VALUE | Columns.OFFSET


def test_headers_only_where_they_are_asked_for() -> None:
    assert "headers" not in columns_of(None, include_headers=False)
    assert columns_of(None, include_headers=True) == tuple(COLUMN_TYPES)
