"""Kafka Streams' smoke test: a driver sends records for a minute and a half, an application makes
sums, counts, minima and windows of them, and the driver compares what came out with what it sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from tests.clients.librdkafka import create_topic

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.exactly_once.java import Java

PROTOCOLS = ("classic", "streams")
GUARANTEES = ("at_least_once", "exactly_once_v2")
SECONDS_MAX = 600
_PROGRAM = "org.apache.kafka.streams.tests.StreamsSmokeTest"
_TOPICS = (
    "echo",
    "data",
    "min",
    "min-suppressed",
    "min-raw",
    "max",
    "sum",
    "sws-raw",
    "sws-suppressed",
    "dif",
    "cnt",
    "avg",
    "wcnt",
    "tagg",
)
_PARTITIONS = 5
_MORE = "PROCESSED-MORE-THAN-GENERATED"


class SmokeTest:
    """One run: begun when it is made, ended and judged by `finish`."""

    def __init__(
        self,
        java: Java,
        bootstrap: str,
        folder: Path,
        *,
        protocol: str,
        guarantee: str,
        replicas: int = 1,
    ) -> None:
        for topic in _TOPICS:
            create_topic(bootstrap, topic, _PARTITIONS, replicas=replicas)
        folder.mkdir(parents=True, exist_ok=True)
        settings = folder / "streams.properties"
        settings.write_text(
            f"bootstrap.servers={bootstrap}\n"
            f"group.protocol={protocol}\n"
            f"processing.guarantee={guarantee}\n"
            f"state.dir={folder / 'state'}\n"
        )
        self._is_exact = guarantee == "exactly_once_v2"
        self._worker = java.run(_PROGRAM, str(settings), "process")
        self._driver = java.run(_PROGRAM, str(settings), "run")

    @property
    def is_running(self) -> bool:
        return self._driver.is_running

    def disturbed_by(self, disturb: Callable[[], None]) -> Self:
        """Calls it over and over while records are sent and results come."""
        while self.is_running:
            disturb()
        return self

    def finish(self) -> None:
        """Waits for the driver's verdict, which must be good."""
        code = self._driver.end(SECONDS_MAX)
        printed = self._driver.output
        assert code == 0, printed[-3000:]
        # At least once is more than once where something was killed.
        assert _MORE not in printed or not self._is_exact, printed[-3000:]
        assert "SUCCESS" in printed or (_MORE in printed and not self._is_exact), printed[-3000:]
        assert self._worker.is_running, self._worker.output[-3000:]
        self._worker.stop()
