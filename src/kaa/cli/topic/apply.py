"""`kaa topic apply`: topics as a file says, with a plan first.

The file is YAML, TOML or JSON (`.yaml`, `.toml`, `.json`; `-` is standard input as JSON):

    topics:
    - name: orders
      partitions: 6            # default: the broker's
      replication_factor: 3    # default: the broker's
      configs:
        retention.ms: 86400000

What `kaa topic describe -o json` prints is such a file too. The plan compares the file with the
cluster, topic by topic. A topic that is not in the file is never touched, and neither is a setting
that the file does not name, unless `--strict` takes such settings back. What cannot be done, such
as fewer partitions, is a conflict, and then nothing at all is done.
"""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from kaa.cli.client import (
    EXIT_FAILED,
    EXIT_UNHEALTHY,
    client_options,
    complain,
    outcome_code,
    run,
    say,
)
from kaa.cli.command import Verb
from kaa.cli.output import show
from kaa.model.words import count_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kaa.cli.client import Session
    from kaa.client.admin.admin import Admin

_KEYS = frozenset({"name", "partitions", "replication_factor", "configs", "id", "internal"})


class Wanted(NamedTuple):
    """A topic as the file has it; None where it does not say."""

    name: str
    partitions: int | None
    replicas: int | None
    configs: dict[str, str]


class Present(NamedTuple):
    """A topic as the cluster has it, with the settings of its own."""

    partitions: int
    replicas: int
    configs: dict[str, str]


class TopicChange(NamedTuple):
    """One line of the plan; `before` and `after` are None where there is nothing."""

    name: str
    action: str
    what: str
    before: str | None
    after: str | None


class FileError(Exception):
    """A file that does not say which topics are wanted."""


def plan(
    wanted: Sequence[Wanted], present: Mapping[str, Present], *, is_strict: bool
) -> list[TopicChange]:
    """What has to be done so that the cluster is as wanted; pure."""
    changes: list[TopicChange] = []
    for topic in wanted:
        found = present.get(topic.name)
        if found is None:
            count = None if topic.partitions is None else str(topic.partitions)
            changes.append(TopicChange(topic.name, "create", "partitions", None, count))
            if topic.replicas is not None:
                factor = str(topic.replicas)
                changes.append(
                    TopicChange(topic.name, "create", "replication_factor", None, factor)
                )
            changes += [
                TopicChange(topic.name, "create", name, None, value)
                for name, value in topic.configs.items()
            ]
            continue
        if topic.partitions is not None and topic.partitions != found.partitions:
            action = "add" if topic.partitions > found.partitions else "conflict"
            before, after = str(found.partitions), str(topic.partitions)
            changes.append(TopicChange(topic.name, action, "partitions", before, after))
        if topic.replicas is not None and topic.replicas != found.replicas:
            before, after = str(found.replicas), str(topic.replicas)
            changes.append(TopicChange(topic.name, "conflict", "replication_factor", before, after))
        for name, value in topic.configs.items():
            if found.configs.get(name) != value:
                changes.append(TopicChange(topic.name, "set", name, found.configs.get(name), value))
        if is_strict:
            changes += [
                TopicChange(topic.name, "unset", name, value, None)
                for name, value in found.configs.items()
                if name not in topic.configs
            ]
    return changes


def read_wanted(path: Path) -> list[Wanted]:
    """The topics of a file; raises FileError."""
    document = _parse(path)
    topics = document.get("topics") if isinstance(document, dict) else document
    if not isinstance(topics, list):
        raise FileError("the file has no list of topics; see kaa topic apply --help")
    found = [_wanted(item) for item in topics]
    names = [topic.name for topic in found]
    for name in names:
        if names.count(name) > 1:
            raise FileError(f"topic {name} is listed twice")
    return found


