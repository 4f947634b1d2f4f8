"""Message classes: the class body is the schema, and the only place where a message is described.

    class FindCoordinatorRequest(
        Request["FindCoordinatorResponse"], key=10, versions="0-6", flexible="3+"
    ):
        key: str = field("0-3")
        key_type: Int8 = field("1+", default=0)
        coordinator_keys: list[str] = field("4+")

The annotation is the wire type, `X | None` makes a field nullable (in all of its versions unless
`nullable` narrows them), and `field` gives the versions that carry it. Every field may be left out
of the constructor and then has its default. The structs of a message stand before it in the same
module.

A tagged struct is `None` when absent, unless `nullable` says that null itself can be written; every
other struct is always there. Nothing is compiled at import: the constructor of a class is made at
its first call and the codec of a version at its first use (see `codec`).
"""

from __future__ import annotations

from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Final,
    NamedTuple,
    Self,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
)

from kaa.limits import WIRE_SHOWN_BYTES_MAX
from kaa.wire.primitives import NO_VERSIONS, UUID_ZERO, Uuid, Versions, WireError

if TYPE_CHECKING:
    from typing import Generic

    from typing_extensions import TypeVar

    from kaa.wire.codec import Codec

    Answer_co = TypeVar("Answer_co", covariant=True, default=Any)


class Fixed(NamedTuple):
    """A type whose bytes have one size: its name in Kafka's schemas, `struct` letter, size and
    default.
    """

    name: str
    letter: str
    size: int
    default: object


INT8 = Fixed("int8", "b", 1, 0)
INT16 = Fixed("int16", "h", 2, 0)
INT32 = Fixed("int32", "i", 4, 0)
INT64 = Fixed("int64", "q", 8, 0)
UINT16 = Fixed("uint16", "H", 2, 0)
UINT32 = Fixed("uint32", "I", 4, 0)
FLOAT64 = Fixed("float64", "d", 8, 0.0)
BOOL = Fixed("bool", "?", 1, False)
UUID = Fixed("uuid", "16s", 16, UUID_ZERO)

Int8 = Annotated[int, INT8]
Int16 = Annotated[int, INT16]
Int32 = Annotated[int, INT32]
Int64 = Annotated[int, INT64]
Uint16 = Annotated[int, UINT16]
Uint32 = Annotated[int, UINT32]
Float64 = Annotated[float, FLOAT64]

RECORDS = "records"
# Record batches: decoded as a view of the input, encoded by reference. Anything with a length may
# stand here when the parts of a message are sent one by one, so that a region of a file is never
# read into memory.
Records = Annotated[Any, RECORDS]

_UNSET: Any = object()


class FieldSpec:
    """What `field` was given; resolved together with the annotation by `fields_of`."""

    __slots__ = ("default", "flexible", "ignorable", "nullable", "tag", "tagged", "versions")

    def __init__(
        self,
        versions: str,
        default: object,
        ignorable: bool,
        nullable: str | None,
        tag: int | None,
        tagged: str | None,
        flexible: bool,
    ) -> None:
        self.versions = versions
        self.default = default
        self.ignorable = ignorable
        self.nullable = nullable
        self.tag = tag
        self.tagged = tagged
        self.flexible = flexible


def field(
    versions: str,
    *,
    default: object = _UNSET,
    ignorable: bool = False,
    nullable: str | None = None,
    tag: int | None = None,
    tagged: str | None = None,
    flexible: bool = True,
) -> Any:
    """Declares a field that `versions` carry.

    `ignorable` fields are dropped by versions without them; others raise there unless they have
    their default. `tag` makes the field a tagged one, in all of its versions or in `tagged`.
    `flexible=False` keeps the old encoding in flexible versions too.
    """
    return FieldSpec(versions, default, ignorable, nullable, tag, tagged, flexible)


