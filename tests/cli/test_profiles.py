from __future__ import annotations

from pathlib import Path

import pytest

from kaa.cli.profiles import (
    ProfileError,
    Profiles,
    check_name,
    hidden,
    parse_profiles,
    profiles_path,
    profiles_text,
    read_profiles,
    resolve,
    settings_of,
    write_profiles,
)

LOCAL = {"bootstrap.servers": "localhost:9092"}
WORK = {"bootstrap.servers": "b:1", "sasl.jaas.config": 'x password="a\\"b";'}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KAA_CONFIG_DIR", str(tmp_path / "config"))
    return tmp_path


def test_what_is_written_is_read() -> None:
    assert read_profiles() == Profiles(None, {})
    assert settings_of(None) == {}
    profiles = Profiles("work", {"local": LOCAL, "work": WORK})
    write_profiles(profiles)
    assert read_profiles() == profiles
    assert profiles_path().stat().st_mode & 0o777 == 0o600
    assert settings_of(None) == WORK
    assert settings_of("local") == LOCAL
    assert settings_of("none") == {}
    with pytest.raises(ProfileError, match="no profile 'nosuch'; there are: local, work"):
        settings_of("nosuch")


def test_secrets_are_for_their_owner_alone() -> None:
    write_profiles(Profiles(None, {"work": WORK}))
    profiles_path().chmod(0o644)
    with pytest.raises(ProfileError, match="chmod 600"):
        read_profiles()
    write_profiles(Profiles(None, {"work": {"ssl.key.password": "${env:SECRET}"}}))
    profiles_path().chmod(0o644)
    assert "work" in read_profiles().settings
    assert hidden("sasl.jaas.config", "x") == "[hidden]"
    assert hidden("sasl.jaas.config", "${env:X}") == "${env:X}"
    assert hidden("ssl.keystore.location", "x") == "x"
    assert hidden("basic.auth.user.info", "me:s3cret") == "[hidden]"
    assert hidden("schema.registry.url", "http://me:s3cret@host") == "http://[hidden]@host"
    assert hidden("schema.registry.url", "http://host:8081") == "http://host:8081"


def test_references_are_followed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "s3")
    file = folder / "secret"
    file.write_text("f4\n")
    value = f"${{env:SECRET}}-${{file:{file}}}-${{command:echo c5}}"
    assert resolve("key", value) == "s3-f4-c5"
    for wrong in ("${env:NO_SUCH_NAME}", "${file:no-such-file}", "${command:exit 3}"):
        with pytest.raises(ProfileError, match="key: "):
            resolve("key", wrong)


@pytest.mark.parametrize("text", ["current = ", "profiles = 3", '[profiles]\nx = "y"'])
def test_what_is_no_file_of_profiles(text: str) -> None:
    with pytest.raises(ProfileError, match="p is not a file of profiles"):
        parse_profiles("p", text)


def test_a_profile_in_use_that_is_gone_is_not_in_use() -> None:
    assert parse_profiles("p", 'current = "gone"\n').current is None
    assert profiles_text(Profiles(None, {})) == "\n"


@pytest.mark.parametrize("name", ["", "none", "a b", "-x", "a/b"])
def test_names(name: str) -> None:
    with pytest.raises(ProfileError, match="cannot name a profile"):
        check_name(name)


def test_a_file_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("KAA_CONFIG_DIR", str(tmp_path / "file"))
    with pytest.raises(ProfileError, match=r"cannot write .*file.*; set KAA_CONFIG_DIR"):
        write_profiles(Profiles(None, {}))
