"""The fetcher with real logs is in test_stories; here is how it cuts what it got."""

from __future__ import annotations

from kaa.limits import FOLLOWER_PIECE_BATCHES_MAX, FOLLOWER_PIECE_BYTES_MAX
from kaa.replication.follower.fetcher import cut_pieces
from tests.unit.log.batches import batch


def test_pieces_hold_whole_batches_and_all_of_them() -> None:
    one = bytes(batch(1))
    records = one * (FOLLOWER_PIECE_BATCHES_MAX * 2 + 5)
    pieces = [bytes(piece) for piece in cut_pieces(memoryview(records))]
    assert [len(piece) // len(one) for piece in pieces] == [FOLLOWER_PIECE_BATCHES_MAX] * 2 + [5]
    assert b"".join(pieces) == records


def test_pieces_are_bounded_by_bytes_but_hold_a_batch() -> None:
    large = bytes(batch(1, value_bytes=FOLLOWER_PIECE_BYTES_MAX * 2 // 3))
    pieces = list(cut_pieces(memoryview(large * 3)))
    assert [len(piece) for piece in pieces] == [len(large)] * 3


def test_no_records_are_no_piece() -> None:
    assert list(cut_pieces(memoryview(b""))) == []


def test_what_is_no_batch_is_left_to_the_append() -> None:
    one = bytes(batch(1))
    for rest in (one[:20], bytes(40), b"\xff" * 40):
        (piece,) = cut_pieces(memoryview(one + rest))
        assert bytes(piece) == one + rest
