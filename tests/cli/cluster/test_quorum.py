from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kaa.cli.cluster.quorum import problems
from kaa.cli.root import root
from kaa.client.admin.quorum import QuorumDescription, QuorumReplica
from kaa.testing import Cluster


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


def test_a_voter_goes_and_comes_back(cluster: Cluster) -> None:
    servers = cluster.bootstrap_servers
    voter = 1 if cluster.controller != 1 else 2
    rows = json.loads(kaa(servers, "-o", "json").stdout)["replicas"]
    (row,) = [one for one in rows if one["id"] == voter]
    address = row["endpoints"][0].partition("://")[2]
    written = f"{voter}@{address}:{row['directory_id']}"

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
    assert "DUPLICATE_VOTER" in twice.output


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
