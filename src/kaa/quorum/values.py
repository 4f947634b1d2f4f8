"""Frozen values: the base of every message, event and effect of the quorum.

A subclass lists its fields as annotations, as a dataclass does:

    class VoteResponse(Value):
        error: Errors
        vote_granted: bool = False

Its instances have slots, cannot be changed, are equal when class and fields are equal, hash by
them, and match positionally. The standard dataclass decorator gives the same, but writes and
compiles several methods per class: 0.6 ms for each of some forty classes at every start of a
broker. Here one set of methods serves them all.
"""

from __future__ import annotations

from typing import Any, Self, dataclass_transform

from kaa.model.words import count_text

_set = object.__setattr__


@dataclass_transform(frozen_default=True)
class ValueType(type):
    """Turns the annotations of a class body into slots and remembers their order and defaults."""

    # Fields in constructor order, those of the base first; the order never changes after the class
    # exists.
    fields: tuple[str, ...]
    # The default of every field that may be left out.
    defaults: dict[str, object]

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> ValueType:
        if "__annotate__" in namespace or "__annotate_func__" in namespace:
            # Since Python 3.14 such annotations are code, not a dictionary (PEP 649).
            raise TypeError(f"{name} needs `from __future__ import annotations` in its module")
        own = tuple(namespace.get("__annotations__", ()))
        own_defaults = {field: namespace.pop(field) for field in own if field in namespace}
        namespace["__slots__"] = own
        cls = super().__new__(mcs, name, bases, namespace)
        base = next((base for base in bases if isinstance(base, ValueType)), None)
        cls.fields = (base.fields if base is not None else ()) + own
        cls.defaults = (base.defaults if base is not None else {}) | own_defaults
        type.__setattr__(cls, "__match_args__", cls.fields)
        return cls


class Value(metaclass=ValueType):
    """The base class of immutable values with slots. A subclass declares its fields as annotations,
    with defaults where it has some; `replace` gives a copy with other fields.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        cls = type(self)
        fields = cls.fields
        for field, value in zip(fields, args, strict=False):
            _set(self, field, value)
        if len(args) == len(fields) and not kwargs:
            return
        if len(args) > len(fields):
            raise TypeError(
                f"{cls.__name__} takes {count_text(len(fields), 'field')}, {len(args)} given"
            )
        for field in fields[len(args) :]:
            if field in kwargs:
                _set(self, field, kwargs.pop(field))
            elif field in cls.defaults:
                _set(self, field, cls.defaults[field])
            else:
                raise TypeError(f"{cls.__name__} needs the field {field}")
        if kwargs:
            raise TypeError(f"{cls.__name__} has no field {', '.join(kwargs)} left to set")

    def replace(self, **changes: Any) -> Self:
        """The same value with some fields changed."""
        cls = type(self)
        return cls(**{field: getattr(self, field) for field in cls.fields} | changes)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be deleted")

    def _key(self) -> tuple[object, ...]:
        return tuple([getattr(self, field) for field in type(self).fields])

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash((type(self), self._key()))

    def __repr__(self) -> str:
        shown = ", ".join(f"{field}={getattr(self, field)!r}" for field in type(self).fields)
        return f"{type(self).__name__}({shown})"
