from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from kaa.controller.image import PartitionImage, TopicImage
from kaa.replication.log_placement import ReplicaLogs
from tests.support.ids import uuid
from tests.unit.replication.support import NODE, TOPIC_ID, Replicas

if TYPE_CHECKING:
    from kaa.replication.partition import Partition

TOPIC = TopicImage("t", TOPIC_ID)
NEW = PartitionImage((NODE,), (NODE,), NODE, 0, 0)
USED = NEW._replace(partition_epoch=3)
COPIED = PartitionImage((NODE, 2), (2,), 2, 4, 9)


class Case:
    def __init__(self) -> None:
        self.manager = Replicas(paths=("/a", "/b")).logs
        self.reports: list[str] = []
        self.logs = ReplicaLogs(NODE, self.manager, lambda: 0, self.reports.append)

    def fail(self, path: str) -> None:
        (directory,) = [one for one in self.manager.directories if one.path == path]
        directory.fail(OSError("broken"))


def test_log_that_is_here_is_the_one() -> None:
    case = Case()
    made = case.logs.open(TOPIC, 0, NEW)
    assert made is not None
    assert case.logs.open(TOPIC, 0, USED) is made


def test_log_of_the_only_copy_that_begins_empty_is_reported_once() -> None:
    case = Case()
    case.manager.begin_use()
    case.logs.begin()
    assert case.logs.open(TOPIC, 0, USED) is not None
    assert case.logs.open(TOPIC, 1, COPIED) is not None
    case.logs.started()
    case.logs.report({})
    (line,) = case.reports
    assert "t-0" in line
    assert "t-1" not in line
    case.logs.report({})
    assert len(case.reports) == 1


def test_only_copy_is_not_made_in_directories_that_no_broker_has_used() -> None:
    case = Case()
    case.logs.begin()
    assert case.logs.open(TOPIC, 0, USED) is None
    assert case.logs.open(TOPIC, 1, COPIED) is not None
    case.logs.started()
    # Nor later: it was there once.
    assert case.logs.open(TOPIC, 0, USED) is None


def test_log_that_is_made_while_the_broker_runs_is_not_reported() -> None:
    case = Case()
    case.logs.begin()
    case.logs.started()
    assert case.logs.open(TOPIC, 0, USED) is not None
    case.logs.report({})
    assert case.reports == []


def test_log_that_may_be_in_a_directory_that_is_offline_is_not_made() -> None:
    case = Case()
    case.fail("/a")
    assert case.logs.open(TOPIC, 0, USED) is None
    assert case.logs.open(TOPIC, 0, NEW) is not None
    assert case.logs.open(TOPIC, 1, COPIED) is not None


def test_nothing_is_made_without_a_disk() -> None:
    case = Case()
    case.fail("/a")
    case.fail("/b")
    assert case.logs.open(TOPIC, 0, NEW) is None


@pytest.mark.parametrize("is_identified", [True, False])
def test_log_that_the_metadata_has_on_a_disk_that_is_away_is_reported(is_identified: bool) -> None:
    case = Case()
    first, second = case.manager.directories
    first.directory_id = uuid(106)
    log = case.logs.open(TOPIC, 0, NEW._replace(directories=(uuid(106),)))
    assert log is not None
    case.fail("/b")
    second.directory_id = uuid(107) if is_identified else None

    def reports(image: PartitionImage) -> list[str]:
        case.reports.clear()
        partition = cast("Partition", SimpleNamespace(log=log, image=image))
        case.logs.report({("t", 0): partition})
        return case.reports

    away = (uuid(107),)
    (text,) = reports(USED._replace(directories=away))
    assert "served from /a, but in the metadata in /b, which is offline: t-0." in text
    assert not reports(USED._replace(directories=(uuid(106),)))
    assert not reports(USED)
    # Another replica has what may be missing here.
    assert not reports(COPIED._replace(directories=(*away, uuid(108))))
    assert bool(reports(USED._replace(directories=(uuid(109),)))) is not is_identified
