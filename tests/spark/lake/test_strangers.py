"""Tables that another engine changes between our rounds; pyiceberg is the other engine."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.expressions import EqualTo, GreaterThanOrEqual, LessThan
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.statistics import BlobMetadata, StatisticsFile
from pyiceberg.transforms import HourTransform
from pyiceberg.types import StringType

from kaa.spark.lake.altering import alter, plan_alter
from kaa.spark.lake.compaction import compact, plan_compaction
from kaa.spark.lake.driver import LakeDriver, open_table
from kaa.spark.lake.maintenance import plan_orphans
from kaa.spark.lake.resuming import resume, resume_offsets
from kaa.spark.lake.running import LocalRunner
from kaa.spark.lake.settings import LakeSettings, lake_settings
from kaa.spark.lake.table import LakeError
from kaa.spark.lake.table_state import open_existing, plan_read, read_file, table_options
from kaa.testing import Broker, Topic
from tests.spark.lake.landing import land


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


class Place:
    """A topic and settings of its table."""

    def __init__(self, broker: Broker, tmp_path: Path, partitions: int = 1) -> None:
        self.topic: Topic = broker.topic(partitions=partitions)
        self._given = {
            "topic": self.topic.name,
            "warehouse": str(tmp_path / "lake"),
            "kafka.bootstrap.servers": broker.bootstrap_servers,
        }

    def settings(self, **options: Any) -> LakeSettings:
        return lake_settings({**self._given, **options})

    def handle(self) -> Any:
        """The table as the other engine has it."""
        table: Any = open_table(self.settings())
        return table.data.handle

    def rows(self, column: str = "value") -> list[Any]:
        plan = plan_read(*open_existing(table_options(self.settings())))
        found = [row for file in plan.files for one in read_file(plan, file) for row in
                 one.to_pylist()]  # fmt: skip
        return [row[column] for row in sorted(found, key=lambda row: row["offset"])]


@pytest.fixture
def place(broker: Broker, tmp_path: Path) -> Place:
    return Place(broker, tmp_path)


def counted(topic: Topic, first: int, count: int) -> list[bytes]:
    """Records an hour apart, so that they are in several hours and days."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    numbers = range(first, first + count)
    topic.seed(
        [
            {
                "key": f"k{one}",
                "value": f"v{one}",
                "timestamp_ms": int((start + timedelta(hours=one)).timestamp() * 1000),
            }
            for one in numbers
        ]
    )
    return [b"v%d" % one for one in numbers]


def expire_all(place: Place) -> None:
    """As another engine does it, which knows of no offsets: the newest snapshot alone stays."""
    moment = datetime(2100, 1, 1, tzinfo=UTC)
    place.handle().maintenance.expire_snapshots().older_than(moment).commit()


def at_or_after(column: str, moment: datetime) -> Any:
    expression: Any = GreaterThanOrEqual
    return expression(column, moment.isoformat())


def test_the_table_says_how_it_is_divided(place: Place) -> None:
    first = counted(place.topic, 0, 30)
    land(place.settings(partitionBy="day(timestamp)"))
    second = counted(place.topic, 30, 30)
    with pytest.raises(LakeError, match=r"partitionBy=day\(timestamp\), and hour\(timestamp\)"):
        land(place.settings(partitionBy="hour(timestamp)"))
    land(place.settings())
    everything = at_or_after("timestamp", datetime(2026, 1, 1, tzinfo=UTC))
    assert place.handle().scan(row_filter=everything).to_arrow().num_rows == 60
    assert place.rows() == first + second


def test_another_engine_divides_anew(place: Place) -> None:
    rows = counted(place.topic, 0, 30)
    land(place.settings(partitionBy="day(timestamp)"))
    with place.handle().update_spec() as spec:
        spec.remove_field("timestamp_day")
        spec.add_identity("key")
    rows += counted(place.topic, 30, 2)
    land(place.settings())
    assert len({one.file.spec_id for one in place.handle().scan().plan_files()}) == 2
    table = open_table(place.settings())
    table.load()
    assert compact(table, plan_compaction(table)) > 0
    assert place.rows() == rows
    equal: Any = EqualTo
    assert place.handle().scan(row_filter=equal("key", b"k1")).to_arrow().num_rows == 1


