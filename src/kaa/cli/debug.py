"""`kaa debug`: files of a node and frames of the protocol, for people who look for a fault."""

from __future__ import annotations

import sys
from base64 import b64decode
from binascii import Error as Base64Error
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kaa.cli.bundle import bundle
from kaa.cli.client import EXIT_FAILED, EXIT_UNHEALTHY, EXIT_USAGE, complain, local_options
from kaa.cli.command import Noun
from kaa.cli.output import show, show_one
from kaa.cli.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_PATHS = click.Path(exists=True, path_type=Path)
_DECODERS = ("text", "offsets", "transactions", "share", "metadata")


@click.group(cls=Noun, name="debug")
def command() -> None:
    """Look into files and frames: segments, indexes, snapshots.

    Works on the files of Kaa and of Kafka alike, without a broker. Only bundle asks a cluster.

    \b
    Examples:
      kaa debug dump-log kaa-data/orders-0
      kaa debug dump-index kaa-data/orders-0
      kaa debug decode-frame --hex 0012000300000001000772646b61666b6100037264023200
    """


@command.command("dump-log")
@click.argument("paths", nargs=-1, required=True, type=_PATHS)
@click.option("-r", "--records", "with_records", is_flag=True, help="Every record, not batches.")
@click.option("-n", "--count", type=click.IntRange(min=1), help="Stop after this many rows.")
@click.option(
    "--decode",
    type=click.Choice(["auto", *_DECODERS]),
    default="auto",
    show_default=True,
    help="What the records are; auto goes by the name of the folder.",
)
@local_options
def dump_log(
    output: str, paths: tuple[Path, ...], with_records: bool, count: int | None, decode: str
) -> None:
    """Show the batches or records of segments; exit code 7 if one is damaged.

    PATHS are segments (.log), snapshots of the metadata (.checkpoint), or folders of partitions.
    Records of internal topics are decoded.

    \b
    Examples:
      kaa debug dump-log kaa-data/orders-0
      kaa debug dump-log kaa-data/orders-0/00000000000000000000.log --records
      kaa debug dump-log kaa-data/__consumer_offsets-12 -r -o jsonl
    """
    from kaa.cli.dump import BATCH_COLUMNS, BATCH_COLUMNS_WIDE, segments_of

    files = [file for path in paths for file in segments_of(path, ".log")]
    rows = []
    is_damaged = False
    with Progress("reading", "bytes", sum(file.stat().st_size for file in files)) as progress:
        for row in _rows(files, with_records, decode, progress):
            is_damaged |= row.get("valid") is False or row.get("error") is not None
            rows.append(row)
            if count is not None and len(rows) >= count:
                break
    if with_records:
        show(output, ["offset", "timestamp_ms", "type", "key", "value"], rows, "offset")
    else:
        show(output, BATCH_COLUMNS, rows, "base_offset", wide=BATCH_COLUMNS_WIDE)
    for row in rows:
        if row.get("error") is not None:
            complain(f"{row.get('file', '')} at {row.get('position', '-')}: {row['error']}")
    if is_damaged:
        sys.exit(EXIT_UNHEALTHY)


def _rows(
    files: Sequence[Path], with_records: bool, decode: str, progress: Progress
) -> Iterator[dict[str, Any]]:
    from kaa.cli.dump import batches, mapped, records, topic_of
    from kaa.cli.plain import decoder_of

    for file in files:
        decoder = decoder_of(topic_of(file)) if decode == "auto" else decode
        with mapped(file) as content:
            for row, batch in batches(file, content):
                progress.advance(row["size_bytes"])
                if not with_records or batch is None or not row["valid"]:
                    yield dict.fromkeys(_RECORD_COLUMNS) | row if with_records else row
                    continue
                for record in records(batch, decoder):
                    yield dict.fromkeys(_RECORD_COLUMNS) | record


_RECORD_COLUMNS = ("offset", "timestamp_ms", "type", "key", "value")


@command.command("dump-index")
@click.argument("paths", nargs=-1, required=True, type=_PATHS)
@local_options
def dump_index(output: str, paths: tuple[Path, ...]) -> None:
    """Show the entries of indexes: offsets, times, aborted transactions, leader epochs.

    \b
    Examples:
      kaa debug dump-index kaa-data/orders-0/00000000000000000000.index
      kaa debug dump-index kaa-data/orders-0/00000000000000000000.timeindex -o csv
      kaa debug dump-index kaa-data/orders-0
    """
    from kaa.cli.dump import index_rows, segments_of
    from kaa.log.errors import CorruptFileError

    files = []
    for path in paths:
        for suffix in (".index", ".timeindex", ".txnindex") if path.is_dir() else ("",):
            files += segments_of(path, suffix)
    by_columns: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    is_damaged = False
    for file in files:
        try:
            columns, rows = index_rows(file)
        except CorruptFileError as error:
            complain(str(error))
            is_damaged = True
            continue
        found = by_columns.setdefault(columns, [])
        found += [{"file": file.name, **row} for row in rows]
    for columns, rows in by_columns.items():
        show(output, ["file", *columns], rows, "file")
    if is_damaged:
        sys.exit(EXIT_UNHEALTHY)


