"""A codec reads and writes one version of one message, with code compiled at its first use.

A schema is never interpreted while a message passes. For each version the fields are walked once
and made into a plan for compiled code (`plan`) or, where there is none, a function of straight-line
Python is written and compiled (`decoder`, `encoder`), with nested structs as loops inside it, so
that a message costs one call whatever its shape. There neighbouring fields of fixed width, and the
length or count that follows them in the old encoding, are packed and unpacked by one `struct` call.

What a codec promises:

- Bad bytes raise WireError and nothing else. Before an array is made, its count is compared with
  what the remaining bytes can hold and with a budget of elements for the whole message, so that
  time and memory are bounded by the length of the input and by `kaa.limits`.
- What a decoder returns refers to the input through records fields only: they are slices of the
  caller's buffer, and all else is copied out of it.
- Records are never copied by an encoder: `encode_parts` returns the encoded bytes cut where records
  stand, with the caller's own objects between the pieces.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from kaa import limits
from kaa.wire.decoder import compile_decoder, has_records
from kaa.wire.encoder import compile_encoder
from kaa.wire.plan import compile_encode_plan, compile_plan
from kaa.wire.primitives import WireError
from kaa.wire.schema import Request

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.wire.decoder import Decoder
    from kaa.wire.encoder import Encoder
    from kaa.wire.schema import Message, Struct

    Buffer = bytes | bytearray | memoryview

_SIZE: Final = struct.Struct(">i")
# What the encoders raise where a value does not fit its field.
_MISFITS: Final = (
    WireError, AttributeError, TypeError, ValueError, OverflowError, struct.error
)  # fmt: skip


class Codec:
    """Reads and writes one version of one message. Get it from `Message.codec`, which keeps it."""

    __slots__ = (
        "_decode",
        "_elements_max",
        "_encode",
        "_frame",
        "_keeps_view",
        "_needs_bytes",
        "is_flexible",
        "message",
        "version",
    )

    def __init__(self, message: type[Message], version: int) -> None:
        self.message = message
        self.version = version
        self.is_flexible = version in message.flexible_versions
        self._decode: Decoder | None = None
        self._encode: Encoder | None = None
        # None until the encoder is compiled, and where it is generated Python.
        self._frame: Callable[[Struct, bytes], list[Any]] | None = None
        self._keeps_view = has_records(message, version)
        self._needs_bytes = False
        is_request = issubclass(message, Request)
        self._elements_max = (
            limits.WIRE_REQUEST_ELEMENTS_MAX if is_request else limits.WIRE_RESPONSE_ELEMENTS_MAX
        )

    def decode(self, buffer: Buffer) -> Any:
        """Reads one message that fills `buffer`."""
        message, position = self.decode_prefix(buffer)
        if position != len(buffer):
            rest = len(buffer) - position
            raise WireError(f"{self._name()} is followed by {rest} bytes that are not part of it")
        return message

    def decode_prefix(
        self,
        buffer: Buffer,
        position: int = 0,
        *,
        elements_max: int = 0,
        tagged_fields_max: int = limits.WIRE_TAGGED_FIELDS_MAX,
    ) -> tuple[Any, int]:
        """Reads one message at `position`; returns it and the position after it."""
        decode = self._decode or self._compile_decoder()
        source = buffer
        if self._keeps_view and not isinstance(buffer, memoryview):
            source = memoryview(buffer)
        elif self._needs_bytes and not isinstance(buffer, bytes):
            source = bytes(buffer)
        budget = elements_max or self._elements_max
        try:
            return decode(source, position, len(source), budget, tagged_fields_max)
        except WireError as error:
            raise WireError(f"{self._name()}: {error}") from None
        except (IndexError, struct.error):
            raise WireError(f"{self._name()} is cut short") from None
        except UnicodeDecodeError:
            raise WireError(f"{self._name()} has a string that is not UTF-8") from None

    def _compile_decoder(self) -> Decoder:
        decode = compile_plan(self.message, self.version)
        if decode is None:
            # Generated Python is quickest on bytes; a view is kept where records are cut out of it.
            self._needs_bytes = not self._keeps_view
            decode = compile_decoder(self.message, self.version)
        self._decode = decode
        return decode

    def encode(self, message: Struct) -> bytes:
        """The whole message as one bytes object."""
        return b"".join(self.encode_parts(message))

    def encode_parts(self, message: Struct, prefix: bytes | bytearray = b"") -> list[Any]:
        """The message after `prefix` as buffers in order; the records among them are the caller's
        own objects.
        """
        out = bytearray(prefix)
        splices: list[tuple[int, Any]] = []
        self.encode_into(message, out, splices)
        if not splices:
            return [out]
        whole = memoryview(out)
        parts: list[Any] = []
        start = 0
        for position, records in splices:
            parts += (whole[start:position], records)
            start = position
        if start < len(out):
            parts.append(whole[start:])
        return parts

    def encode_frame(self, message: Struct, head: bytes) -> list[Any]:
        """The message after the head of its frame, likewise as buffers; the first four bytes of the
        head become the size of all that follows them.
        """
        if self._encode is None:
            self._compile_encoder()
        frame = self._frame
        if frame is None:
            return self._sized(self.encode_parts(message, head))
        try:
            return frame(message, head)
        except _MISFITS as error:
            raise self._misfit(error) from error

    def _sized(self, parts: list[Any]) -> list[Any]:
        size = sum(map(len, parts)) - _SIZE.size
        try:
            _SIZE.pack_into(parts[0], 0, size)
        except struct.error as error:
            raise self._misfit(error) from error
        return parts

    def encode_into(self, message: Struct, out: bytearray, splices: list[tuple[int, Any]]) -> None:
        """Appends the message to `out` and the records to leave room for, with their positions, to
        `splices`.
        """
        encode = self._encode or self._compile_encoder()
        try:
            encode(message, out, splices)
        except _MISFITS as error:
            raise self._misfit(error) from error

    def _compile_encoder(self) -> Encoder:
        plan = compile_encode_plan(self.message, self.version)
        encode: Encoder
        if plan is None:
            encode = compile_encoder(self.message, self.version)
        else:
            encode, self._frame = plan.encode, plan.frame
        self._encode = encode
        return encode

    def _misfit(self, error: Exception) -> WireError:
        """The error for a message that this version cannot carry."""
        if isinstance(error, WireError):
            return WireError(f"{self._name()}: {error}")
        return WireError(f"{self._name()} has a field of the wrong type: {error}")

    def _name(self) -> str:
        return f"{self.message.__name__} v{self.version}"
