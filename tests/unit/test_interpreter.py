from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from kaa import interpreter
from kaa.interpreter import Build, build, is_optimised, makes_environments


@pytest.mark.parametrize(
    ("arguments", "flags", "prefix", "expected"),
    [
        ("'--prefix=/opt/x' '--enable-optimizations' '--with-lto'", "", "/opt/x", True),
        ("'--prefix=/opt/pyenv/versions/3.11.7' '--enable-shared'", "-O3", "/opt/pyenv", False),
        ("'--prefix=/usr' '--with-dtrace'", "-O2", "/usr", True),
        ("", "-O2 -fprofile-use -flto", "/somewhere", True),
        ("", "-O3", "/usr/local", False),
        ("", "", "/opt/homebrew/Cellar/python@3.13", True),
    ],
)
def test_kinds_of_builds(arguments: str, flags: str, prefix: str, expected: bool) -> None:
    assert is_optimised(arguments, flags, prefix) is expected


def test_the_build_that_runs() -> None:
    found = build()
    assert found.version == platform.python_version()
    assert str(found).startswith(f"{found.version} (")
    assert str(Build("3.14.0", True, "GCC 12")) == "3.14.0 (an optimised build, GCC 12)"
    assert str(Build("3.14.0", False, "x")) == "3.14.0 (a plain build, x)"


def test_as_a_program_it_answers_by_its_exit_code() -> None:
    answer = subprocess.run([sys.executable, "-IS", interpreter.__file__], check=False, timeout=60)
    expected = 0 if build().is_optimised and makes_environments() else 1
    assert answer.returncode == expected
