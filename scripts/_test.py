"""Runs the tests group by group, each with a budget of time, and sums them up in a table.

`quick` runs what one runs all day: the tests that need neither Java nor Spark nor child processes,
five minutes at most. With other arguments, pytest runs once with just these.

Tests that stand on real processes, sockets and the clock of the machine can fail because the
machine stood still. After all groups, at most `SECOND_TRIES_MAX` such failures get a second try,
alone on a machine that is quiet by then; what passes is reported as unsteady, with the failure of
the first try above in the output. More failures than that, or one of a test that depends on nothing
but its code, are failures at once.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from xml.etree import ElementTree as ET

from scripts._environment import SetupError, ensure

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).resolve().parent.parent
PYTEST = [sys.executable, "-m", "pytest"]
# As many workers as the smallest machine that the budgets are meant for has cores, and one more
# where tests wait for clients and sessions: the core of one that waits is another's.
CORES = 2
BUSY_WORKERS = CORES
WAITING_WORKERS = CORES + 1
# Where the time went, for anyone who has to make room.
SLOWEST = ["--durations=10", "--durations-min=10"]


class Group(NamedTuple):
    """Tests that share a budget. A test file belongs to the group with the longest prefix."""

    name: str
    budget_minutes: int
    prefixes: tuple[str, ...]
    workers: int = BUSY_WORKERS


GROUPS = (
    Group(
        "wire and records",
        2,
        (
            "tests/conformance/test_errors",
            "tests/conformance/test_oracle",
            "tests/conformance/test_records",
            "tests/conformance/test_wire",
            "tests/fuzz",
            "tests/oracle",
            "tests/unit/oracle",
            "tests/unit/records",
            "tests/unit/wire",
        ),
    ),
    Group(
        "processes",
        8,
        # Short ones, of the client, come last: no worker is left alone with a long one.
        ("tests/clients", "tests/conformance", "tests/process", "tests/unit/client"),
        WAITING_WORKERS,
    ),
    Group(
        "broker",
        7,
        (
            "tests/scale",
            "tests/simulation",
            "tests/transcripts",
            "tests/unit",
        ),
    ),
    Group(
        "coordinators",
        6,
        (
            "tests/clients/test_groups",
            "tests/clients/test_histories",
            "tests/clients/test_transactions",
            "tests/process/test_transaction_kills",
            "tests/conformance/coordinators",
            "tests/exactly_once",
            "tests/simulation/coordinators",
            "tests/transcripts/coordinators",
            "tests/unit/coordinators",
            "tests/unit/histories",
        ),
        WAITING_WORKERS,
    ),
    Group("Spark", 11, ("tests/spark", "tests/unit/spark")),
    Group(
        "experience",
        4,
        (
            "tests/cli",
            "tests/console",
            "tests/unit/console",
            "tests/unit/test_",
            "tests/unit/testing",
        ),
        WAITING_WORKERS,
    ),
)


# Many tests of the client run twice, against Kaa and against Kafka.
WITHOUT_JAVA = ("-m", "not oracle")
QUICK = Group("quick", 5, ("tests/unit", "tests/transcripts", "tests/simulation/world"))
# Spark, and what takes its time on purpose.
NOT_QUICK = ("tests/unit/oracle", "tests/unit/spark", "tests/unit/testing")


# What stands on processes and time; everything else is as repeatable as its code.
UNSTEADY_PREFIXES = (
    "tests/cli",
    "tests/clients",
    "tests/conformance",
    "tests/exactly_once",
    "tests/process",
    "tests/scale",
    "tests/spark",
    "tests/unit/controller/test_slices",
    "tests/unit/observe/test_loop_",
    "tests/unit/test_import_time",
    "tests/unit/testing",
)
SECOND_TRIES_MAX = 3


class Outcome(NamedTuple):
    """How the tests of a group ended."""

    name: str
    passed: int
    failed: int
    skipped: int
    seconds: float
    budget_seconds: int
    exit_code: int
    # Those that failed, as pytest names them; fewer than `failed` if the run itself broke.
    failures: tuple[str, ...] = ()
    # Of all processes that have ended by then; far less than the seconds of the cores is waiting.
    processor_seconds: float = 0


def group_of(path: str) -> Group | None:
    """Finds the group of a test file by the longest prefix of its path."""
    matching = [
        (len(prefix), group)
        for group in GROUPS
        for prefix in group.prefixes
        if path.startswith(prefix)
    ]
    return max(matching, key=lambda pair: pair[0])[1] if matching else None


def all_files() -> list[str]:
    """Lists every test file, relative to the root."""
    return sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py"))


def run(group: Group, files: list[str], *options: str) -> Outcome:
    """Runs the tests of one group, with more options of pytest."""
    started, processor_started = time.monotonic(), processor_seconds()
    parallel = ["-n", str(group.workers), "--dist", "loadgroup"]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        # The older form of the report names the file of each test.
        reporting = [f"--junitxml={report}", "-o", "junit_family=xunit1"]
        command = [*PYTEST, *parallel, *SLOWEST, "-q", *reporting, *options, *files]
        exit_code = subprocess.run(command, check=False, cwd=ROOT).returncode
        passed, failed, skipped = counts(report)
        failures = failed_tests(report)
    if exit_code and not failed:
        failed = 1  # The run itself broke, or found no test in these files.
    return Outcome(
        group.name,
        passed,
        failed,
        skipped,
        time.monotonic() - started,
        group.budget_minutes * 60,
        exit_code,
        failures,
        processor_seconds() - processor_started,
    )


def processor_seconds() -> float:
    """What the children of this process that have ended took, with theirs."""
    times = os.times()
    return times.children_user + times.children_system


def counts(report: Path) -> tuple[int, int, int]:
    """Counts passed, failed and skipped tests of a report."""
    if not report.is_file():
        return 0, 0, 0
    total = failed = skipped = 0
    for suite in ET.parse(report).getroot().iter("testsuite"):  # noqa: S314 - our own file.
        total += int(suite.attrib["tests"])
        failed += int(suite.attrib["failures"]) + int(suite.attrib["errors"])
        skipped += int(suite.attrib["skipped"])
    return total - failed - skipped, failed, skipped


def failed_tests(report: Path) -> tuple[str, ...]:
    """Names the failed tests of a report so that pytest finds them again."""
    if not report.is_file():
        return ()
    names: dict[str, None] = {}
    for case in ET.parse(report).getroot().iter("testcase"):  # noqa: S314 - our own file.
        path = case.get("file")
        if path is None or (case.find("failure") is None and case.find("error") is None):
            continue
        module = path.removesuffix(".py").replace("/", ".")
        inside = case.attrib["classname"].removeprefix(module).strip(".")
        name = case.attrib["name"]
        # A worker adds the group of the test, behind its parameters.
        end = name.rfind("]") + 1 or len(name.partition("@")[0])
        names["::".join(part for part in (path, inside, name[:end]) if part)] = None
    return tuple(names)


def try_again(outcomes: list[Outcome]) -> tuple[list[Outcome], list[str]]:
    """Gives a few failures that may be the machine's a second try; names those that passed it."""
    failures = [test for outcome in outcomes for test in outcome.failures]
    is_fair = (
        0 < len(failures) <= SECOND_TRIES_MAX
        and all(test.startswith(UNSTEADY_PREFIXES) for test in failures)
        # A run that broke names no test, or ends with more than 1.
        and all(outcome.failures or not outcome.failed for outcome in outcomes)
        and all(outcome.exit_code in {0, 1} for outcome in outcomes)
    )
    if not is_fair:
        return outcomes, []
    print(f"--- second try of {', '.join(failures)}", flush=True)
    unsteady = [
        test
        for test in failures
        if subprocess.run([*PYTEST, "-q", test], check=False, cwd=ROOT).returncode == 0
    ]
    return [_after_second_try(outcome, unsteady) for outcome in outcomes], unsteady


