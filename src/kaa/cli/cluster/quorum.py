"""`kaa cluster quorum`: who votes on the metadata, and changes of that."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from kaa.cli.client import EXIT_FAILED, EXIT_NOT_FOUND, client_options, complain, run, say
from kaa.cli.cluster.quorum_plan import refusal_to_add, refusal_to_remove, warnings_of_removal
from kaa.cli.cluster.quorum_plan import voter as voter_of
from kaa.cli.command import Noun, Verb
from kaa.cli.output import print_rows, show
from kaa.cli.record_format import iso_time

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaa.cli.client import Session
    from kaa.client.admin.admin import Admin
    from kaa.client.admin.quorum import QuorumDescription, QuorumReplica
    from kaa.model.nodes import Endpoint
    from kaa.wire.primitives import Uuid

# A voter that was not at the end of the log for longer than this is a reason to worry.
_BEHIND_MS = 10_000


class _QuorumGroup(Noun):
    """Shows the quorum when no verb is named, so that it has the options of a verb too."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        Verb.format_options(self, ctx, formatter)  # type: ignore[arg-type]
        self.format_commands(ctx, formatter)


@click.group(cls=_QuorumGroup, name="quorum", invoke_without_command=True)
@client_options
def command(session: Session) -> None:
    """Show the quorum of the metadata: its leader, voters, observers, and how far each is.

    \b
    Examples:
      kaa cluster quorum
      kaa cluster quorum -o json
    """
    if click.get_current_context().invoked_subcommand is None:
        run(session, lambda: _show(session))


async def _show(session: Session) -> None:
    from kaa.client.admin.admin import Admin

    async with Admin(session.settings) as admin:
        found = await admin.describe_quorum()
    rows = [_row(found, one) for one in (*found.voters, *found.observers)]
    columns = ["id", "role", "log_end_offset", "lag", "last_caught_up"]
    wide = ["last_fetch", "directory_id", "endpoints"]
    facts = {
        "leader_id": found.leader_id,
        "leader_epoch": found.leader_epoch,
        "high_watermark": found.high_watermark,
    }

    def text() -> None:
        click.echo(
            f"leader {found.leader_id}, epoch {found.leader_epoch}, "
            f"high watermark {found.high_watermark}"
        )
        print_rows([*columns, *wide] if session.output == "wide" else columns, rows)

    document = facts | {"replicas": rows}
    show(session.output, columns, rows, "id", wide=wide, document=document, text=text)


def _row(found: QuorumDescription, one: QuorumReplica) -> dict[str, Any]:
    return {
        "id": one.node_id,
        "role": role(found, one),
        "log_end_offset": one.log_end_offset,
        "lag": lag(found, one),
        "last_caught_up": _moment(one.last_caught_up_ms),
        "last_fetch": _moment(one.last_fetch_ms),
        "directory_id": directory_text(one.directory_id),
        "endpoints": [str(endpoint) for endpoint in one.endpoints],
    }


def role(found: QuorumDescription, one: QuorumReplica) -> str:
    """What a replica is in the quorum: leader, voter or observer."""
    if one not in found.voters:
        return "observer"
    return "leader" if one.node_id == found.leader_id else "voter"


def lag(found: QuorumDescription, one: QuorumReplica) -> int:
    """How many records a replica lacks of the longest log."""
    end = max(each.log_end_offset for each in (*found.voters, *found.observers))
    return max(0, end - one.log_end_offset)


def directory_text(directory_id: Uuid) -> str | None:
    """A directory id for people; None where it is not known."""
    return str(directory_id) if any(directory_id) else None


def _moment(timestamp_ms: int) -> str | None:
    return None if timestamp_ms < 0 else iso_time(timestamp_ms)


def problems(found: QuorumDescription) -> list[str]:
    """What is wrong with the quorum: voters that are behind, and too few to lose one more."""
    newest_ms = max((one.last_fetch_ms for one in found.voters), default=-1)
    behind = [
        one.node_id
        for one in found.voters
        if one.node_id != found.leader_id and newest_ms - one.last_caught_up_ms > _BEHIND_MS
    ]
    texts = [f"controller {node_id} does not follow the quorum" for node_id in behind]
    majority = len(found.voters) // 2 + 1
    if behind and len(found.voters) - len(behind) == majority:
        texts.append("the quorum has lost a majority if one more controller fails")
    return texts


# --- changes

_yes = click.option("--yes", "--execute", "yes", is_flag=True, help="Do not ask for confirmation.")


class _Voter(NamedTuple):
    id: int
    directory_id: Uuid
    endpoints: tuple[Endpoint, ...]


