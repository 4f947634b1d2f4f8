"""What commands that talk to a cluster share: options, errors and exit codes.

Works against any Kafka. Settings come, the weakest first, from the profile in use, from
`--command-config`, from the environment (`KAA_BOOTSTRAP_SERVERS`), and from `-b`,
`--timeout` and `-X`.

Exit codes: 0 done; 1 failed; 2 wrong usage; 3 partly done; 4 not found, or there already; 5 not
authenticated or not authorised; 6 unreachable or timed out; 7 unhealthy; 130 interrupted; 141
broken pipe.
"""

from __future__ import annotations

import errno
import os
import sys
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from kaa.cli.command import PROFILE, PROPERTY, SharedOption
from kaa.cli.output import NO_COLOR_KEY, NO_PROGRESS_KEY, OutputType, show, styled
from kaa.cli.registry import PROPERTIES
from kaa.cli.visible import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_PARTLY: Final = 3
EXIT_NOT_FOUND: Final = 4
EXIT_NOT_ALLOWED: Final = 5
EXIT_UNREACHABLE: Final = 6
EXIT_UNHEALTHY: Final = 7
# The number of the signal that ended a command is added.
EXIT_SIGNAL: Final = 128

DEFAULT_SERVERS: Final = "localhost:9092"
DEFAULT_TIMEOUT_MS: Final = 15_000
# Kafka's default of linger.ms.
_LINGER_MS: Final = "5"

VERBOSE_KEY: Final = "kaa.verbose"
QUIET_KEY: Final = "kaa.quiet"
SERVERS_KEY: Final = "kaa.servers"

# What to do about an error of which nothing better is known.
_PASSES: Final = "try again; this is usually temporary"
_PASSES_UNLESS: Final = {
    "REQUEST_TIMED_OUT": (
        "try again; if that does not help, check whether the quorum has a leader "
        "(kaa cluster health)"
    ),
    "CORRUPT_MESSAGE": (
        "if it happens again, records are damaged where they are stored: see what the broker says "
        "of it in its own log, or read on after them (kaa consume --from)"
    ),
    "KAFKA_STORAGE_ERROR": (
        "see which disk it is (kaa cluster dirs), and what the broker says of it in its own log"
    ),
}
_STAYS: Final = "see what the broker says of it in its own log"

_NOT_FOUND: Final = frozenset(
    {
        "UNKNOWN_TOPIC_OR_PARTITION",
        "UNKNOWN_TOPIC_ID",
        "TOPIC_ALREADY_EXISTS",
        "RESOURCE_NOT_FOUND",
        "GROUP_ID_NOT_FOUND",
        "TRANSACTIONAL_ID_NOT_FOUND",
        "BROKER_ID_NOT_REGISTERED",
    }
)


class Session(NamedTuple):
    """What the options of one command say."""

    settings: dict[str, str]
    output: str
    is_verbose: bool
    # Properties about a schema registry, which are for no client of Kafka.
    registry: Mapping[str, str] = {}


