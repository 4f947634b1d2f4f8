from __future__ import annotations

import json

import pytest

from kaa.cli.record_format import RecordWriter, as_json, compile_format, iso_time
from kaa.client.consumer.records import ConsumerRecord

RECORD = ConsumerRecord("orders", 3, 7, 1000, b"k", b"\xff", (("h", b"x"), ("n", None)))
NULLS = ConsumerRecord("orders", 3, 8, -1, None, None)


def test_letters_and_escapes() -> None:
    write = compile_format("%t %p %o %T %k=%s %K,%S [%h] 100%%\\t\\\\\\n")
    assert write("t", 3, RECORD) == b"t 3 7 1000 k=\xff 1,1 [h=x,n=NULL] 100%\t\\\n"
    assert compile_format("%k %s %K %S", b"-")("t", 0, NULLS) == b"- - -1 -1"


@pytest.mark.parametrize("text", ["%x", "%", "\\q", "\\"])
def test_what_is_no_format(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no|ends with"):
        compile_format(text)


def test_json() -> None:
    assert as_json("t", 1, RECORD) == {
        "topic": "t",
        "partition": 1,
        "offset": 7,
        "timestamp_ms": 1000,
        "key": "k",
        "value": {"base64": "/w=="},
        "headers": [["h", "x"], ["n", None]],
    }


def test_braces_and_codes() -> None:
    record = ConsumerRecord("orders", 3, 7, 1_577_836_800_123, b"\x01\xff", b'a"', ())
    write = compile_format("%k{hex} %k{base64} %s{json} %v %T{iso}\\x2c%R")
    assert write("t", 3, record) == (
        b'01ff Af8= "a\\"" a" 2020-01-01T00:00:00.123Z,' + bytes([0, 0, 0, 2])
    )
    assert compile_format("{%s}{x}")("t", 0, record) == b'{a"}{x}'
    assert compile_format("%k{hex}")("t", 0, NULLS) == b"NULL"
    for wrong in ("%s{iso}", "%o{hex}", "%T{hex}"):
        with pytest.raises(ValueError, match="is not a field"):
            compile_format(wrong)


def test_times_that_are_none() -> None:
    assert iso_time(-1) == "-"
    assert iso_time(2**62) == str(2**62)


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("table", b"NULL\n"),
        ("wide", b"t-0@8 -1 NULL NULL\n"),
        ("name", b"t-0@8\n"),
        ("csv", b"topic,partition,offset,timestamp_ms,key,value,headers\nt,0,8,-1,,,\n"),
    ],
)
def test_forms(output: str, expected: bytes) -> None:
    writer = RecordWriter(output, None, "NULL")
    assert writer.head(output) + writer.write("t", 0, NULLS) + writer.end() == expected


def test_json_is_one_list() -> None:
    writer = RecordWriter("json", None, "NULL")
    assert json.loads(RecordWriter("json", None, "").end()) == []
    text = b"".join([writer.write("t", 0, NULLS), writer.write("t", 1, RECORD), writer.end()])
    assert [one["partition"] for one in json.loads(text)] == [0, 1]
    text = RecordWriter("csv", None, "").write("t", 1, RECORD)
    assert b'"{""base64"": ""/w==""}"' in text
