"""Other engines on the tables of Kaa, each in an environment and a process of its own.

| engine | how it finds the table | what it does |
|---|---|---|
| Spark 4.1 with the Iceberg runtime, which has none for a newer one | the SQLite catalog | all |
| Sail | a REST catalog (`support/rest_catalog`) on the same SQLite file | reads, deletes, inserts |
| chDB | the metadata file that the catalog names | reads |

What Sail 0.7 refuses: `MERGE` into columns of bytes ("Cannot safely cast Binary to LargeBinary"),
and every `ALTER TABLE`. chDB has no catalogs on SQLite, and writes to none of these tables here.

Environments are made once and kept beside the jars of the oracle. A process is given SQL, a line of
JSON each, and answers each with its rows or with the error; bytes are text there.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tests.oracle.environment import cache_folder, locked
from tests.oracle.maven import Artifact, jars
from tests.spark.programs import JAVA_OPTIONS, shell

PYSPARK: Final = "4.1.4"
SPARK_PACKAGES: Final = (f"pyspark=={PYSPARK}",)
SAIL_PACKAGES: Final = ("pysail==0.7.2", "pyspark-client==4.1.3", "wheel")
CHDB_PACKAGES: Final = ("chdb==4.4.0",)
ARTIFACTS: Final = (
    Artifact(
        "org.apache.iceberg", "iceberg-spark-runtime-4.1_2.13", "1.12.0", with_dependencies=False
    ),
    Artifact("org.xerial", "sqlite-jdbc", "3.50.3.0", with_dependencies=False),
)
LOOP: Final = """
import json, sys
answers = sys.stdout
sys.stdout = sys.stderr
def text(one):
    return bytes(one).decode() if isinstance(one, (bytes, bytearray)) else str(one)
def serve(query):
    for line in sys.stdin:
        try:
            answer = {"rows": query(json.loads(line))}
        except Exception as error:
            answer = {"error": str(error)[:2_000]}
        print(json.dumps(answer, default=text), file=answers, flush=True)
"""
SPARK_PROGRAM: Final = (
    LOOP
    + """
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[2]").appName("stranger")
for name, value in json.loads(sys.argv[1]).items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
serve(lambda sql: [row.asDict(recursive=True) for row in spark.sql(sql).collect()])
spark.stop()
"""
)
SAIL_PROGRAM: Final = (
    LOOP
    + """
from pysail.spark import SparkConnectServer
server = SparkConnectServer(ip="127.0.0.1", port=0)
server.start(background=True)
from pyspark.sql import SparkSession
host, port = server.listening_address
spark = SparkSession.builder.remote(f"sc://{host}:{port}").getOrCreate()
serve(lambda sql: [row.asDict(recursive=True) for row in spark.sql(sql).collect()])
server.stop()
"""
)
CHDB_PROGRAM: Final = (
    LOOP
    + """
import chdb
def query(sql):
    return [json.loads(one) for one in str(chdb.query(sql, "JSONEachRow")).splitlines()]
serve(query)
"""
)


def python(packages: Sequence[str] = SPARK_PACKAGES) -> Path:
    """The Python that has these packages; made at the first call."""
    folder = cache_folder() / packages[0].replace("==", "-")
    with locked(cache_folder()):
        if not (folder / "ready").exists():
            shutil.rmtree(folder, ignore_errors=True)
            venv.create(folder, with_pip=True)
            install = [str(folder / "bin" / "python"), "-m", "pip", "install", "-q"]
            subprocess.run([*install, "--no-compile", *packages], check=True)
            (folder / "ready").touch()
    return folder / "bin" / "python"


class EngineError(Exception):
    """The engine has refused a statement."""


class Engine:
    """An engine while it runs; a context manager."""

    def __init__(
        self,
        packages: Sequence[str],
        program: str,
        output: Path,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`output` gets what the engine prints."""
        with output.open("ab") as errors:
            self._process = subprocess.Popen(
                [python(packages), "-c", program, *arguments],
                env={**(os.environ if environment is None else environment)},
                cwd="/",  # chDB reads below it alone.
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """The engine ends at the end of its input."""
        try:
            self._process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @property
    def process_id(self) -> int:
        return self._process.pid

    def sql(self, statement: str) -> list[dict[str, Any]]:
        """The rows that a statement gives; bytes come as text."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(statement) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise EngineError("the engine has ended")
        answer = json.loads(line)
        if "error" in answer:
            raise EngineError(answer["error"])
        rows: list[dict[str, Any]] = answer["rows"]
        return rows


class Stranger(Engine):
    """Spark 4.1 with the Iceberg runtime."""

    def __init__(
        self,
        warehouse: Path,
        catalog: Path,
        output: Path,
        *,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """`catalog` is the SQLite file; `settings` are more of Spark's."""
        found = ",".join(sorted(str(path) for path in jars(artifacts=ARTIFACTS).glob("*.jar")))
        name = "spark.sql.catalog.kaa"
        config = {
            "spark.jars": found,
            "spark.ui.enabled": "false",
            "spark.driver.memory": "1g",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.extraJavaOptions": JAVA_OPTIONS,
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.extensions":
                "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            name: "org.apache.iceberg.spark.SparkCatalog",
            f"{name}.type": "jdbc",
            f"{name}.uri": f"jdbc:sqlite:{catalog}",
            f"{name}.warehouse": warehouse.as_uri(),
            f"{name}.cache-enabled": "false",
            f"{name}.jdbc.schema-version": "V1",
            **(settings or {}),
        }  # fmt: skip
        super().__init__(
            SPARK_PACKAGES, SPARK_PROGRAM, output, json.dumps(config), environment=shell()
        )


class Sail(Engine):
    """Sail, by a REST catalog."""

    def __init__(self, uri: str, token: str, output: Path) -> None:
        catalog = f'{{name="kaa", type="iceberg-rest", uri="{uri}", bearer_access_token="{token}"}}'
        environment = {
            **os.environ,
            "SAIL_CATALOG__LIST": f"[{catalog}]",
            "SAIL_CATALOG__DEFAULT_CATALOG": "kaa",
            "SAIL_CATALOG__DEFAULT_DATABASE": '["db"]',
            "NO_PROXY": "127.0.0.1",
        }
        super().__init__(SAIL_PACKAGES, SAIL_PROGRAM, output, environment=environment)


class ChDb(Engine):
    """chDB, which reads."""

    def __init__(self, output: Path) -> None:
        super().__init__(CHDB_PACKAGES, CHDB_PROGRAM, output)

    def rows(self, metadata: Path, columns: str) -> list[dict[str, Any]]:
        """Of the table as a metadata file has it."""
        table, name = metadata.parent.parent, f"metadata/{metadata.name}"
        source = f"icebergLocal('{table}', SETTINGS iceberg_metadata_file_path = '{name}')"
        return self.sql(f"SELECT {columns} FROM {source}")


if __name__ == "__main__":
    for wanted in (SPARK_PACKAGES, SAIL_PACKAGES, CHDB_PACKAGES):
        sys.stdout.write(f"{python(wanted)}\n")
