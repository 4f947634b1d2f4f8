"""What the options of a query say of its formats."""

from __future__ import annotations

from pathlib import Path

from kaa.spark.formats.options import NAMES, bad_records, format_options


def test_every_name_is_read_without_regard_to_case(tmp_path: Path) -> None:
    file = tmp_path / "set"
    file.write_bytes(b"\xff")
    options = {
        "KEYFORMAT": "protobuf",
        "keyschemafile": str(file),
        "KeyMessage": "a.B",
        "keySubject": "s",
        "keySchemaVersion": "3",
        "keySchemaId": "9",
        "keyFraming": "none",
        "SCHEMAREGISTRY.URL": "http://a, http://b",
        "schemaRegistry.basicAuth": "u:secret",
        "schemaRegistry.ssl.ca": "ca.pem",
    }
    found = format_options(options, "key")
    assert found is not None
    assert found.schema == b"\xff"
    assert (found.message, found.subject, found.version, found.schema_id) == ("a.B", "s", "3", 9)
    assert not found.is_framed
    assert found.registry is not None
    assert found.registry.urls == ("http://a", "http://b")
    assert found.registry.ca_file == "ca.pem"
    assert "secret" not in repr(found)
    assert format_options(options, "value") is None
    assert {name.lower() for name in options} <= {name.lower() for name in NAMES}


def test_a_registry_means_frames() -> None:
    found = format_options({"valueFormat": "avro", "schemaRegistry.url": "http://a"}, "value")
    assert found is not None
    assert found.is_framed
    assert found.version == "latest"
    assert bad_records({}) == "permissive"
