from __future__ import annotations

import pytest

from kaa.quorum.values import Value, ValueType


class Point(Value):
    x: int
    y: int = 7


class Named(Point):
    name: str = ""


class Twin(Value):
    x: int
    y: int = 7


def test_fields_are_set_by_position_and_by_name() -> None:
    assert (Point(1, 2).x, Point(1, 2).y) == (1, 2)
    assert (Point(x=1).x, Point(1).y) == (1, 7)
    assert Named(1, name="n") == Named(1, 7, "n")


def test_values_are_equal_by_class_and_fields() -> None:
    assert Point(1) == Point(1, 7)
    assert Point(1) != Point(2)
    assert Point(1) != Twin(1)
    assert hash(Point(1)) == hash(Point(1, 7))
    assert len({Point(1), Point(1), Twin(1)}) == 2


def test_values_cannot_change() -> None:
    point = Point(1)
    with pytest.raises(AttributeError):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(AttributeError):
        del point.x
    with pytest.raises(AttributeError):
        point.z = 2
    assert not hasattr(point, "__dict__")


def test_replace_gives_another_value() -> None:
    point = Named(1, 2, "n")
    assert point.replace(y=3) == Named(1, 3, "n")
    assert point.y == 2


def test_values_match_by_position() -> None:
    match Point(1, 2):
        case Point(x, y):
            assert (x, y) == (1, 2)


def test_wrong_fields_are_refused() -> None:
    with pytest.raises(TypeError, match="needs the field x"):
        Point()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="takes 2 fields"):
        Point(1, 2, 3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="no field z"):
        Point(1, z=3)  # type: ignore[call-arg]


def test_a_value_shows_its_fields() -> None:
    assert repr(Named(1, name="n")) == "Named(x=1, y=7, name='n')"


def test_annotations_that_are_code_are_refused() -> None:
    """Python 3.14 has them so in a module without the import from __future__ (PEP 649)."""
    with pytest.raises(TypeError, match="needs `from __future__ import annotations`"):
        ValueType("Late", (Value,), {"__annotate_func__": lambda _format: {"x": int}})
