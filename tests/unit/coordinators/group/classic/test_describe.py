"""Classic groups as administrators see them."""

from __future__ import annotations

from kaa.model.pieces import finish
from kaa.wire.errors import Errors
from tests.unit.coordinators.group.bench import GROUP, GroupBench, subscription


def test_describing() -> None:
    bench = GroupBench()
    ids = bench.stable("a")
    group = finish(bench.machine.describe_group(GROUP, 5))
    assert (group.group_state, group.protocol_type, group.protocol_data) == (
        "Stable",
        "consumer",
        "range",
    )
    (member,) = group.members
    assert (member.member_id, member.client_id, member.client_host) == (
        ids["a"],
        "a",
        "/127.0.0.1",
    )
    assert member.member_metadata == subscription("t")
    assert member.member_assignment == ids["a"].encode()
    bench.join("a", ids["a"])
    group = finish(bench.machine.describe_group(GROUP, 5))
    assert (group.group_state, group.protocol_data) == ("CompletingRebalance", "")
    assert group.members[0].member_metadata == b""


def test_describing_what_does_not_exist() -> None:
    bench = GroupBench()
    old = finish(bench.machine.describe_group(GROUP, 5))
    assert (old.group_state, old.error_code) == ("Dead", Errors.NONE)
    new = finish(bench.machine.describe_group(GROUP, 6))
    assert (new.group_state, new.error_code) == ("Dead", Errors.GROUP_ID_NOT_FOUND)
    assert new.error_message == "Group g not found."