class Field:
    """A field of a struct, resolved: everything the compiler needs to know about it."""

    __slots__ = (
        "default",
        "element",
        "flexible",
        "ignorable",
        "is_array",
        "name",
        "nullable",
        "tag",
        "tagged",
        "versions",
    )

    def __init__(self, name: str, annotation: object, spec: FieldSpec) -> None:
        self.name = name
        self.versions = Versions.parse(spec.versions)
        self.ignorable = spec.ignorable
        self.tag = spec.tag
        self.tagged = NO_VERSIONS
        if spec.tag is not None:
            self.tagged = Versions.parse(spec.tagged or spec.versions)
        self.flexible = spec.flexible
        kind, optional = _without_none(annotation)
        self.is_array = get_origin(kind) is list
        # A Fixed, `str`, `bytes`, RECORDS or a subclass of Struct; of an array the type of its
        # elements.
        self.element = _element(get_args(kind)[0] if self.is_array else kind)
        is_tagged_struct = spec.tag is not None and self.is_struct and not self.is_array
        none_is_absent = is_tagged_struct and spec.nullable is None
        self.nullable = NO_VERSIONS
        if spec.nullable is not None:
            self.nullable = Versions.parse(spec.nullable)
        elif optional and not none_is_absent:
            self.nullable = self.versions
        self.default = spec.default
        if spec.default is _UNSET:
            self.default = None if none_is_absent else self._type_default()

    @property
    def is_struct(self) -> bool:
        return isinstance(self.element, StructType)

    @property
    def fixed(self) -> Fixed | None:
        """The field's own fixed-width type, if it is neither an array nor of variable length."""
        return self.element if isinstance(self.element, Fixed) and not self.is_array else None

    def _type_default(self) -> object:
        if self.is_array:
            return []
        if isinstance(self.element, Fixed):
            return self.element.default
        if self.element is RECORDS:
            return None
        return self.element()


def _without_none(annotation: object) -> tuple[object, bool]:
    if get_origin(annotation) not in (Union, UnionType):
        return annotation, False
    args = [arg for arg in get_args(annotation) if arg is not NoneType]
    if len(args) != 1:
        raise TypeError(f"{annotation} is not a wire type")
    return args[0], True


def _element(annotation: object) -> Any:
    if get_origin(annotation) is Annotated:
        return get_args(annotation)[1]
    if annotation is Uuid:
        return UUID
    if annotation is bool:
        return BOOL
    if annotation in (str, bytes) or isinstance(annotation, StructType):
        return annotation
    raise TypeError(f"{annotation!r} is not a wire type")


@dataclass_transform(kw_only_default=True, eq_default=False)
class StructType(type):
    """Takes the fields out of a class body and makes them slots."""

    specs: dict[str, FieldSpec]
    resolved: list[Field] | None

    def __new__(
        mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **facts: Any
    ) -> StructType:
        specs = {key: value for key, value in namespace.items() if type(value) is FieldSpec}
        for key in specs:
            del namespace[key]
        namespace.setdefault("__slots__", tuple(specs))
        namespace["specs"] = specs
        namespace["resolved"] = None
        return super().__new__(mcls, name, bases, namespace, **facts)


