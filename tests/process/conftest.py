from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.broker_process import BrokerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A running node of one's own, which may be stopped, killed and started again."""
    with BrokerProcess(tmp_path / "node") as running:
        yield running
