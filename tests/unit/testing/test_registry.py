"""The schema registry for tests, over HTTP."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import pytest

from kaa.testing import Registry


def ask(url: str, body: dict[str, Any] | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data=data), timeout=10) as answer:
        return json.load(answer)


def test_subjects_versions_and_ids() -> None:
    with Registry() as registry:
        subject = f"{registry.url}/subjects/a%2Fb/versions"
        assert ask(subject, {"schema": '"int"'}) == {"id": 1}
        assert ask(subject, {"schema": "{}", "schemaType": "JSON"}) == {"id": 2}
        assert ask(subject, {"schema": '"int"'}) == {"id": 1}
        assert ask(f"{registry.url}/subjects") == ["a/b"]
        assert ask(subject) == [1, 2]
        assert ask(f"{subject}/latest")["id"] == 2
        assert ask(f"{subject}/1")["schema"] == '"int"'
        assert ask(f"{registry.url}/schemas/ids/2")["schemaType"] == "JSON"
        for path in ("schemas/ids/9", "schemas/ids/x", "subjects/no/versions/1", "no"):
            with pytest.raises(urllib.error.HTTPError) as refusal:
                ask(f"{registry.url}/{path}")
            assert refusal.value.code == 404
            refusal.value.close()
    assert registry.frame(258, b"v") == b"\0\0\0\x01\x02v"
