"""``kaa produce``: lines, or JSON objects as ``kaa consume -o jsonl`` prints them, to a topic."""

from __future__ import annotations

import json
import sys
from base64 import b64decode
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import click

from kaa.cli.client import (
    EXIT_PARTLY,
    EXIT_USAGE,
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

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Sequence

    from kaa.cli.client import Session
    from kaa.cli.input_lines import Stream
    from kaa.client.producer import Delivery

# Records whose delivery is awaited together; enough to fill requests, and few in memory.
_AWAITED_TOGETHER = 10_000
_COLUMNS = ("topic", "partition", "offset", "timestamp_ms")
# Forms without a beginning and an end.
_STREAMED = ("jsonl", "name")


class NewRecord(NamedTuple):
    """A record to send."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int | None = None
    timestamp_ms: int | None = None


class InputError(Exception):
    """A line that is no record."""


def read_lines(
    lines: Iterable[bytes], key: bytes | None, delimiter: bytes | None, *, empty_is_null: bool
) -> Iterator[NewRecord]:
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
        yield NewRecord(own_key, value)


def read_json(lines: Iterable[bytes], first_number: int = 1) -> Iterator[NewRecord]:
    """One JSON object per line, with value and perhaps key, headers, partition, timestamp_ms."""
    for number, line in enumerate(lines, first_number):
        if not line.strip():
            continue
        try:
            item = json.loads(line)
            yield NewRecord(
                _bytes(item.get("key")),
                _bytes(item["value"]),
                tuple((name, _bytes(value)) for name, value in item.get("headers") or ()),
                item.get("partition"),
                item.get("timestamp_ms"),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"line {number} is no record: {error!r}; write objects such as "
                '{"key": "k", "value": "v", "headers": [["name", "value"]]}'
            ) from error


def read_headers(texts: Sequence[str]) -> tuple[tuple[str, bytes | None], ...]:
    """Headers in their order; a name may come twice, and one without = is null."""
    found: list[tuple[str, bytes | None]] = []
    for text in texts:
        name, separator, value = text.partition("=")
        if not name:
            raise click.UsageError(f"--header {text!r} is not of the form NAME=VALUE")
        found.append((name, value.encode() if separator else None))
    return tuple(found)


def _bytes(value: Any) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, dict):
        return b64decode(value["base64"], validate=True)
    return value.encode() if isinstance(value, str) else json.dumps(value).encode()


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
@click.option("-p", "--partition", type=int, help="The partition of every record.")
@click.option("-Z", "--null", "empty_is_null", is_flag=True, help="Empty means null (tombstone).")
@click.option("--json", "is_json", is_flag=True, help="Lines are JSON objects.")
@click.option("--acks", type=click.Choice(["all", "0", "1"]), help="Who must have the records.")
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
    acks: str | None,
    compression: str | None,
) -> None:
    """Write records to a topic.

    Records are the VALUES, or the lines of standard input if there are none.

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
    delimiter = None if key_delimiter is None else key_delimiter.encode()
    own_key = None if key is None else key.encode()

    async def records() -> AsyncIterator[Iterator[NewRecord]]:
        count = 0
        async for lines in _pieces(values):
            if is_json:
                yield read_json(lines, count + 1)
            else:
                yield read_lines(lines, own_key, delimiter, empty_is_null=empty_is_null)
            count += len(lines)

    extra = read_headers(headers)

    async def work() -> int:
        try:
            return await _produce(session, topic, records(), extra, partition)
        except InputError as error:
            complain(str(error))
            return EXIT_USAGE

    run(session, work)


async def _pieces(values: Sequence[str]) -> AsyncIterator[list[bytes]]:
    """The values of the command line, or the lines of standard input as they come."""
    if values:
        yield [value.encode() for value in values]
        return
    if sys.stdin.isatty():
        say("one record per line; Ctrl-D ends it")
    async for lines in pieces_of(cast("Stream", sys.stdin.buffer)):
        yield lines


async def _produce(
    session: Session,
    topic: str,
    records: AsyncIterator[Iterator[NewRecord]],
    headers: tuple[tuple[str, bytes | None], ...],
    partition: int | None,
) -> int:
    from kaa.client.errors import ClientError
    from kaa.client.producer import Producer

    sent = failed = 0
    first_error: ClientError | None = None
    deliveries: list[Delivery] = []
    written: list[dict[str, Any]] = []

    async def settle() -> None:
        nonlocal failed, first_error, written
        await producer.flush()
        for delivery in deliveries:
            try:
                found = delivery.result()
            except ClientError as error:
                if first_error is None:
                    first_error = error
                    tell(error)
                failed += 1
            else:
                if session.output != "table":
                    written.append(found._asdict())
        deliveries.clear()
        if session.output in _STREAMED:
            show(session.output, [], written, "offset")
            written = []

    async with Producer(session.settings) as producer:
        progress = Progress("writing", "records")
        try:
            async for piece in records:
                for record in piece:
                    delivery = await producer.send(
                        topic,
                        record.value,
                        key=record.key,
                        partition=record.partition if partition is None else partition,
                        headers=(*record.headers, *headers),
                        timestamp_ms=record.timestamp_ms,
                    )
                    deliveries.append(delivery)
                    sent += 1
                    progress.advance()
                if len(deliveries) >= _AWAITED_TOGETHER:
                    await settle()
        finally:
            progress.clear()
            await settle()
    if session.output not in {"table", *_STREAMED}:
        show(session.output, _COLUMNS, written, "offset")
    say(f"{sent - failed} of {sent} records written to {topic}")
    if first_error is None:
        return 0
    return EXIT_PARTLY if failed < sent else exit_code(first_error)
