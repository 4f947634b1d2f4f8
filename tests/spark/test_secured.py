"""A Kafka with TLS and SASL from Spark, and the secrets that this takes: nobody sees them."""

from __future__ import annotations

import asyncio
import json
from hashlib import pbkdf2_hmac
from pathlib import Path

import pytest

from kaa.client import NewTopic
from kaa.client.admin.admin import Admin
from kaa.wire.messages.k51_alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from tests.spark.programs import Program
from tests.support.secured_kafka import Secured, sasl_kafka

__all__ = ["sasl_kafka"]

pytestmark = [
    pytest.mark.xdist_group("spark secured"),
    pytest.mark.timeout(600),
    pytest.mark.oracle,
]

MECHANISM = "SCRAM-SHA-512"
SECRET = "hush-hush-4711"
LOGGING = """
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {log}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %p %c: %m%n%ex
"""


async def prepare(secured: Secured, *topics: str) -> None:
    """Makes topics, and gives the user a password that is found wherever it is shown."""
    upsertion = ScramCredentialUpsertion(
        name="admin",
        mechanism=2,
        iterations=4096,
        salt=b"salt",
        salted_password=pbkdf2_hmac("sha512", SECRET.encode(), b"salt", 4096),
    )
    request = AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion])
    async with Admin(secured.user("PLAIN", "admin", "secret")) as admin:
        response = await admin.cluster.call(request, "credentials", 10_000)
        assert [result.error_code for result in response.results] == [0]
        outcome = await admin.create_topics([NewTopic(name, 2, 1) for name in topics])
    assert set(outcome.values()) == {None}, outcome


def options(secured: Secured, password: str) -> dict[str, str]:
    return {
        f"kafka.{name}": value for name, value in secured.user(MECHANISM, "admin", password).items()
    }


def test_rows_come_and_go_and_no_secret_is_shown(
    sasl_kafka: Secured, topic: str, tmp_path: Path
) -> None:
    topics = [topic, f"{topic}-copy"]
    asyncio.run(prepare(sasl_kafka, *topics))
    checkpoint = tmp_path / "checkpoint"
    log, logging, given = (tmp_path / name for name in ("log", "log4j2.properties", "given.json"))
    logging.write_text(LOGGING.format(log=log))
    given.write_text(
        json.dumps(
            {
                "options": options(sasl_kafka, SECRET),
                "wrong": options(sasl_kafka, f"not-{SECRET}"),
                "topics": topics,
                "checkpoint": str(checkpoint),
                "logging": str(logging),
            }
        )
    )
    program = Program("secured", tmp_path, str(given))
    program.end()
    shown = program.output + log.read_text("utf-8")
    # Spark's log, plans, progress and errors are all there to be searched.
    for text in (
        "INFO org.apache.spark",
        "== Physical Plan ==",
        '"numInputRows": 100',
        "rows 100",
        "copied 100",
    ):
        assert text in shown, text
    assert "SASL_AUTHENTICATION_FAILED" in shown
    # The plan of a stream has its options; which of them are secrets, the session says.
    assert "kafka.sasl.jaas.config=*********(redacted)" in shown
    assert [line for line in shown.splitlines() if SECRET in line] == []
    files = [path for path in checkpoint.rglob("*") if path.is_file()]
    assert files
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []
