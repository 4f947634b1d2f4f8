"""`kaa debug bundle`: one file to hand over when something is wrong, without records and secrets.

What is in it, each part a file of its own:

| file | what is in it |
|---|---|
| `manifest.json` | when, which versions, and how each part was got |
| `cluster/*.json` | what the commands of this program print about the cluster |
| `node/settings.properties` | the file given by --config |
| `node/files.txt` | the files of its log directories with size and time |
| `node/<n>/...` | small text files there: meta.properties, checkpoints, quorum-state |
| `node/logs/...` | the ends of the files given by --log |
| `machine.json` | limits, memory, disks, and the environment of KAA_* and KAFKA_* |

Records are never read. Every part passes `without_secrets` on its way into the file, which is the
only way in. A part that fails says why in the manifest and does not stop the others.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import time
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kaa.cli.client import client_options, complain, run, say
from kaa.cli.command import Verb
from kaa.cli.output import show
from kaa.cli.progress import Progress
from kaa.cli.secrets import without_secrets
from kaa.limits import CLI_BUNDLE_FILES_MAX, CLI_BUNDLE_LOG_BYTES_MAX, CLI_BUNDLE_PART_SECONDS_MAX
from kaa.model.words import count_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kaa.cli.client import Session

_INFO: Final = ("cluster", "info")
_COMMANDS: Final = {
    "health": ("cluster", "health"),
    "quorum": ("cluster", "quorum"),
    "features": ("cluster", "features"),
    "dirs": ("cluster", "dirs"),
    "api-versions": ("cluster", "api-versions"),
    "topics": ("topic", "list", "--internal"),
    "groups": ("group", "list"),
    "transactions": ("txn", "list"),
    "hanging-transactions": ("txn", "find-hanging"),
    "defaults-of-brokers": ("config", "describe", "broker", "default"),
    "doctor": ("doctor",),
}
"""Which command prints which part."""

_LOCAL: Final = frozenset({"doctor"})
_TEXT_FILES: Final = (
    "meta.properties",
    "*-checkpoint",
    "cleaner-offset-checkpoint",
    "__cluster_metadata-0/quorum-state",
)
_PROGRAM: Final = "from kaa.cli import main; main()"


class Bundle:
    """The archive while it is written; `add` is the only way in."""

    def __init__(self, path: Path) -> None:
        self._path = path
        # Never the name of the archive itself, beside which it is unpacked.
        name = path.name.removesuffix(".gz").removesuffix(".tar").removesuffix(".tgz")
        self._name = name if name != path.name else f"{name}-files"
        # For its owner alone from the first byte; a device keeps the mode that it has.
        self._file = open(path, "wb", opener=_for_the_owner)  # noqa: SIM115 - `close`.
        self._tar = tarfile.open(fileobj=self._file, mode="w:gz")  # noqa: SIM115 - `close`.
        self._time = int(time.time())
        self.parts: list[dict[str, Any]] = []

    def add(self, name: str, text: str, problem: str | None = None) -> None:
        """Adds a part, without its secrets."""
        data = without_secrets(text).encode()
        entry = tarfile.TarInfo(f"{self._name}/{name}")
        entry.size, entry.mtime, entry.mode = len(data), self._time, 0o600
        self._tar.addfile(entry, BytesIO(data))
        self.parts.append({"name": name, "size_bytes": len(data), "problem": problem})

    def fail(self, name: str, problem: str) -> None:
        """Notes a part that failed."""
        self.parts.append({"name": name, "size_bytes": 0, "problem": without_secrets(problem)})

    def close(self) -> None:
        """Writes the manifest, then the file is whole."""
        from kaa.cli.version import versions

        manifest = {
            "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._time)),
            **versions(),
            "parts": list(self.parts),
        }
        self.add("manifest.json", json.dumps(manifest, indent=2))
        self._tar.close()
        self._file.close()

    def discard(self) -> None:
        """Removes what was written of a file that does not get whole; a device stays."""
        with suppress(OSError):
            # What is still to be written fails once more where there is no room.
            self._file.close()
        if self._path.is_file():
            self._path.unlink()


def _for_the_owner(path: str, flags: int) -> int:
    descriptor = os.open(path, flags, 0o600)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.fchmod(descriptor, 0o600)
    return descriptor


@click.command("bundle", cls=Verb)
@click.option(
    "--to",
    "target",
    type=click.Path(path_type=Path),
    help="The file to write.  [default: kaa-bundle-TIME.tar.gz]",
)
@click.option(
    "-c",
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The server.properties of a node on this machine.",
)
@click.option(
    "--log",
    "logs",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A log file to take along; its last 20 MB.",
)
@client_options
def bundle(
    session: Session, target: Path | None, config: Path | None, logs: tuple[Path, ...]
) -> None:
    """Collect what is needed to look at a fault, in one file.

    The state of the cluster, of this installation and of this machine, and with --config also the
    settings and the list of files of a node. Records and secrets are left out; still look into the
    file before you share it.

    \b
    Examples:
      kaa debug bundle
      kaa debug bundle -b broker:9092 --to bundle.tar.gz
      kaa debug bundle --config server.properties --log broker.log
    """
    path = target or Path(time.strftime("kaa-bundle-%Y%m%d-%H%M%S.tar.gz", time.gmtime()))

    async def work() -> int:
        try:
            made = Bundle(path)
            try:
                _collect(made, session, config, logs)
                made.close()
            except BaseException:
                made.discard()
                raise
        except OSError as error:
            complain(f"cannot write {path}: {error.strerror}")
            return 1
        show(session.output, ["name", "size_bytes", "problem"], made.parts)
        failed = sum(part["problem"] is not None for part in made.parts)
        if failed:
            say(f"{count_text(failed, 'part')} missing or incomplete; the manifest says why")
        say(f"wrote {path}; look through it before you share it")
        return 0

    run(session, work)


def _collect(made: Bundle, session: Session, config: Path | None, logs: Sequence[Path]) -> None:
    made.add("machine.json", json.dumps(machine(os.environ), indent=2))
    with Progress("collecting", "parts", len(_COMMANDS)) as progress, _connection(session) as file:
        connection = ["--command-config", file, "--profile", "none"]
        known = _add_command(made, "cluster/info.json", [*_INFO, *connection])
        for name, words in _COMMANDS.items():
            if name in _LOCAL:
                _add_command(made, f"{name}.json", words)
            elif known is None:
                made.fail(f"cluster/{name}.json", "the cluster does not answer, see info.json")
            else:
                _add_command(made, f"cluster/{name}.json", [*words, *connection])
            progress.advance()
        # What is sensitive among the settings of a broker, it tells nobody.
        for broker in (known or {}).get("brokers", ()):
            words = ("config", "describe", "broker", str(broker["id"]), "--all")
            name = f"cluster/settings-of-broker-{broker['id']}.json"
            _add_command(made, name, [*words, *connection])
    if config is not None:
        _add_node(made, config)
    for log in logs:
        try:
            text = _end_of(log)
        except OSError as error:
            made.fail(f"node/logs/{log.name}", f"cannot read {log}: {error.strerror}")
        else:
            made.add(f"node/logs/{log.name}", text)


def _end_of(log: Path) -> str:
    with log.open("rb") as stream:
        stream.seek(max(0, log.stat().st_size - CLI_BUNDLE_LOG_BYTES_MAX))
        return stream.read().decode(errors="replace")


class _connection:  # noqa: N801 - used as a function.
    """A file with the settings of this call for the commands below it; nobody else reads it."""

    def __init__(self, session: Session) -> None:
        self._settings = session.settings

    def __enter__(self) -> str:
        # Readable for its owner alone, as the module promises.
        with tempfile.NamedTemporaryFile("w", prefix="kaa-bundle-", delete=False) as file:
            for name, value in self._settings.items():
                escaped = value.replace("\\", "\\\\").replace("\n", "\\n")
                file.write(f"{name}={escaped}\n")
        self._path = file.name
        return self._path

    def __exit__(self, *exception: object) -> None:
        Path(self._path).unlink()


def _add_command(made: Bundle, name: str, words: Sequence[str]) -> Any:
    """Runs a command of this program; gives its result, or None."""
    environment = {key: text for key, text in os.environ.items() if key != "KAA_BOOTSTRAP_SERVERS"}
    try:
        answer = subprocess.run(  # noqa: S603 - this program itself.
            [sys.executable, "-c", _PROGRAM, *words, "-o", "json"],
            capture_output=True,
            text=True,
            check=False,
            timeout=CLI_BUNDLE_PART_SECONDS_MAX,
            stdin=subprocess.DEVNULL,
            env=environment,
        )
    except subprocess.TimeoutExpired:
        made.fail(name, f"no answer within {CLI_BUNDLE_PART_SECONDS_MAX} s")
        return None
    problem = None
    if answer.returncode:
        problem = f"exit code {answer.returncode}: {answer.stderr.strip()}"
    if not answer.stdout.strip():
        made.fail(name, problem or "it printed nothing")
        return None
    made.add(name, answer.stdout, problem and without_secrets(problem))
    try:
        return json.loads(answer.stdout)
    except ValueError:
        return None


def _add_node(made: Bundle, config: Path) -> None:
    from kaa.config.properties import as_mapping, decode_properties
    from kaa.config.values import ConfigError

    try:
        data = config.read_bytes()
        settings = as_mapping(decode_properties(data))
    except (OSError, ConfigError) as error:
        made.fail("node/settings.properties", f"cannot read {config}: {error}")
        return
    made.add("node/settings.properties", settings_text(data))
    folders = settings.get("log.dirs") or settings.get("log.dir") or "/tmp/kafka-logs"  # noqa: S108
    listed: list[str] = []
    for number, folder in enumerate(Path(one.strip()) for one in folders.split(",")):
        try:
            found = _text_files(folder)
            listed += list(files_of(folder))
        except OSError as error:
            made.fail(f"node/{number}", f"cannot read {folder}: {error.strerror}")
            continue
        if found is None:
            made.fail(f"node/{number}", f"{folder} is not there")
            continue
        for path in found:
            _add_text_file(made, f"node/{number}/{path.name}", path)
    made.add("node/files.txt", "\n".join(listed) + "\n")


def _text_files(folder: Path) -> list[Path] | None:
    """The small text files of a log directory; None if that is not there."""
    if not folder.is_dir():
        return None
    return [path for pattern in _TEXT_FILES for path in sorted(folder.glob(pattern))]


def _add_text_file(made: Bundle, name: str, path: Path) -> None:
    try:
        # A pipe of that name would keep its reader waiting.
        if path.exists() and not (path.is_file() or path.is_dir()):
            made.fail(name, f"{path} is not a file")
            return
        text = path.read_text("utf-8", "replace")
    except OSError as error:
        made.fail(name, f"cannot read {path}: {error.strerror}")
    else:
        made.add(name, text)


def settings_text(data: bytes) -> str:
    """A line for each setting of a file, without comments and secrets.

    The file's own text will not do: properties may be spelt with blanks for `=`, with escapes and
    over several lines, where the name that makes a value a secret is not to be found.
    """
    from kaa.config.properties import decode_properties

    lines = [_setting_text(entry.name, entry.value) for entry in decode_properties(data)]
    return "\n".join(lines) + "\n"


def _setting_text(name: str, value: str) -> str:
    """Name and value on a line of their own, where what is secret goes up to the end."""
    return without_secrets(f"{name}={value}".replace("\n", "\\n"))


def files_of(folder: Path) -> Iterator[str]:
    """A line for each file below: size, time and path."""
    for count, path in enumerate(sorted(folder.rglob("*"))):
        if count >= CLI_BUNDLE_FILES_MAX:
            yield "and more"
            return
        try:
            found = path.stat()
        except OSError as error:
            yield f"{'?':>14}  {'?':>19}  {path} ({error.strerror})"
            continue
        if path.is_file():
            when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(found.st_mtime))
            yield f"{found.st_size:>14}  {when}  {path}"


def _disk_here() -> dict[str, Any]:
    try:
        disk = shutil.disk_usage(Path.cwd())
    except OSError as error:
        return {"problem": f"the working directory cannot be read: {error.strerror}"}
    return {"total_bytes": disk.total, "free_bytes": disk.free}


def machine(environment: Any) -> dict[str, Any]:
    """Limits, disks and the environment that this program sees."""
    return {
        "system": platform.platform(),
        "python": sys.version,
        "cores": os.cpu_count(),
        "load": list(os.getloadavg()),
        "descriptors": list(resource.getrlimit(resource.RLIMIT_NOFILE)),
        "memory_pages": os.sysconf("SC_PHYS_PAGES"),
        "page_bytes": os.sysconf("SC_PAGE_SIZE"),
        "disk_here": _disk_here(),
        "environment": [
            _setting_text(name, environment[name])
            for name in sorted(environment)
            if name.startswith(("KAA_", "KAFKA_"))
        ],
    }
