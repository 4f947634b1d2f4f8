from __future__ import annotations

import pytest

from kaa.client.errors import HINTS, KafkaError, check
from kaa.wire.errors import Errors


def test_error_says_what_happened_where_and_what_to_do() -> None:
    error = KafkaError(Errors.UNKNOWN_TOPIC_OR_PARTITION, "topic 't'", node="h:1")
    assert str(error).startswith("topic 't': UNKNOWN_TOPIC_OR_PARTITION (3): ")
    assert "[broker h:1]" in str(error)
    assert str(error).endswith(HINTS[Errors.UNKNOWN_TOPIC_OR_PARTITION])
    assert error.retriable


def test_check() -> None:
    check(0, "fine")
    with pytest.raises(KafkaError, match="own words"):
        check(41, "what", message="own words")
