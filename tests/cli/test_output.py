from __future__ import annotations

import json

import pytest

from kaa.cli.output import print_json, print_table


def test_table_columns_are_as_wide_as_their_widest_cell(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["part", "x"], [["java", "17"], ["python", ""]])
    assert capsys.readouterr().out == "PART    X\njava    17\npython\n"


def test_row_of_wrong_length_is_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        print_table(["one"], [["1", "2"]])


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": [1]})
    assert json.loads(capsys.readouterr().out) == {"a": [1]}
