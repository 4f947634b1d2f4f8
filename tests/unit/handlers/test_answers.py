"""Every handler gives an `Answer` with the response of its own API, and builds it itself."""

from __future__ import annotations

import re
from importlib import import_module
from inspect import iscoroutinefunction
from pathlib import Path

import pytest

import kaa.coordinators
import kaa.handlers
from kaa.handlers.registry import BROKER_APIS, CONTROLLER_APIS, module_name
from kaa.wire.registry import api

APIS = (*BROKER_APIS, *CONTROLLER_APIS)
ROWS = (row if isinstance(row, tuple) else (row, module_name(row)) for row in APIS)
KEYS = {name: key for key, name in ROWS}
# Whose answers a machine gives as messages (docs/adr/0006-answers-of-machines.md); of 27 the
# transaction coordinator is the client.
ANSWERED_BY_MACHINES = {8, 11, 14, 27, 28, 47, 68, 76, 88}
# What is needed for types alone stands in a block of its own, indented.
BUILT = re.compile(r"^from kaa\.wire\.messages\.k(\d\d)_", re.MULTILINE)


@pytest.mark.parametrize("name", KEYS)
def test_what_a_handler_gives(name: str) -> None:
    handle = import_module(f"kaa.handlers.{name}").handle
    response = api(KEYS[name]).response.__name__
    # Of Metadata the answer may have been encoded before.
    given = f"{response} | EncodedResponse" if name == "k03_metadata" else response
    assert handle.__annotations__["return"] == f"Answer[{given}]"
    assert not iscoroutinefunction(handle)


def test_every_handler_is_served() -> None:
    (folder,) = kaa.handlers.__path__
    modules = (path.stem for path in Path(folder).glob("k??_*.py"))
    found = {name for name in modules if hasattr(import_module(f"kaa.handlers.{name}"), "handle")}
    assert found == set(KEYS)


def test_coordinators_build_no_other_messages() -> None:
    (folder,) = kaa.coordinators.__path__
    texts = [path.read_text("utf-8") for path in Path(folder).rglob("*.py")]
    assert {int(key) for text in texts for key in BUILT.findall(text)} == ANSWERED_BY_MACHINES
