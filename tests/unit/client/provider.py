"""A provider of tokens: a small HTTP or HTTPS server on the loopback address."""

from __future__ import annotations

import json
import ssl
import threading
import time
from base64 import b64decode
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self
from urllib.parse import parse_qs

from kaa.client.security.oauth import unsecured_token


class Provider:
    """Gives tokens for anyone who shows a client id; the secret `wrong` is refused.

    With a file of a key and its certificate it speaks HTTPS.
    """

    def __init__(self, certificate: Path | None = None) -> None:
        # What was asked, and how often the provider still fails.
        self.forms: list[dict[str, list[str]]] = []
        self.users: list[str] = []
        self.failures = 0
        self.answer: bytes | None = None
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                size = int(self.headers["Content-Length"])
                form = parse_qs(self.rfile.read(size).decode())
                user = b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()
                status, body = provider.serve(user, form)
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        scheme = "http"
        if certificate is not None:
            scheme = "https"
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"{scheme}://127.0.0.1:{self._server.server_port}/token"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def serve(self, user: str, form: dict[str, list[str]]) -> tuple[int, bytes]:
        self.users.append(user)
        self.forms.append(form)
        if self.failures:
            self.failures -= 1
            return 503, b""
        if user.endswith(":wrong"):
            return 401, b""
        if self.answer is not None:
            return 200, self.answer
        claims = {"unsecuredLoginStringClaim_sub": user.partition(":")[0]}
        token = unsecured_token(claims, "sub", time.time())
        return 200, json.dumps({"access_token": token}).encode()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
