"""`kaa storage`: what Kafka's storage tool does: prepares and inspects a node's directories."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kaa.cli.client import local_options
from kaa.cli.command import Noun
from kaa.cli.output import show, show_one
from kaa.config.addresses import parse_host_port
from kaa.config.server import load_broker_config
from kaa.config.sources import file_settings
from kaa.config.values import ConfigError
from kaa.controller.feature_table import (
    FEATURES,
    METADATA_VERSION,
    METADATA_VERSION_MAX,
    METADATA_VERSIONS,
    default_level,
    metadata_version_of,
)
from kaa.controller.result import FormatError
from kaa.controller.scram import ScramError, parse_credential
from kaa.log.errors import CorruptFileError
from kaa.log.files import RealFiles
from kaa.log.properties import read_meta_properties
from kaa.model.nodes import Endpoint
from kaa.wire.primitives import Uuid
from kaa.wire.primitives import random_uuid as new_uuid

if TYPE_CHECKING:
    from kaa.config.server import BrokerConfig
    from kaa.controller.feature_table import MetadataVersion
    from kaa.controller.formatting import FormatRequest
    from kaa.log.properties import MetaProperties
    from kaa.quorum.voters import VoterNode, VoterSet

config_option = click.option(
    "-c",
    "--config",
    "config_file",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The configuration of the node, as Kafka's server.properties.",
)


@click.group(cls=Noun, name="storage")
def command() -> None:
    """Format and inspect the log directories of a node.

    \b
    Examples:
      kaa storage format -t $(kaa storage random-uuid) -c server.properties --standalone
      kaa storage info -c server.properties
    """


# --- format


@command.command("format")
@config_option
@click.option("-t", "--cluster-id", required=True, help="The id of the cluster.")
@click.option(
    "-s", "--standalone", is_flag=True, help="Make this node the first voter of a dynamic quorum."
)
@click.option(
    "-N",
    "--no-initial-controllers",
    is_flag=True,
    help="Format for a dynamic quorum that this node joins later.",
)
@click.option(
    "-I",
    "--initial-controllers",
    metavar="ID@HOST:PORT:DIRECTORY",
    help="The first voters of a dynamic quorum.",
)
@click.option(
    "-f",
    "--feature",
    "features",
    metavar="FEATURE=LEVEL",
    multiple=True,
    help="The level of a feature; may be given several times.",
)
@click.option(
    "-r",
    "--release-version",
    metavar="RELEASE",
    help=f"The release whose feature levels to use [default: {METADATA_VERSION_MAX}].",
)
@click.option(
    "-g", "--ignore-formatted", is_flag=True, help="Skip directories that are already formatted."
)
@click.option(
    "-S",
    "--add-scram",
    "scram",
    metavar="CREDENTIAL",
    multiple=True,
    help="A credential, as in 'SCRAM-SHA-256=[name=alice,password=secret]'.",
)
@local_options
def format_command(
    output: str,
    config_file: Path,
    cluster_id: str,
    standalone: bool,
    no_initial_controllers: bool,
    initial_controllers: str | None,
    features: tuple[str, ...],
    release_version: str | None,
    ignore_formatted: bool,
    scram: tuple[str, ...],
) -> None:
    """Format the log directories of a node.

    \b
    Examples:
      kaa storage format -t $(kaa storage random-uuid) -c server.properties --standalone
      kaa storage format -t 5L6g3nShT-eMCtK--X86sw -c server.properties -s --feature group.version=0
    """
    from kaa.controller.formatting import FormatRequest

    if standalone + no_initial_controllers + (initial_controllers is not None) > 1:
        raise click.UsageError(
            "--standalone, --no-initial-controllers and --initial-controllers exclude each other."
        )
    config = read_config(config_file)
    is_dynamic = not config.quorum_voters
    is_controller = "controller" in config.get_list("process.roles")
    if not is_dynamic and (standalone or initial_controllers is not None):
        raise click.ClickException(
            "controller.quorum.voters names the voters already: remove it, and set"
            " controller.quorum.bootstrap.servers, to use --standalone or --initial-controllers."
        )
    is_controller = "controller" in config.get_list("process.roles")
    voters = None
    if standalone:
        if not is_controller:
            raise click.ClickException(
                "--standalone makes this node a voter, and process.roles has no controller:"
                " format it without, and the controllers with it."
            )
        voters = _standalone(config)
    elif initial_controllers is not None:
        voters = _initial_controllers(config, initial_controllers)
    elif is_dynamic and is_controller and not no_initial_controllers:
        raise click.ClickException(
            "controller.quorum.voters is not set, so say who votes: --standalone,"
            " --initial-controllers or --no-initial-controllers."
        )
    try:
        request = FormatRequest(
            cluster_id=cluster_id,
            node_id=config.node_id,
            directories=config.log_dirs,
            metadata_directory=config.metadata_log_dir,
            is_quorum_dynamic=is_dynamic,
            voters=voters,
            release=None if release_version is None else _release(release_version),
            levels=_levels(features),
            credentials=[
                parse_credential(argument, random.SystemRandom().randbytes) for argument in scram
            ],
            ignore_formatted=ignore_formatted,
        )
        _format(request, output)
    except (FormatError, ScramError) as error:
        raise click.ClickException(str(error)) from error


def _format(request: FormatRequest, output: str) -> None:
    from kaa.controller.formatting import plan_format

    files = RealFiles()
    plan = plan_format(files, request, _new_id)
    if not plan.empty_directories:
        show(
            output,
            ["directory", "kind"],
            [],
            "directory",
            text=lambda: click.echo("All log directories are formatted already."),
        )
        return
    rows: list[dict[str, str]] = []
    lines: list[str] = []
    comment = time.strftime("%a %b %d %H:%M:%S UTC %Y", time.gmtime())
    try:
        for directory in plan.run(files, time.time_ns() // 1_000_000, comment):
            kind = "data directory"
            if directory == request.metadata_directory:
                kind = "metadata directory" if request.voters is None else "voter's directory"
            rows.append({"directory": directory, "kind": kind})
            lines.append(f"Formatting {kind} {directory} with metadata.version {plan.release}.")
    except OSError as error:
        raise FormatError(f"cannot format: {error}") from error
    columns = ["directory", "kind"]
    show(output, columns, rows, "directory", text=lambda: click.echo("\n".join(lines)))


def read_config(config_file: Path) -> BrokerConfig:
    """The configuration in a file; a problem ends the command with its text."""
    try:
        settings = file_settings(config_file.read_bytes(), str(config_file))
        return load_broker_config(settings).config
    except ConfigError as error:
        raise click.ClickException(str(error)) from error


def _new_id() -> Uuid:
    return new_uuid(os.urandom)


def _standalone(config: BrokerConfig) -> VoterSet:
    from kaa.quorum.voters import KRAFT_VERSIONS, ReplicaKey, VoterNode, VoterSet

    listener = config.listeners.advertised_controller[0]
    endpoint = Endpoint(listener.listener, listener.host or "localhost", listener.port)
    return VoterSet.of(
        [VoterNode(ReplicaKey(config.node_id, _new_id()), (endpoint,), KRAFT_VERSIONS)]
    )


def _initial_controllers(config: BrokerConfig, text: str) -> VoterSet:
    from kaa.quorum.voters import VoterSet

    listener = config.get_list("controller.listener.names")[0]
    voters = [parse_voter("--initial-controllers", listener, entry) for entry in text.split(",")]
    try:
        return VoterSet.of(voters)
    except ValueError as error:
        raise click.ClickException(f"--initial-controllers: {error}.") from error


def parse_voter(name: str, listener: str, entry: str) -> VoterNode:
    """A controller as id@host:port:directory; `name` says where it is written."""
    from kaa.quorum.voters import KRAFT_VERSIONS, ReplicaKey, VoterNode

    form = "id@host:port:directory"
    node_id, _, rest = entry.partition("@")
    address, _, directory = rest.rpartition(":")
    try:
        host, port = parse_host_port(name, entry, address, form)
        key = ReplicaKey(int(node_id), Uuid.parse(directory))
    except (ConfigError, ValueError) as error:
        raise click.ClickException(
            f"cannot read {entry}: a voter is written {form} ({str(error).rstrip('.')})."
        ) from error
    return VoterNode(key, (Endpoint(listener, host, port),), KRAFT_VERSIONS)


def _release(text: str) -> MetadataVersion:
    found = metadata_version_of(text)
    if found is None:
        known = ", ".join(map(str, METADATA_VERSIONS))
        raise FormatError(f"there is no release {text}; there are {known}")
    return found


def _levels(features: tuple[str, ...]) -> dict[str, int]:
    levels = {}
    for text in features:
        name, _, level = text.partition("=")
        if not level.strip().isdecimal():
            raise FormatError(f"cannot read --feature {text}: write feature=level")
        levels[name.strip()] = int(level)
    return levels


# --- the rest


@command.command("info")
@config_option
@local_options
def info(config_file: Path, output: str) -> None:
    """Show what the log directories of a node are formatted for.

    Fails if there is a problem with any of them.

    \b
    Examples:
      kaa storage info -c server.properties
      kaa storage info -c server.properties -o json
    """
    config = read_config(config_file)
    directories = sorted({*config.log_dirs, config.metadata_log_dir})
    found: dict[str, MetaProperties] = {}
    problems = []
    for directory in directories:
        problem = _inspect(directory, found)
        if problem is not None:
            problems.append(problem)
    if len({properties.cluster_id for properties in found.values()}) > 1:
        problems.append("The directories belong to different clusters.")
    if len({properties.node_id for properties in found.values()}) > 1:
        problems.append("The directories belong to different nodes.")
    facts = {path: _facts(properties) for path, properties in found.items()}
    rows = [
        {"directory": path, **{name: facts[path].get(name) for name in _FACTS}} for path in facts
    ]

    def text() -> None:
        for path, known in facts.items():
            click.echo(f"{path}: {', '.join(f'{name}={value}' for name, value in known.items())}")
        for problem in problems:
            click.echo(problem)

    document = {"directories": facts, "problems": problems}
    show(output, ["directory", *_FACTS], rows, "directory", document=document, text=text)
    if problems:
        raise SystemExit(1)


def _inspect(directory: str, found: dict[str, MetaProperties]) -> str | None:
    """Notes the identity of a directory; returns what is wrong with it."""
    path = Path(directory)
    if not path.is_dir():
        return f"{directory} is not a directory." if path.exists() else f"{directory} is missing."
    try:
        properties = read_meta_properties(RealFiles(), directory)
    except CorruptFileError as error:
        return f"{error}."
    if properties is None:
        return f"{directory} is not formatted."
    found[directory] = properties
    return None


_FACTS = ("cluster.id", "directory.id", "node.id", "version")


def _facts(properties: MetaProperties) -> dict[str, str]:
    directory_id = properties.directory_id
    facts = {"cluster.id": properties.cluster_id}
    if directory_id is not None:
        facts["directory.id"] = str(directory_id)
    return facts | {"node.id": str(properties.node_id), "version": str(properties.version)}


@command.command("random-uuid")
@local_options
def random_uuid(output: str) -> None:
    """Print a random id for a new cluster.

    \b
    Examples:
      kaa storage random-uuid
    """
    uuid_text = str(_new_id())
    show_one(output, {"uuid": uuid_text}, "uuid", lambda: click.echo(uuid_text))


@command.command("version-mapping")
@click.option("-r", "--release-version", metavar="RELEASE", help="Default: the newest.")
@local_options
def version_mapping(output: str, release_version: str | None) -> None:
    """Show the feature levels of a release.

    \b
    Examples:
      kaa storage version-mapping --release-version 4.0
    """
    try:
        release = METADATA_VERSION_MAX if release_version is None else _release(release_version)
    except FormatError as error:
        raise click.ClickException(str(error)) from error
    levels = {METADATA_VERSION: release.level}
    levels |= {name: default_level(name, release.level) for name in FEATURES}

    def text() -> None:
        for name, level in levels.items():
            shown = f" ({release_version or release})" if name == METADATA_VERSION else ""
            click.echo(f"{name}={level}{shown}")

    rows = [{"feature": name, "level": level} for name, level in levels.items()]
    show(output, ["feature", "level"], rows, "feature", document=levels, text=text)
