from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.handlers.support import Node

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as running:
        yield running
