"""A message with a field of every type, and its bytes written by hand in both encodings.

`ROWS` is the definition: for each field its value and the bytes it takes in version 1, which has
the old encoding, and in version 2, which has compact lengths and tagged fields.
"""

from typing import Any, NamedTuple

from kaa.wire import Uuid
from kaa.wire.schema import (
    Data,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Records,
    Request,
    Struct,
    Uint16,
    Uint32,
    field,
)

OLD = 1
FLEXIBLE = 2
ID = Uuid(range(16))
TEXT = "ž"


class Leaf(Struct):
    number: Int16 = field("0+")
    text: str = field("0+")
    later: Int32 = field("3+", default=7)


class Sample(Data, versions="0-3", flexible="2+"):
    """One field of every type."""

    flag: bool = field("1+")
    int8: Int8 = field("1+")
    int16: Int16 = field("1+")
    int32: Int32 = field("1+")
    int64: Int64 = field("1+")
    uint16: Uint16 = field("1+")
    uint32: Uint32 = field("1+")
    float64: Float64 = field("1+")
    uuid: Uuid = field("1+")
    string: str = field("0+")
    string_or_null: str | None = field("1+")
    old_string: str | None = field("1+", flexible=False)
    data: bytes = field("1+")
    data_or_null: bytes | None = field("1+", default=None)
    records: Records | None = field("1+")
    int32s: list[Int32] = field("1+")
    int32s_or_null: list[Int32] | None = field("1+")
    uuids: list[Uuid] = field("1+")
    strings: list[str] = field("1+")
    datas: list[bytes] = field("1+")
    leaf: Leaf = field("1+")
    leaf_or_null: Leaf | None = field("1+", default=None)
    leaves: list[Leaf] = field("1+")
    tagged_int: Int32 = field("2+", default=-1, tag=0)
    tagged_leaf: Leaf | None = field("2+", tag=1)
    tagged_leaf_or_null: Leaf | None = field("2+", tag=2, nullable="2+")
    tagged_strings: list[str] | None = field("2+", tag=4, default=None)
    ignored: Int32 = field("3+", default=5, ignorable=True)
    wanted: str = field("3+")
    ignored_struct: Leaf = field("3+", ignorable=True)


class Numbers(Data, versions="0"):
    first: list[Int8] = field("0+")
    second: list[Int8] = field("0+")


class NumbersRequest(Request, versions="0"):
    first: list[Int8] = field("0+")
    second: list[Int8] = field("0+")


class Row(NamedTuple):
    field: str
    value: Any
    old: str
    flexible: str


LEAF = "0009 0002 c5be"
FLEXIBLE_LEAF = "0009 03 c5be 00"
ROWS = [
    Row("flag", True, "01", "01"),
    Row("int8", -2, "fe", "fe"),
    Row("int16", -2, "fffe", "fffe"),
    Row("int32", 0x01020304, "01020304", "01020304"),
    Row("int64", -1, "ffffffffffffffff", "ffffffffffffffff"),
    Row("uint16", 65_535, "ffff", "ffff"),
    Row("uint32", 0xFFFF_FFFE, "fffffffe", "fffffffe"),
    Row("float64", 1.0, "3ff0000000000000", "3ff0000000000000"),
    Row("uuid", ID, bytes(ID).hex(), bytes(ID).hex()),
    Row("string", TEXT, "0002 c5be", "03 c5be"),
    Row("string_or_null", None, "ffff", "00"),
    Row("old_string", "ab", "0002 6162", "0002 6162"),
    Row("data", b"\x00\x01", "00000002 0001", "03 0001"),
    Row("data_or_null", None, "ffffffff", "00"),
    Row("records", b"batch", "00000005 6261746368", "06 6261746368"),
    Row("int32s", [1, -1], "00000002 00000001 ffffffff", "03 00000001 ffffffff"),
    Row("int32s_or_null", None, "ffffffff", "00"),
    Row("uuids", [ID], "00000001" + bytes(ID).hex(), "02" + bytes(ID).hex()),
    Row("strings", ["", TEXT], "00000002 0000 0002c5be", "03 01 03c5be"),
    Row("datas", [b"", b"x"], "00000002 00000000 00000001 78", "03 01 02 78"),
    Row("leaf", Leaf(number=9, text=TEXT), LEAF, FLEXIBLE_LEAF),
    Row("leaf_or_null", Leaf(number=9, text=TEXT), "01" + LEAF, "01" + FLEXIBLE_LEAF),
    Row("leaves", [Leaf(number=9, text=TEXT)] * 2, "00000002" + LEAF * 2, "03" + FLEXIBLE_LEAF * 2),
]
# Tag, size and value of each; tag 3 is unknown.
TAGGED_ROWS = [
    Row("tagged_int", 1, "", "00 04 00000001"),
    Row("tagged_leaf", Leaf(number=9, text=TEXT), "", "01 06" + FLEXIBLE_LEAF),
    Row("tagged_leaf_or_null", None, "", "02 01 00"),
    Row("unknown_tags", {3: b"??"}, "", "03 02 3f3f"),
    Row("tagged_strings", [TEXT], "", "04 04 02 03c5be"),
]


def old_sample() -> tuple[Sample, bytes]:
    """The sample of version 1 and its bytes."""
    data = bytes.fromhex("".join(row.old for row in ROWS))
    return Sample(**{row.field: row.value for row in ROWS}), data


def flexible_sample() -> tuple[Sample, bytes]:
    """The sample of version 2 with every tagged field, and its bytes."""
    rows = [*ROWS, *TAGGED_ROWS]
    count = f"{len(TAGGED_ROWS):02x}"
    untagged = "".join(row.flexible for row in ROWS)
    tagged = "".join(row.flexible for row in TAGGED_ROWS)
    values = {row.field: row.value for row in rows}
    return Sample(**values), bytes.fromhex(untagged + count + tagged)
