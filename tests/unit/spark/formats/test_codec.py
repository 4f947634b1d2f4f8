"""Bad values are found by halving, and cost no more than that."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from kaa.spark.formats.codec import isolate

KIND: Any = pa.struct([("n", pa.int64())])


def test_only_bad_values_are_lost() -> None:
    calls = []

    def convert(values: Any) -> Any:
        calls.append(len(values))
        return pa.array([{"n": int(value)} for value in values.to_pylist()], KIND)

    values: Any = pa.array([b"%d" % row for row in range(1000)], pa.binary())
    assert isolate(values, convert, KIND).errors == []
    assert calls == [1000]
    texts = [b"%d" % row for row in range(1000)]
    texts[7] = texts[700] = b"x"
    values = pa.array(texts, pa.binary())
    calls.clear()
    decoded = isolate(values, convert, KIND)
    assert [row for row, _ in decoded.errors] == [7, 700]
    assert [row["n"] if row else None for row in decoded.rows.to_pylist()] == [
        None if row in {7, 700} else row for row in range(1000)
    ]
    assert len(calls) < 50
    assert isolate(values.slice(0, 0), convert, KIND).rows.to_pylist() == []
