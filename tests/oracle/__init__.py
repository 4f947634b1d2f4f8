"""The oracle: Apache Kafka itself, asked from Python.

Kafka's behaviour is Kaa's specification, so tests do not guess at it: they ask the Java classes of
the pinned version. Kafka's jars come through Maven into a cache outside the tree, where a small
server of ours (`java/`) is compiled beside them. One JVM per run of the tests answers over a unix
socket, whatever the number of workers, and a second one is a real Kafka broker.

| module | what it owns |
|---|---|
| `environment` | what the machine must have, and the cache folder |
| `maven` | Kafka's jars |
| `schemas` | the official message schemas inside the jars |
| `jvm` | starting, sharing and ending a JVM; frames |
| `model` | questions and answers |
| `client` | class Oracle, the questions as methods |
| `log` | class JavaLog, a partition log kept by Kafka's own log layer |
| `broker` | class RealKafka, a broker with defaults for tests |
| `plugin` | the pytest fixtures: oracle, kafka_schemas, real_kafka |

From a shell: `python -m tests.oracle jars`, `schemas [NAME]`, `run TOOL arguments...`.

Where Java or Maven is missing the fixtures skip and say why; when CI is set they fail instead.
"""

from tests.oracle.client import Oracle
from tests.oracle.environment import OracleUnavailableError
from tests.oracle.log import Appended, JavaLog, LogState, ProducerState
from tests.oracle.model import (
    ApiKeyRow,
    Batch,
    ErrorRow,
    JavaError,
    MessageBytes,
    MessageClass,
    MessageJson,
    MessageRead,
    NewBatch,
    NewMarker,
    NewRecord,
    Produced,
    Record,
    RecordsRead,
    ToolResult,
    Validated,
)
from tests.oracle.schemas import Schema, java_class_name

__all__ = [
    "ApiKeyRow",
    "Appended",
    "Batch",
    "ErrorRow",
    "JavaError",
    "JavaLog",
    "LogState",
    "MessageBytes",
    "MessageClass",
    "MessageJson",
    "MessageRead",
    "NewBatch",
    "NewMarker",
    "NewRecord",
    "Oracle",
    "OracleUnavailableError",
    "Produced",
    "ProducerState",
    "Record",
    "RecordsRead",
    "Schema",
    "ToolResult",
    "Validated",
    "java_class_name",
]
