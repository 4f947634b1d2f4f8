"""Protobuf by the package `ptars`, which decodes to Arrow in compiled code.

A schema comes as the text of a `.proto` file, compiled by the package `grpcio-tools`, or as a
set of descriptors (the output of `protoc --descriptor_set_out --include_imports`, or what a
registry gives as `serialized`). Both packages come with `pip install 'kaa[protobuf]'`.

Fields of proto3 that are not set have their defaults, enums are strings, time stamps are in
microseconds of UTC, `oneof` members are columns of which one at most is not null.

In Confluent's frame, the message of the schema follows the schema id: a list of indexes, each a
zigzag varint, the first its length; the single byte 0 stands for the list (0), the first message.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import tempfile
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kaa.spark.formats.codec import SchemaError, isolate
from kaa.spark.formats.conform import conform, nullable
from kaa.spark.formats.untyped import pa

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kaa.spark.formats.codec import Decoded
    from kaa.spark.formats.untyped import Array, StructArray, StructType


FIRST_MESSAGE = (0,)


class ProtobufCodec:
    """One message of a schema, named in full, or by its place in the file."""

    def __init__(
        self,
        schema: str | bytes,
        references: Mapping[str, str] | None = None,
        message: str | Sequence[int] = FIRST_MESSAGE,
    ) -> None:
        self.defaults: dict[tuple[str, ...], object] = {}
        try:
            import ptars
        except ImportError as error:
            raise SchemaError(
                "Protobuf needs packages that are missing: pip install 'kaa[protobuf]'"
            ) from error
        descriptor = _descriptor(_file_set(schema, references or {}), message)
        config = ptars.PtarsConfig(
            timestamp_unit="us",
            list_value_name="element",
            list_nullable=True,
            map_nullable=True,
            list_value_nullable=True,
            map_value_nullable=True,
            enum_repr="string",
        )
        pool = ptars.HandlerPool([descriptor.file], config)
        self._handler = pool.get_for_message(descriptor)
        stored = pa.struct(list(self._handler.schema()))
        self.type: StructType = nullable(stored)
        if not self.type.num_fields:
            raise SchemaError(f"the message {descriptor.full_name} has no fields")

    def decode(self, values: Array) -> Decoded:
        return isolate(values, self._convert, self.type)

    def _convert(self, values: Array) -> StructArray:
        batch = self._handler.array_to_record_batch(values)
        mask = values.is_null() if values.null_count else None
        columns = [
            conform(column, field.type)
            for column, field in zip(batch.columns, self.type, strict=True)
        ]
        return pa.StructArray.from_arrays(columns, fields=list(self.type), mask=mask)


def message_indexes(value: bytes) -> tuple[tuple[int, ...], int]:
    """The indexes at the start of a value, and how many bytes they have."""
    numbers: list[int] = []
    at, wanted = 0, 1
    while len(numbers) < wanted:
        number = shift = 0
        while True:
            if at >= len(value) or shift > 28:
                raise ValueError("the indexes of the message are cut short")
            number |= (value[at] & 0x7F) << shift
            at += 1
            shift += 7
            if value[at - 1] < 0x80:
                break
        numbers.append((number >> 1) ^ -(number & 1))
        if not 0 <= numbers[0] <= len(value):
            raise ValueError("the indexes of the message cannot be right")
        wanted = numbers[0] + 1
    return tuple(numbers[1:]) or FIRST_MESSAGE, at


def _file_set(schema: str | bytes, references: Mapping[str, str]) -> Any:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
    from google.protobuf.message import DecodeError

    if isinstance(schema, str) and "message" in schema:
        return _compiled(schema, references)
    try:
        data = schema if isinstance(schema, bytes) else base64.b64decode(schema, validate=True)
    except binascii.Error as error:
        raise SchemaError(f"the schema is neither .proto text nor descriptors: {error}") from error
    # A set of files and a single file are distinguished by what can be read as which.
    with contextlib.suppress(DecodeError):
        found = FileDescriptorSet.FromString(data)
        if found.file and all(file.message_type or file.enum_type for file in found.file):
            return found
    try:
        return FileDescriptorSet(file=[FileDescriptorProto.FromString(data)])
    except DecodeError as error:
        raise SchemaError(f"the descriptors cannot be read: {error}") from error


def _compiled(schema: str, references: Mapping[str, str]) -> Any:
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    try:
        import grpc_tools
        from grpc_tools import protoc
    except ImportError as error:
        raise SchemaError(
            ".proto text needs a compiler: pip install 'kaa[protobuf]', or give descriptors"
        ) from error
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {**references, "schema.proto": schema}.items():
            path = Path(folder, name)
            if not path.resolve().is_relative_to(Path(folder).resolve()):
                raise SchemaError(f"a reference cannot be named {name!r}")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        output = Path(folder, "descriptors")
        common = Path(grpc_tools.__file__).with_name("_proto")
        status = protoc.main(
            [
                "protoc",
                f"-I{folder}",
                f"-I{common}",
                "--include_imports",
                f"--descriptor_set_out={output}",
                str(Path(folder, "schema.proto")),
            ]
        )
        if status:
            raise SchemaError("the .proto text does not compile; the compiler said why on stderr")
        return FileDescriptorSet.FromString(output.read_bytes())


def _common(name: str) -> Any:
    """One of the files that come with Protobuf itself."""
    module = name.removesuffix(".proto").replace("/", ".") + "_pb2"
    if not module.startswith("google.protobuf."):
        raise SchemaError(f"the schema imports {name!r}, which was not given")
    try:
        return import_module(module).DESCRIPTOR
    except ImportError as error:
        raise SchemaError(f"the schema imports {name!r}, which is not known") from error


def _descriptor(files: Any, message: str | Sequence[int]) -> Any:
    from google.protobuf.descriptor_pool import DescriptorPool

    pool = DescriptorPool()
    given = {file.name for file in files.file}
    for file in files.file:
        for name in file.dependency:
            if name not in given:
                pool.AddSerializedFile(_common(name).serialized_pb)
        pool.Add(file)
    try:
        if isinstance(message, str):
            return pool.FindMessageTypeByName(message)
        file = pool.FindFileByName(files.file[-1].name)
        found = list(file.message_types_by_name.values())[message[0]]
        for index in message[1:]:
            found = found.nested_types[index]
    except (KeyError, IndexError) as error:
        raise SchemaError(f"the schema has no message {message!r}") from error
    return found
