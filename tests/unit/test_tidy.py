"""The style of the repository as a test: sizes, leftovers, banned calls, a test for every module.

What ruff, mypy and the import contracts can say is said there; here stands the rest.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "kaa"

LINE_COLUMNS_MAX = 100
FILE_LINES_MAX = 700
FUNCTION_LINES_MAX = 70

CODE_SUFFIXES = {".py", ".pyi", ".pyx", ".pxi", ".java"}
TEXT_SUFFIXES = CODE_SUFFIXES | {"", ".md", ".toml", ".txt", ".properties", ".json", ".html"}
FOLDERS = (".ci", "benches", "docs", "scripts", "src", "tests")

# What a tool wants to read at the end of a line does not count, as it does not for ruff.
PRAGMA = re.compile(r"  # (noqa|type: ignore).*$", re.MULTILINE)
# Written so that no pattern finds itself.
LEFTOVERS = re.compile(r"\b(T[O]DO|F[I]XME|X[X]X|NotImplemented[E]rror)\b")
MACHINE_PATHS = re.compile(
    r"(?<![\w.~])/(work|root|farm|home/\w+|Users/\w+|tmp(?!/k(afka|raft)-))/"
)
REGISTRY_HOSTS = re.compile(
    r"pypi\.org|pythonhosted\.org|maven\.org|maven\.apache\.org|sonatype\.org|npmjs\.(com|org)"
    r"|docker\.io|index[-]url|artifac[t]ory|nexus\.",
    re.IGNORECASE,
)
BANNED_CALLS = (
    # A task that nobody owns may vanish or fail unseen. Ruff sees only asyncio.create_task itself.
    (re.compile(r"\bloop\.create_task\("), "src/*", "start tasks in a task group"),
    (re.compile(r"\bget_event_loop\("), "src/*", "use the running loop"),
    (re.compile(r"\bset_event_loop_policy\("), "src/*", "brokers share a process; pass a loop"),
    (re.compile(r"\bgc\.collect\("), "src/*", "a full collection stops the loop"),
    (re.compile(r"\bbreakpoint\("), "*", "a debugger"),
    (re.compile(r"@pytest\.mark\.skip\b(?!if)"), "tests/*", "a test that never runs"),
)

TEST_FOLDERS = {"cli": "tests/cli", "console": "tests/console"}
"""Packages whose tests do not live in tests/unit/<package>."""

WITHOUT_OWN_TEST = {
    "cli/broker.py": "run as a process, with its signals and refusals, by tests/process",
    "config/tables/*": "tables of settings, compared with Kafka's own as a whole",
    "handlers/context.py": "two tuples that every test of a handler uses",
    "limits.py": "numbers alone; each is tested where it is used",
    "log/errors.py": "exceptions alone; each is tested where it is raised",
    "records/_pure_*": "twins of the compiled kernel, run by the same tests as it",
    "serving/services.py": "a list of the parts that handlers work with",
    "spark/errors.py": "exceptions alone; each is tested where it is raised",
    "spark/formats/_pure_*": "twin of the compiled Avro decoder, run by the same tests as it",
    "spark/formats/readers.py": "run by Spark, in tests/spark/test_formats.py",
    "spark/formats/untyped.py": "names alone",
    "spark/lake/driver.py": "run on both kinds of tables by tests/spark/lake/test_tables.py",
    "spark/lake/folder.py": "run beside Iceberg by tests/spark/lake",
    "spark/lake/iceberg.py": "run beside folders by tests/spark/lake",
    "spark/lake/maintenance.py": "tests/spark/lake/test_maintenance.py needs a broker",
    "spark/lake/reading.py": "tests/spark/lake/test_maintenance.py needs a broker",
    "spark/lake/running.py": "run by Spark, in tests/spark/test_lake.py",
    "spark/lake/spark_sink.py": "written through a real session by tests/spark/test_table_sink.py",
    "spark/lake/spark_table.py": "run by Spark, in tests/spark/test_lake.py",
    "spark/lake/status.py": "tests/spark/lake/test_maintenance.py needs a broker",
    "spark/lake/table.py": "an interface and its values; tests/spark/lake runs both kinds",
    "spark/lake/writing.py": "run on both kinds of tables by tests/spark/lake/test_tables.py",
    "spark/pipeline/frames.py": "run by Spark, in tests/spark/test_pipeline.py",
    "spark/pipeline/running.py": "run by Spark, in tests/spark/test_pipeline.py",
    "spark/identity.py": "one request, sent by every test of writing",
    "spark/once/decisions.py": "run by the tests of its driver against running brokers",
    "spark/once/tasks.py": "run by the tests of the driver against running brokers",
    "spark/once/transactions.py": "run by the tests of the driver against running brokers",
    "spark/produce.py": "run by the tests of writing against running brokers",
    "spark/source.py": "an interface of Spark, run in it by tests/spark",
    "testing/spark.py": "needs a running Spark: tests/spark/test_testing.py",
    "wire/messages/*": "every message is compared with its schema by one suite over all of them",
    "wire/version.py": "one constant",
}
"""Modules without a test file of their own name, each with the reason."""


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def all_files() -> list[Path]:
    """Every text file of the repository that people write."""
    found = [path for path in ROOT.iterdir() if path.is_file()]
    for folder in FOLDERS:
        found += (ROOT / folder).rglob("*")
    return sorted(
        path
        for path in found
        if path.suffix in TEXT_SUFFIXES
        and path.is_file()
        and not {"__pycache__", "corpus"} & set(path.parts)
        and not any(part.endswith(".egg-info") for part in path.parts)
        and path.name not in {".git", ".DS_Store"}
    )


FILES = [(path, path.read_text("utf-8", errors="replace")) for path in all_files()]
CODE = [(path, text) for path, text in FILES if path.suffix in CODE_SUFFIXES]


def report(problems: list[str]) -> None:
    if problems:
        pytest.fail("\n".join(problems), pytrace=False)


def search(pattern: re.Pattern[str], files: list[tuple[Path, str]], why: str) -> list[str]:
    return [
        f"{relative(path)}:{number}: {why}: {match[0]}"
        for path, text in files
        if pattern.search(text)
        for number, line in enumerate(text.splitlines(), 1)
        if (match := pattern.search(line))
    ]


def test_files_were_found() -> None:
    names = {relative(path) for path, _ in FILES}
    assert {"pyproject.toml", "scripts/up", ".ci/run", "src/kaa/limits.py"} <= names
    assert relative(Path(__file__)) in names


def test_line_length() -> None:
    report(
        [
            f"{relative(path)}:{number}: {len(line)} columns, at most {LINE_COLUMNS_MAX}"
            for path, text in FILES
            if path.suffix in CODE_SUFFIXES | {"", ".toml"} and path.name != "LICENSE"
            for number, line in enumerate(PRAGMA.sub("", text).splitlines(), 1)
            if len(line) > LINE_COLUMNS_MAX
        ]
    )


def test_file_length() -> None:
    report(
        [
            f"{relative(path)}: {lines} lines, at most {FILE_LINES_MAX}"
            for path, text in CODE
            if (lines := text.count("\n")) > FILE_LINES_MAX
        ]
    )


def python_functions(text: str) -> Iterator[tuple[str, int, int]]:
    """Yields name, first line and number of lines of each function."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            yield node.name, node.lineno, node.end_lineno - node.lineno + 1


