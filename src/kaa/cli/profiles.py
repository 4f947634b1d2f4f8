"""Profiles: the settings of clusters under names, in a TOML file of the user's own.

    current = "local"

    [profiles.local]
    "bootstrap.servers" = "localhost:9092"

    [profiles.work]
    "bootstrap.servers" = "broker.example:9093"
    "sasl.jaas.config" = "${file:~/.secrets/jaas}"

The file lies in the configuration folder of the platform, or in `KAA_CONFIG_DIR`. Values may
refer to a secret instead of holding it: `${env:NAME}`, `${file:PATH}` and `${command:WORDS}`
(the output of a command, such as one that asks a keyring). A file that others may read must not
hold passwords itself.

A new file is written beside the old one and takes its place, so that a crash leaves one of them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from kaa.cli.secrets import HIDDEN, without_secrets
from kaa.limits import CLI_PROFILE_COMMAND_SECONDS_MAX

NO_PROFILE: Final = "none"

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_REFERENCE: Final = re.compile(r"\$\{(env|file|command):([^}]*)\}")
_SECRET: Final = re.compile(r"password|jaas|\.key$|secret|user\.info|auth\.token")
_OTHERS: Final = 0o077


class ProfileError(Exception):
    """Profiles that cannot be used, with what to do about it."""


class Profiles(NamedTuple):
    """All profiles, and the name of the one in use."""

    current: str | None
    settings: dict[str, dict[str, str]]


def profiles_path() -> Path:
    """Where the profiles of this user are."""
    folder = os.environ.get("KAA_CONFIG_DIR") or click.get_app_dir("kaa")
    return Path(folder, "profiles.toml")


def read_profiles() -> Profiles:
    """The profiles of this user; none if there is no file."""
    path = profiles_path()
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return Profiles(None, {})
    except OSError as error:
        raise ProfileError(f"cannot read {path}: {error.strerror}") from error
    profiles = parse_profiles(str(path), content.decode(errors="replace"))
    held = [
        name
        for name, settings in profiles.settings.items()
        if any(_holds_secret(*setting) for setting in settings.items())
    ]
    if held and path.stat().st_mode & _OTHERS:
        raise ProfileError(
            f"{path} holds secrets of the profile {held[0]} and can be read by others; "
            f"chmod 600 {path}, or refer to the secret with ${{env:NAME}}"
        )
    return profiles


def parse_profiles(path: str, text: str) -> Profiles:
    """Reads the file; raises ProfileError."""
    try:
        document: dict[str, Any] = tomllib.loads(text)
        current = document.get("current")
        settings = {
            name: {key: str(value) for key, value in table.items()}
            for name, table in document.get("profiles", {}).items()
        }
    except (tomllib.TOMLDecodeError, AttributeError) as error:
        raise ProfileError(f"{path} is not a file of profiles: {error}") from error
    return Profiles(current if current in settings else None, settings)


def profiles_text(profiles: Profiles) -> str:
    """The file of these profiles."""
    # Strings of JSON are strings of TOML.
    lines = [] if profiles.current is None else [f"current = {json.dumps(profiles.current)}"]
    for name, settings in sorted(profiles.settings.items()):
        lines += ["", f"[profiles.{json.dumps(name)}]"]
        lines += [
            f"{json.dumps(key)} = {json.dumps(value)}" for key, value in sorted(settings.items())
        ]
    return "\n".join(lines).lstrip("\n") + "\n"


def write_profiles(profiles: Profiles) -> None:
    """Replaces the file; only its owner may read it."""
    path = profiles_path()
    fresh = path.with_suffix(".new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh.unlink(missing_ok=True)
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as file:  # noqa: PTH123 - with a mode from the start.
            file.write(profiles_text(profiles))
        fresh.replace(path)
    except OSError as error:
        raise ProfileError(
            f"cannot write {path}: {error.strerror}; set KAA_CONFIG_DIR to a folder where you may"
        ) from error


def check_name(name: str) -> None:
    """Raises ProfileError if a profile cannot have this name."""
    if name == NO_PROFILE or not _NAME.fullmatch(name):
        raise ProfileError(
            f"{name!r} cannot name a profile; use letters, digits, '.', '_' and '-', "
            f"and not {NO_PROFILE!r}"
        )


def settings_of(name: str | None) -> dict[str, str]:
    """The settings of a profile, or of the one in use; references are followed."""
    if name == NO_PROFILE or (name is None and not profiles_path().exists()):
        return {}
    profiles = read_profiles()
    wanted = profiles.current if name is None else name
    if wanted is None:
        return {}
    if wanted not in profiles.settings:
        raise ProfileError(unknown(wanted, profiles))
    return {key: resolve(key, value) for key, value in profiles.settings[wanted].items()}


def unknown(name: str, profiles: Profiles) -> str:
    """What to say about a name that is not there."""
    known = ", ".join(sorted(profiles.settings)) or "none yet (kaa profile create)"
    return f"there is no profile {name!r}; there are: {known}"


def resolve(key: str, value: str) -> str:
    """A value with its references followed; raises ProfileError."""

    def follow(match: re.Match[str]) -> str:
        kind, target = match.groups()
        try:
            if kind == "env":
                return os.environ[target]
            if kind == "file":
                return Path(target).expanduser().read_text("utf-8").strip()
            answer = subprocess.run(  # noqa: S602 - the user's own command, from the user's file.
                target,
                shell=True,
                check=True,
                stdout=subprocess.PIPE,
                timeout=CLI_PROFILE_COMMAND_SECONDS_MAX,
            )
            return answer.stdout.decode().strip()
        except KeyError:
            raise ProfileError(f"{key}: the environment has no {target}") from None
        except (OSError, UnicodeDecodeError, subprocess.SubprocessError) as error:
            raise ProfileError(f"{key}: cannot follow {match[0]}: {error}") from error

    return _REFERENCE.sub(follow, value)


def hidden(key: str, value: str) -> str:
    """The value as it may be shown."""
    if _REFERENCE.search(value) is not None or "location" in key:
        return value
    return HIDDEN if _SECRET.search(key) else without_secrets(value)


def _holds_secret(key: str, value: str) -> bool:
    return hidden(key, value) != value
