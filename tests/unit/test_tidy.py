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
    (
        re.compile(r"(?<!tasks)(?<!requests)\.create_task\("),
        "src/*",
        "start tasks in a task group, called tasks or requests",
    ),
    (re.compile(r"\bget_event_loop\("), "src/*", "use the running loop"),
    (re.compile(r"\bset_event_loop_policy\("), "src/*", "brokers share a process; pass a loop"),
    (re.compile(r"\bgc\.collect\("), "src/*", "a full collection stops the loop"),
    (re.compile(r"\bbreakpoint\("), "*", "a debugger"),
    (re.compile(r"@pytest\.mark\.skip\b(?!if)"), "tests/*", "a test that never runs"),
)

TEST_FOLDERS = {"cli": "tests/cli", "console": "tests/console"}
"""Packages whose tests do not live in tests/unit/<package>."""

WITHOUT_OWN_TEST = {
    "__main__.py": "run as a process by tests/cli/test_version.py",
    "client/admin/share.py": "asked of a running node by tests/clients/test_share_python.py",
    "client/share/consumer.py": "run against a node by tests/clients/test_share_python.py",
    "client/share/member.py": "run against a node by tests/clients/test_share_python.py",
    "client/sync/share.py": "run against a node by tests/clients/test_share_python.py",
    "cli/completion_scripts.py": "run by the shells themselves in tests/cli/test_completion.py",
    "cli/tier_jobs.py": "commands of `kaa tier`, run by tests/cli/test_tier.py",
    "cli/broker.py": "run as a process, with its signals and refusals, by tests/process",
    "cli/topic/tier.py": "run on a tiered topic by tests/cli/test_tier.py",
    "config/tables/*": "tables of settings, compared with Kafka's own as a whole",
    "controller/active.py": "lives in a replica, and is tested in it by controller/test_replica.py",
    "coordinators/share/persister.py": "an interface; tests/unit/serving/share has the real one",
    "handlers/context.py": "two tuples that every test of a handler uses",
    "limits.py": "numbers alone; each is tested where it is used",
    "log/errors.py": "exceptions alone; each is tested where it is raised",
    "records/_pure_*": "twins of the compiled kernel, run by the same tests as it",
    "serving/services.py": "a list of the parts that handlers work with",
    "serving/view.py": "fields that broker/test_services.py changes",
    "spark/errors.py": "exceptions alone; each is tested where it is raised",
    "spark/formats/_pure_*": "twin of the compiled Avro decoder, run by the same tests as it",
    "spark/formats/readers.py": "run by Spark, in tests/spark/test_formats.py",
    "spark/formats/untyped.py": "names alone",
    "spark/lake/altering.py": "tests/spark/lake/test_strangers.py needs a broker",
    "spark/lake/caring.py": "tests/spark/lake/test_upserts.py needs a broker",
    "spark/lake/compaction.py": "tests/spark/lake/test_upserts.py needs a broker",
    "spark/lake/iceberg/deletes.py": "tests/spark/lake/test_upserts.py needs a broker",
    "spark/lake/driver.py": "run on both kinds of tables by tests/spark/lake/test_tables.py",
    "spark/lake/files.py": "tests/spark/lake/test_strangers.py needs a broker",
    "spark/lake/folder.py": "run beside Iceberg by tests/spark/lake",
    "spark/lake/iceberg/catalog.py": "run beside folders by tests/spark/lake",
    "spark/lake/iceberg/columns.py": "tests/spark/lake/test_strangers.py needs a broker",
    "spark/lake/iceberg/files.py": "tests/spark/lake/test_upserts.py needs a broker",
    "spark/lake/iceberg/spec.py": "tests/spark/lake/test_strangers.py needs a broker",
    "spark/lake/iceberg/table.py": "run beside folders by tests/spark/lake",
    "spark/lake/inferring.py": "tests/spark/lake/test_inferring.py needs a broker",
    "spark/lake/listing.py": "run by Spark, in tests/spark/test_attaching.py",
    "spark/lake/maintenance.py": "tests/spark/lake/test_maintenance.py needs a broker",
    "spark/lake/table_state.py": "tests/spark/lake/test_maintenance.py needs a broker",
    "spark/lake/resuming.py": "tests/spark/lake/test_strangers.py needs a broker",
    "spark/lake/running.py": "run by Spark, in tests/spark/test_lake.py",
    "spark/lake/iceberg/snapshots.py": "tests/spark/lake/test_upserts.py needs a broker",
    "spark/lake/kaa_table/sink.py": "written through a session by tests/spark/test_table_sink.py",
    "spark/lake/kaa_table/stream.py": "tests/spark/lake/test_streams.py needs a broker",
    "spark/lake/kaa_table/reader.py": "run by Spark, in tests/spark/test_lake.py",
    "spark/lake/status.py": "tests/spark/lake/test_maintenance.py needs a broker",
    "spark/lake/table.py": "an interface and its values; tests/spark/lake runs both kinds",
    "spark/lake/writing.py": "run on both kinds of tables by tests/spark/lake/test_tables.py",
    "spark/pipeline/frames.py": "run by Spark, in tests/spark/test_pipeline.py",
    "spark/pipeline/running.py": "run by Spark, in tests/spark/test_pipeline.py",
    "spark/once/tasks.py": "run by the tests of the driver against running brokers",
    "spark/once/transactions.py": "run by the tests of the driver against running brokers",
    "spark/pruning.py": "run by Spark, in tests/spark/test_pruning.py",
    "spark/sampling.py": "run by Spark, in tests/spark/test_attaching.py",
    "spark/produce.py": "run by the tests of writing against running brokers",
    "spark/topic_reader.py": "an interface of Spark, run in it by tests/spark",
    "spark/tier/aborted.py": "run by tests/unit/spark/tier/test_planning.py on a tiered topic",
    "spark/tier/metadata.py": "run by tests/unit/spark/tier/test_planning.py on a tiered topic",
    "spark/tier/remote_segments.py": "run on a tiered topic by unit/spark/tier/test_planning.py",
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


def test_docstrings_are_markdown() -> None:
    python = [(path, text) for path, text in CODE if path.suffix == ".py"]
    report(search(re.compile(r"(?<!`)`{2}\w"), python, "one backtick, as in Markdown"))
    source = [(path, text) for path, text in python if path.is_relative_to(SOURCE)]
    report(search(re.compile(r"^ *={4,}( =+)* *$"), source, "a table or a heading, as in Markdown"))
    report(search(re.compile(r"^[^\"#]*(?<!:)::$"), source, "code is indented, as in Markdown"))


@pytest.mark.parametrize(("pattern", "where", "why"), BANNED_CALLS, ids=str)
def test_no_banned_calls(pattern: re.Pattern[str], where: str, why: str) -> None:
    files = [(path, text) for path, text in CODE if fnmatch(relative(path), where)]
    report(search(pattern, files, why))


ODD_WORDS = re.compile(
    r"\b[Ww]hoever\b|\b[Tt]old\b(?! (to|otherwise)\b)|\b[Ss]hall\b|\banew\b|\bplan alone\b"
    r"|\bdoes not tell\b|\b(after|most) so (long|many|much)\b|\b[Ww]ithout a question\b"
    r"|\bnot [a-z ]*any more\b|\b[Ss]omebody\b|\bbehind (it|them|these|those)\b"
    r"|(?<![Tt]here)\b is no (?!longer)[a-zX]|\b(it|these|bytes) (is|are) no (?!longer)[a-z]"
    r"|\bbe got\b|\b[Ss]omething else (than|where)\b|\bbegun again\b|\bis as it should be\b"
)
"""What a native reader stumbles over: write "the authority that", "informed", "must", "again",
"only the plan", "does not say", "this many", "no longer", "another client", "after it", "is not a",
"cannot be read", "is not a batch", "started again", "no problem found".
"""


ODD_MESSAGE = re.compile(
    r"\bis there (already|twice)\b|\bis none of\b"
    r"|\b(broker|controller|process|errors) alone\b"
)
"""In messages only: write "already exists", "is listed twice", "is not one of", "only a broker"."""


NEVER = re.compile(
    r"\b[W]hoever\b|\b[w]hoever\b|\b[t]old of\b|\bare [t]old\b(?! to\b)"
    r"|\bis [t]old( (so|by|that|the|what|about)\b|[.;])"
)
"""The same, in comments and pages too."""


def messages(text: str, *, are_notes_help: bool) -> Iterator[tuple[int, str]]:
    """The texts of a module that users may see: everything but docstrings, unless they are help."""
    tree = ast.parse(text)
    notes = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    if are_notes_help:
        notes.clear()
    joined = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    for whole in joined:
        pieces = [one.value if isinstance(one, ast.Constant) else "X" for one in whole.values]
        yield whole.lineno, "".join(map(str, pieces))
    notes.update(id(piece) for whole in joined for piece in whole.values)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in notes:
            yield node.lineno, node.value


def test_messages_are_plain_english() -> None:
    report(
        [
            f"{relative(path)}:{line}: write it as a native reader would: {found[0]}"
            for path, text in CODE
            if path.suffix == ".py" and path.is_relative_to(SOURCE)
            for line, message in messages(text, are_notes_help=path.is_relative_to(SOURCE / "cli"))
            if (found := ODD_WORDS.search(message) or ODD_MESSAGE.search(message))
        ]
    )


def test_messages_are_read_with_what_is_filled_in() -> None:
    module = """raise ValueError(f"{name!r} is {what} no place")"""
    assert list(messages(module, are_notes_help=False)) == [(1, "X is X no place")]


def test_pages_are_plain_english() -> None:
    pages = [(path, text) for path, text in FILES if path.suffix == ".md"]
    report(search(ODD_WORDS, pages, "write it as a native reader would"))


def test_comments_and_pages_are_plain_english() -> None:
    suffixes = {".md", ".py", ".pyx", ".txt"}
    files = [(path, text) for path, text in FILES if path.suffix in suffixes]
    report(search(NEVER, files, "write it as a native reader would"))
    source = [(path, text) for path, text in files if path.is_relative_to(SOURCE)]
    python = [(path, text) for path, text in source if path.suffix == ".py"]
    report(search(re.compile(r"\b(anew|shall)\b"), python, "write again, over, is to"))
    told = re.compile(r"(?i)\w*[t]old\b(?! otherwise\b)")
    report(search(told, source, "write informed or reported, in names too"))


POINTERS = re.compile(r"\"\"\"\W*[Ss]ee (the (module|class|package|text)|above|below)\b")
"""A docstring is shown alone, by an editor or by `help`: it has to say something itself."""


def test_docstrings_do_not_point_elsewhere() -> None:
    source = [(path, text) for path, text in CODE if path.is_relative_to(SOURCE)]
    report(search(POINTERS, source, "say what it is for and what a caller must know"))


REPOSITORY_PATH = re.compile(r"`((?:benches|docs|examples|scripts|src|tests)/[\w./-]+)`")
KAA_PATH = re.compile(r"`((?:[a-z_]+/)+[a-z_0-9]+(?:\.(?:py|pyx|pxi))?)`")
KAA_NAME = re.compile(r"`kaa\.([a-z_]+(?:\.\w+)*)(?:\(\))?`")
NOT_THERE = {
    "benches/results/named": "made by scripts/bench, and not kept",
    "benches/results/profile": "made by scripts/bench, and not kept",
    "log.group.commit.enable": "a setting",
    "src/kaa/console": "ARCHITECTURE.md says that it is not built",
    "src/kaa/security": "ARCHITECTURE.md says that it is not built",
    "tests/fuzz/fuzz_NAME.py": "NAME stands for a name",
    "tests/soak/NAME.py": "NAME stands for a name",
    "tier.ObjectStore": "what a setting calls the store",
}
"""Names that look like files or modules, each with the reason why there is none."""


def is_module(path: Path) -> bool:
    return path.exists() or any(path.with_suffix(end).exists() for end in (".py", ".pyx", ".pyi"))


def is_name(dotted: str) -> bool:
    """Whether it is a module of Kaa, or a name in one."""
    parts = dotted.split(".")
    for count in range(len(parts), 0, -1):
        path = SOURCE.joinpath(*parts[:count])
        if is_module(path):
            text = next((file.read_text("utf-8") for file in sources_of(path)), "")
            return count == len(parts) or re.search(rf"\b{parts[count]}\b", text) is not None
    return False


def sources_of(path: Path) -> Iterator[Path]:
    candidates = (path / "__init__.py", path.with_suffix(".py"), path.with_suffix(".pyx"))
    return (file for file in candidates if file.exists())


def missing_names(text: str) -> Iterator[str]:
    """Files, modules and their names that a line of text speaks of and that do not exist."""
    packages = {path.name for path in SOURCE.iterdir() if path.is_dir()}
    for found in REPOSITORY_PATH.findall(text):
        if not is_module(ROOT / found):
            yield found
    for found in KAA_PATH.findall(text):
        inside = found.removeprefix("kaa/")
        is_ours = found != inside or found.partition("/")[0] in packages - {"console"}
        if is_ours and not is_module(SOURCE / inside):
            yield found
    for found in KAA_NAME.findall(text):
        if found.partition(".")[0] in packages and not is_name(found):
            yield found


def test_files_and_modules_that_texts_name_exist() -> None:
    report(
        [
            f"{relative(path)}:{number}: there is no {name}"
            for path, text in FILES
            if path.suffix in {".md", ".py"} and path != Path(__file__)
            for number, line in enumerate(text.splitlines(), 1)
            if "`" in line
            for name in missing_names(line)
            if name not in NOT_THERE
        ]
    )


def test_missing_files_are_found() -> None:
    line = (
        "`src/kaa/none.py`, `log/none`, `log/index.py`, `kaa.log.none`, `kaa.log.index.OffsetIndex`"
    )
    assert list(missing_names(line)) == ["src/kaa/none.py", "log/none", "log.none"]


def test_names_that_internals_mention_exist() -> None:
    """Classes and functions by their names alone."""
    words = {word for _, text in CODE for word in re.findall(r"\w+", text)}
    report(
        [
            f"{relative(path)}:{number}: nothing is called {name}"
            for path, text in FILES
            if relative(path).startswith("docs/internals/") or path.name == "ARCHITECTURE.md"
            for number, line in enumerate(text.splitlines(), 1)
            for name in re.findall(r"`([A-Za-z_][\w.]*)(?:\(\))?`", line)
            if "NN" not in name
            and any(
                re.search(r"[a-z][A-Z]|[a-z]_[a-z]", part) and part not in words
                for part in name.split(".")
            )
        ]
    )


def test_comments_have_one_form() -> None:
    report(search(re.compile(r"^ *# ?-{3,} .*-{3,}$|^ *# ?-{4,}"), CODE, "write `# --- title`"))
    report(search(re.compile(r"^ *#[:]"), CODE, "write a plain comment above the field"))


LIMIT = re.compile(r"^([A-Z][A-Z_0-9]+) = ", re.MULTILINE)
# A limit says what it counts in the plural; these have nothing to count.
WITHOUT_UNIT = {"SHARE", "FACTOR", "DEPTH"}


def test_limits_are_used_and_have_units() -> None:
    names = LIMIT.findall((SOURCE / "limits.py").read_text("utf-8"))
    used = {
        word
        for path, text in CODE
        if path.is_relative_to(SOURCE) and path.name != "limits.py"
        for word in re.findall(r"\b[A-Z][A-Z_0-9]+\b", text)
    }
    report([f"src/kaa/limits.py: nothing uses {name}" for name in names if name not in used])
    without = [
        name
        for name in names
        if not any(part.endswith("S") or part in WITHOUT_UNIT for part in name.split("_"))
    ]
    assert without == []


BOUND = re.compile(r"^_?[A-Z][A-Z_0-9]*_(MAX|AT_ONCE|PER_TURN|PER_PIECE)$")
# Facts of a format, of the protocol or of Kafka's settings, which nobody could choose otherwise.
FACT = re.compile(
    r"INT\d*_|INTEGER|LONG|VERSION|EPOCH|OFFSET|SEQUENCE|PORT|_ID_MAX|VARINT|VARLONG|TIMESTAMP"
    r"|DIGITS|DOUBLE|OVERHEAD|_RATIO_|FRACTION"
)
BOUNDS_ELSEWHERE = {
    "cli/dev.py": "how fast the readers of the demonstration are",
    "cli/supervisor.py": "replicas of a topic by default",
    "client/backoff.py": "above it a float has no room",
    "config/client.py": "Kafka's rule for idempotent producers",
    "config/entity.py": "Kafka's range of a setting",
    "config/validators.py": "Kafka's range of a setting",
    "controller/names.py": "Kafka's rule for names",
    "controller/scram.py": "Kafka's range of a setting",
    "handlers/share_sessions.py": "Kafka's rule for names",
    "log/names.py": "the file system's rule for names",
    "records/_codec_snappy.py": "a rule of the format",
    "spark/formats/_pure_avro.py": "its compiled twin has the same",
    "spark/formats/json_schema.py": "the range of an option of Arrow",
    "testing/cluster.py": "replicas of a topic by default",
    "testing/spark.py": "how often a flaky start of Java is tried",
}
"""Modules with a bound of their own, and why it does not belong to the limits."""


def bounds_of(text: str) -> Iterator[tuple[int, str]]:
    """The constants of a module that are numbers and called a bound."""
    for node in ast.parse(text).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        if isinstance(node, ast.AnnAssign):
            target = node.target
        if not isinstance(node, ast.Assign | ast.AnnAssign) or not isinstance(target, ast.Name):
            continue
        parts = [] if node.value is None else list(ast.walk(node.value))
        allowed = ast.Constant | ast.BinOp | ast.UnaryOp | ast.operator | ast.unaryop
        is_number = bool(parts) and all(isinstance(part, allowed) for part in parts)
        if is_number and BOUND.match(target.id) and not FACT.search(target.id):
            yield node.lineno, target.id


def test_bounds_stand_in_the_limits() -> None:
    found = [
        (path.relative_to(SOURCE).as_posix(), line, name)
        for path, text in CODE
        if path.suffix == ".py" and path.is_relative_to(SOURCE) and path.name != "limits.py"
        for line, name in bounds_of(text)
    ]
    report(
        [
            f"src/kaa/{path}:{line}: {name} belongs to kaa/limits.py"
            for path, line, name in found
            if path not in BOUNDS_ELSEWHERE
        ]
    )
    assert set(BOUNDS_ELSEWHERE) - {path for path, _, _ in found} == set()


def test_bounds_are_recognised() -> None:
    text = "A_MAX = 1 << 20\n_B_MAX: int = -3\nC_MAX = len(D)\nINT32_MAX = 2\nE_BYTES = 1\n"
    assert list(bounds_of(text)) == [(1, "A_MAX"), (2, "_B_MAX")]


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


WITHOUT_LIST = {
    "": "ARCHITECTURE.md lists the packages",
    "wire/messages": "a module for each API, named for it",
}
"""Packages whose docstring does not list their modules, each with the reason."""
# Handlers are named by key and API, and what begins with an underscore has a module in front of it.
NAMED_ELSEWHERE = re.compile(r"k\d\d_|_")
# The first cell of a row of the table: `a`, or `a`, `b`.
LISTED = re.compile(r"^\| (`\w+`(?:, `\w+`)*) \|", re.MULTILINE)


def test_packages_list_their_modules() -> None:
    problems = []
    for init in sorted(SOURCE.rglob("__init__.py")):
        package = init.parent.relative_to(SOURCE).as_posix().removeprefix(".")
        if package in WITHOUT_LIST:
            continue
        inside = [path.stem for path in init.parent.glob("*.py") if path != init]
        inside += [path.parent.name for path in init.parent.glob("*/__init__.py")]
        rows = LISTED.findall(ast.get_docstring(ast.parse(init.read_text("utf-8"))) or "")
        listed = {name for row in rows for name in re.findall(r"\w+", row)}
        problems += [
            f"{relative(init)}: the docstring does not say what {module} is"
            for module in sorted(inside)
            if module not in listed and not NAMED_ELSEWHERE.match(module)
        ]
        problems += [
            f"{relative(init)}: the docstring lists {module}, which is not there"
            for module in sorted(listed - set(inside))
        ]
    report(problems)


PAGES = {"lake": "spark/lake"}
"""Pages of internals whose package does not have their name."""


def test_pages_of_internals_name_the_modules_of_their_package() -> None:
    problems = []
    for page in sorted((ROOT / "docs" / "internals").glob("*.md")):
        package = SOURCE / PAGES.get(page.stem, page.stem)
        words = set(re.findall(r"\w+", page.read_text("utf-8")))
        inside = {path.stem for path in package.glob("*.py")}
        inside |= {path.parent.name for path in package.glob("*/__init__.py")}
        problems += [
            f"{relative(page)}: does not say what {module} is"
            for module in sorted(inside - words)
            if not NAMED_ELSEWHERE.match(module)
        ]
    report(problems)


SAME_NAME = {
    "the client's two faces, with and without `await`": (
        *("Admin", "Consumer", "Producer", "ShareConsumer"),
    ),
    "the same thing, seen from the two ends of a protocol": (
        *("Broker", "ClassicMember", "Cluster", "ConfigEntry", "Connection"),
        *("ConsumerMember", "FetchSession", "Fetcher", "Leave", "MemberState", "ObjectInfo"),
        *("Partition", "ProducerState", "QuorumDescription", "TransactionMachine"),
    ),
    "the same step of the two kinds of groups that reconcile": ("Update",),
    "what `kaa.testing` gives, by the name that the thing itself has": (
        *("Client", "Clock", "Fault", "Refused", "Rule", "Seen", "ShareGroup", "Topic", "Verb"),
    ),
    "an event, an effect or a result, each of its own machine": (
        *("Append", "Assignment", "Decision", "End", "Entry", "Loaded", "Outcome", "Report"),
        *("Start", "Tick", "Topics", "Wait"),
    ),
}
"""Names that two classes have, by the reason."""
ONE_PACKAGE = {"Admin", "Consumer", "MemberState", "Producer", "ShareConsumer", "Update"}
"""Names that two classes of one package have: faces of the client, and kinds of groups."""


def test_a_name_means_one_thing() -> None:
    homes: dict[str, list[Path]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        if path.parent == SOURCE / "wire" / "messages":
            continue
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(path.relative_to(SOURCE))
    shared = {name: places for name, places in homes.items() if len(places) > 1}
    excused = {name for names in SAME_NAME.values() for name in names}
    report([f"{name}: {places}" for name, places in shared.items() if name not in excused])
    assert shared.keys() == excused, "a name in SAME_NAME that is no longer shared"
    inside = {
        name
        for name, places in shared.items()
        if len({place.parts[0] for place in places}) < len(places)
    }
    assert inside == ONE_PACKAGE


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
