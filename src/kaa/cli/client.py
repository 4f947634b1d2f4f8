"""What commands that talk to a cluster share: options, output, errors and exit codes.

Works against any Kafka. Settings come from ``--command-config``, the environment
(``KAA_BOOTSTRAP_SERVERS``), ``-b`` and ``-X``, the last of these winning.

Exit codes: 0 done; 1 failed; 2 wrong usage; 3 partly done; 4 not found, or there already; 5 not
authenticated or not authorised; 6 unreachable or timed out; 7 unhealthy; 130 interrupted; 141
broken pipe.
"""

from __future__ import annotations

import asyncio
import csv
import json
import os
import sys
from functools import wraps
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from kaa.cli.output import print_json, print_table

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_PARTLY: Final = 3
EXIT_NOT_FOUND: Final = 4
EXIT_NOT_ALLOWED: Final = 5
EXIT_UNREACHABLE: Final = 6
EXIT_UNHEALTHY: Final = 7
EXIT_INTERRUPTED: Final = 130
EXIT_BROKEN_PIPE: Final = 141

DEFAULT_SERVERS: Final = "localhost:9092"
OUTPUTS: Final = ("table", "json", "jsonl", "csv", "name")
DEFAULT_TIMEOUT_MS: Final = 15_000

_NOT_FOUND: Final = frozenset(
    {
        "UNKNOWN_TOPIC_OR_PARTITION",
        "UNKNOWN_TOPIC_ID",
        "TOPIC_ALREADY_EXISTS",
        "RESOURCE_NOT_FOUND",
        "GROUP_ID_NOT_FOUND",
    }
)


class Session(NamedTuple):
    """What the options of one command say."""

    settings: dict[str, str]
    output: str
    is_verbose: bool


