"""Settings of Spark for commands that show progress of their own: no bars, no greetings, errors."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_LOGGING: Final = Path(__file__).with_name("log4j2.properties")


def quiet_config() -> dict[str, str]:
    """What a session takes before its Java starts; later it would be too late for the greetings."""
    return {
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}",
    }
