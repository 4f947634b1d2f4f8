"""What old clients get; the rest is in the tests of `k24_add_partitions_to_txn`."""

from __future__ import annotations

import pytest

from kaa.serving.transactions.additions import fenced_for_client
from kaa.wire.errors import Errors


@pytest.mark.parametrize(
    ("error", "is_known", "told"),
    [
        (Errors.PRODUCER_FENCED, True, Errors.PRODUCER_FENCED),
        (Errors.PRODUCER_FENCED, False, Errors.INVALID_PRODUCER_EPOCH),
        (Errors.CONCURRENT_TRANSACTIONS, False, Errors.CONCURRENT_TRANSACTIONS),
    ],
)
def test_fenced(error: Errors, is_known: bool, told: Errors) -> None:
    assert fenced_for_client(error, is_known=is_known) is told