@command.command("dump-snapshot")
@click.argument("path", type=_PATHS)
@local_options
def dump_snapshot(output: str, path: Path) -> None:
    """Show a snapshot: of the metadata (.checkpoint), or of producers (.snapshot).

    \b
    Examples:
      kaa debug dump-snapshot kaa-data/orders-0/00000000000000000100.snapshot
      kaa debug dump-snapshot 00000000000000000000-0000000000.checkpoint -o jsonl
    """
    from kaa.cli.dump import PRODUCER_COLUMNS, producer_rows
    from kaa.log.errors import CorruptFileError

    if path.suffix == ".snapshot":
        try:
            show(output, PRODUCER_COLUMNS, producer_rows(path), "producer_id")
        except CorruptFileError as error:
            complain(str(error))
            sys.exit(EXIT_UNHEALTHY)
        return
    with Progress("reading", "bytes", path.stat().st_size) as progress:
        rows = list(_rows([path], True, "metadata", progress))
    show(output, ["offset", "type", "value"], rows, "type")
    damaged = [row for row in rows if row.get("error") is not None]
    for row in damaged:
        complain(f"{path.name}: {row['error']}")
    if damaged:
        sys.exit(EXIT_UNHEALTHY)


@command.command("decode-frame")
@click.argument("file", required=False, type=click.Path(path_type=Path, allow_dash=True))
@click.option("--hex", "hex_text", help="The bytes in hexadecimal digits.")
@click.option("--base64", "base64_text", help="The bytes in base64.")
@click.option("--response", is_flag=True, help="It is an answer; needs --key and --version.")
@click.option("--key", type=int, help="The API key of the request that was answered.")
@click.option("--version", type=int, help="The version of the request that was answered.")
@click.option("--sized/--not-sized", default=None, help="Whether 4 bytes of size come first.")
@local_options
def decode_frame(
    output: str,
    file: Path | None,
    hex_text: str | None,
    base64_text: str | None,
    response: bool,
    key: int | None,
    version: int | None,
    sized: bool | None,
) -> None:
    """Decode a request or an answer of the protocol.

    \b
    Examples:
      kaa debug decode-frame --hex 0012000300000001000772646b61666b6100037264023200
      kaa debug decode-frame request.bin -o yaml
      kaa debug decode-frame answer.bin --response --key 18 --version 4
    """
    from kaa.wire.primitives import WireError

    if (file is not None) + (hex_text is not None) + (base64_text is not None) != 1:
        raise click.UsageError("give a FILE, --hex or --base64")
    if response and (key is None or version is None):
        raise click.UsageError("--response needs --key and --version")
    frame = without_size(_bytes_of(file, hex_text, base64_text), sized)
    try:
        document = response_of(frame, key or 0, version or 0) if response else request_of(frame)
    except (WireError, ValueError) as error:
        complain(f"this is not {'an answer' if response else 'a request'}: {error}")
        sys.exit(EXIT_FAILED)
    from kaa.cli.output import yaml_text

    show_one(output, document, "api", lambda: click.echo(yaml_text(document), nl=False))


def _bytes_of(file: Path | None, hex_text: str | None, base64_text: str | None) -> bytes:
    try:
        if hex_text is not None:
            return bytes.fromhex("".join(hex_text.split()))
        if base64_text is not None:
            return b64decode(base64_text, validate=True)
        assert file is not None
        return sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except (ValueError, Base64Error) as error:
        complain(f"these are not bytes: {error}")
    except OSError as error:
        complain(f"cannot read {file}: {error.strerror}")
    sys.exit(EXIT_USAGE)


def without_size(frame: bytes, sized: bool | None) -> bytes:
    """The frame after its size; without a word on it, a size that fits is taken for one."""
    if sized is None:
        sized = len(frame) >= 4 and int.from_bytes(frame[:4], "big") == len(frame) - 4
    return frame[4:] if sized else frame


def request_of(frame: bytes) -> dict[str, Any]:
    """A request with its header; raises WireError."""
    from kaa.cli.plain import plain_message
    from kaa.wire.frames import decode_request, read_request_header
    from kaa.wire.registry import api

    header = read_request_header(frame)
    message = decode_request(frame, header)
    return {
        "api": api(header.api_key).name,
        "key": header.api_key,
        "version": header.api_version,
        "correlation_id": header.correlation_id,
        "client_id": header.client_id,
        "body": plain_message(message, header.api_version),
    }


def response_of(frame: bytes, key: int, version: int) -> dict[str, Any]:
    """An answer with its header; raises WireError, or ValueError for an unknown key."""
    from kaa.cli.plain import plain_message
    from kaa.wire.messages.headers import ResponseHeader
    from kaa.wire.registry import api

    entry = api(key)
    header_codec = ResponseHeader.codec(entry.response_header_version(version))
    header, position = header_codec.decode_prefix(frame)
    message, _ = entry.response.codec(version).decode_prefix(memoryview(frame)[position:])
    return {
        "api": entry.name,
        "key": key,
        "version": version,
        "correlation_id": header.correlation_id,
        "body": plain_message(message, version),
    }


command.add_command(bundle)
