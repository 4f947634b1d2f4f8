"""Message classes: how fields are declared and resolved, and how instances behave."""

# Annotations are read at run time, as in the modules of messages.
from typing import Any

import pytest

from kaa.wire import UUID_ZERO, Uuid
from kaa.wire.primitives import NO_VERSIONS, Versions
from kaa.wire.schema import (
    BOOL,
    INT32,
    RECORDS,
    UUID,
    CoordinatorKey,
    CoordinatorValue,
    Data,
    Field,
    FieldSpec,
    Fixed,
    Int32,
    Message,
    MetadataRecord,
    Records,
    Request,
    Response,
    Struct,
    field,
    fields_of,
)
from tests.unit.wire.samples import Leaf, Sample


def resolved(annotation: Any, *arguments: Any, **facts: Any) -> Field:
    return Field("name", annotation, field(*(arguments or ("0+",)), **facts))


@pytest.mark.parametrize(
    ("annotation", "element", "is_array", "default"),
    [
        (Int32, INT32, False, 0),
        (bool, BOOL, False, False),
        (Uuid, UUID, False, UUID_ZERO),
        (str, str, False, ""),
        (bytes, bytes, False, b""),
        (Records, RECORDS, False, None),
        (Leaf, Leaf, False, Leaf()),
        (list[Int32], INT32, True, []),
        (list[str], str, True, []),
        (list[Leaf], Leaf, True, []),
    ],
)
def test_the_annotation_is_the_wire_type(
    annotation: Any, element: Any, is_array: bool, default: Any
) -> None:
    for optional in (False, True):
        plain = resolved(annotation | None if optional else annotation)
        assert plain.element is element
        assert plain.is_array == is_array
        assert plain.default == default
        assert plain.nullable == (Versions.parse("0+") if optional else NO_VERSIONS)
        assert plain.is_struct == (element is Leaf)
        is_fixed = isinstance(element, Fixed) and not is_array
        assert plain.fixed is (element if is_fixed else None)


@pytest.mark.parametrize("annotation", [int, float, object, dict[str, str], str | bytes, None])
def test_what_is_no_wire_type_is_refused(annotation: Any) -> None:
    with pytest.raises(TypeError, match="is not a wire type"):
        resolved(annotation)


def test_a_field_may_be_nullable_in_some_of_its_versions() -> None:
    some = resolved(str | None, "0+", nullable="3+")
    assert some.versions == Versions.parse("0+")
    assert some.nullable == Versions.parse("3+")


def test_tags_hold_in_all_versions_of_a_field_or_in_those_told() -> None:
    assert resolved(str, "1+").tagged == NO_VERSIONS
    assert resolved(str, "1+", tag=0).tagged == Versions.parse("1+")
    assert resolved(str, "1+", tag=0, tagged="3+").tagged == Versions.parse("3+")


def test_a_tagged_struct_is_none_when_absent_unless_null_can_be_written() -> None:
    absent = resolved(Leaf | None, "0+", tag=0)
    assert absent.default is None
    assert absent.nullable == NO_VERSIONS
    null = resolved(Leaf | None, "0+", tag=0, nullable="0+")
    assert null.default == Leaf()
    assert null.nullable == Versions.parse("0+")


def test_fields_become_slots_in_the_order_of_the_text() -> None:
    assert [each.name for each in fields_of(Leaf)] == ["number", "text", "later"]
    assert fields_of(Leaf) is fields_of(Leaf)
    with pytest.raises(AttributeError):
        Leaf().other = 1  # type: ignore[attr-defined]
    assert not hasattr(Leaf(), "__dict__")
    assert all(type(spec) is FieldSpec for spec in Leaf.specs.values())


def test_every_field_may_be_left_out_of_the_constructor() -> None:
    leaf = Leaf()
    assert (leaf.number, leaf.text, leaf.later, leaf.unknown_tags) == (0, "", 7, None)
    assert Leaf(number=1, text="x", later=2, unknown_tags={1: b""}).later == 2
    with pytest.raises(TypeError):
        Leaf(other=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Leaf(1)  # type: ignore[call-arg, arg-type]


def test_mutable_defaults_are_not_shared() -> None:
    first, second = Sample(), Sample()
    first.int32s.append(1)
    first.leaf.number = 5
    assert second.int32s == []
    assert second.leaf.number == 0


def test_equality_is_of_all_fields_and_unknown_tags() -> None:
    class Other(Struct):
        number: Int32 = field("0+")

    class Twin(Struct):
        number: Int32 = field("0+")

    assert Leaf(number=1) == Leaf(number=1)
    assert Leaf(number=1) != Leaf(number=2)
    assert Leaf(unknown_tags={1: b"x"}) != Leaf()
    assert Leaf(unknown_tags={1: b"x"}) == Leaf(unknown_tags={1: b"x"})
    assert Other() != Twin()
    assert Other() != 0


def test_a_message_is_mutable_and_so_not_hashable() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(Leaf())


def test_a_message_prints_its_fields_and_not_its_payload() -> None:
    assert repr(Leaf(number=1, text="x")) == "Leaf(number=1, text='x', later=7)"
    printed = repr(Sample(data=bytes(33), records=memoryview(bytes(1000)), string_or_null=None))
    assert "data=<33 bytes>" in printed
    assert "records=<1000 bytes>" in printed
    assert "string_or_null=None" in printed


def test_a_half_made_message_can_be_printed() -> None:
    assert "number=Ellipsis" in repr(Leaf.__new__(Leaf))


def test_a_class_carries_the_facts_of_its_kind() -> None:
    class SomeRequest(
        Request,
        key=300,
        versions="1-4",
        flexible="2+",
        listeners=("controller",),
        latest_version_unstable=True,
    ):
        pass

    class SomeResponse(Response, key=300, versions="1-4"):
        pass

    class SomeRecord(MetadataRecord, record_type=9, versions="0"):
        pass

    class SomeKey(CoordinatorKey, record_type=3, versions="0"):
        pass

    class SomeValue(CoordinatorValue, record_type=3, versions="0-1", flexible="1+"):
        pass

    assert SomeRequest.api_key == SomeResponse.api_key == 300
    assert SomeRequest.valid_versions == Versions(1, 4)
    assert SomeRequest.flexible_versions == Versions.parse("2+")
    assert SomeRequest.listener_types == ("controller",)
    assert SomeRequest.latest_version_unstable
    assert SomeResponse.flexible_versions == NO_VERSIONS
    assert SomeRecord.record_type == 9
    assert SomeKey.record_type == SomeValue.record_type == 3
    assert SomeRequest.codecs is not SomeResponse.codecs
    assert SomeRequest().encode(1) == b""
    assert SomeRequest().encode(2) == b"\x00"


def test_a_message_without_versions_has_no_codec() -> None:
    class Nothing(Data):
        pass

    assert Nothing.valid_versions == NO_VERSIONS
    with pytest.raises(ValueError, match="has no version 0"):
        Nothing.decode(b"", 0)
    assert issubclass(Nothing, Message)
