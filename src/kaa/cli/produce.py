"""`kaa produce`: lines, or JSON objects as `kaa consume -o jsonl` prints them, to a topic."""

from __future__ import annotations

import asyncio
import json
import sys
from base64 import b64decode
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import click

from kaa.cli.client import (
    EXIT_PARTLY,
    EXIT_USAGE,
    admin_settings,
    client_options,
    complain,
    exit_code,
    run,
    say,
    tell,
)
from kaa.cli.command import TOPIC, Verb
from kaa.cli.input_lines import pieces_of
from kaa.cli.output import show
from kaa.cli.progress import Progress
from kaa.limits import CLI_DELIVERIES_AWAITED_MAX
from kaa.model.words import count_text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Sequence

    from kaa.cli.client import Session
    from kaa.cli.input_lines import Stream
    from kaa.client.errors import ClientError, KafkaError
    from kaa.client.producer.producer import Delivery, Producer

_COLUMNS = ("topic", "partition", "offset", "timestamp_ms")
# Forms without a beginning and an end.
_STREAMED = ("jsonl", "name")


class InputRecord(NamedTuple):
    """A record to send."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int | None = None
    timestamp_ms: int | None = None


# Topic and offset are where `kaa consume -o jsonl` found the record.
_FIELDS = {*InputRecord._fields, "topic", "offset"}


class InputError(Exception):
    """A line that is not a record."""


def read_lines(
    lines: Iterable[bytes], key: bytes | None, delimiter: bytes | None, *, empty_is_null: bool
) -> Iterator[InputRecord]:
    """One record per line; with a delimiter, what stands before it is the key."""
    for line in lines:
        value: bytes | None = line
        own_key = key
        if delimiter is not None:
            before, separator, after = line.partition(delimiter)
            if separator:
                own_key, value = before, after
        if empty_is_null and value == b"":
            value = None
        if empty_is_null and own_key == b"":
            own_key = None
        yield InputRecord(own_key, value)


def read_json(lines: Iterable[bytes], first_number: int = 1) -> Iterator[InputRecord]:
    """One JSON object per line, with value and perhaps key, headers, partition, timestamp_ms."""
    for number, line in enumerate(lines, first_number):
        if not line.strip():
            continue
        try:
            yield _record_of(line)
        except (InputError, ValueError) as error:
            is_list = line.lstrip().startswith(b"[")
            form = "one object per line, as -o jsonl does" if is_list else "objects"
            raise InputError(
                f"line {number} is not a record: {error}; write {form} such as "
                '{"key": "k", "value": "v", "headers": [["name", "value"]]}'
            ) from error


def _record_of(line: bytes) -> InputRecord:
    item = json.loads(line)
    if not isinstance(item, dict):
        raise InputError(f"it is a {type(item).__name__} and not an object")
    if "value" not in item:
        raise InputError("it has no value")
    if unknown := item.keys() - _FIELDS:
        known = ", ".join(InputRecord._fields)
        raise InputError(
            f"it has unknown fields: {', '.join(sorted(unknown))}; it may have {known}"
        )
    return InputRecord(
        _bytes(item.get("key")),
        _bytes(item["value"]),
        _headers(item.get("headers")),
        _number(item, "partition"),
        _number(item, "timestamp_ms"),
    )


def _headers(given: Any) -> tuple[tuple[str, bytes | None], ...]:
    if not isinstance(given or [], list):
        raise InputError(f"headers are a list of pairs, not {json.dumps(given)}")
    return tuple(_header(one) for one in given or ())


def _header(pair: Any) -> tuple[str, bytes | None]:
    if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], str):
        raise InputError(f"{json.dumps(pair)} is not a pair of a name and a value")
    return pair[0], _bytes(pair[1])


def read_headers(texts: Sequence[str]) -> tuple[tuple[str, bytes | None], ...]:
    """Headers in their order; a name may come twice, and one without = is null."""
    found: list[tuple[str, bytes | None]] = []
    for text in texts:
        name, separator, value = text.partition("=")
        if not name:
            raise click.UsageError(f"--header {text!r} is not of the form NAME=VALUE")
        found.append((name, _argument_bytes(value) if separator else None))
    return tuple(found)


def _number(item: dict[str, Any], name: str) -> int | None:
    value = item.get(name)
    if value is not None and (type(value) is not int or value < 0):
        raise ValueError(f"{name} is {value!r}")
    return value


def _bytes(value: Any) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, dict):
        if not isinstance(value.get("base64"), str):
            raise InputError(f'{json.dumps(value)} has no text "base64"')
        return b64decode(value["base64"], validate=True)
    return value.encode() if isinstance(value, str) else json.dumps(value).encode()


def _argument_bytes(text: str) -> bytes:
    """The bytes that the shell gave, which need not be UTF-8."""
    return text.encode("utf-8", "surrogateescape")


@click.command(cls=Verb)
@click.argument("topic", type=TOPIC)
@click.argument("values", nargs=-1)
@click.option("-k", "--key", help="The key of every record.")
@click.option("-K", "--key-delimiter", help="What separates key and value in a line.")
@click.option(
    "-H",
    "--header",
    "headers",
    multiple=True,
    metavar="NAME=VALUE",
    help="A header; NAME alone is null.",
)
@click.option(
    "-p", "--partition", type=click.IntRange(min=0), help="The partition of every record."
)
@click.option("-Z", "--null", "empty_is_null", is_flag=True, help="Empty means null (tombstone).")
@click.option("--json", "is_json", is_flag=True, help="Lines are JSON objects.")
@click.option("--no-create", is_flag=True, help="Fail if the topic does not exist.")
@click.option(
    "--acks", type=click.Choice(["all", "0", "1"]), help="Which replicas must have the records."
)
@click.option(
    "-z",
    "--compression",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    help="The codec of the batches.",
)
@client_options
def command(
    session: Session,
    topic: str,
    values: tuple[str, ...],
    key: str | None,
    key_delimiter: str | None,
    headers: tuple[str, ...],
    partition: int | None,
    empty_is_null: bool,
    is_json: bool,
    no_create: bool,
    acks: str | None,
    compression: str | None,
) -> None:
    """Write records to a topic.

    Records are the VALUES, or the lines of standard input if there are none. A topic that is not
    there is created, if the cluster allows that.

    \b
    Examples:
      kaa produce orders hello
      kaa produce orders -K : < lines.txt
      kaa consume old -e -o jsonl | kaa produce new --json
      kaa produce orders -k customer-7 -Z ''   # a tombstone
    """
    if acks is not None:
        session.settings["acks"] = acks
    if compression is not None:
        session.settings["compression.type"] = compression
    if key_delimiter == "":
        raise click.UsageError("--key-delimiter is empty; name what separates key and value")
    delimiter = None if key_delimiter is None else _argument_bytes(key_delimiter)
    own_key = None if key is None else _argument_bytes(key)

    extra = read_headers(headers)
    is_typed = not values and sys.stdin.isatty()

    async def records() -> AsyncIterator[Iterator[InputRecord]]:
        count = 0
        async for lines in _pieces(values, is_typed=is_typed):
            if is_json:
                found = read_json(lines, count + 1)
            else:
                found = read_lines(lines, own_key, delimiter, empty_is_null=empty_is_null)
            yield (with_extras(record, extra, partition) for record in found)
            count += len(lines)

    async def work() -> int:
        return await _produce(
            session, topic, records(), may_create=not no_create, is_typed=is_typed
        )

    run(session, work)


def with_extras(
    record: InputRecord, headers: tuple[tuple[str, bytes | None], ...], partition: int | None
) -> InputRecord:
    """A record with the headers and the partition that options ask for."""
    own = record.partition if partition is None else partition
    return record._replace(headers=(*record.headers, *headers), partition=own)


async def _pieces(values: Sequence[str], *, is_typed: bool) -> AsyncIterator[list[bytes]]:
    """The values of the command line, or the lines of standard input as they come."""
    if values:
        yield [_argument_bytes(value) for value in values]
        return
    if is_typed:
        say("one record per line; Ctrl-D ends it")
    async for lines in pieces_of(cast("Stream", sys.stdin.buffer)):
        yield lines


class Sending:
    """What became of the records so far."""

    def __init__(self, session: Session, topic: str) -> None:
        self._output = session.output
        self._topic = topic
        self._deliveries: list[Delivery] = []
        self._written: list[dict[str, Any]] = []
        self._sent = 0
        self._failed = 0
        self._first_error: ClientError | None = None

    async def add(self, producer: Producer, record: InputRecord) -> None:
        """Sends one more."""
        delivery = await producer.send(
            self._topic,
            record.value,
            key=record.key,
            partition=record.partition,
            headers=record.headers,
            timestamp_ms=record.timestamp_ms,
        )
        self._deliveries.append(delivery)
        self._sent += 1

    @property
    def is_full(self) -> bool:
        """Whether enough are on their way."""
        return len(self._deliveries) >= CLI_DELIVERIES_AWAITED_MAX

    async def settle(self, producer: Producer) -> None:
        """Waits for all that is on its way."""
        from kaa.client.errors import ClientError

        await producer.flush()
        for delivery in self._deliveries:
            try:
                found = delivery.result()
            except ClientError as error:
                if self._first_error is None:
                    self._first_error = error
                    tell(error)
                self._failed += 1
            else:
                if self._output != "table":
                    self._written.append(found._asdict())
        self._deliveries.clear()
        if self._output in _STREAMED:
            show(self._output, [], self._written, "offset")
            self._written = []

    def finish(self, wrong: InputError | None = None) -> int:
        """Says what was written, and what ended it before the end; gives the exit code."""
        if self._output not in {"table", *_STREAMED}:
            show(self._output, _COLUMNS, self._written, "offset")
        say(f"{written_text(self._sent - self._failed, self._sent)} written to {self._topic}")
        if wrong is not None:
            complain(str(wrong))
            return EXIT_PARTLY if self._sent > self._failed else EXIT_USAGE
        if self._first_error is None:
            return 0
        return EXIT_PARTLY if self._failed < self._sent else exit_code(self._first_error)


def written_text(written: int, sent: int) -> str:
    """How many records, and of how many where some were refused."""
    whole = count_text(sent, "record")
    return whole if written == sent else f"{written} of {whole}"


async def _produce(
    session: Session,
    topic: str,
    records: AsyncIterator[Iterator[InputRecord]],
    *,
    may_create: bool,
    is_typed: bool,
) -> int:
    from kaa.client.producer.producer import Producer

    absent = await _absence(session, topic)
    if absent is not None and not may_create:
        raise absent
    sending = Sending(session, topic)
    async with Producer(session.settings) as producer:
        if absent is not None:
            made = count_text(len((await producer.partitions_for(topic)).partitions), "partition")
            say(f"topic {topic} was not there and has been created with {made}")
        wrong: InputError | None = None
        progress = Progress("writing", "records")
        # Who types the records sees them, and a line of progress would run into them.
        progress.is_shown &= not is_typed
        try:
            async for piece in records:
                for record in piece:
                    await sending.add(producer, record)
                    progress.advance()
                if sending.is_full:
                    await sending.settle(producer)
        except InputError as error:
            wrong = error
        except asyncio.CancelledError:
            progress.clear()
            await sending.settle(producer)
            sending.finish()
            raise
        finally:
            progress.clear()
            await sending.settle(producer)
    return sending.finish(wrong)


async def _absence(session: Session, topic: str) -> KafkaError | None:
    """The error of a topic that is not there; asking for it does not create it."""
    from kaa.client.admin.admin import Admin
    from kaa.client.errors import KafkaError
    from kaa.wire.errors import Errors

    async with Admin(admin_settings(session.settings)) as admin:
        found = (await admin.describe_topics([topic]))[topic]
    is_absent = isinstance(found, KafkaError) and found.error is Errors.UNKNOWN_TOPIC_OR_PARTITION
    return cast("KafkaError", found) if is_absent else None