class Struct(metaclass=StructType):
    """A group of fields: a message, or an element of one."""

    __slots__ = ("unknown_tags",)
    specs: ClassVar[dict[str, FieldSpec]]
    if TYPE_CHECKING:
        # Tagged fields that this version of Kafka does not know, by tag; None if there are none.
        unknown_tags: dict[int, bytes] | None = None

    def __init__(self, **values: Any) -> None:
        from kaa.wire.source import compile_constructor

        type(self).__init__ = compile_constructor(type(self))  # type: ignore[method-assign]
        self.__init__(**values)  # type: ignore[misc]

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.specs) and (
            (self.unknown_tags or {}) == (getattr(other, "unknown_tags", None) or {})
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={_shown(getattr(self, name, ...))}" for name in self.specs)
        return f"{type(self).__qualname__}({values})"


def _shown(value: object) -> str:
    if isinstance(value, bytes | bytearray | memoryview) and len(value) > WIRE_SHOWN_BYTES_MAX:
        return f"<{len(value)} bytes>"
    return repr(value)


# Asked of the class itself, whose annotations are evaluated when somebody wants them (PEP 649):
# `struct.__annotations__` would find those of its metaclass first, which are a plain attribute.
annotations_of: Final = vars(type)["__annotations__"].__get__


def fields_of(struct: type[Struct]) -> list[Field]:
    """The fields of a struct class in wire order, with their annotations resolved."""
    if struct.resolved is None:
        annotations = annotations_of(struct)
        struct.resolved = [
            Field(name, annotations[name], spec) for name, spec in struct.specs.items()
        ]
    return struct.resolved


class Message(Struct):
    """A struct with versions of its own, which can be written and read by itself."""

    __slots__ = ()
    valid_versions: ClassVar[Versions] = NO_VERSIONS
    # The versions that use compact types and tagged fields (KIP-482).
    flexible_versions: ClassVar[Versions] = NO_VERSIONS
    codecs: ClassVar[dict[int, Codec]]

    def __init_subclass__(cls, *, versions: str = "none", flexible: str = "none") -> None:
        super().__init_subclass__()
        cls.valid_versions = Versions.parse(versions)
        cls.flexible_versions = Versions.parse(flexible)
        cls.codecs = {}

    @classmethod
    def codec(cls, version: int) -> Codec:
        """The codec of one version, compiled at its first use; raises WireError for an unknown
        version.
        """
        try:
            return cls.codecs[version]
        except KeyError:
            pass
        if version not in cls.valid_versions:
            raise WireError(
                f"{cls.__name__} has no version {version} (it has {cls.valid_versions})"
            )
        from kaa.wire.codec import Codec

        codec = cls.codecs[version] = Codec(cls, version)
        return codec

    @classmethod
    def decode(cls, buffer: bytes | bytearray | memoryview, version: int) -> Self:
        """Reads one message that fills `buffer`; raises WireError and nothing else on bad bytes."""
        message: Self = cls.codec(version).decode(buffer)
        return message

    def encode(self, version: int) -> bytes:
        """The message as bytes; raises WireError if this version cannot carry its fields."""
        return self.codec(version).encode(self)


class ApiMessage(Message):
    """A request or a response."""

    __slots__ = ()
    api_key: ClassVar[int] = -1

    def __init_subclass__(cls, *, key: int = -1, **facts: Any) -> None:
        super().__init_subclass__(**facts)
        cls.api_key = key


class Response(ApiMessage):
    """The answer to the request with the same key and version."""

    __slots__ = ()


if TYPE_CHECKING:

    class _Answered(ApiMessage, Generic[Answer_co]):
        """A message with an answer."""

else:

    class _Answered(ApiMessage):
        """The answer of a request is known to the type checker alone: real generics would cost
        every process that imports messages.
        """

        __slots__ = ()

        def __class_getitem__(cls, _answer: object) -> type:
            return cls


class Request(_Answered["Answer_co"]):
    """A request, by its answer. `listener_types` says which kinds of listener serve it, as Kafka's
    schema does.
    """

    __slots__ = ()
    listener_types: ClassVar[tuple[str, ...]] = ()
    # True while the highest version may still change; it is then served only if unstable ones are
    # enabled.
    latest_version_unstable: ClassVar[bool] = False

    def __init_subclass__(
        cls,
        *,
        listeners: tuple[str, ...] = ("broker",),
        latest_version_unstable: bool = False,
        **facts: Any,
    ) -> None:
        super().__init_subclass__(**facts)
        cls.listener_types = listeners
        cls.latest_version_unstable = latest_version_unstable


class Data(Message):
    """A durable or embedded message: it stands in a record, a file or another message's bytes
    field.
    """

    __slots__ = ()


class MetadataRecord(Data):
    """A record of the metadata log (KIP-631), framed by its `record_type` and version."""

    __slots__ = ()
    record_type: ClassVar[int] = -1

    def __init_subclass__(cls, *, record_type: int = -1, **facts: Any) -> None:
        super().__init_subclass__(**facts)
        cls.record_type = record_type


class CoordinatorRecord(Data):
    """A key or a value in a coordinator's topic; `record_type` ties the two together."""

    __slots__ = ()
    record_type: ClassVar[int] = -1

    def __init_subclass__(cls, *, record_type: int = -1, **facts: Any) -> None:
        super().__init_subclass__(**facts)
        cls.record_type = record_type


class CoordinatorKey(CoordinatorRecord):
    """The key of a coordinator record. Its version on the wire is its record type."""

    __slots__ = ()


class CoordinatorValue(CoordinatorRecord):
    """The value of a coordinator record."""

    __slots__ = ()