@command.command()
@click.argument("controller", required=False, metavar="[ID@HOST:PORT:DIRECTORY]")
@click.option(
    "-c",
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The server.properties of the controller, on its own machine.",
)
@_yes
@client_options
def add(session: Session, controller: str | None, config_file: Path | None, yes: bool) -> None:
    """Make a controller that follows the quorum a voter.

    It has been formatted with --no-initial-controllers, and runs. The cluster must have
    kraft.version 1.

    \b
    Examples:
      kaa cluster quorum add --config server.properties
      kaa cluster quorum add 4@four.example:9093:JEXY6aqzQY-32P5TStzaFg --yes
    """
    if (controller is None) == (config_file is None):
        raise click.UsageError("name the controller, or its --config")

    async def work() -> int:
        from kaa.client.admin.admin import Admin

        async with Admin(session.settings) as admin:
            found = await admin.describe_quorum()
            if config_file is not None:
                voter = _voter_of_config(config_file)
            else:
                assert controller is not None
                voter = _voter_of_text(found, controller)
            refusal = refusal_to_add(found, voter.id, voter.directory_id)
            if refusal is not None:
                complain(refusal)
                return EXIT_FAILED
            planned = sorted({*(one.node_id for one in found.voters), voter.id})
            if voter.id not in {one.node_id for one in found.observers}:
                say(f"controller {voter.id} does not follow the quorum yet: is it running?")
            if not _confirm(session, "add", voter, found, planned, yes=yes):
                return 0
            await admin.add_raft_voter(voter.id, voter.directory_id, voter.endpoints)
        say(f"controller {voter.id} is a voter; voters: {_names(planned)}")
        return 0

    run(session, work)


@command.command()
@click.argument("controller_id", type=click.IntRange(0), metavar="ID")
@click.option(
    "--directory-id", help="The controller's directory id.  [default: what the quorum knows]"
)
@_yes
@client_options
def remove(session: Session, controller_id: int, directory_id: str | None, yes: bool) -> None:
    """Take the vote from a controller, for one that is gone or is to go.

    \b
    Examples:
      kaa cluster quorum remove 3
      kaa cluster quorum remove 3 --directory-id JEXY6aqzQY-32P5TStzaFg --yes
    """

    async def work() -> int:
        from kaa.client.admin.admin import Admin

        async with Admin(session.settings) as admin:
            found = await admin.describe_quorum()
            known = voter_of(found, controller_id)
            if known is None:
                voters = _names(one.node_id for one in found.voters)
                complain(f"{controller_id} is not a voter; voters: {voters}")
                return EXIT_NOT_FOUND
            key = known.directory_id if directory_id is None else _uuid(directory_id)
            refusal = refusal_to_remove(found, known, key)
            if refusal is not None:
                complain(refusal)
                return EXIT_FAILED
            for text in await warnings_of_removal(admin, found, controller_id):
                say(f"warning: {text}")
            voter = _Voter(controller_id, key, known.endpoints)
            planned = sorted({one.node_id for one in found.voters} - {controller_id})
            if not _confirm(session, "remove", voter, found, planned, yes=yes):
                return 0
            await _remove(admin, voter)
        say(f"controller {controller_id} is no longer a voter; voters: {_names(planned)}")
        return 0

    run(session, work)


async def _remove(admin: Admin, voter: _Voter) -> None:
    await admin.remove_raft_voter(voter.id, voter.directory_id)


def _confirm(
    session: Session,
    verb: str,
    voter: _Voter,
    found: QuorumDescription,
    planned: list[int],
    *,
    yes: bool,
) -> bool:
    """Shows the plan; asks where a person can answer."""
    row = {
        "change": verb,
        "id": voter.id,
        "directory_id": directory_text(voter.directory_id),
        "endpoints": [str(endpoint) for endpoint in voter.endpoints],
        "voters_before": sorted(one.node_id for one in found.voters),
        "voters_after": planned,
    }
    show(session.output, list(row), [row], "id")
    if len(planned) == 2:
        say("with two voters the cluster stops when either of them does")
    if yes:
        return True
    if sys.stdin.isatty():
        return click.confirm(f"{verb} controller {voter.id}?", err=True)
    say("nothing was changed; add --yes to do it")
    return False


def _voter_of_text(found: QuorumDescription, text: str) -> _Voter:
    """The address is that of the listener on which the leader of the quorum is known."""
    from kaa.cli.storage import parse_voter

    leader = next((one for one in found.voters if one.node_id == found.leader_id), None)
    listener = leader.endpoints[0].listener if leader and leader.endpoints else "CONTROLLER"
    voter = parse_voter("the controller to add", listener, text)
    assert voter.key.directory_id is not None
    return _Voter(voter.key.id, voter.key.directory_id, voter.endpoints)


def _voter_of_config(config_file: Path) -> _Voter:
    from kaa.cli.storage import read_config
    from kaa.log.files import RealFiles
    from kaa.log.properties import read_meta_properties

    config = read_config(config_file)
    if not config.listeners.advertised_controller:
        raise click.ClickException(
            f"the node of {config_file} is not a controller; give the server.properties of one."
        )
    properties = read_meta_properties(RealFiles(), config.metadata_log_dir)
    if properties is None or properties.directory_id is None:
        raise click.ClickException(
            f"{config.metadata_log_dir} is not formatted: kaa storage format"
            " --no-initial-controllers does it."
        )
    endpoints = config.listeners.advertised_controller
    return _Voter(config.node_id, properties.directory_id, endpoints)


def _uuid(text: str) -> Uuid:
    from kaa.wire.primitives import Uuid

    try:
        return Uuid.parse(text)
    except ValueError as error:
        raise click.UsageError(f"--directory-id: {error}") from error


def _names(ids: Iterable[int]) -> str:
    return ", ".join(map(str, ids)) or "none"
