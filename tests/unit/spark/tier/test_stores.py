"""Where the store is, without a secret in what Spark shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from kaa.spark.errors import OptionError
from kaa.spark.options import source_options
from kaa.spark.tier.stores import store_of, store_reference

BASE = {"kafka.bootstrap.servers": "localhost:1", "subscribe": "orders"}


def test_options_of_a_query() -> None:
    assert source_options(BASE, is_stream=False).tier is None
    given = BASE | {"tierStore": "s3://bucket/tier", "tierStore.region": "eu-central-1"}
    tier = source_options(given, is_stream=False).tier
    assert tier is not None
    assert not tier.is_only
    assert tier.store.url == "s3://bucket/tier"
    assert tier.store.options == (("region", "eu-central-1"),)
    only = source_options(given | {"tier": "only"}, is_stream=True).tier
    assert only is not None
    assert only.is_only
    assert source_options(given | {"tier": "never"}, is_stream=False).tier is None
    with pytest.raises(OptionError, match="tier=only needs tierStore"):
        source_options(BASE | {"tier": "only"}, is_stream=False)
    with pytest.raises(OptionError, match="one of auto, only, never"):
        source_options(BASE | {"tier": "yes"}, is_stream=False)


@pytest.mark.parametrize(
    "name", ["secret-access-key", "access_key_id", "session-token", "sas-key", "account-key"]
)
def test_a_secret_among_the_options_is_refused_and_not_repeated(name: str) -> None:
    with pytest.raises(OptionError, match=f"tierStore.{name} may be a secret") as refused:
        store_reference("s3://bucket", {name: "hush"}, None)
    assert "hush" not in str(refused.value)
    with pytest.raises(OptionError, match="must not hold credentials"):
        store_reference("s3://me:hush@bucket", {}, None)
    assert store_reference("s3://bucket", {"sse-kms-key-id": "alias/tier"}, None) is not None


def test_a_file_of_settings_is_read_where_the_store_is_opened(tmp_path: Path) -> None:
    file = tmp_path / "store.properties"
    reference = store_reference(None, {}, str(file))
    assert reference is not None
    with pytest.raises(OptionError, match="cannot be read on this machine"):
        reference.open()
    file.write_text("access-key-id=hush\n")
    with pytest.raises(OptionError, match="no line url="):
        reference.open()
    file.write_text(f"url={(tmp_path / 'tier').as_uri()}\n")
    assert store_of(reference) is store_of(reference)
    assert (tmp_path / "tier").is_dir()
    assert "hush" not in repr(reference)


def test_a_store_that_cannot_be_opened() -> None:
    reference = store_reference("ftp://nowhere", {}, None)
    assert reference is not None
    with pytest.raises(OptionError, match="is not the address of a store"):
        reference.open()
    with pytest.raises(OptionError, match=r"tierStore\.region needs tierStore"):
        store_reference(None, {"region": "x"}, None)