def test_what_a_table_keeps_is_altered_with_a_plan(place: Place) -> None:
    counted(place.topic, 0, 30)
    settings = place.settings(partitionBy="day(timestamp)", columns="partition,offset,timestamp")
    land(settings)
    table = open_table(place.settings())
    table.load()
    for name, value in (("mode", "upsert"), ("topic", "other"), ("buckets", "4")):
        with pytest.raises(LakeError, match=f"{name} cannot be changed"):
            plan_alter(table, {name: value})
    with pytest.raises(LakeError, match="offset, timestamp would be removed"):
        plan_alter(table, {"columns": "partition,key"})
    wanted = {
        "partitionBy": "hour(timestamp),partition",
        "columns": "partition,offset,timestamp,value",
        "compression": "snappy",
    }
    changes = plan_alter(table, wanted)
    assert [(one.name, one.before) for one in changes] == [
        ("partitionBy", "day(timestamp)"),
        ("columns", "partition,offset,timestamp"),
        ("compression", "zstd"),
    ]
    alter(table, changes)
    rows = [None] * 30 + [*counted(place.topic, 30, 30)]
    land(place.settings())
    table = open_table(place.settings())
    table.load()
    assert plan_alter(table, wanted) == []
    assert table.settings.compression == "snappy"
    assert place.rows() == rows
    everything = at_or_after("timestamp", datetime(2026, 1, 1, tzinfo=UTC))
    assert place.handle().scan(row_filter=everything).to_arrow().num_rows == 60
    with pytest.raises(LakeError, match="is asked for"):
        land(settings)


@pytest.mark.parametrize("moment", ["before the commit", "within the commit"])
def test_another_engine_divides_anew_during_a_round(place: Place, moment: str) -> None:
    """What was written for the old partitioning is written again."""
    rows = counted(place.topic, 0, 30)
    land(place.settings(partitionBy="day(timestamp)"))
    rows += counted(place.topic, 30, 30)
    table: Any = open_table(place.settings())
    owner = table if moment == "before the commit" else table._publisher
    name = "commit" if moment == "before the commit" else "publish"
    original = getattr(owner, name)

    def late(*arguments: Any) -> None:
        setattr(owner, name, original)
        with place.handle().update_spec() as spec:
            spec.remove_field("timestamp_day")
            spec.add_field("timestamp", HourTransform(), "timestamp_hour")
        original(*arguments)

    setattr(owner, name, late)
    assert LakeDriver(table, LocalRunner(), is_once=True).run() == 1
    assert place.rows() == rows
    everything = at_or_after("timestamp", datetime(2026, 1, 1, tzinfo=UTC))
    assert place.handle().scan(row_filter=everything).to_arrow().num_rows == 60


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_another_engine_renames_and_drops_columns(place: Place, mode: str) -> None:
    rows = counted(place.topic, 0, 5)
    settings = place.settings(mode=mode, buckets=1)
    land(settings)
    with place.handle().update_schema() as update:
        update.rename_column("value", "body")
        update.rename_column("key", "name")
        update.delete_column("topic")
        update.add_column("note", StringType())
    assert place.rows("body") == rows
    rows += counted(place.topic, 5, 3)
    land(settings)
    table = open_table(place.settings())
    table.load()
    assert compact(table, plan_compaction(table)) == 1
    assert place.rows("body") == rows
    assert place.rows("name") == [b"k%d" % one for one in range(8)]
    names = [one.name for one in place.handle().schema().fields]
    assert "topic" not in names
    assert "value" not in names
    if mode == "upsert":
        place.topic.seed([("k3", None), ("k4", "new")])
        land(settings)
        assert len(place.rows("name")) == 7
        assert place.rows("body")[-1] == b"new"


