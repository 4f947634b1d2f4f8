"""The client of a schema registry against the registry for tests."""

from __future__ import annotations

import pytest

from kaa.spark.formats import registry as module
from kaa.spark.formats.registry import (
    RegistryClient,
    RegistryError,
    RegistrySettings,
    SchemaNotFoundError,
    client,
)
from kaa.testing.registry import Registry


def test_schemas_are_asked_for_once() -> None:
    with Registry() as registry:
        number = registry.register("orders-value", '"int"')
        asked = RegistryClient(RegistrySettings((registry.url,)))
        assert asked.version("orders-value").text == '"int"'
        assert asked.schema(number).type == "AVRO"
        assert asked.version("orders-value").id == number
        assert registry.requests == ["/subjects/orders-value/versions/latest"]


def test_latest_is_asked_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REGISTRY_LATEST_SECONDS", 0.0)
    with Registry() as registry:
        registry.register("a", '"int"')
        asked = RegistryClient(RegistrySettings((registry.url,)))
        assert asked.version("a").text == '"int"'
        registry.register("a", '"long"')
        assert asked.version("a").text == '"long"'
        assert asked.version("a", "1").text == '"int"'


def test_references_come_with_the_schema() -> None:
    with Registry() as registry:
        registry.register("deep", "deep")
        registry.register(
            "part", "part", references=[{"name": "deep.proto", "subject": "deep", "version": 1}]
        )
        number = registry.register(
            "whole",
            "whole",
            kind="PROTOBUF",
            references=[
                {"name": "part.proto", "subject": "part", "version": 1},
                {"name": "deep.proto", "subject": "deep", "version": 1},
            ],
        )
        found = RegistryClient(RegistrySettings((registry.url,))).schema(number)
    assert found.type == "PROTOBUF"
    assert found.references == (("deep.proto", "deep"), ("part.proto", "part"))


@pytest.mark.parametrize(
    ("registry", "right", "wrong"),
    [
        (Registry(basic_auth="u:p"), {"basic_auth": "u:p"}, {"basic_auth": "u:wrong"}),
        (Registry(bearer_token="t"), {"bearer_token": "t"}, {}),
    ],
)
def test_credentials(registry: Registry, right: dict[str, str], wrong: dict[str, str]) -> None:
    with registry:
        registry.register("a", '"int"')
        settings = RegistrySettings((registry.url,), **right)
        assert RegistryClient(settings).version("a").id == 1
        assert "u:p" not in repr(settings)
        with pytest.raises(RegistryError, match="401") as refusal:
            RegistryClient(RegistrySettings((registry.url,), **wrong)).version("a")
        assert "wrong" not in str(refusal.value)


def test_failures_are_tried_again_and_answers_are_not() -> None:
    with Registry() as registry:
        registry.register("a", '"int"')
        asked = RegistryClient(RegistrySettings((registry.url,)))
        registry.failures = [500, 503]
        assert asked.version("a").id == 1
        registry.requests.clear()
        with pytest.raises(SchemaNotFoundError, match="Schema not found"):
            asked.schema(99)
        assert len(registry.requests) == 1
        registry.failures = [500, 500, 500]
        with pytest.raises(RegistryError, match="does not answer"):
            asked.schema(98)


def test_what_is_no_registry() -> None:
    with pytest.raises(RegistryError, match="does not answer"):
        RegistryClient(RegistrySettings(("http://127.0.0.1:1",))).schema(1)
    with pytest.raises(RegistryError, match="http"):
        RegistryClient(RegistrySettings(("file:///etc/passwd",))).schema(1)


def test_one_client_per_registry() -> None:
    assert client(RegistrySettings(("x",))) is client(RegistrySettings(("x",)))
