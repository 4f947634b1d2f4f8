from __future__ import annotations

import json
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner

from kaa.cli import doctor
from kaa.cli.doctor import CORE_PACKAGES, Finding
from kaa.spark.java import Java


def test_every_part_is_reported_and_the_core_works() -> None:
    answer = CliRunner().invoke(doctor.command, ["-o", "json"])
    assert answer.exit_code == 0, answer.output
    findings = {row["part"]: Finding(**row) for row in json.loads(answer.output)}
    optional = {"uvloop", "java", "pyspark", "pyarrow", "pyiceberg", "maven"}
    traps = {"spark python", "spark java", "spark address"}
    assert set(findings) == {"python", "kernel", *CORE_PACKAGES, *optional, *traps}
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
    found = {finding.part: finding for finding in doctor.sessions()}
    assert {finding.state for finding in found.values()} == {"warning"}
    assert "kaa must be installed there too" in found["spark python"].detail
    assert "Java" in found["spark java"].detail
    assert "set it to 127.0.0.1" in found["spark address"].detail
    monkeypatch.setattr(doctor, "problems", lambda _: [])
    assert {finding.state for finding in doctor.sessions()} == {"ok"}


def test_maven_is_optional(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert doctor.maven().state == "absent"
