"""A catalog of Iceberg that speaks its REST protocol on loopback, as far as tables need it.

Behind it is pyiceberg's catalog in SQLite, which checks the requirements of commits. One request is
answered at a time, so that a commit of several tables is seen as a whole. A test may let the answer
of a commit get lost, before or after the commit was made.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import unquote

from pyiceberg.catalog.rest import DEFAULT_ENDPOINTS, CreateTableRequest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table import CommitTableRequest
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

if TYPE_CHECKING:
    from pathlib import Path

_STATUS = {
    NoSuchTableError: 404,
    NamespaceAlreadyExistsError: 409,
    TableAlreadyExistsError: 409,
    CommitFailedException: 409,
}
_STOP_POLL_SECONDS = 0.01
_ENDPOINTS = [str(one) for one in DEFAULT_ENDPOINTS]
_TRANSACTION = "POST /v1/{prefix}/transactions/commit"
_METRICS = "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/metrics"


class RestCatalog:
    """The server; `token` is what clients must show."""

    def __init__(
        self,
        folder: Path,
        warehouse: str,
        properties: dict[str, str],
        *,
        name: str = "behind",
        file: str = "rest.db",
    ) -> None:
        """`name` and `file` are those of the catalog behind it, which others may use as well."""
        self.token = "let me in"
        self.lock = threading.Lock()
        # What becomes of the next commits: "" (made), "lost before", "lost after" or "expired".
        self.fates: list[str] = []
        self.commits = 0
        # Commits of several tables: "listed" among the endpoints and taken, taken though no
        # endpoint is listed ("unlisted"), "left out" of the list, or neither ("refused").
        self.transactions = "listed"
        self.transactions_asked = 0
        # The tables of each commit that was made.
        self.made: list[tuple[str, ...]] = []
        self.tables: Any = SqlCatalog(
            name, uri=f"sqlite:///{folder}/{file}", warehouse=warehouse, **properties
        )
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_STOP_POLL_SECONDS,), daemon=True
        )

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self.tables.close()

    # --- what is asked

    def answer(self, method: str, path: list[str], body: dict[str, Any]) -> tuple[int, Any]:
        match method, path:
            case "GET", ["config"]:
                return 200, {"defaults": {}, "overrides": {}, **self._endpoints()}
            case "POST", ["namespaces"]:
                self.tables.create_namespace(tuple(body["namespace"]))
                return 200, {"namespace": body["namespace"], "properties": {}}
            case "POST", ["namespaces", namespace, "tables"]:
                whole = {"location": None, "partition-spec": None, "write-order": None, **body}
                return 200, self._create(namespace, CreateTableRequest.model_validate(whole))
            case "GET" | "HEAD", ["namespaces", namespace, "tables", name]:
                return 200, _described(self.tables.load_table((namespace, name)))
            case "POST", ["namespaces", _, "tables", _]:
                status, made = self._commit([CommitTableRequest.model_validate(body)])
                return status, made and json.loads(made[0].model_dump_json())
            case "POST", ["transactions", "commit"]:
                self.transactions_asked += 1
                if self.transactions not in ("listed", "unlisted"):
                    return 404, _refusal("NoSuchEndpoint", 404)
                changes = [CommitTableRequest.model_validate(one) for one in body["table-changes"]]
                status, _ = self._commit(changes)
                return (204, None) if status == 200 else (status, _refusal("Expired", status))
        return 404, {}

    def _endpoints(self) -> dict[str, list[str]]:
        if self.transactions == "listed":
            return {"endpoints": [*_ENDPOINTS, _TRANSACTION]}
        return {"endpoints": [*_ENDPOINTS, _METRICS]} if self.transactions == "left out" else {}

    def _create(self, namespace: str, wanted: CreateTableRequest) -> dict[str, Any]:
        arguments = (
            (namespace, wanted.name),
            wanted.table_schema,
            wanted.location,
            wanted.partition_spec or UNPARTITIONED_PARTITION_SPEC,
            wanted.write_order or UNSORTED_SORT_ORDER,
            wanted.properties,
        )
        if wanted.stage_create:
            if self.tables.table_exists((namespace, wanted.name)):
                raise TableAlreadyExistsError(wanted.name)
            return _described(self.tables._create_staged_table(*arguments))
        return _described(self.tables.create_table(*arguments))

    def _commit(self, changes: list[CommitTableRequest]) -> tuple[int, Any]:
        self.commits += 1
        fate = self.fates.pop(0) if self.fates else ""
        if fate == "lost before":
            return 0, None
        if fate == "expired":
            return 419, None
        tables = [
            _Named((one.identifier.namespace.root[0], one.identifier.name)) for one in changes
        ]
        if len(changes) > 1:
            for table, one in zip(tables, changes, strict=True):
                metadata = self.tables.load_table(table.name()).metadata
                for requirement in one.requirements:
                    requirement.validate(metadata)
        made = [
            self.tables.commit_table(table, one.requirements, one.updates)
            for table, one in zip(tables, changes, strict=True)
        ]
        self.made.append(tuple(one.name()[1] for one in tables))
        return (0, None) if fate == "lost after" else (200, made)


class _Named:
    """All that the real catalog asks of the table of a commit."""

    def __init__(self, name: tuple[str, str]) -> None:
        self._name = name

    def name(self) -> tuple[str, str]:
        return self._name


def _described(table: Any) -> dict[str, Any]:
    return {
        "metadata-location": table.metadata_location,
        "metadata": json.loads(table.metadata.model_dump_json()),
        "config": {},
    }


def _refusal(kind: str, status: int) -> dict[str, Any]:
    return {"error": {"message": "no", "type": kind, "code": status}}


def _handler(catalog: RestCatalog) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Head and body of an answer are sent apart; the second must not wait for the first.
        disable_nagle_algorithm = True

        def _do(self) -> None:
            size = int(self.headers.get("Content-Length", "0"))
            body = json.loads(self.rfile.read(size) or b"{}")
            parts = self.path.partition("?")[0].removeprefix("/v1/").split("/")
            path = [unquote(one) for one in parts]
            if self.headers.get("Authorization") != f"Bearer {catalog.token}":
                self._send(401, _refusal("Unauthorized", 401))
                return
            try:
                with catalog.lock:
                    status, content = catalog.answer(self.command, path, body)
            except tuple(_STATUS) as error:
                status = _STATUS[type(error)]
                kind = type(error).__name__
                content = {"error": {"message": str(error), "type": kind, "code": status}}
            if status == 0:
                self.close_connection = True  # The client never hears of it.
                return
            self._send(status, content)

        def _send(self, status: int, content: Any) -> None:
            data = b"" if status == 204 else json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            if status != 204:
                self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        do_GET = do_POST = do_HEAD = _do  # noqa: N815  Names of the base class.

        def log_message(self, *_: Any) -> None:
            """Says nothing."""

    return Handler
