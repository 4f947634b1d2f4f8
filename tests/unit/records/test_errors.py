"""One base for everything that bad bytes can raise."""

from __future__ import annotations

import pytest

from kaa.records import errors
from kaa.records.varint import VarintLongError, VarintShortError

# A limit on work says nothing about the bytes, so it is not their error.
KINDS = [
    value
    for value in vars(errors).values()
    if isinstance(value, type) and value is not errors.WorkLimitError
]


@pytest.mark.parametrize("kind", [*KINDS, VarintLongError, VarintShortError])
def test_every_kind_is_a_records_error(kind: type[Exception]) -> None:
    assert issubclass(kind, errors.RecordsError)
    assert kind.__doc__
    with pytest.raises(errors.RecordsError, match="why"):
        raise kind("why")