def client_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options of every command that talks to a cluster; they arrive as ``session``."""

    @click.option(
        "-b",
        "--bootstrap-server",
        "--brokers",
        "servers",
        envvar="KAA_BOOTSTRAP_SERVERS",
        metavar="HOST:PORT,...",
        help=f"Brokers to ask first.  [default: {DEFAULT_SERVERS}]",
    )
    @click.option(
        "-X",
        "properties",
        multiple=True,
        metavar="NAME=VALUE",
        help="A client property of Kafka; may be given many times.",
    )
    @click.option(
        "--command-config",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="A file of client properties.",
    )
    @click.option(
        "--timeout", "timeout_s", type=float, metavar="SECONDS", help="Give up after this long."
    )
    @click.option(
        "-o",
        "--output",
        type=click.Choice(OUTPUTS),
        default="table",
        show_default=True,
        help="How the result is printed.",
    )
    @click.option("-v", "--verbose", is_flag=True, help="Show where an error came from.")
    @wraps(command)
    def wrapped(
        servers: str | None,
        properties: tuple[str, ...],
        command_config: Path | None,
        timeout_s: float | None,
        output: str,
        verbose: bool,
        **rest: Any,
    ) -> None:
        settings = load_settings(servers, properties, command_config, timeout_s)
        command(session=Session(settings, output, verbose), **rest)

    return wrapped


def load_settings(
    servers: str | None,
    properties: Sequence[str],
    command_config: Path | None,
    timeout_s: float | None,
) -> dict[str, str]:
    """The client properties of a command, the strongest source last."""
    settings = {"client.id": "kaa-cli", "bootstrap.servers": DEFAULT_SERVERS}
    settings["default.api.timeout.ms"] = str(DEFAULT_TIMEOUT_MS)
    if command_config is not None:
        from kaa.config.properties import decode_properties

        try:
            for entry in decode_properties(command_config.read_bytes()):
                settings[entry.name] = entry.value
        except OSError as error:
            raise click.UsageError(f"cannot read {command_config}: {error.strerror}") from error
    if servers is not None:
        settings["bootstrap.servers"] = servers
    if timeout_s is not None:
        if timeout_s <= 0:
            raise click.UsageError("--timeout must be above 0")
        timeout_ms = str(max(1, int(timeout_s * 1000)))
        settings["default.api.timeout.ms"] = settings["max.block.ms"] = timeout_ms
        settings["request.timeout.ms"] = timeout_ms
    settings.update(pairs(properties, "-X"))
    return settings


def pairs(texts: Sequence[str], option: str) -> dict[str, str]:
    """NAME=VALUE texts as a dictionary."""
    found: dict[str, str] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name.strip():
            raise click.UsageError(f"{option} {text!r} is not of the form NAME=VALUE")
        found[name.strip()] = value.strip()
    return found


# --- running


def run(session: Session, work: Callable[[], Coroutine[Any, Any, int | None]]) -> None:
    """Runs a command to its end and leaves with its exit code; errors are told, never thrown."""
    from kaa.client.errors import ClientError
    from kaa.config.definition import InvalidConfigError
    from kaa.config.values import ConfigError

    try:
        code = asyncio.run(work()) or 0
        sys.stdout.flush()
    except ClientError as error:
        if session.is_verbose:
            raise
        tell(error)
        code = exit_code(error)
    except InvalidConfigError as error:
        for problem in error.problems:
            say(f"error: {problem.message}")
        code = EXIT_USAGE
    except ConfigError as error:
        say(f"error: {error}")
        code = EXIT_USAGE
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    except BrokenPipeError:
        # Whatever still waits for standard output must not fail once more at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = EXIT_BROKEN_PIPE
    sys.exit(code)


def exit_code(error: Exception) -> int:
    """The exit code that an error stands for."""
    from kaa.client.errors import (
        DisconnectedError,
        KafkaError,
        RequestTimeoutError,
        SecurityConfigError,
        UnreachableError,
    )

    if isinstance(error, KafkaError):
        name = error.error.name
        if name in _NOT_FOUND:
            return EXIT_NOT_FOUND
        if "AUTHORIZATION_FAILED" in name or "AUTHENTICATION_FAILED" in name:
            return EXIT_NOT_ALLOWED
        return EXIT_UNREACHABLE if name == "REQUEST_TIMED_OUT" else EXIT_FAILED
    if isinstance(error, UnreachableError | RequestTimeoutError | DisconnectedError):
        return EXIT_UNREACHABLE
    return EXIT_USAGE if isinstance(error, SecurityConfigError) else EXIT_FAILED


def tell(error: Exception) -> None:
    """What happened, Kafka's name for it, which broker, and what to do next."""
    from kaa.client.errors import KafkaError

    if not isinstance(error, KafkaError):
        say(f"error: {error}")
        return
    say(f"error: {error.what}: {error.message}")
    say(f"  kafka error  {error.error.name} ({error.error.value})")
    if error.node is not None:
        say(f"  broker       {error.node}")
    if error.hint is not None:
        say(f"  next         {error.hint}")


def outcome_code(failures: Mapping[str, Exception | None]) -> int:
    """Tells the failures of a command about several things; gives its exit code."""
    errors = [error for error in failures.values() if error is not None]
    for error in errors:
        tell(error)
    if not errors:
        return 0
    return exit_code(errors[0]) if len(errors) == len(failures) else EXIT_PARTLY


def say(text: str) -> None:
    """A line for people, on standard error."""
    click.echo(text, err=True)


# --- output


def show(
    output: str, columns: Sequence[str], rows: Sequence[Mapping[str, Any]], name: str = "name"
) -> None:
    """Prints rows in the form asked for; ``name`` is the column that ``-o name`` prints."""
    if output == "json":
        print_json(list(rows))
    elif output == "jsonl":
        for row in rows:
            click.echo(json.dumps(row))
    elif output == "name":
        for row in rows:
            click.echo(cell(row[name]))
    elif output == "csv":
        text = StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([cell(row[column]) for column in columns] for row in rows)
        click.echo(text.getvalue(), nl=False)
    else:
        print_table(
            [column.replace("_", "-") for column in columns],
            [[cell(row[column]) for column in columns] for row in rows],
        )


def cell(value: Any) -> str:
    """A value as text in a table."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value)) or "-"
    return str(value)
