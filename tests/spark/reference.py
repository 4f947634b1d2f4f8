"""Spark's own connector for Kafka, from Maven, to compare with.

Its newest versions are not in every repository, and neither is its helper for delegation tokens;
these go together, also with a newer Spark.
"""

from __future__ import annotations

from typing import Final

from tests.oracle.environment import OracleUnavailableError
from tests.oracle.maven import Artifact, jars

ARTIFACTS: Final = (
    Artifact("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0", with_dependencies=False),
    Artifact(
        "org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0", with_dependencies=False
    ),
    Artifact("org.apache.kafka", "kafka-clients", "3.9.2", with_dependencies=False),
    Artifact("org.apache.commons", "commons-pool2", "2.13.1", with_dependencies=False),
)


def reference_jars() -> str:
    """What `spark.jars` has to be; empty where the jars cannot be had."""
    try:
        folder = jars(artifacts=ARTIFACTS)
    except OracleUnavailableError:
        return ""
    return ",".join(sorted(str(path) for path in folder.glob("*.jar")))