def _parse(path: Path) -> Any:
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text("utf-8")
        if path.suffix == ".toml":
            return tomllib.loads(text)
        if path.suffix == ".json":
            return json.loads(text)
    except OSError as error:
        raise FileError(f"it cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise FileError(f"it is not UTF-8: {error.reason} at byte {error.start}") from error
    except ValueError as error:
        raise FileError(f"it is not {path.suffix[1:].upper()}: {error}") from error
    try:
        # Most of JSON is YAML too, but it needs no package.
        return json.loads(text)
    except ValueError:
        return _parse_yaml(text)


def _parse_yaml(text: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise FileError("YAML needs a package: pip install pyyaml; or use TOML or JSON") from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise FileError(f"it is not YAML: {error}") from error


def _wanted(item: Any) -> Wanted:
    if not isinstance(item, dict) or not isinstance(item.get("name"), str):
        raise FileError(f"{item!r} is not a topic; it needs a name")
    name = item["name"]
    if unknown := set(item) - _KEYS:
        known = ", ".join(sorted(_KEYS - {"id", "internal"}))
        raise FileError(
            f"topic {name} has unknown fields: {', '.join(sorted(unknown))}; known fields: {known}"
        )
    partitions, replicas = item.get("partitions"), item.get("replication_factor")
    if isinstance(partitions, list):
        # As `kaa topic describe` prints them, one by one.
        replicas = max((len(one["replicas"]) for one in partitions), default=None)
        partitions = len(partitions)
    for what, value in (("partitions", partitions), ("replication_factor", replicas)):
        if value is not None and (not isinstance(value, int) or value < 1):
            raise FileError(f"{what} of topic {name} is {value!r}, not a number above 0")
    configs = item.get("configs") or {}
    if not isinstance(configs, dict):
        raise FileError(f"configs of topic {name} are not names with values")
    for key, value in configs.items():
        if value is None:
            raise FileError(f"{key} of topic {name} has no value; leave it out for the default")
    texts = {str(key): _config_text(value) for key, value in configs.items()}
    return Wanted(name, partitions, replicas, texts)


def _config_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


@click.command(cls=Verb)
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--strict", is_flag=True, help="Take back settings that the file does not name.")
@click.option("--check", is_flag=True, help="Change nothing; exit code 7 if there is a difference.")
@click.option(
    "--yes", "--execute", "yes", is_flag=True, help="Do it; otherwise only the plan is shown."
)
@client_options
def apply(session: Session, file: Path, strict: bool, check: bool, yes: bool) -> None:
    """Create and change topics as a file says: YAML, TOML or JSON.

    The file has a list of topics, each with name, and perhaps partitions, replication_factor and
    configs. Topics that it does not name stay as they are.

    \b
    Examples:
      kaa topic apply topics.yaml           # shows the plan
      kaa topic apply topics.yaml --yes
      kaa topic apply topics.yaml --check || echo the cluster differs
      kaa topic describe orders -o json | kaa topic apply -
    """
    try:
        wanted = read_wanted(file)
    except FileError as error:
        raise click.UsageError(f"{file}: {error}") from error

    async def work() -> int:
        from kaa.client.admin.admin import Admin

        async with Admin(session.settings) as admin:
            present = await _present(admin, [topic.name for topic in wanted])
            changes = plan(wanted, present, is_strict=strict)
            columns = TopicChange._fields
            show(session.output, columns, [one._asdict() for one in changes])
            conflicts = [one for one in changes if one.action == "conflict"]
            for one in conflicts:
                complain(f"{one.name}: {one.what} cannot go from {one.before} to {one.after}")
            if conflicts:
                return EXIT_FAILED
            if not changes:
                say(f"{count_text(len(wanted), 'topic')} already as wanted")
                return 0
            if check:
                return EXIT_UNHEALTHY
            if not yes:
                say("nothing was changed; add --yes to do it")
                return 0
            outcome = await _carry_out(admin, wanted, present, changes)
        done = sum(error is None for error in outcome.values())
        say(f"{count_text(done, 'topic')} created or changed")
        return outcome_code(outcome)

    run(session, work)


async def _present(admin: Admin, names: Sequence[str]) -> dict[str, Present]:
    from kaa.client.admin.admin import ConfigSource
    from kaa.client.errors import KafkaError
    from kaa.model.kinds import ResourceType
    from kaa.wire.errors import Errors

    found: dict[str, Present] = {}
    for name, topic in (await admin.describe_topics(names)).items():
        if isinstance(topic, KafkaError):
            if topic.error is not Errors.UNKNOWN_TOPIC_OR_PARTITION:
                raise topic
            continue
        entries = await admin.describe_configs(ResourceType.TOPIC, name)
        own = {
            entry.name: entry.value or ""
            for entry in entries
            if entry.source is ConfigSource.DYNAMIC_TOPIC_CONFIG
        }
        replicas = max((len(one.replicas) for one in topic.partitions), default=0)
        found[name] = Present(len(topic.partitions), replicas, own)
    return found


async def _carry_out(
    admin: Admin,
    wanted: Sequence[Wanted],
    present: Mapping[str, Present],
    changes: Sequence[TopicChange],
) -> dict[str, Exception | None]:
    """Does what the plan says, and gives for each topic of it how that went."""
    from kaa.client.admin.admin import ConfigChange, ConfigOperation, NewTopic
    from kaa.client.errors import KafkaError
    from kaa.model.kinds import ResourceType

    new = [
        NewTopic(one.name, one.partitions or -1, one.replicas or -1, one.configs)
        for one in wanted
        if one.name not in present
    ]
    outcome: dict[str, Exception | None] = {}
    if new:
        outcome |= await admin.create_topics(new)
    grown = {one.name: int(one.after or 0) for one in changes if one.action == "add"}
    if grown:
        outcome |= await admin.create_partitions(grown)
    settings: dict[str, list[ConfigChange]] = {}
    for one in changes:
        if one.action == "set":
            settings.setdefault(one.name, []).append(ConfigChange(one.what, one.after))
        elif one.action == "unset":
            gone = ConfigChange(one.what, None, ConfigOperation.DELETE)
            settings.setdefault(one.name, []).append(gone)
    for name, own in settings.items():
        try:
            await admin.alter_configs(ResourceType.TOPIC, name, own)
        except KafkaError as error:
            outcome[name] = error
        else:
            outcome.setdefault(name, None)
    return outcome