def test_expired_snapshots_take_no_offsets_along(place: Place) -> None:
    for number in range(4):
        counted(place.topic, number * 10, 10)
        land(place.settings())
    smaller: Any = LessThan
    place.handle().delete(smaller("offset", 3))
    kept = str(place.handle().current_snapshot().snapshot_id)
    expire_all(place)
    assert [str(one.snapshot_id) for one in place.handle().metadata.snapshots] == [kept]
    assert land(place.settings()) == 0
    rows = counted(place.topic, 40, 5)
    assert land(place.settings()) == 1
    assert place.rows()[-5:] == rows
    assert len(place.rows()) == 42


def test_a_table_that_was_rolled_back_is_refused(place: Place) -> None:
    counted(place.topic, 0, 10)
    land(place.settings())
    before = place.handle().current_snapshot().snapshot_id
    counted(place.topic, 10, 10)
    land(place.settings())
    place.handle().manage_snapshots().rollback_to_snapshot(before).commit()
    refused = pytest.raises(LakeError, match=r"was rolled back.*kaa lake resume")
    with refused:
        land(place.settings())
    # Also when nothing is left of what was rolled back, and when somebody writes on top of it.
    expire_all(place)
    with refused:
        land(place.settings())
    place.handle().append(place.handle().scan(limit=1).to_arrow())
    with refused:
        land(place.settings())
    table = open_table(place.settings())
    assert resume_offsets(table, "earliest") == {0: 0}
    assert resume_offsets(table, "latest") == {0: 20}
    with pytest.raises(LakeError, match="no partition 1"):
        resume_offsets(table, '{"1": 5}')
    with pytest.raises(LakeError, match="ends at 20, before 21"):
        resume_offsets(table, '{"0": 21}')
    assert resume_offsets(table, "rows") == {0: 10}
    resume(table, {0: 10})
    assert land(place.settings()) == 1
    assert len(place.rows()) == 21


def test_rows_without_offsets_are_refused(place: Place) -> None:
    counted(place.topic, 0, 10)
    land(place.settings())
    with place.handle().transaction() as transaction:
        transaction.remove_properties("kaa.progress")
    with pytest.raises(LakeError, match="nothing says up to which offsets"):
        land(place.settings())


def test_compaction_replaces(place: Place) -> None:
    for number in range(3):
        counted(place.topic, number, 1)
        land(place.settings())
    table = open_table(place.settings())
    table.load()
    assert compact(table, plan_compaction(table)) == 1
    assert place.handle().current_snapshot().summary.operation is Operation.REPLACE


def test_registered_statistics_are_no_orphans(place: Place, tmp_path: Path) -> None:
    counted(place.topic, 0, 3)
    land(place.settings())
    handle = place.handle()
    snapshot_id = handle.current_snapshot().snapshot_id
    path = Path(handle.location().removeprefix("file://")) / "metadata" / "stats.puffin"
    path.write_bytes(b"statistics")
    blob = BlobMetadata(**{
        "type": "apache-datasketches-theta-v1", "snapshot-id": snapshot_id, "sequence-number": 1,
        "fields": [1], "properties": {},
    })  # fmt: skip
    statistics = StatisticsFile(**{
        "snapshot-id": snapshot_id, "statistics-path": str(path), "file-size-in-bytes": 10,
        "file-footer-size-in-bytes": 1, "blob-metadata": [blob],
    })  # fmt: skip
    with handle.update_statistics() as update:
        update.set_statistics(statistics)
    stray = path.with_name("stray.puffin")
    stray.write_bytes(b"nobody's")
    table: Any = open_table(place.settings())
    table.load()
    table.prepare(table.schema())
    found = {Path(one.url).name for one in plan_orphans(table, older_than_seconds=-1)}
    assert stray.name in found
    assert path.name not in found
