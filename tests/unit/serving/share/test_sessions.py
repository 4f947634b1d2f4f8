from __future__ import annotations

import pytest

from kaa.serving.share.sessions import ShareSessionError, ShareSessions, next_epoch
from kaa.wire.errors import Errors
from kaa.wire.primitives import PartitionId
from tests.support.ids import uuid

ONE, TWO = PartitionId(uuid(1), 0), PartitionId(uuid(1), 1)


def sessions(count_max: int = 10) -> ShareSessions:
    return ShareSessions(lambda: count_max)


def refused(error: Errors) -> pytest.RaisesExc[ShareSessionError]:
    return pytest.raises(ShareSessionError, match=f"^{error.name}$")


def test_epochs_follow_each_other() -> None:
    known = sessions()
    with refused(Errors.SHARE_SESSION_NOT_FOUND):
        known.advance("g", "m", 1)
    session = known.open("g", "m", [ONE], "c")
    for epoch in (1, 2):
        assert known.advance("g", "m", epoch) is session
    with refused(Errors.INVALID_SHARE_SESSION_EPOCH):
        known.advance("g", "m", 2)
    with refused(Errors.SHARE_SESSION_NOT_FOUND):
        known.advance("other", "m", 3)
    assert known.open("g", "m", [], "c").epoch == 1
    assert session.is_closed


def test_the_epoch_after_the_last_has_no_meaning_of_its_own() -> None:
    assert [next_epoch(epoch) for epoch in (0, 1, 2**31 - 1, -1)] == [1, 2, 1, 1]


def test_partitions_come_and_go() -> None:
    known = sessions()
    session = known.open("g", "m", [ONE], "c")
    known.update(session, [ONE, TWO], [])
    assert session.partitions == {ONE: False, TWO: True}
    known.update(session, [], [ONE])
    assert list(session.partitions) == [TWO]


def test_nobody_is_put_out_for_somebody_new() -> None:
    known = sessions(2)
    known.open("g", "m1", [], "c")
    known.open("g", "m2", [], "c")
    with refused(Errors.SHARE_SESSION_LIMIT_REACHED):
        known.open("g", "m3", [], "c")
    # One's own place is one's own.
    known.open("g", "m2", [ONE], "c")
    assert len(known) == 2


def test_sessions_are_known_by_group_and_connection() -> None:
    known = sessions()
    first = known.open("g", "m1", [], "c")
    second = known.open("h", "m1", [], "c")
    assert known.of_owner("c") == [first, second]
    assert known.remove("g", "m1") is first
    assert known.remove("g", "m1") is None
    assert (known.has_group("g"), known.has_group("h")) == (False, True)
    assert known.of_owner("c") == [second]
    known.remove("h", "m1")
    assert known.of_owner("c") == []
