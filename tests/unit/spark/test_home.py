"""A home of Spark without the archives that every Python process would compile."""

from __future__ import annotations

from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from kaa.spark.home import quick_spark_home


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of Spark; each test fills it."""
    folder = tmp_path / "pyspark"
    folder.mkdir()
    spec = ModuleSpec("pyspark", None, origin=str(folder / "__init__.py"))
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: spec)
    return folder


def test_all_but_the_archives_is_linked(package: Path, tmp_path: Path) -> None:
    for name in ("bin", "jars", "python"):
        (package / name).mkdir()
    shim = tmp_path / "share" / "shim"
    for _ in range(2):
        assert quick_spark_home(shim) == shim
        assert sorted(path.name for path in shim.iterdir()) == ["bin", "jars"]
        assert (shim / "jars").samefile(package / "jars")


def test_links_follow_the_package(package: Path, tmp_path: Path) -> None:
    (package / "jars").mkdir()
    shim = tmp_path / "shim"
    shim.mkdir()
    (shim / "jars").symlink_to(tmp_path / "an older one")
    (package / "conf").mkdir()
    assert quick_spark_home(shim) == shim
    assert (shim / "jars").samefile(package / "jars")
    assert (shim / "conf").samefile(package / "conf")


def test_where_it_cannot_be_made_spark_finds_its_own(package: Path, tmp_path: Path) -> None:
    # A package that only talks to servers has no jars.
    assert quick_spark_home(tmp_path / "shim") is None
    (package / "jars").mkdir()
    (tmp_path / "file").touch()
    assert quick_spark_home(tmp_path / "file") is None


def test_without_spark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    assert quick_spark_home(tmp_path / "shim") is None
