"""What an audit finds in segments that were copied wrongly, with checksums that are right."""

from __future__ import annotations

import asyncio
from pathlib import Path
from struct import pack

import pytest

from kaa.records.build import BatchBuilder
from kaa.spark.tier.audit import SegmentReport, audit, audit_tasks
from kaa.spark.tier.stores import StoreReference, store_of
from kaa.tier.store.layout import Part
from kaa.tier.store.segments import RemoteSegments, checksum, encode_written
from tests.unit.tier.metadata.samples import segment


@pytest.fixture
def store(tmp_path: Path) -> StoreReference:
    return StoreReference(tmp_path.as_uri())


def batch(first: int, last: int, epoch: int = 0) -> bytes:
    builder = BatchBuilder(base_offset=first, partition_leader_epoch=epoch)
    for offset in range(first, last + 1):
        builder.append(offset=offset, timestamp=offset, key=None, value=b"v", headers=())
    return bytes(builder.build())


def audited(
    store: StoreReference, log: bytes, index: bytes = b"", *epochs: tuple[int, int]
) -> SegmentReport:
    """The report of a segment with the offsets 10 to 29."""
    names = (part for part in Part if part is not Part.TXN_INDEX)
    parts: dict[Part, Path | bytes] = dict.fromkeys(names, b"x")
    parts[Part.LOG], parts[Part.OFFSET_INDEX] = log, index
    written = encode_written({part: checksum(data) for part, data in parts.items()})
    copied = segment(1, 10, 29, *epochs, txn_index=False)
    copied = copied._replace(size_bytes=len(log), custom_metadata=written)
    asyncio.run(RemoteSegments(store_of(store)).copy(copied, parts))
    (task,) = audit_tasks(store, [copied])
    (report,) = audit(task)
    return report


def kinds(report: SegmentReport) -> list[str]:
    return [finding.kind for finding in report.findings]


def test_a_whole_segment(store: StoreReference) -> None:
    first = batch(10, 14)
    report = audited(store, first + batch(17, 29), pack(">ii", 19, len(first)) + bytes(16))
    assert report.findings == ()
    assert (report.batches, report.records, report.absent) == (2, 18, 2)
    assert report.is_small


def test_offsets_epochs_and_indexes(store: StoreReference) -> None:
    assert kinds(audited(store, batch(10, 19) + batch(15, 29))) == ["offsets"]
    assert kinds(audited(store, batch(10, 30))) == ["offsets"]
    assert kinds(audited(store, batch(10, 19) + batch(20, 29, epoch=1))) == ["epochs"]
    two_epochs = batch(10, 19) + batch(20, 29, epoch=1)
    assert kinds(audited(store, two_epochs, b"", (0, 10), (1, 20))) == []
    assert kinds(audited(store, batch(10, 29), pack(">ii", 19, 7))) == ["index"]
    assert kinds(audited(store, batch(10, 29)[:-4])) == ["damaged"]


def test_small_segments_share_a_task(store: StoreReference) -> None:
    segments = [
        segment(number, number, number)._replace(size_bytes=50 << 20) for number in (1, 2, 3)
    ]
    assert [len(task.segments) for task in audit_tasks(store, segments)] == [2, 1]
