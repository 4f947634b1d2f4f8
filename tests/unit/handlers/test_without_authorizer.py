from __future__ import annotations

import pytest

from kaa.handlers.without_authorizer import check_codes
from kaa.net.connection import CloseConnectionError


def test_an_unknown_element_closes_the_connection() -> None:
    check_codes(1, 2, 3, 99)
    with pytest.raises(CloseConnectionError, match="malformed"):
        check_codes(1, 0, 3)
