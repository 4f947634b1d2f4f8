"""The writer of Python functions."""

from __future__ import annotations

import pytest

from kaa.wire.schema import fields_of
from kaa.wire.source import FunctionSource, compile_constructor, default_text
from tests.unit.wire.samples import Leaf, Sample


def test_lines_become_a_function() -> None:
    source = FunctionSource("add(a, b)")
    source.line("if a:")
    source.indent += 1
    source.line("return a + b")
    source.indent -= 1
    source.line("return b")
    add = source.compiled()
    assert (add(1, 2), add(0, 2)) == (3, 2)
    assert "kaa.wire add" in add.__code__.co_filename


def test_fresh_names_are_never_the_same() -> None:
    source = FunctionSource("f()")
    assert len({source.fresh("n") for _ in range(100)}) == 100


def test_an_object_is_bound_to_one_name() -> None:
    source = FunctionSource("f()")
    thing, equal_thing = [1], [1]
    name = source.bind("C", thing)
    assert source.bind("C", thing) == name
    assert source.bind("C", equal_thing) != name
    source.line(f"return {name}")
    assert source.compiled()() is thing


def test_equal_layouts_share_one_struct() -> None:
    source = FunctionSource("f()")
    pack = source.struct_method("hi?", "pack")
    assert source.struct_method("hi?", "pack") == pack
    assert source.struct_method("hi?", "unpack_from") != pack
    assert pack.isidentifier()
    source.line(f"return {pack}(1, 2, True)")
    assert source.compiled()() == b"\x00\x01\x00\x00\x00\x02\x01"


@pytest.mark.parametrize("field", fields_of(Sample), ids=lambda field: str(field.name))
def test_default_text_evaluates_to_the_default(field: object) -> None:
    source = FunctionSource("f()")
    [same] = [each for each in fields_of(Sample) if each is field]
    source.line(f"return {default_text(source, same)}")
    default = source.compiled()
    assert default() == same.default
    if isinstance(same.default, list | Leaf):
        assert default() is not default()


def test_a_constructor_takes_keywords_alone_and_fills_in_defaults() -> None:
    make = compile_constructor(Leaf)
    leaf = Leaf.__new__(Leaf)
    make(leaf, number=4)
    assert leaf == Leaf(number=4)
    with pytest.raises(TypeError):
        make(leaf, 4)
    with pytest.raises(TypeError):
        make(leaf, other=4)
