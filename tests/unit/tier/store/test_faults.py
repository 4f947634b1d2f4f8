"""Stores that are slow, refuse, break off, are full or lie: an error in time, never wrong bytes."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from kaa.tier.store.layout import Part, object_name
from kaa.tier.store.objects import ObjectStore, StoreError, StoreRefusesError
from kaa.tier.store.places import AddressError, open_store
from kaa.tier.store.segments import DamagedObjectError, RemoteSegments, checksum, encode_written
from tests.unit.tier.metadata.samples import segment

DATA = bytes(range(256)) * 400


class Server(ThreadingHTTPServer):
    """As much of S3 as the tier uses; `fault` is asked before each request and may answer it."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.objects: dict[str, bytes] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.requests: list[str] = []
        self.fault: Callable[[Handler, int], bool] = lambda *_: False


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  The base's name.
        """In silence."""

    def reply(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def handle_request(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        self.body = self.rfile.read(size)
        self.server.requests.append(f"{self.command} {self.path}")
        if not self.server.fault(self, len(self.server.requests)):
            self.answer()

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_request  # noqa: N815  The base's.

    def answer(self) -> None:
        name, _, query = self.path.partition("?")
        objects, uploads = self.server.objects, self.server.uploads
        part = re.search(r"partNumber=(\d+)", query)
        if self.command == "POST" and "uploads" in query:
            uploads["u"] = {}
            self.reply(200, b"<InitiateMultipartUploadResult><UploadId>u</UploadId>"
                            b"</InitiateMultipartUploadResult>")  # fmt: skip
        elif self.command == "POST":
            objects[name] = b"".join(data for _, data in sorted(uploads.pop("u").items()))
            self.reply(200, b'<CompleteMultipartUploadResult><ETag>"e"</ETag>'
                            b"</CompleteMultipartUploadResult>")  # fmt: skip
        elif self.command == "PUT":
            if part is not None:
                uploads["u"][int(part[1])] = self.body
            else:
                objects[name] = self.body
            self.reply(200, ETag='"e"')
        elif self.command == "DELETE":
            uploads.pop("u", None)
            self.reply(204)
        elif name not in objects:
            self.reply(404)
        else:
            self._send(objects[name])

    def _send(self, data: bytes) -> None:
        headers = {"ETag": '"e"', "Last_Modified": "Mon, 16 Nov 2026 00:00:00 GMT"}
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range") or "")
        if wanted is None:
            self.reply(200, data, **headers)
            return
        start, end = int(wanted[1]), min(int(wanted[2]), len(data) - 1)
        headers["Content_Range"] = f"bytes {start}-{end}/{len(data)}"
        self.reply(206, data[start : end + 1], **headers)

    def break_off(self) -> None:
        """Promises more than it sends."""
        self.send_response(200)
        self.send_header("Content-Length", str(len(DATA)))
        self.send_header("ETag", '"e"')
        self.send_header("Last-Modified", "Mon, 16 Nov 2026 00:00:00 GMT")
        self.end_headers()
        self.wfile.write(DATA[:1000])
        self.close_connection = True


@contextmanager
def served(**options: str) -> Iterator[tuple[Server, ObjectStore]]:
    server = Server()
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    given = {
        "endpoint": f"http://127.0.0.1:{server.server_port}",
        "region": "r",
        "access-key-id": "a",
        "secret-access-key": "s",
        "max-retries": "2",
        "request-timeout": "20s",
    }
    try:
        given |= {name.replace("_", "-"): text for name, text in options.items()}
        yield server, open_store("s3://bucket", given)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def refuse(status: int, *, times: int = 1_000) -> Callable[[Handler, int], bool]:
    def fault(handler: Handler, number: int) -> bool:
        if number > times:
            return False
        handler.reply(status, b"<Error><Code>No</Code></Error>")
        return True

    return fault


def test_what_fails_for_a_moment_is_tried_again() -> None:
    with served() as (server, store):
        server.objects["/bucket/one"] = DATA
        server.fault = refuse(503, times=2)
        assert asyncio.run(store.get("one")) == DATA
        assert len(server.requests) == 3


def test_what_goes_on_failing_is_an_error_that_says_which() -> None:
    with served() as (server, store):
        server.fault = refuse(500)
        with pytest.raises(StoreError, match="one"):
            asyncio.run(store.get_range("one", 0, 10))
        assert len(server.requests) == 3
        server.fault = refuse(507)
        with pytest.raises(StoreError, match="two"):
            asyncio.run(store.put("two", b"x"))
        server.fault = refuse(403)
        with pytest.raises(StoreRefusesError):
            asyncio.run(store.get("three"))
        assert server.objects == {}


def test_an_answer_that_breaks_off_is_never_taken_for_whole() -> None:
    with served() as (server, store):
        server.objects["/bucket/one"] = DATA

        def fault(handler: Handler, number: int) -> bool:
            if number == 1:
                handler.break_off()
            return number == 1

        server.fault = fault
        try:
            assert asyncio.run(store.get("one")) == DATA
        except StoreError:
            assert asyncio.run(store.get("one")) == DATA


def test_a_slow_store_ends_by_its_deadline() -> None:
    with served(request_timeout="1s", max_retries="0") as (server, store):
        over = threading.Event()

        def fault(_handler: Handler, _number: int) -> bool:
            over.wait(60)
            return False

        server.fault = fault
        began = time.monotonic()
        try:
            with pytest.raises(StoreError):
                asyncio.run(store.get("one"))
            assert time.monotonic() - began < 50
        finally:
            over.set()


def test_an_upload_in_parts_that_is_cut_leaves_nothing(tmp_path: Path) -> None:
    large = tmp_path / "large"
    large.write_bytes(DATA * 200)
    with served() as (server, store):

        def fault(handler: Handler, _number: int) -> bool:
            if "partNumber=2" not in handler.path:
                return False
            handler.reply(500)
            return True

        server.fault = fault
        with pytest.raises(StoreError):
            asyncio.run(store.put("one", large))
        assert server.objects == {}
        assert server.uploads == {}
        server.fault = lambda *_: False
        asyncio.run(store.put("one", large))
        assert server.objects["/bucket/one"] == large.read_bytes()


def test_a_store_that_lies_is_found_out() -> None:
    with served() as (server, store):
        parts: dict[Part, Path | bytes] = {Part.LOG: DATA, Part.OFFSET_INDEX: DATA[:80]}
        written = encode_written({part: checksum(data) for part, data in parts.items()})
        copied = segment(1, 0, 9)._replace(size_bytes=len(DATA), custom_metadata=written)
        segments = RemoteSegments(store)
        asyncio.run(segments.copy(copied, parts))
        log, index = (f"/bucket/{object_name(copied, part)}" for part in parts)
        server.objects[log] = DATA[:-1]
        with pytest.raises(DamagedObjectError, match="ends before byte"):
            asyncio.run(segments.read_log(copied, 100, len(DATA)))
        server.objects[index] = DATA[1:81]
        with pytest.raises(DamagedObjectError, match="checksum"):
            asyncio.run(segments.read_part(copied, Part.OFFSET_INDEX))


def test_a_directory_that_is_full_or_not_ours(tmp_path: Path) -> None:
    store = open_store((tmp_path / "tier").as_uri())
    (tmp_path / "tier" / "folder").write_bytes(b"a file where a folder should be")
    with pytest.raises(StoreError, match="folder/one"):
        asyncio.run(store.put("folder/one", b"x"))


def test_settings_of_retries_that_are_none() -> None:
    with pytest.raises(AddressError, match="retry-timeout a time such as 60s"):
        open_store("s3://bucket", {"region": "r", "retry-timeout": "soon"})
    with pytest.raises(AddressError) as raised:
        open_store("s3://bucket", {"region": "r", "no-such": "1"})
    assert "\n" not in str(raised.value)
