"""Records that were written with a schema registry, decoded for people.

Such a key or value is framed: a zero byte, the id of its schema in four bytes, and for Protobuf the
path to the message in the schema; then the data. Whether it is Avro, Protobuf or JSON Schema, the
registry says with the schema. What comes out is JSON text, marked as `JsonBytes` so that forms of
output which are JSON themselves hold the object and not a text of it.

Bytes without a frame, or with the id of a schema that the registry does not know, stay as they are:
many topics have framed values and plain keys. What has a frame and cannot be decoded stays too, and
is counted, with the first reason.
"""

from __future__ import annotations

import json
import math
from base64 import b64encode
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import click

from kaa.cli.extras import needs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kaa.client.consumer.records import ConsumerRecord
    from kaa.spark.formats.codec import SchemaCodec
    from kaa.spark.formats.registry import RegisteredSchema, RegistryClient

URL: Final = "schema.registry.url"
_BASIC: Final = "basic.auth.user.info"
_BEARER: Final = "bearer.auth.token"
_CA: Final = "schema.registry.ssl.ca.location"
PROPERTIES: tuple[str, ...] = (URL, _BASIC, _BEARER, _CA)
"""Properties of Confluent's serialisers, which no client of Kafka itself has."""

_FRAME_BYTES: Final = 5


class JsonBytes(bytes):
    """The text of a JSON value."""


class _DecodeError(Exception):
    """Framed bytes that are not what their schema says."""


class RegistryFailedError(click.ClickException):
    """The registry cannot be reached, or does not let this user in."""

    exit_code = 6


class RegistryDecoder:
    """Decodes keys and values; asks the registry once for each schema."""

    def __init__(self, client: RegistryClient) -> None:
        self._client = client
        self._unknown: set[int] = set()
        self._decoders: dict[int, Callable[[bytes], Any]] = {}
        self.failed = 0
        self.first_failure: str | None = None

    def records(self, records: Sequence[ConsumerRecord]) -> list[ConsumerRecord]:
        """The records, with keys and values decoded where they can be."""
        return [
            record._replace(key=self.decoded(record.key), value=self.decoded(record.value))
            for record in records
        ]

    async def decode(self, records: Sequence[ConsumerRecord]) -> list[ConsumerRecord]:
        """The same beside the loop, so that a group does not lose its member. The thread is one
        that nobody waits for: Ctrl-C ends a command also while the registry does not answer.
        """
        import asyncio
        import threading

        loop = asyncio.get_running_loop()
        decoded: asyncio.Future[list[ConsumerRecord]] = loop.create_future()

        def settle(result: list[ConsumerRecord] | Exception) -> None:
            if decoded.cancelled():
                return
            if isinstance(result, Exception):
                decoded.set_exception(result)
            else:
                decoded.set_result(result)

        def work() -> None:
            try:
                result: list[ConsumerRecord] | Exception = self.records(records)
            except Exception as error:  # noqa: BLE001 - It is raised where it is waited for.
                result = error
            with suppress(RuntimeError):  # The command has ended.
                loop.call_soon_threadsafe(settle, result)

        threading.Thread(target=work, name="registry", daemon=True).start()
        return await decoded

    def decoded(self, data: bytes | None) -> bytes | None:
        """JSON text of framed bytes, and all others as they are."""
        if data is None or len(data) < _FRAME_BYTES or data[0] != 0:
            return data
        schema_id = int.from_bytes(data[1:_FRAME_BYTES], "big")
        if schema_id in self._unknown:
            return data
        try:
            decoder = self._decoder(schema_id)
            if decoder is None:
                return data
            value = decoder(data[_FRAME_BYTES:])
        except _DecodeError as error:
            self.failed += 1
            if self.first_failure is None:
                self.first_failure = f"schema {schema_id}: {error}"
            return data
        return JsonBytes(json.dumps(value, ensure_ascii=False, default=_plain).encode())

    def summary(self) -> str | None:
        """What to say at the end; None if all went well."""
        if not self.failed:
            return None
        return (
            f"keys and values that were not decoded: {self.failed}; the first: {self.first_failure}"
        )

    def _decoder(self, schema_id: int) -> Callable[[bytes], Any] | None:
        known = self._decoders.get(schema_id)
        if known is not None:
            return known
        from kaa.spark.formats.registry import RegistryError, SchemaNotFoundError

        try:
            schema = self._client.schema(schema_id)
        except SchemaNotFoundError:
            self._unknown.add(schema_id)
            return None
        except RegistryError as error:
            raise RegistryFailedError(f"the schema registry: {error}") from error
        if schema.type == "JSON":
            made: Callable[[bytes], Any] = _decode_json
        else:
            with needs("registry"):
                made = _decoder_of(schema)
        self._decoders[schema_id] = made
        return made


def _decoder_of(schema: RegisteredSchema) -> Callable[[bytes], Any]:
    """A function from the data after the frame to a value of Python."""
    if schema.type == "AVRO":
        avro = _codec("avro", schema.text, schema.references)
        is_single = [field.name for field in avro.type] == ["decoded"]

        def decode_avro(data: bytes) -> Any:
            found = _row(avro, data)
            return found["decoded"] if is_single else found

        return decode_avro
    import grpc_tools  # noqa: F401 - of the same extra as those below; looked for before data comes.
    import ptars  # noqa: F401

    from kaa.spark.formats.protobuf import message_indexes

    def decode_protobuf(data: bytes) -> Any:
        try:
            indexes, size = message_indexes(data)
        except ValueError as error:
            raise _DecodeError(str(error)) from error
        return _row(_codec("protobuf", schema.text, schema.references, indexes), data[size:])

    return decode_protobuf


def _codec(*schema: Any) -> SchemaCodec:
    from kaa.spark.formats.codec import SchemaError
    from kaa.spark.formats.decoding import codec

    try:
        return codec(*schema)
    except SchemaError as error:
        raise _DecodeError(str(error)) from error


def _decode_json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError as error:
        raise _DecodeError(str(error)) from error


def _row(codec: SchemaCodec, data: bytes) -> dict[str, Any]:
    from kaa.spark.formats.untyped import pa

    decoded = codec.decode(pa.array([data], pa.binary()))
    for _, reason in decoded.errors:
        raise _DecodeError(reason)
    (row,) = decoded.rows.to_pylist(maps_as_pydicts="strict")
    assert isinstance(row, dict)
    return row


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"base64": b64encode(value).decode()}
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def decoder_of(
    settings: Mapping[str, str], url: str | None, timeout_ms: str = ""
) -> RegistryDecoder | None:
    """The decoder that `--registry` or the settings ask for; each schema has to come in time."""
    urls = url or settings.get(URL)
    if not urls:
        return None
    from kaa.spark.formats.registry import RegistryClient, RegistrySettings

    addresses = tuple(one.strip() for one in urls.split(",") if one.strip())
    if not all(one.startswith(("http://", "https://")) for one in addresses):
        raise click.UsageError(f"{urls!r} is not the address of a registry; write http://host:8081")
    return RegistryDecoder(
        RegistryClient(
            RegistrySettings(
                addresses, settings.get(_BASIC), settings.get(_BEARER), settings.get(_CA)
            ),
            # The client of the brokers complains of what is not a number.
            int(timeout_ms) / 1000 if timeout_ms.isdecimal() else math.inf,
        )
    )


registry_option = click.option(
    "--registry",
    metavar="URL",
    help="Decode Avro, Protobuf and JSON with the schemas of this registry.",
)
