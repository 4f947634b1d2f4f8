from __future__ import annotations

from pathlib import Path
from struct import pack

import pytest

from kaa.cli.dump import batches, index_rows, mapped, producer_rows, records, segments_of, topic_of
from kaa.log.errors import CorruptFileError
from kaa.log.producer_snapshots import encode_producer_snapshot
from kaa.log.producer_state import BatchMetadata, ProducerEntry
from kaa.records.build import BatchBuilder


def batch(base_offset: int, *values: bytes) -> bytes:
    builder = BatchBuilder(base_offset=base_offset)
    for value in values:
        builder.append(1000, b"k", value)
    return bytes(builder.build())


def segment(folder: Path, content: bytes) -> Path:
    path = folder / "orders-0" / "00000000000000000000.log"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    return path


def test_batches_and_records(tmp_path: Path) -> None:
    path = segment(tmp_path, batch(0, b"a", b"b") + batch(2, b"c"))
    with mapped(path) as content:
        found = list(batches(path, content))
        rows = [row for row, _ in found]
        assert [(row["base_offset"], row["last_offset"], row["records"]) for row in rows] == [
            (0, 1, 2),
            (2, 2, 1),
        ]
        assert all(row["valid"] for row in rows)
        assert rows[1]["position"] == rows[0]["size_bytes"]
        values = [
            record["value"]
            for _, one in found
            if one is not None
            for record in records(one, "text")
        ]
        assert values == ["a", "b", "c"]
        for _, one in found:
            assert one is not None
            del one
        del found
    assert topic_of(path) == "orders"
    assert segments_of(path.parent, ".log") == [path]


@pytest.mark.parametrize(
    ("damage", "error"),
    [
        (lambda data: data[:-1], "cut short"),
        (lambda data: data[:-1] + b"\xff", "the checksum does not match"),
        (lambda data: data[:16] + b"\1" + data[17:], "the format before Kafka 0.11"),
        (lambda data: data[:20], "cut short|cannot hold"),
    ],
)
def test_damage_is_a_row(tmp_path: Path, damage: object, error: str) -> None:
    import re

    good = batch(0, b"a")
    path = segment(tmp_path, good + damage(batch(1, b"b")))  # type: ignore[operator]
    with mapped(path) as content:
        rows = [row for row, _ in batches(path, content)]
    assert [row["valid"] for row in rows] == [True, False]
    assert re.search(error, rows[1]["error"])
    assert rows[1]["position"] == len(good)


def test_empty_file(tmp_path: Path) -> None:
    path = segment(tmp_path, b"")
    with mapped(path) as content:
        assert list(batches(path, content)) == []


def test_indexes(tmp_path: Path) -> None:
    name = "00000000000000000100"
    offsets = tmp_path / f"{name}.index"
    offsets.write_bytes(pack(">ii", 4, 0) + pack(">ii", 9, 512) + bytes(16))
    assert index_rows(offsets) == (
        ("offset", "position"),
        [{"offset": 104, "position": 0}, {"offset": 109, "position": 512}],
    )
    times = tmp_path / f"{name}.timeindex"
    times.write_bytes(pack(">qi", 77, 3) + bytes(12))
    assert index_rows(times)[1] == [{"timestamp_ms": 77, "offset": 103}]
    aborted = tmp_path / f"{name}.txnindex"
    aborted.write_bytes(pack(">hqqqq", 0, 5, 101, 108, 109))
    assert index_rows(aborted)[1] == [
        {"producer_id": 5, "first_offset": 101, "last_offset": 108, "last_stable_offset": 109}
    ]
    epochs = tmp_path / "leader-epoch-checkpoint"
    epochs.write_text("0\n1\n3 100\n")
    assert index_rows(epochs)[1] == [{"epoch": 3, "start_offset": 100}]
    offsets.write_bytes(b"123")
    with pytest.raises(CorruptFileError, match="not whole entries"):
        index_rows(offsets)
    with pytest.raises(CorruptFileError, match="not an index"):
        index_rows(segment(tmp_path, b""))


def test_producers(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000007.snapshot"
    entries = [
        ProducerEntry(1, 2, -1, 50, 6, [BatchMetadata(9, 6, 0, 50)]),
        ProducerEntry(3, 0),
    ]
    path.write_bytes(encode_producer_snapshot(entries))
    first, second = producer_rows(path)
    assert (first["producer_id"], first["last_sequence"], first["last_offset"]) == (1, 9, 6)
    assert first["transaction_first_offset"] == 6
    assert second["last_offset"] is None
    assert second["transaction_first_offset"] is None
