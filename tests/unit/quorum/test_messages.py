from __future__ import annotations

from kaa.quorum.messages import FetchResponse, FetchSnapshotResponse, Request, Response
from kaa.wire.errors import Errors


def test_a_fetch_response_is_empty_unless_filled() -> None:
    response = FetchResponse(Errors.NONE, 1, 5, (), 7, 0)
    assert (response.diverging, response.snapshot_id, len(response.records)) == (None, None, 0)
    assert len(response.replace(records=b"abc").records) == 3


def test_a_snapshot_response_is_empty_unless_filled() -> None:
    response = FetchSnapshotResponse(Errors.SNAPSHOT_NOT_FOUND, 1, 5, ())
    assert (response.snapshot_id, response.size_bytes, response.position) == (None, 0, 0)


def test_every_request_has_its_response() -> None:
    # Whether a voter is added or removed, the answer is the same.
    changes = {"AddVoter", "RemoveVoter"}
    requests = {kind.__name__.removesuffix("Request") for kind in Request.__args__}
    responses = {kind.__name__.removesuffix("Response") for kind in Response.__args__}
    assert responses == (requests - changes) | {"Error", "VoterChange"}
