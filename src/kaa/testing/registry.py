"""A schema registry for tests: Confluent's HTTP interface, in memory, on a thread of this process.

    with Registry() as registry:
        schema_id = registry.register("orders-value", schema)
        value = registry.frame(schema_id, encoded)
        run_my_code(registry.url)

It serves what readers and writers of records use: schemas by id, subjects and their versions,
registration over HTTP too, references, and a check of credentials. It judges no compatibility.
"""

from __future__ import annotations

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import unquote, urlsplit

from kaa.limits import REGISTRY_ANSWER_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Sequence

_JSON = "application/vnd.schemaregistry.v1+json"


class Registry:
    """The registry; its server runs from `__enter__` to `__exit__`."""

    def __init__(self, *, basic_auth: str | None = None, bearer_token: str | None = None) -> None:
        self._expected = None
        if basic_auth is not None:
            self._expected = "Basic " + base64.b64encode(basic_auth.encode()).decode()
        elif bearer_token is not None:
            self._expected = f"Bearer {bearer_token}"
        self._schemas: dict[int, dict[str, Any]] = {}
        self._subjects: dict[str, list[int]] = {}
        self._server: ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None
        # The paths that were asked for, in order.
        self.requests: list[str] = []
        # Status codes with which the next requests are answered instead.
        self.failures: list[int] = []

    def __enter__(self) -> Self:
        registry = self

        def handler(*arguments: Any) -> _Handler:
            return _Handler(registry, *arguments)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), name="kaa registry", daemon=True
        )
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        assert self._server is not None
        assert self._thread is not None
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        """The address, for the settings of clients."""
        assert self._server is not None, "the registry runs inside 'with'"
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def register(
        self,
        subject: str,
        schema: str,
        *,
        kind: str = "AVRO",
        references: Sequence[dict[str, Any]] = (),
    ) -> int:
        """Adds a version to a subject and returns the id of the schema; equal ones share an id."""
        entry: dict[str, Any] = {"schema": schema}
        if kind != "AVRO":
            entry["schemaType"] = kind
        if references:
            entry["references"] = list(references)
        for known, existing in self._schemas.items():
            if existing == entry:
                schema_id = known
                break
        else:
            schema_id = len(self._schemas) + 1
            self._schemas[schema_id] = entry
        versions = self._subjects.setdefault(subject, [])
        if schema_id not in versions:
            versions.append(schema_id)
        return schema_id

    @staticmethod
    def frame(schema_id: int, value: bytes, indexes: bytes = b"") -> bytes:
        """A value as Confluent's serializers write it; Protobuf has indexes of the message."""
        return b"\0" + schema_id.to_bytes(4, "big") + indexes + value

    # --- answers

    def answer(self, method: str, path: str, token: str | None, body: bytes) -> tuple[int, Any]:
        """Status and JSON of the answer to one request."""
        self.requests.append(path)
        if self.failures:
            return self.failures.pop(0), {"error_code": 50001, "message": "as asked"}
        if self._expected is not None and token != self._expected:
            return 401, {"error_code": 401, "message": "Unauthorized"}
        match [unquote(part) for part in urlsplit(path).path.strip("/").split("/")]:
            case ["schemas", "ids", number] if method == "GET":
                return self._schema(int(number)) if number.isdecimal() else _missing(40403)
            case ["subjects"] if method == "GET":
                return 200, sorted(self._subjects)
            case ["subjects", subject, "versions"] if method == "POST":
                sent = json.loads(body)
                kind, references = sent.get("schemaType", "AVRO"), sent.get("references", ())
                schema_id = self.register(subject, sent["schema"], kind=kind, references=references)
                return 200, {"id": schema_id}
            case ["subjects", subject, "versions"] if subject in self._subjects:
                return 200, list(range(1, len(self._subjects[subject]) + 1))
            case ["subjects", subject, "versions", version]:
                return self._version(subject, version)
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def _schema(self, schema_id: int) -> tuple[int, Any]:
        entry = self._schemas.get(schema_id)
        return (200, entry) if entry is not None else _missing(40403)

    def _version(self, subject: str, version: str) -> tuple[int, Any]:
        versions = self._subjects.get(subject)
        if versions is None:
            return _missing(40401)
        number = len(versions) if version == "latest" else int(version)
        if not 1 <= number <= len(versions):
            return _missing(40402)
        schema_id = versions[number - 1]
        entry = self._schemas[schema_id]
        return 200, {"subject": subject, "version": number, "id": schema_id, **entry}


def _missing(code: int) -> tuple[int, Any]:
    what = {40401: "Subject", 40402: "Version", 40403: "Schema"}[code]
    return 404, {"error_code": code, "message": f"{what} not found."}


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, owner: Registry, *arguments: Any) -> None:
        self.owner = owner
        super().__init__(*arguments)

    def do_GET(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        size = min(int(self.headers.get("Content-Length", 0)), REGISTRY_ANSWER_BYTES_MAX)
        self._answer(self.rfile.read(size))

    def _answer(self, body: bytes) -> None:
        token = self.headers.get("Authorization")
        status, answer = self.owner.answer(self.command, self.path, token, body)
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", _JSON)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002
        """Requests are kept in `Registry.requests` instead."""
