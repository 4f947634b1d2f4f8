from __future__ import annotations

import subprocess
import sys
from types import ModuleType

import pytest

from kaa.lazy import lazy_names


@pytest.fixture
def package() -> ModuleType:
    module = ModuleType("lazy_example")
    find, names = lazy_names(module.__name__, {"fractions": ["Fraction"], "decimal": ["Decimal"]})
    module.__dict__.update(__getattr__=find, __dir__=names)
    sys.modules[module.__name__] = module
    return module


def test_a_name_is_found_in_its_module(package: ModuleType) -> None:
    from fractions import Fraction

    assert package.Fraction is Fraction


def test_a_module_that_was_imported_again_is_found_again(
    package: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = package.Fraction
    monkeypatch.delitem(sys.modules, "fractions")
    assert package.Fraction is sys.modules["fractions"].Fraction
    assert package.Fraction is not before


def test_names_are_listed_before_they_are_used(package: ModuleType) -> None:
    assert {"Decimal", "Fraction", "__name__"} <= set(dir(package))


def test_an_unknown_name_is_an_attribute_error(package: ModuleType) -> None:
    with pytest.raises(AttributeError, match="module 'lazy_example' has no attribute 'Fractoin'"):
        package.Fractoin  # noqa: B018


@pytest.mark.parametrize("name", ["kaa.client", "kaa.client.sync", "kaa.spark", "kaa.testing"])
def test_packages_list_what_they_offer_without_loading_it(name: str) -> None:
    program = (
        f"import sys, {name} as package; assert set(package.__all__) <= set(dir(package));"
        "assert 'asyncio' not in sys.modules; assert 'kaa.wire' not in sys.modules;"
        "[getattr(package, name) for name in package.__all__]"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
