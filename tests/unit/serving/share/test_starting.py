from __future__ import annotations

import pytest

from kaa.serving.share.starting import start_offset
from tests.unit.handlers.share_requests import share_node
from tests.unit.handlers.support import NOW_MS
from tests.unit.log.batches import batch


@pytest.mark.parametrize(
    ("reset", "offset"),
    [
        ("earliest", 2),
        ("latest", 9),
        ("by_duration:PT0S", 9),
        ("by_duration:PT1H", 6),
        ("by_duration:P30000D", 2),
    ],
)
def test_a_group_begins_where_its_setting_says(reset: str, offset: int) -> None:
    with share_node() as node:
        node.create_topic("t")
        partition = node.partition("t")
        hour_ms = 3_600_000
        for age_ms in (3 * hour_ms, 2 * hour_ms, hour_ms // 2):
            partition.append(batch(3, timestamp=NOW_MS - age_ms), now_ms=NOW_MS)
        partition.online_log().increment_log_start_offset(2)
        services = node.services
        found = start_offset(services.clock, services.batch_work, partition, reset)
        assert node.run(found) == offset
