"""Places on disk and in an object store."""

from __future__ import annotations

from pathlib import Path

import pytest

from kaa.spark.lake.store import ExistsError, PlaceError, Store, normal_url, path_of
from tests.support.object_store import emulated_s3


@pytest.fixture(params=["disk", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "disk":
        return Store(str(tmp_path / "lake"))
    return emulated_s3(request)


def test_objects_are_created_once(store: Store) -> None:
    store.create("a/1.json", b"first")
    with pytest.raises(ExistsError):
        store.create("a/1.json", b"second")
    assert store.read("a/1.json") == b"first"
    store.create("b/2.json", b"other")
    assert [one.path for one in store.list("a")] == ["a/1.json"]
    assert sorted(one.path for one in store.list()) == ["a/1.json", "b/2.json"]
    assert next(store.list("a")).size_bytes == 5
    assert store.delete(["a/1.json", "a/none"]) == 2
    assert [one.path for one in store.list()] == ["b/2.json"]


def test_pyarrow_and_obstore_see_the_same(store: Store) -> None:
    filesystem = store.filesystem()
    path = path_of(store.join("x", "file"))
    if store.is_local:
        filesystem.create_dir(path.rpartition("/")[0], recursive=True)
    with filesystem.open_output_stream(path) as stream:
        stream.write(b"data")
    assert store.read("x/file") == b"data"
    assert store.relative(store.join("x", "file")) == "x/file"


def test_places() -> None:
    assert normal_url("s3a://b/x/") == "s3://b/x"
    assert path_of("s3://b/x y") == "b/x y"
    assert normal_url("/a b") == "file:///a%20b"
    assert path_of(normal_url("/a b")) == "/a b"
    assert path_of("file:/a") == "/a"
    with pytest.raises(PlaceError, match="acess-key"):
        Store("/a", {"acess-key": "x"})
    with pytest.raises(PlaceError, match="does not lie"):
        Store("/a").relative("file:///b/c")
    assert "secret" not in repr(Store("/a", {"secret-access-key": "secret"}))
