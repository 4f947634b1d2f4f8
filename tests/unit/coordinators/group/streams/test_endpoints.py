"""Which partitions are found where."""

from __future__ import annotations

from kaa.wire.messages.k88_streams_group_heartbeat import Endpoint
from tests.unit.coordinators.group.streams.bench import StreamsBench


def test_endpoints_are_told_when_they_change() -> None:
    bench = StreamsBench()
    answer = bench.ask("a", user_endpoint=Endpoint(host="h", port=1), endpoint_information_epoch=-1)
    (found,) = answer.partitions_by_user_endpoint
    assert (found.user_endpoint.host, found.user_endpoint.port) == ("h", 1)
    assert [(one.topic, one.partitions) for one in found.active_partitions] == [("t", [0, 1, 2, 3])]
    # Nothing of it was stored when the group was made.
    assert answer.endpoint_information_epoch == 0
    answer = bench.ask("a", 2, endpoint_information_epoch=1)
    assert (answer.endpoint_information_epoch, len(answer.partitions_by_user_endpoint)) == (0, 1)
    answer = bench.ask("a", 2, endpoint_information_epoch=0)
    assert answer.partitions_by_user_endpoint is None
    answer = bench.ask("b", user_endpoint=Endpoint(host="h", port=2))
    assert answer.endpoint_information_epoch == 1
    assert bench.ask("b", 3, endpoint_information_epoch=1).partitions_by_user_endpoint is None
