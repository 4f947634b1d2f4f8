"""A client of schema registries with Confluent's HTTP interface.

| request | answer |
|---|---|
| GET /schemas/ids/<id> | {"schema", "schemaType" (AVRO if absent), "references"} |
| GET /subjects/<subject>/versions/<version> | the same with "id" and "version"; or `latest` |

A schema never changes under its id, so it is kept for the life of the process; what is latest is
asked again after a minute. An answer that says "not found" is final, everything else is tried a few
times. Credentials travel in headers alone and are in no text of an error or a repr.
"""

from __future__ import annotations

import base64
import json
import math
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from typing import Any

from kaa.limits import (
    REGISTRY_ANSWER_BYTES_MAX,
    REGISTRY_ANSWER_SECONDS_MAX,
    REGISTRY_ATTEMPTS_MAX,
    REGISTRY_LATEST_SECONDS,
    REGISTRY_SCHEMAS_CACHED_MAX,
)


class RegistryError(Exception):
    """The registry cannot be reached, or refuses."""


class SchemaNotFoundError(RegistryError):
    """The registry has no such schema, and says so."""


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema with all it refers to, the referred ones first."""

    id: int
    type: str  # AVRO, JSON or PROTOBUF
    text: str
    references: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """Where a registry is and how to be let in; pickled to the tasks that use it."""

    urls: tuple[str, ...]
    basic_auth: str | None = field(default=None, repr=False)  # user:password
    bearer_token: str | None = field(default=None, repr=False)
    ca_file: str | None = None


class RegistryClient:
    """Asks one registry; several addresses are the same registry. May be used by many threads."""

    def __init__(self, settings: RegistrySettings, seconds_max: float = math.inf) -> None:
        """`seconds_max` is for one question with all its attempts."""
        self.settings = settings
        self._seconds_max = seconds_max
        self._by_id: dict[int, RegisteredSchema] = {}
        self._latest: dict[tuple[str, str], tuple[float, RegisteredSchema]] = {}
        self._lock = threading.Lock()

    def schema(self, schema_id: int) -> RegisteredSchema:
        """The schema with this id."""
        with self._lock:
            known = self._by_id.get(schema_id)
        if known is not None:
            return known
        found = self._schema(self._get(f"/schemas/ids/{schema_id}"), schema_id)
        self._remember(found)
        return found

    def version(self, subject: str, version: str = "latest") -> RegisteredSchema:
        """A version of a subject: a number, or the latest."""
        now = time.monotonic()
        with self._lock:
            known = self._latest.get((subject, version))
        if known is not None and now - known[0] < REGISTRY_LATEST_SECONDS:
            return known[1]
        name = urllib.parse.quote(subject, safe="")
        answer = self._get(f"/subjects/{name}/versions/{version}")
        found = self._schema(answer, int(answer["id"]))
        self._remember(found)
        with self._lock:
            self._latest[subject, version] = (now, found)
        return found

    def _remember(self, schema: RegisteredSchema) -> None:
        with self._lock:
            if len(self._by_id) >= REGISTRY_SCHEMAS_CACHED_MAX:
                self._by_id.clear()
            self._by_id[schema.id] = schema

    def _schema(self, answer: dict[str, Any], schema_id: int) -> RegisteredSchema:
        references: dict[str, str] = {}
        self._follow(answer, references, set())
        kind = answer.get("schemaType", "AVRO")
        return RegisteredSchema(schema_id, kind, answer["schema"], tuple(references.items()))

    def _follow(
        self, answer: dict[str, Any], found: dict[str, str], seen: set[tuple[str, str]]
    ) -> None:
        """Collects what a schema refers to, deepest first, each once."""
        for reference in answer.get("references") or ():
            place = (reference["subject"], str(reference["version"]))
            if place in seen:
                continue
            seen.add(place)
            subject = urllib.parse.quote(place[0], safe="")
            referred = self._get(f"/subjects/{subject}/versions/{place[1]}")
            self._follow(referred, found, seen)
            found[reference["name"]] = referred["schema"]

    # --- HTTP

    def _get(self, path: str) -> dict[str, Any]:
        problem: Exception | None = None
        deadline = time.monotonic() + self._seconds_max
        for attempt in range(REGISTRY_ATTEMPTS_MAX):
            left = min(deadline - time.monotonic(), REGISTRY_ANSWER_SECONDS_MAX)
            if left <= 0:
                break
            url = self.settings.urls[attempt % len(self.settings.urls)].rstrip("/") + path
            try:
                return self._ask(url, left)
            except urllib.error.HTTPError as error:
                with error:
                    said = _message(error.read(REGISTRY_ANSWER_BYTES_MAX))
                if error.code == 404:
                    raise SchemaNotFoundError(f"{path}: {said or 'not found'}") from None
                if error.code < 500 and error.code not in {408, 429}:
                    what = f"the registry refuses {path} with {error.code}"
                    raise RegistryError(f"{what}: {said}" if said else what) from None
                problem = error
            except (OSError, ValueError) as error:
                problem = error
        raise RegistryError(f"the registry does not answer for {path}: {problem}") from problem

    def _ask(self, url: str, seconds_max: float) -> dict[str, Any]:
        if not url.startswith(("http://", "https://")):
            raise RegistryError(f"the address of a registry begins with http:// or https://: {url}")
        request = urllib.request.Request(url, headers=self._headers())  # noqa: S310 Checked above.
        context = None
        if url.startswith("https:"):
            context = ssl.create_default_context(cafile=self.settings.ca_file)
        with urllib.request.urlopen(  # noqa: S310 Checked above.
            request, timeout=seconds_max, context=context
        ) as answer:
            body = answer.read(REGISTRY_ANSWER_BYTES_MAX + 1)
        if len(body) > REGISTRY_ANSWER_BYTES_MAX:
            raise RegistryError(f"an answer of more than {REGISTRY_ANSWER_BYTES_MAX} bytes")
        parsed = json.loads(body)
        if not isinstance(parsed, dict) or "schema" not in parsed:
            raise RegistryError("the answer holds no schema; is this a schema registry?")
        return parsed

    def _headers(self) -> dict[str, str]:
        headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if self.settings.bearer_token is not None:
            headers["Authorization"] = f"Bearer {self.settings.bearer_token}"
        elif self.settings.basic_auth is not None:
            encoded = base64.b64encode(self.settings.basic_auth.encode()).decode()
            headers["Authorization"] = f"Basic {encoded}"
        return headers


def _message(body: bytes) -> str:
    try:
        parsed = json.loads(body)
    except ValueError:
        return ""
    return str(parsed.get("message", "")) if isinstance(parsed, dict) else ""


_clients: dict[RegistrySettings, RegistryClient] = {}


def client(settings: RegistrySettings) -> RegistryClient:
    """The client of this process for a registry, so that tasks share what it knows."""
    return _clients.setdefault(settings, RegistryClient(settings))