def _after_second_try(outcome: Outcome, unsteady: list[str]) -> Outcome:
    left = tuple(test for test in outcome.failures if test not in unsteady)
    return outcome._replace(
        passed=outcome.passed + len(outcome.failures) - len(left),
        failed=len(left),
        exit_code=1 if left else 0,
        failures=left,
    )


def print_summary(outcomes: list[Outcome], unsteady: Sequence[str] = ()) -> None:
    """Prints the table, and the totals as the last line."""
    print(
        f"\n{'group':<18}{'tests':>7}{'failed':>8}{'skipped':>9}{'seconds':>9}{'budget':>8}"
        f"{'processor':>11}"
    )
    for outcome in outcomes:
        tests = outcome.passed + outcome.failed + outcome.skipped
        over = "  over budget" if outcome.seconds > outcome.budget_seconds else ""
        print(
            f"{outcome.name:<18}{tests:>7}{outcome.failed:>8}{outcome.skipped:>9}"
            f"{outcome.seconds:>9.0f}{outcome.budget_seconds:>8}"
            f"{outcome.processor_seconds:>11.0f}{over}"
        )
    passed = sum(outcome.passed for outcome in outcomes)
    failed = sum(outcome.failed for outcome in outcomes)
    skipped = sum(outcome.skipped for outcome in outcomes)
    for test in unsteady:
        print(f"unsteady, passed at its second try only: {test}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")


def quick_files() -> list[str]:
    """Lists the test files that one runs all day."""
    return [
        path
        for path in all_files()
        if path.startswith(QUICK.prefixes) and not path.startswith(NOT_QUICK)
    ]


def main(arguments: list[str]) -> int:
    """Runs all groups, or what the arguments name."""
    if arguments == ["quick"]:
        outcome = run(QUICK, quick_files(), *WITHOUT_JAVA)
        print_summary([outcome])
        return outcome.exit_code
    if arguments:
        os.execv(PYTEST[0], [*PYTEST, *arguments])  # noqa: S606 - there is no shell to use.
    files: dict[str, list[str]] = {group.name: [] for group in GROUPS}
    for path in all_files():
        group = group_of(path)
        if group is None:
            print(f"{path} belongs to no group; add its folder to scripts/_test.py.")
            return 1
        files[group.name].append(path)
    if any(path.startswith("tests/spark") for path in files["Spark"]):
        try:
            ensure(["connect", "java", "lake", "protobuf", "spark"])
        except SetupError as error:
            print(error)
            return 1
    outcomes = []
    for group in GROUPS:
        if files[group.name]:
            print(f"--- {group.name}", flush=True)
            outcomes.append(run(group, files[group.name]))
    outcomes, unsteady = try_again(outcomes)
    print_summary(outcomes, unsteady)
    return 1 if any(outcome.failed or outcome.exit_code for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
