"""Names that a shell completes: topics, groups and transactional ids of a cluster, and profiles.

A shell waits for completions at every press of a key, and a cluster may be far away. So names come
from a file in the cache folder, one per kind and cluster. A file that is older than a minute is
refreshed by a process of its own, for which nobody waits; only if there is no file at all does the
shell wait, since it has nothing to show, and never longer than a second and a half. A broker that
is not there refuses at once. Whatever goes wrong, there are just no names.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kaa.limits import CLI_COMPLETED_NAMES_MAX

if TYPE_CHECKING:
    from collections.abc import Mapping

_FRESH_SECONDS: Final = 60.0
_WAIT_SECONDS: Final = 1.5
_LEFT_OVER_SECONDS: Final = 600.0
_REFRESH_TIMEOUT_SECONDS: Final = 5
_ASKING: Final = frozenset({"_KAA_COMPLETE", "COMP_WORDS", "COMP_CWORD"})


def cache_folder() -> Path:
    """Where the files of names are."""
    own = os.environ.get("KAA_CACHE_DIR")
    if own:
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "kaa")


def known_names(kind: str, parameters: Mapping[str, Any]) -> list[str]:
    """Names of a kind, as far as they are known; never raises."""
    try:
        if kind == "profile":
            from kaa.cli.profiles import read_profiles

            return sorted(read_profiles().settings)
        if kind in {"property", "topic-setting"}:
            return [f"{name}=" for name in _settings(kind)]
        return _cached(kind, connection_arguments(parameters))
    except Exception:  # noqa: BLE001 - a shell in the middle of a line has no use for an error.
        return []


def _settings(kind: str) -> list[str]:
    """Names of settings, which need no cluster."""
    if kind == "topic-setting":
        from kaa.config.topic import TOPIC

        return sorted(key.name for key in TOPIC if not key.internal)
    from kaa.config.client import ADMIN, CONSUMER, PRODUCER

    return sorted({key.name for table in (ADMIN, CONSUMER, PRODUCER) for key in table})


def connection_arguments(parameters: Mapping[str, Any]) -> list[str]:
    """The options on the line so far that say which cluster is meant."""
    found: list[str] = []
    for option, key in (
        ("-b", "servers"),
        ("--command-config", "command_config"),
        ("--profile", "profile"),
    ):
        if parameters.get(key):
            found += [option, str(parameters[key])]
    for text in parameters.get("properties") or ():
        found += ["-X", text]
    return found


def _cached(kind: str, connection: list[str]) -> list[str]:
    key = "\0".join([kind, os.environ.get("KAA_BOOTSTRAP_SERVERS", ""), *connection])
    path = cache_folder() / f"{kind}-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
    try:
        age_seconds = time.time() - path.stat().st_mtime
    except FileNotFoundError:
        age_seconds = _FRESH_SECONDS
        _refresh(kind, connection, path, _WAIT_SECONDS)
    else:
        if not 0 <= age_seconds < _FRESH_SECONDS:
            _refresh(kind, connection, path, 0)
    return path.read_text("utf-8").splitlines()[:CLI_COMPLETED_NAMES_MAX]


def _refresh(kind: str, connection: list[str], path: Path, wait_seconds: float) -> None:
    """Starts the process that writes the file, and waits for it a little."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_left_over(path)
    fresh = path.with_suffix(f".{os.getpid()}")
    with fresh.open("wb") as file:
        process = subprocess.Popen(  # noqa: S603 - this program itself.
            [sys.executable, "-c", _PROGRAM, str(fresh), str(path), kind, *connection],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            # What asks for completion would make the program complete instead.
            env={name: text for name, text in os.environ.items() if name not in _ASKING},
        )
    try:
        process.wait(wait_seconds)
    except subprocess.TimeoutExpired:
        # It goes on after this process has ended, and nobody asks how it went.
        process.returncode = 0


def _remove_left_over(path: Path) -> None:
    """Files of processes that were killed before they could name them or take them away."""
    for one in path.parent.glob(f"{path.stem}.*"):
        try:
            if time.time() - one.stat().st_mtime > _LEFT_OVER_SECONDS:
                one.unlink()
        except FileNotFoundError:
            continue


_PROGRAM: Final = f"""
import os, sys
from kaa.cli.root import root
fresh, path, kind, *connection = sys.argv[1:]
arguments = [kind, "list", "-o", "name", "--timeout", "{_REFRESH_TIMEOUT_SECONDS}", *connection]
try:
    root(arguments, prog_name="kaa")
except SystemExit as ended:
    sys.stdout.flush()
    if ended.code:
        os.unlink(fresh)
    else:
        os.replace(fresh, path)
"""