def _remember(key: str) -> Callable[[click.Context, click.Parameter, bool], None]:
    def callback(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
        if value:
            context.meta[key] = True

    return callback


def _flag(key: str, *names: str, text: str) -> Callable[[Any], Any]:
    return click.option(
        *names,
        cls=SharedOption,
        is_flag=True,
        expose_value=False,
        callback=_remember(key),
        help=text,
    )


_output = click.option(
    "-o",
    "--output",
    cls=SharedOption,
    type=OutputType(),
    default="table",
    show_default=True,
    help="How the result is printed; template={name} fills in keys of the JSON.",
)
_verbose = _flag(VERBOSE_KEY, "-v", "--verbose", text="Show where an error came from.")
_quiet = _flag(QUIET_KEY, "-q", "--quiet", text="Print only the result and errors.")
_no_color = _flag(NO_COLOR_KEY, "--no-color", text="No colours, as with NO_COLOR.")
_no_progress = _flag(NO_PROGRESS_KEY, "--no-progress", text="No line that shows progress.")

_CONNECTION_OPTIONS = (
    click.option(
        "-b",
        "--bootstrap-server",
        "--brokers",
        "servers",
        cls=SharedOption,
        envvar="KAA_BOOTSTRAP_SERVERS",
        metavar="HOST[:PORT],...",
        help=f"Brokers to ask first.  [default: {DEFAULT_SERVERS}]",
    ),
    click.option(
        "-X",
        "properties",
        cls=SharedOption,
        type=PROPERTY,
        multiple=True,
        metavar="NAME=VALUE",
        help="A client property of Kafka; may be given many times.",
    ),
    click.option(
        "--command-config",
        cls=SharedOption,
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="A file of client properties.",
    ),
    click.option(
        "--profile",
        cls=SharedOption,
        type=PROFILE,
        envvar="KAA_PROFILE",
        metavar="NAME",
        help="A profile other than the one in use (kaa profile); 'none' for none.",
    ),
    click.option(
        "--timeout",
        "timeout_s",
        cls=SharedOption,
        type=float,
        metavar="SECONDS",
        help="Give up after this long.",
    ),
)


def local_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options of every command that talks to no cluster; `-o` arrives as `output`."""
    for option in (_no_progress, _no_color, _quiet, _verbose, _output):
        command = option(command)
    return command


def client_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options of every command that talks to a cluster; they arrive as `session`."""

    @wraps(command)
    def wrapped(
        servers: str | None,
        properties: tuple[str, ...],
        command_config: Path | None,
        profile: str | None,
        timeout_s: float | None,
        output: str,
        **rest: Any,
    ) -> None:
        settings = load_settings(servers, properties, command_config, timeout_s, profile)
        meta = click.get_current_context().meta
        meta[SERVERS_KEY] = settings.get("bootstrap.controllers") or settings["bootstrap.servers"]
        is_verbose = meta.get(VERBOSE_KEY, False)
        registry = {name: settings.pop(name) for name in PROPERTIES if name in settings}
        command(session=Session(settings, output, is_verbose, registry), **rest)

    result: Callable[..., None] = local_options(wrapped)
    for option in reversed(_CONNECTION_OPTIONS):
        result = option(result)
    return result


def load_settings(
    servers: str | None,
    properties: Sequence[str],
    command_config: Path | None,
    timeout_s: float | None,
    profile: str | None = None,
) -> dict[str, str]:
    """The client properties of a command, the strongest source last."""
    from kaa.cli.profiles import ProfileError, settings_of

    name = "bootstrap.servers"
    settings = {"client.id": "kaa-cli", name: DEFAULT_SERVERS}
    settings["default.api.timeout.ms"] = str(DEFAULT_TIMEOUT_MS)
    try:
        settings.update(settings_of(profile))
    except ProfileError as error:
        raise click.UsageError(str(error)) from error
    if command_config is not None:
        settings.update(read_properties(command_config))
    if servers is not None:
        settings[name] = servers
    if timeout_s is not None:
        if timeout_s <= 0:
            raise click.UsageError("--timeout must be above 0")
        timeout_ms = str(max(1, int(timeout_s * 1000)))
        settings["default.api.timeout.ms"] = settings["max.block.ms"] = timeout_ms
        settings["request.timeout.ms"] = timeout_ms
    given = pairs(properties, "-X")
    warn_of_unknown(given)
    settings |= given
    if settings.get("bootstrap.controllers") and servers is None and name not in given:
        # The brokers of a profile, or the default, are not what was asked for.
        del settings[name]
    if timeout_s is not None:
        bound_delivery(settings)
    return settings


def bound_delivery(settings: dict[str, str]) -> None:
    """Lets a producer give up on a record after the time that a command waits for an answer.

    Kafka's default is two minutes, in which nothing would say why records are refused.
    """
    settings.setdefault("request.timeout.ms", settings["default.api.timeout.ms"])
    times = [settings["request.timeout.ms"], settings.get("linger.ms", _LINGER_MS)]
    # The producer reports what is not a number, with all else that is wrong.
    if all(text.isdecimal() for text in times):
        settings.setdefault("delivery.timeout.ms", str(sum(map(int, times))))


def admin_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Those of the settings that an admin has, where a command uses other clients too."""
    from kaa.config.client import ADMIN

    known = {key.name for key in ADMIN}
    return {name: value for name, value in settings.items() if name in known}


def warn_of_unknown(given: Mapping[str, str]) -> None:
    """A property that no client of Kafka has is most likely a slip of the finger."""
    if not given:
        return
    from kaa.config.client_habits import is_known, unknown_text

    for name in given:
        if name not in PROPERTIES and not is_known(name):
            say(f"warning: {unknown_text(name)}")


def read_properties(path: Path) -> dict[str, str]:
    """The properties of a file."""
    from kaa.config.properties import decode_properties

    try:
        return {entry.name: entry.value for entry in decode_properties(path.read_bytes())}
    except OSError as error:
        raise click.UsageError(f"cannot read {path}: {error.strerror}") from error


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
    """Runs a command to its end and exits with its code; errors are reported, never thrown."""
    import asyncio

    from kaa.cli.client_log import client_log
    from kaa.client.errors import ClientError
    from kaa.config.definition import InvalidConfigError
    from kaa.config.values import ConfigError

    try:
        with client_log(is_verbose=session.is_verbose):
            code = asyncio.run(_until_ended(work)) or 0
        sys.stdout.flush()
    except ClientError as error:
        if session.is_verbose:
            raise
        tell(error)
        code = exit_code(error)
    except InvalidConfigError as error:
        for problem in error.problems:
            complain(problem.message)
        code = EXIT_USAGE
    except ConfigError as error:
        complain(str(error))
        code = EXIT_USAGE
    sys.exit(code)


async def _until_ended(work: Callable[[], Coroutine[Any, Any, int | None]]) -> int | None:
    """SIGTERM, as of `timeout`, and SIGHUP end a command as Ctrl-C does: groups are left, what is
    shown is completed. The code is that of a command which the signal ended by itself.
    """
    import asyncio
    import signal
    import threading

    code: int | None = None
    ended_by: list[int] = []
    task = asyncio.current_task()
    assert task is not None

    def end(number: int) -> None:
        ended_by.append(number)
        task.cancel()

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            # One that is ignored, as by `nohup`, stays so.
            if signal.getsignal(number) is signal.SIG_DFL:
                asyncio.get_running_loop().add_signal_handler(number, end, number)
    try:
        code = await work()
    except asyncio.CancelledError:
        if not ended_by:
            raise
    return EXIT_SIGNAL + ended_by[0] if ended_by else code


def pacify_output() -> None:
    """Whatever still waits for a standard output that nobody reads must not fail once more."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError:
        return


def exit_code(error: Exception) -> int:
    """The exit code that an error stands for."""
    from kaa.client.errors import (
        AuthenticationError,
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
    if isinstance(error, AuthenticationError):
        return EXIT_NOT_ALLOWED
    if isinstance(error, UnreachableError | RequestTimeoutError | DisconnectedError):
        return EXIT_UNREACHABLE
    return EXIT_USAGE if isinstance(error, SecurityConfigError) else EXIT_FAILED


class Story(NamedTuple):
    """An error for people; what is not known is None."""

    what: str
    kafka_error: str | None
    broker: str | None
    next_step: str | None


def story_of(error: Exception) -> Story:
    """What happened, Kafka's name for it, which broker, and what to do next."""
    from kaa.client.errors import (
        DisconnectedError,
        KafkaError,
        RequestTimeoutError,
        UnreachableError,
        UnsupportedApiError,
    )
    from kaa.wire.errors import Errors

    if isinstance(error, KafkaError):
        name = f"{error.error.name} ({error.error.value})"
        known = _PASSES_UNLESS.get(error.error.name, _PASSES)
        hint = error.hint or (known if error.retriable else _STAYS)
        return Story(f"{error.what}: {error.message}", name, error.node, hint)
    # What Java's client calls the things that happen on the way.
    names = {
        UnreachableError: Errors.NETWORK_EXCEPTION,
        DisconnectedError: Errors.NETWORK_EXCEPTION,
        RequestTimeoutError: Errors.REQUEST_TIMED_OUT,
        UnsupportedApiError: Errors.UNSUPPORTED_VERSION,
    }
    found = next((code for kind, code in names.items() if isinstance(error, kind)), None)
    what, _, next_step = str(error).partition("; ")
    refused = error.__cause__ if isinstance(error, UnreachableError) else None
    is_of_system = type(refused) is OSError or isinstance(refused, ConnectionError)
    if isinstance(refused, OSError) and is_of_system and refused.errno:
        # The system's own words, instead of the loop's.
        what = f"cannot connect to {getattr(error, 'address', '')}: {os.strerror(refused.errno)}"
        if refused.errno == errno.ECONNREFUSED:
            next_step = "start a broker there (kaa dev, kaa broker start), or name others with -b"
    if not next_step and found is Errors.REQUEST_TIMED_OUT:
        next_step = "check that the brokers are reachable, or allow more with --timeout"
    if not next_step and found is Errors.UNSUPPORTED_VERSION:
        next_step = "see what the brokers serve (kaa cluster api-versions)"
    return Story(
        what,
        None if found is None else f"{found.name} ({found.value})",
        getattr(error, "address", None),
        next_step or None,
    )


def tell(error: Exception, next_step: str | None = None) -> None:
    """Tells an error on standard error, with the brokers that were asked."""
    story = story_of(error)
    complain(story.what)
    broker = story.broker
    context = click.get_current_context(silent=True)
    servers = None if context is None else context.meta.get(SERVERS_KEY)
    if broker is None and story.kafka_error is not None and servers is not None:
        broker = f"one of those at {servers}"
    for name, text in (
        ("kafka error", story.kafka_error),
        ("broker", broker),
        ("next", next_step or story.next_step),
    ):
        if text is not None:
            click.echo(f"  {name:<12} {visible(text)}", err=True)


def complain(text: str) -> None:
    """The first line of an error."""
    click.echo(styled("error:", err=True, fg="red", bold=True) + f" {visible(text)}", err=True)


def outcome_code(
    failures: Mapping[str, Exception | None],
    *,
    next_step: str | None = None,
    next_steps: Mapping[str, str] | None = None,
) -> int:
    """Tells the failures of a command about several things; gives its exit code.

    `next_step` is what to do about things that are not there, where the command knows better
    than Kafka's error; `next_steps` the same by the names of other errors.
    """
    errors = [error for error in failures.values() if error is not None]
    known = next_steps or {}
    for error in errors:
        step = next_step if exit_code(error) == EXIT_NOT_FOUND else None
        name = getattr(getattr(error, "error", None), "name", "")
        tell(error, known.get(name, step))
    if not errors:
        return 0
    return exit_code(errors[0]) if len(errors) == len(failures) else EXIT_PARTLY


def show_outcome(session: Session, outcome: Mapping[Any, Any], done: str) -> None:
    """Prints what became of each of several things: `done`, or the error of Kafka."""
    rows = [
        {
            "name": str(name),
            "status": done if error is None else "failed",
            "error": None if error is None else error.error.name,
        }
        for name, error in outcome.items()
    ]
    show(session.output, ["name", "status", "error"], rows)


def say(text: str) -> None:
    """A line for people, on standard error, unless they want quiet."""
    context = click.get_current_context(silent=True)
    if context is None or not context.meta.get(QUIET_KEY):
        click.echo(visible(text), err=True)
