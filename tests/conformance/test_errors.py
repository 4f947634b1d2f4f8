"""The error table against Java's enum."""

import pytest

from kaa.wire.errors import Errors
from tests.oracle import Oracle

pytestmark = pytest.mark.oracle


def test_codes_names_and_retriability_are_those_of_java(oracle: Oracle) -> None:
    ours = [(int(error), error.name, error.retriable) for error in Errors]
    java = [(row.code, row.name, row.retriable) for row in oracle.errors()]
    assert ours == java


def test_no_message_is_a_copy_of_kafkas(oracle: Oracle) -> None:
    java = {row.message for row in oracle.errors()}
    assert not {error.message for error in Errors} & java
