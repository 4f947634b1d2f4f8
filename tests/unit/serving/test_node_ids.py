from __future__ import annotations

import pytest

from kaa.controller.result import ControllerError
from kaa.serving.node_ids import check_node_id
from kaa.wire.errors import Errors


@pytest.mark.parametrize("name", ["1", "+1", "001"])
def test_the_own_id(name: str) -> None:
    check_node_id(name, 1)


@pytest.mark.parametrize("name", ["2", "-1", "x", "", " 1", "1_0", "99999999999", "1.0"])
def test_anything_else_is_refused(name: str) -> None:
    with pytest.raises(ControllerError) as refused:
        check_node_id(name, 1)
    assert refused.value.error is Errors.INVALID_REQUEST
    assert refused.value.message
