from __future__ import annotations

from tests.unit.handlers.conftest import node

__all__ = ["node"]
