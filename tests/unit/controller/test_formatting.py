from __future__ import annotations

import itertools
from typing import Any

import pytest

from kaa.controller.bootstrap import read_bootstrap_records
from kaa.controller.feature_table import metadata_version_of
from kaa.controller.formatting import FormatRequest, plan_format
from kaa.controller.result import FormatError
from kaa.log.properties import read_meta_properties
from kaa.log.sim_files import CrashError, SimFiles
from kaa.quorum import VoterSet
from kaa.quorum.snapshots import load_snapshot, read_bootstrap
from kaa.wire.messages.metadata_cluster import FeatureLevelRecord
from kaa.wire.messages.metadata_settings import UserScramCredentialRecord
from tests.support.ids import uuid
from tests.unit.quorum.disk_replica import directory_id, voter

FIRST_SNAPSHOT = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"


def request(**changes: Any) -> FormatRequest:
    return FormatRequest(
        cluster_id="cluster",
        node_id=1,
        directories=["/d/a", "/d/b"],
        metadata_directory="/d/a",
        is_quorum_dynamic=changes.pop("is_quorum_dynamic", False),
    )._replace(**changes)


def run(files: SimFiles, wanted: FormatRequest) -> list[str]:
    ids = itertools.count(1000)
    plan = plan_format(files, wanted, lambda: uuid(next(ids)))
    return list(plan.run(files, 5, "now"))


def features(files: SimFiles, directory: str) -> dict[str, int]:
    values = read_bootstrap(files, directory)
    assert values is not None
    return {
        record.name: record.feature_level
        for record in read_bootstrap_records(values)
        if isinstance(record, FeatureLevelRecord)
    }


def test_every_directory_gets_identity_and_bootstrap_records() -> None:
    files = SimFiles()
    assert run(files, request()) == ["/d/b", "/d/a"]
    for directory, number in (("/d/a", 1000), ("/d/b", 1001)):
        found = read_meta_properties(files, directory)
        assert found is not None
        assert (found.node_id, found.cluster_id, found.version) == (1, "cluster", 1)
        assert found.directory_id == uuid(number)
        assert features(files, directory) == {
            "metadata.version": 30,
            "eligible.leader.replicas.version": 1,
            "group.version": 1,
            "share.version": 1,
            "streams.version": 1,
            "transaction.version": 2,
        }
    assert not files.exists(f"/d/a/{FIRST_SNAPSHOT}")


def test_the_metadata_directory_may_be_one_of_its_own() -> None:
    files = SimFiles()
    assert run(files, request(metadata_directory="/m")) == ["/d/a", "/d/b", "/m"]


def test_a_dynamic_quorum_starts_from_its_voters() -> None:
    files = SimFiles()
    voters = VoterSet.of([voter(1, with_directory=True)])
    run(files, request(is_quorum_dynamic=True, voters=voters))
    content = load_snapshot(files, f"/d/a/{FIRST_SNAPSHOT}")
    assert (content.kraft_version, content.voters, list(content.values)) == (1, voters, [])
    assert not files.exists(f"/d/b/{FIRST_SNAPSHOT}")
    found = read_meta_properties(files, "/d/a")
    assert found is not None
    assert found.directory_id == directory_id(1)
    assert "kraft.version" not in features(files, "/d/a")


def test_a_node_that_joins_later_has_no_first_snapshot() -> None:
    files = SimFiles()
    run(files, request(is_quorum_dynamic=True))
    assert not files.exists(f"/d/a/{FIRST_SNAPSHOT}")


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ("3.9", {"metadata.version": 21}),
        ("4.0.1", {"metadata.version": 25, "group.version": 1, "transaction.version": 2}),
        ("4.1-IV0", {"metadata.version": 26, "eligible.leader.replicas.version": 1}),
    ],
)
def test_releases(release: str, expected: dict[str, int]) -> None:
    files = SimFiles()
    run(files, request(release=metadata_version_of(release)))
    found = features(files, "/d/a")
    assert {name: found[name] for name in expected} == expected


def test_levels_can_be_chosen() -> None:
    files = SimFiles()
    run(files, request(levels={"metadata.version": 28, "group.version": 0, "share.version": 0}))
    found = features(files, "/d/a")
    assert found["metadata.version"] == 28
    assert "group.version" not in found
    assert "streams.version" not in found


def test_credentials_follow_the_features() -> None:
    files = SimFiles()
    credential = UserScramCredentialRecord(name="alice", mechanism=1, iterations=4096)
    run(files, request(credentials=[credential]))
    values = read_bootstrap(files, "/d/a")
    assert values is not None
    assert read_bootstrap_records(values)[-1] == credential


@pytest.mark.parametrize(
    "changes",
    [
        {"node_id": -1},
        {"cluster_id": ""},
        {"levels": {"nosuch.version": 1}},
        {"levels": {"group.version": 2}},
        {"levels": {"metadata.version": 6}},
        {"levels": {"metadata.version": 31}},
        {"levels": {"kraft.version": 1}},
        {"levels": {"kraft.version": 0}, "is_quorum_dynamic": True},
        {"levels": {"metadata.version": 22, "eligible.leader.replicas.version": 1}},
        {"levels": {"metadata.version": 28}, "release": metadata_version_of("4.0")},
        {
            "credentials": [UserScramCredentialRecord(name="a")],
            "release": metadata_version_of("3.4"),
        },
    ],
)
def test_refusals_touch_nothing(changes: dict[str, Any]) -> None:
    files = SimFiles()
    with pytest.raises(FormatError):
        run(files, request(**changes))
    assert files.history == []


def test_formatted_directories() -> None:
    files = SimFiles()
    run(files, request(directories=["/d/a"]))
    before = read_meta_properties(files, "/d/a")
    with pytest.raises(FormatError, match="--ignore-formatted"):
        run(files, request())
    assert run(files, request(ignore_formatted=True)) == ["/d/b"]
    assert read_meta_properties(files, "/d/a") == before
    assert run(files, request(ignore_formatted=True)) == []
    for foreign in ({"cluster_id": "other"}, {"node_id": 2}):
        with pytest.raises(FormatError, match="belongs to node 1 of cluster cluster"):
            run(files, request(ignore_formatted=True, **foreign))


def test_a_damaged_identity_is_not_overwritten() -> None:
    files = SimFiles()
    files.make_directory("/d/a")
    files.create("/d/a/meta.properties").write([b"rubbish"], 0)
    with pytest.raises(FormatError, match=r"meta\.properties"):
        run(files, request(ignore_formatted=True))


def test_an_interrupted_run_is_repeated_by_running_it_again() -> None:
    voters = VoterSet.of([voter(1, with_directory=True)])
    wanted = request(is_quorum_dynamic=True, voters=voters)
    whole = SimFiles()
    run(whole, wanted)
    for step in range(len(whole.history)):
        for seed in range(3):
            files = SimFiles(crash_at=step)
            with pytest.raises(CrashError):
                run(files, wanted)
            again = files.restart("torn", seed=seed)
            run(again, wanted._replace(ignore_formatted=True))
            for directory in ("/d/a", "/d/b"):
                assert read_meta_properties(again, directory) is not None
                assert features(again, directory)["metadata.version"] == 30
            assert load_snapshot(again, f"/d/a/{FIRST_SNAPSHOT}").voters == voters
