from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kaa.cli.cluster.quorum import problems
from kaa.cli.root import root
from kaa.client.admin.quorum import QuorumDescription, QuorumReplica
from kaa.testing import Cluster
from kaa.wire.primitives import Uuid
from tests.support.terminal import typed_into


def kaa(bootstrap: str, *arguments: str) -> Result:
    return CliRunner().invoke(root, ["cluster", "quorum", *arguments, "-b", bootstrap])


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as made:
        yield made


def test_the_quorum_is_shown(bootstrap: str) -> None:
    found = json.loads(kaa(bootstrap, "-o", "json").stdout)
    (leader,) = [row for row in found["replicas"] if row["role"] == "leader"]
    assert (leader["id"], leader["lag"]) == (found["leader_id"], 0)
    assert leader["endpoints"][0].startswith("CONTROLLER://127.0.0.1:")
    assert kaa(bootstrap).stdout.startswith(f"leader {found['leader_id']}, epoch ")
    assert "LAST-FETCH" in kaa(bootstrap, "-o", "wide").stdout


def named(servers: str, voter: int) -> str:
    """A voter as `add` takes it."""
    rows = json.loads(kaa(servers, "-o", "json").stdout)["replicas"]
    (row,) = [one for one in rows if one["id"] == voter]
    address = row["endpoints"][0].partition("://")[2]
    return f"{voter}@{address}:{row['directory_id']}"


def test_a_voter_goes_and_comes_back(cluster: Cluster) -> None:
    servers = cluster.bootstrap_servers
    voter = 1 if cluster.controller != 1 else 2
    written = named(servers, voter)

    plan = kaa(servers, "remove", str(voter), "-o", "json")
    (change,) = json.loads(plan.stdout)
    assert (change["voters_before"], change["change"]) == ([1, 2, 3], "remove")
    assert "nothing was changed; add --yes to do it" in plan.stderr
    assert "stops when either" in plan.stderr

    done = kaa(servers, "remove", str(voter), "--yes")
    assert done.exit_code == 0, done.output
    assert f"controller {voter} is no longer a voter" in done.stderr
    gone = kaa(servers, "remove", str(voter), "--yes")
    assert gone.exit_code == 4
    roles = {
        one["id"]: one["role"] for one in json.loads(kaa(servers, "-o", "json").stdout)["replicas"]
    }
    assert sorted(roles.values()) == ["leader", "observer", "voter"]

    back = kaa(servers, "add", written, "--yes")
    assert back.exit_code == 0, back.output
    assert "voters: 1, 2, 3" in back.stderr
    twice = kaa(servers, "add", written, "--yes")
    assert twice.exit_code != 0
    assert f"controller {voter} is a voter already" in twice.stderr
    assert not twice.stdout
    other = kaa(servers, "add", f"{written.rpartition(':')[0]}:{Uuid(b'o' * 16)}", "--yes")
    assert "if that directory is gone, remove it first" in other.stderr
    wrong = kaa(servers, "remove", str(voter), "--directory-id", str(Uuid(b"o" * 16)), "--yes")
    assert f"the directory id of controller {voter} is" in wrong.stderr
    unreadable = kaa(servers, "add", "9@host")
    assert "the controller to add" in unreadable.output
    assert ".)" not in unreadable.output


def test_a_quorum_without_a_leader_is_named() -> None:
    with Cluster() as cluster:
        servers = cluster.bootstrap_servers.split(",")[0]
        for node_id in (2, 3):
            cluster.kill(node_id)
        words = ("-b", servers, "--timeout", "4")
        told = "the quorum has no leader: a majority of the controllers must run"
        for _ in range(5):
            started = time.monotonic()
            shown = CliRunner().invoke(root, ["cluster", "health", *words])
            assert time.monotonic() - started < 8, "no more than a part of it twice"
            assert shown.exit_code == 7, shown.output
            if told in shown.stdout:
                break
        else:
            # A leader that has lost the others leads for a while yet, and answers.
            pytest.fail("health found nothing wrong with the quorum")
        for verb in ((), ("remove", "2")):
            shown = kaa(servers, *verb, "--timeout", "2")
            assert shown.exit_code == 6, shown.output
            assert "the quorum has no leader that" in shown.stderr
            assert "see that a majority of the controllers runs" in shown.stderr


