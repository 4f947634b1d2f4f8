"""Spark beside a display of its own."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from kaa.spark.quiet import quiet_config


def test_the_settings_of_logging_are_there() -> None:
    option = quiet_config()["spark.driver.extraJavaOptions"]
    name, _, url = option.partition("=")
    assert name == "-Dlog4j2.configurationFile"
    assert "logger.spark.level = error" in Path(urlsplit(url).path).read_text()
