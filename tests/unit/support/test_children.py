from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.oracle.environment import alive, wait_until
from tests.support.broker_process import kaa_command
from tests.support.children import MARK, Reaper, running
from tests.support.pace import PATIENCE_SECONDS

SLEEPER = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"]
# A test process that starts a child and dies without a word.
KILLED_PARENT = """
import os, signal, subprocess, sys
from tests.support.children import Reaper
reaper = Reaper()
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_child_ends_with_its_block_also_when_that_fails() -> None:
    children = []

    def fail() -> None:
        with running(SLEEPER, stdout=subprocess.PIPE) as child:
            children.append(child)
            assert child.stdout is not None
            assert child.stdout.readline() == b"up\n"
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert [child.returncode for child in children] == [-signal.SIGKILL]


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="reads /proc")
def test_what_is_left_of_a_killed_run_is_killed() -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED_PARENT], stdout=subprocess.PIPE, text=True, check=False
    )
    assert done.returncode == -signal.SIGKILL
    pid = int(done.stdout)
    assert wait_until(lambda: not alive(pid), PATIENCE_SECONDS)


def test_the_mark_of_an_outer_run_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MARK, "outer")
    reaper = Reaper()
    assert os.environ[MARK] != "outer"
    reaper.close()
    assert os.environ[MARK] == "outer"


def test_commands_can_be_interrupted_where_the_run_ignores_it() -> None:
    """As one that a shell started in the background does."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with running(kaa_command("--help"), stdout=subprocess.PIPE) as child:
            assert b"Usage" in child.communicate(timeout=PATIENCE_SECONDS)[0]
        program = "import signal; print(signal.getsignal(signal.SIGINT), flush=True)"
        wrapped = kaa_command(program=kaa_command()[2].split("from kaa")[0] + program)
        printed = subprocess.run(wrapped, stdout=subprocess.PIPE, text=True, check=True).stdout
    finally:
        signal.signal(signal.SIGINT, before)
    assert "default_int_handler" in printed


def unkilled(path: Path) -> Iterator[str]:
    """Functions that start a process and may leave it where they fail. What an object starts it
    ends in a method of its own.
    """
    source = path.read_text("utf-8")
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        kept = [
            statement.value
            for statement in ast.walk(function)
            if isinstance(statement, ast.Assign)
            and not isinstance(statement.targets[0], ast.Attribute)
        ]
        entered = [
            item.context_expr for item in ast.walk(function) if isinstance(item, ast.withitem)
        ]
        for value in (*kept, *entered):
            starts = isinstance(value, ast.Call) and ast.unparse(value.func) == "subprocess.Popen"
            if starts and "kill" not in (ast.get_source_segment(source, function) or ""):
                yield f"{path.name}:{value.lineno}"


def test_no_test_leaves_or_waits_for_a_process_when_it_fails() -> None:
    folder = Path(__file__).resolve().parents[2]
    found = [place for path in folder.rglob("*.py") for place in unkilled(path)]
    assert not found, "use tests.support.children.running"
