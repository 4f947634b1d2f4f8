"""``kaa produce``: lines, or JSON objects as ``kaa consume -o jsonl`` prints them, to a topic."""

from __future__ import annotations

import json
import sys
from base64 import b64decode
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from kaa.cli.client import EXIT_FAILED, EXIT_USAGE, client_options, complain, pairs, run, say, tell
from kaa.cli.command import TOPIC, Verb
from kaa.cli.output import show
from kaa.cli.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kaa.cli.client import Session
    from kaa.client.producer import Delivery

# Records whose delivery is awaited together; enough to fill requests, and few in memory.
_AWAITED_TOGETHER = 10_000


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
        value: bytes | None = line.removesuffix(b"\n")
        assert value is not None
        own_key = key
        if delimiter is not None:
            before, separator, after = value.partition(delimiter)
            if separator:
                own_key, value = before, after
        if empty_is_null and value == b"":
            value = None
        if empty_is_null and own_key == b"":
            own_key = None
        yield NewRecord(own_key, value)


def read_json(lines: Iterable[bytes]) -> Iterator[NewRecord]:
    """One JSON object per line, with value and perhaps key, headers, partition, timestamp_ms."""
    for number, line in enumerate(lines, 1):
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
@click.option("-H", "--header", "headers", multiple=True, metavar="NAME=VALUE", help="A header.")
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
    lines: Iterable[bytes] = [value.encode() for value in values] or sys.stdin.buffer
    delimiter = None if key_delimiter is None else key_delimiter.encode()
    if is_json:
        records = read_json(lines)
    else:
        own_key = None if key is None else key.encode()
        records = read_lines(lines, own_key, delimiter, empty_is_null=empty_is_null)
    extra = tuple((name, value.encode()) for name, value in pairs(headers, "--header").items())

    async def work() -> int:
        try:
            return await _produce(session, topic, records, extra, partition)
        except InputError as error:
            complain(str(error))
            return EXIT_USAGE

    run(session, work)


async def _produce(
    session: Session,
    topic: str,
    records: Iterator[NewRecord],
    headers: tuple[tuple[str, bytes | None], ...],
    partition: int | None,
) -> int:
    from kaa.client.errors import ClientError
    from kaa.client.producer import Producer

    sent = failed = 0
    deliveries: list[Delivery] = []

    async def settle() -> None:
        nonlocal failed
        rows = []
        await producer.flush()
        for delivery in deliveries:
            try:
                rows.append(delivery.result()._asdict())
            except ClientError as error:
                if not failed:
                    tell(error)
                failed += 1
        deliveries.clear()
        if session.output != "table" and rows:
            show(session.output, list(rows[0]), rows, "offset")

    async with Producer(session.settings) as producer:
        progress = Progress("writing", "records")
        try:
            for record in records:
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
    say(f"{sent - failed} of {sent} records written to {topic}")
    return EXIT_FAILED if failed else 0
