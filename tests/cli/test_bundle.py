from __future__ import annotations

import json
import os
import stat
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from kaa.cli.bundle import Bundle, files_of, machine, settings_text
from kaa.cli.root import root
from tests.support.broker_process import BrokerProcess
from tests.support.ports import LOOPBACK, free_port

# One looks for what the others have under way.
pytestmark = pytest.mark.xdist_group("bundle")

SECRET = "s3cret"


def content(path: Path) -> dict[str, str]:
    """The parts of a bundle by name, without the folder that is around them."""
    with tarfile.open(path) as tar:
        return {
            entry.name.partition("/")[2]: (tar.extractfile(entry) or b"").read().decode()  # type: ignore[union-attr]
            for entry in tar
        }


def test_a_bundle_has_everything_but_secrets_and_records(
    kaa_node: BrokerProcess, topic_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_SSL_KEY_PASSWORD", SECRET)
    servers = kaa_node.bootstrap_servers
    written = CliRunner().invoke(root, ["produce", topic_name, f"record {SECRET}", "-b", servers])
    assert written.exit_code == 0, written.output
    data = tmp_path / "data"
    (data / "orders-0").mkdir(parents=True)
    (data / "orders-0" / "00000000000000000000.log").write_text(f"record {SECRET}")
    (data / "meta.properties").write_text("node.id=1\n")
    (data / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    config = tmp_path / "server.properties"
    config.write_text(f"log.dirs={data},{tmp_path}/gone\nssl.key.password={SECRET}\nnode.id=1\n")
    log = tmp_path / "broker.log"
    log.write_text(f"start\nsasl password={SECRET}\n")
    target = tmp_path / "out.tar.gz"
    call = ["debug", "bundle", "--to", str(target), "-c", str(config), "--log", str(log)]
    call += ["-b", servers, "-X", f"ssl.key.password={SECRET}", "-o", "json"]
    answer = CliRunner().invoke(root, call)
    assert answer.exit_code == 0, answer.output
    parts = content(target)
    assert SECRET not in json.dumps(parts)
    assert SECRET not in answer.output
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert parts["node/settings.properties"].endswith("ssl.key.password=[hidden]\nnode.id=1\n")
    assert "orders-0/00000000000000000000.log" in parts["node/files.txt"]
    assert parts["node/0/meta.properties"] == "node.id=1\n"
    assert "node/0/recovery-point-offset-checkpoint" in parts
    assert parts["node/logs/broker.log"].startswith("start\n")
    topics = json.loads(parts["cluster/topics.json"])
    assert topic_name in [topic["name"] for topic in topics]
    assert json.loads(parts["cluster/health.json"])["healthy"] is True
    assert "log.retention.hours" in parts["cluster/settings-of-broker-1.json"]
    manifest = json.loads(parts["manifest.json"])
    problems = {part["name"]: part["problem"] for part in manifest["parts"] if part["problem"]}
    assert problems == {"node/1": f"{tmp_path}/gone is not there"}
    assert {"kaa", "kafka", "python", "made"} <= set(manifest)
    assert not list(Path("/tmp").glob("kaa-bundle-*"))


def test_without_a_cluster_the_rest_is_there(tmp_path: Path) -> None:
    target = tmp_path / "out.tar.gz"
    nobody = f"{LOOPBACK}:{free_port()}"
    call = ["debug", "bundle", "--to", str(target), "-b", nobody, "--timeout", "1"]
    answer = CliRunner().invoke(root, call)
    assert answer.exit_code == 0, answer.output
    parts = content(target)
    assert "doctor.json" in parts
    problems = {
        part["name"]: part["problem"] for part in json.loads(parts["manifest.json"])["parts"]
    }
    assert "exit code 6" in problems["cluster/info.json"]
    assert "does not answer" in problems["cluster/topics.json"]
    refused = CliRunner().invoke(root, ["debug", "bundle", "--to", str(tmp_path / "no" / "x")])
    assert refused.exit_code == 1
    assert "cannot write" in refused.stderr


def test_settings_in_every_spelling_of_properties_lose_their_secrets() -> None:
    text = settings_text(
        b"# not for others: s3cret\n"
        b"ssl.truststore.password s3cret\n"
        b"ssl.key.passwor\\u0064=s3cret\n"
        b"ssl.keystore.pass\\\n    word = s3\\\n  cret s3cret\n"
        b"ssl.keystore.key=-----BEGIN PRIVATE KEY----- s3cret\n"
        b"node.id 1\n"
        b"ssl.keystore.certificate.chain=x\\n-----END PRIVATE KEY-----\n"
        b"log.dirs : /a\n"
    )
    assert text.splitlines() == [
        "ssl.truststore.password=[hidden]",
        "ssl.key.password=[hidden]",
        "ssl.keystore.password=[hidden]",
        "ssl.keystore.key=[hidden]",
        "node.id=1",
        "ssl.keystore.certificate.chain=[hidden]",
        "log.dirs=/a",
    ]


def test_a_settings_file_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_text(f"ssl.key.password={SECRET}\nx=\\u12\n")
    target = tmp_path / "out.tar.gz"
    call = ["debug", "bundle", "--to", str(target), "-c", str(config), "-o", "json"]
    answer = CliRunner().invoke(root, [*call, "-b", f"{LOOPBACK}:{free_port()}"])
    problems = {part["name"]: part["problem"] for part in json.loads(answer.stdout)}
    assert "Line 2" in problems["node/settings.properties"]
    assert "doctor.json" in content(target)


def test_a_bundle_that_cannot_be_written_names_the_path(tmp_path: Path) -> None:
    full = Path("/dev/full")
    before = full.stat().st_mode
    call = ["debug", "bundle", "--to", str(full), "-b", f"{LOOPBACK}:{free_port()}"]
    refused = CliRunner().invoke(root, call)
    assert refused.exit_code == 1
    assert "cannot write /dev/full: No space left on device" in refused.stderr
    assert full.stat().st_mode == before


def test_files_and_machine(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b").write_text("123")
    (tmp_path / "c").symlink_to(tmp_path / "nowhere")
    listed = list(files_of(tmp_path))
    assert len(listed) == 2
    assert listed[0].split() == ["3", listed[0].split()[1], str(tmp_path / "a" / "b")]
    assert "No such file" in listed[1]
    found = machine({"KAA_X": "1", "HOME": "/root"})
    assert found["environment"] == ["KAA_X=1"]
    assert found["cores"] > 0


@pytest.mark.parametrize("name", ["b.tgz", "b.tar.gz", "b.tar", "b"])
def test_the_folder_in_a_bundle_does_not_have_its_name(tmp_path: Path, name: str) -> None:
    bundle = Bundle(tmp_path / name)
    bundle.add("a.txt", "text")
    bundle.close()
    with tarfile.open(tmp_path / name) as archive:
        assert {entry.split("/")[0] for entry in archive.getnames()}.isdisjoint({name})


@pytest.mark.parametrize(
    "value",
    [
        "s3cret horse,s3cret;staple&s3cret",
        "'s3cret' s3cret",
        '"s3cret\\" s3cret',
        "s3cret\ns3cret",
        "[hidden] s3cret",
    ],
)
@pytest.mark.parametrize("name", ["KAFKA_SSL_KEYSTORE_PASSWORD", "KAA_SASL_PASSWORD"])
def test_a_secret_of_the_environment_goes_up_to_its_end(
    tmp_path: Path, name: str, value: str
) -> None:
    found = machine({name: value, "KAA_X": "1"})
    assert sorted(found["environment"]) == sorted([f"{name}=[hidden]", "KAA_X=1"])
    bundle = Bundle(tmp_path / "b.tgz")
    bundle.add("machine.json", json.dumps(found, indent=2))
    bundle.close()
    text = content(tmp_path / "b.tgz")["machine.json"]
    assert SECRET not in text
    assert json.loads(text) == found


def test_a_file_of_a_node_that_cannot_be_read_does_not_stop_the_others(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "zz-checkpoint").mkdir(parents=True)
    os.mkfifo(data / "yy-checkpoint")
    (data / "xx-checkpoint").symlink_to(data / "nowhere")
    (data / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    (data / "meta.properties").write_text("node.id=1\n")
    config = tmp_path / "server.properties"
    config.write_text(f"log.dirs={data}\n")
    target = tmp_path / "out.tar.gz"
    call = ["debug", "bundle", "--to", str(target), "-c", str(config), "-o", "json"]
    answer = CliRunner().invoke(root, [*call, "-b", f"{LOOPBACK}:{free_port()}"])
    assert answer.exit_code == 0, answer.output
    problems = {part["name"]: part["problem"] for part in json.loads(answer.stdout)}
    assert "Is a directory" in problems["node/0/zz-checkpoint"]
    assert "is not a file" in problems["node/0/yy-checkpoint"]
    assert "No such file" in problems["node/0/xx-checkpoint"]
    parts = content(target)
    assert parts["node/0/meta.properties"] == "node.id=1\n"
    assert "node/0/recovery-point-offset-checkpoint" in parts
    assert "zz-checkpoint" not in parts["node/files.txt"]


def test_a_working_directory_that_is_gone_is_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert "No such file" in machine({})["disk_here"]["problem"]


def test_an_archive_that_does_not_get_whole_is_removed(tmp_path: Path) -> None:
    bundle = Bundle(tmp_path / "b.tgz")
    bundle.add("a.txt", "text")
    bundle.discard()
    assert not (tmp_path / "b.tgz").exists()