def cython_functions(text: str) -> Iterator[tuple[str, int, int]]:
    """Does the same by indentation: a function ends before the next line that is not deeper."""
    lines = text.splitlines()
    for start, line in enumerate(lines):
        head = re.match(r"(\s*)(?:def|cdef|cpdef)\s[^=]*?(\w+)\(", line)
        if not head:
            continue
        end = last = start
        for end in range(start + 1, len(lines)):
            body = lines[end]
            if body.strip() and not body.startswith((head[1] + " ", head[1] + ")")):
                break
            if body.strip():
                last = end
        yield head[2], start + 1, last - start + 1


def test_function_length() -> None:
    problems = []
    for path, text in CODE:
        if path.suffix == ".java":
            continue
        functions = cython_functions if path.suffix in {".pyx", ".pxi"} else python_functions
        problems += [
            f"{relative(path)}:{first}: {name} has {lines} lines, at most {FUNCTION_LINES_MAX}"
            for name, first, lines in functions(text)
            if lines > FUNCTION_LINES_MAX
        ]
    report(problems)


def test_cython_functions_are_measured() -> None:
    text = "cdef int f(\n    int x\n) nogil:\n    y = 1\n\n    return y\n\n\ndef g(x):\n    pass\n"
    assert list(cython_functions(text)) == [("f", 1, 6), ("g", 9, 2)]


def test_no_leftovers() -> None:
    report(search(LEFTOVERS, CODE, "leftover"))


def test_no_paths_of_one_machine() -> None:
    report(search(MACHINE_PATHS, FILES, "path of one machine"))


def test_no_registry_hosts() -> None:
    report(search(REGISTRY_HOSTS, FILES, "registry"))


@pytest.mark.parametrize(("pattern", "where", "why"), BANNED_CALLS, ids=str)
def test_no_banned_calls(pattern: re.Pattern[str], where: str, why: str) -> None:
    files = [(path, text) for path, text in CODE if fnmatch(relative(path), where)]
    report(search(pattern, files, why))


def modules() -> list[str]:
    return sorted(
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if path.name != "__init__.py"
    )


def has_own_test(module: str) -> bool:
    package, _, name = module.rpartition("/")
    top, _, rest = package.partition("/")
    folder = ROOT / TEST_FOLDERS.get(top, f"tests/unit/{top}") / rest
    stem = name.removesuffix(".py").lstrip("_")
    return any(folder.glob(f"test_{stem}.py")) or any(folder.glob(f"test_{stem}_*.py"))


def test_every_module_has_its_test_file() -> None:
    report(
        [
            f"src/kaa/{module}: no test file of its name, and no reason in WITHOUT_OWN_TEST"
            for module in modules()
            if not has_own_test(module)
            and not any(fnmatch(module, pattern) for pattern in WITHOUT_OWN_TEST)
        ]
    )


def test_reasons_are_not_stale() -> None:
    unused = [
        pattern
        for pattern in WITHOUT_OWN_TEST
        if not any(fnmatch(module, pattern) and not has_own_test(module) for module in modules())
    ]
    assert unused == []