def test_controllers_may_be_asked(cluster: Cluster) -> None:
    servers = cluster.bootstrap_servers
    leader = json.loads(kaa(servers, "-o", "json").stdout)["leader_id"]
    for voter in (1, 2, 3):
        address = named(servers, voter).partition("@")[2].rpartition(":")[0]
        words = ["-X", f"bootstrap.controllers={address}"]
        for verb in ("quorum", "controllers", "features", "api-versions"):
            shown = CliRunner().invoke(root, ["cluster", verb, *words, "-o", "json"])
            assert shown.exit_code == 0, (verb, shown.output)
        shown = CliRunner().invoke(root, ["cluster", "quorum", *words, "-o", "json"])
        assert json.loads(shown.stdout)["leader_id"] == leader
        removed = voter if voter != leader else 1 + leader % 3
        planned = CliRunner().invoke(root, ["cluster", "quorum", "remove", str(removed), *words])
        assert planned.exit_code == 0, planned.output
        # As if it were a broker.
        for noun, verb in (("topic", "list"), ("cluster", "controllers")):
            shown = CliRunner().invoke(root, [noun, verb, "-b", address])
            assert shown.exit_code == 1
            assert "-X bootstrap.controllers=" in shown.stderr


def test_a_person_is_asked_first(cluster: Cluster) -> None:
    servers = cluster.bootstrap_servers
    voter = 1 if cluster.controller != 1 else 2

    written = named(servers, voter)

    def voters() -> list[int]:
        rows = json.loads(kaa(servers, "-o", "json").stdout)["replicas"]
        return sorted(row["id"] for row in rows if row["role"] != "observer")

    command = ["cluster", "quorum", "remove", str(voter), "-b", servers]
    refused = typed_into(command, ["n"])
    assert "VOTERS-AFTER" in refused
    assert f"remove controller {voter}? [y/N]: n" in refused
    assert voters() == [1, 2, 3]
    assert f"controller {voter} is no longer a voter" in typed_into(command, ["y"])
    assert voters() == sorted({1, 2, 3} - {voter})
    command = ["cluster", "quorum", "add", written, "-b", servers]
    assert f"add controller {voter}? [y/N]: y" in typed_into(command, ["y"])
    assert voters() == [1, 2, 3]


def test_the_new_voter_may_be_named_by_its_configuration(cluster: Cluster, tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_text(
        "process.roles=controller\nnode.id=9\nlisteners=CONTROLLER://127.0.0.1:19093\n"
        "controller.listener.names=CONTROLLER\n"
        "controller.quorum.bootstrap.servers=127.0.0.1:19093\n"
        f"log.dirs={tmp_path}/data\n"
    )
    servers = cluster.bootstrap_servers
    unformatted = kaa(servers, "add", "--config", str(config))
    assert unformatted.exit_code == 1
    assert "kaa storage format" in unformatted.stderr
    arguments = ["storage", "format", "-t", "some", "-c", str(config), "--no-initial-controllers"]
    assert CliRunner().invoke(root, arguments).exit_code == 0
    planned = kaa(servers, "add", "--config", str(config), "-o", "json")
    (change,) = json.loads(planned.stdout)
    assert change["endpoints"] == ["CONTROLLER://127.0.0.1:19093"]
    assert change["voters_after"] == [1, 2, 3, 9]
    assert "is it running?" in planned.stderr
    neither = kaa(servers, "add")
    assert neither.exit_code == 2


@pytest.mark.parametrize(
    ("caught_up_ms", "expected"),
    [
        ((99_000, 100_000), []),
        ((50_000, 100_000), ["controller 2 does not follow", "if one more controller fails"]),
    ],
)
def test_problems(caught_up_ms: tuple[int, int], expected: list[str]) -> None:
    voters = [QuorumReplica(1, 10, 100_000, 100_000)]
    voters += [
        QuorumReplica(number, 10, caught_up, caught_up)
        for number, caught_up in enumerate(caught_up_ms, 2)
    ]
    found = problems(QuorumDescription(1, 3, 10, tuple(voters), ()))
    assert len(found) == len(expected)
    assert all(part in text for part, text in zip(expected, found, strict=True))
