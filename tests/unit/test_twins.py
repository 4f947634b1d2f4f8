from __future__ import annotations

import pytest

from kaa.twins import compiled


def test_module_that_was_not_built_is_none() -> None:
    assert compiled("kaa.records._never_built") is None


def test_module_that_is_there_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAA_PURE_PYTHON", raising=False)
    found = compiled("kaa.limits")
    assert found is not None
    assert found.__name__ == "kaa.limits"


@pytest.mark.parametrize(
    ("value", "wanted"), [("1", False), ("yes", False), ("0", True), ("", True)]
)
def test_environment_asks_for_the_twins(
    monkeypatch: pytest.MonkeyPatch, value: str, wanted: bool
) -> None:
    monkeypatch.setenv("KAA_PURE_PYTHON", value)
    assert (compiled("kaa.limits") is not None) == wanted
