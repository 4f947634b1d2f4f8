"""A start that meets a failing disk ends in lines for an operator, wherever it meets it."""

from __future__ import annotations

import asyncio
import errno
import os

import pytest

from kaa.broker.directories import StartError
from kaa.broker.node import Broker, running
from kaa.cli.broker import failures_of
from kaa.log.sim_files import Fault, Operation, SimFiles
from tests.unit.broker.support import config, formatted, node
from tests.unit.broker.test_node import create_topic

# More of one kind than a start of so small a node makes.
OPERATIONS_MAX = 60


@pytest.fixture(scope="module")
def used() -> SimFiles:
    """The disk of a node that ran once and was killed."""
    files = formatted(config())

    async def main() -> None:
        async with running(node(config(), files)) as broker:
            await create_topic(broker, "t")

    asyncio.run(main())
    return files


def failed_start(files: SimFiles) -> list[str] | None:
    """Starts a node; what it says if it does not get ready, or None."""

    async def main() -> None:
        async with running(node(config(), files)):
            # The rest is about starts.
            files.faults.clear()

    try:
        asyncio.run(main())
    except ExceptionGroup as group:
        lines = failures_of(group)
        if lines is None:
            raise
        return lines
    return None


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS])
@pytest.mark.parametrize("operation", ["create", "write", "sync", "rename", "sync_directory"])
def test_every_operation_of_a_start(used: SimFiles, operation: Operation, code: int) -> None:
    failures = 0
    for skip in range(OPERATIONS_MAX):
        files = used.restart("kill")
        files.faults.append(Fault(operation, "", code, skip, OPERATIONS_MAX))
        lines = failed_start(files)
        if lines is None:
            break
        failures += 1
        assert lines
        for line in lines:
            assert "/data" in line
            assert os.strerror(code) in line
            assert "; " in line
    else:
        pytest.fail("no start was long enough")
    assert failures


def test_a_full_disk_of_a_new_node() -> None:
    files = SimFiles(capacity_bytes=0)

    async def main() -> None:
        broker = node(config(), files)
        broker._formats_empty = True
        async with running(broker):
            pytest.fail("the node started")

    with pytest.raises(ExceptionGroup) as failure:
        asyncio.run(main())
    (line,) = failures_of(failure.value) or []
    assert line.startswith("cannot use /data/")
    assert line.endswith(
        "(No space left on device); make room on its disk (see df -h and df -i), then start again, "
        "or name another directory"
    )


def test_errands_of_a_node_that_loaded_no_logs_end_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def load(broker: Broker, _: object) -> None:
        broker._view.errands.begin("a wait", asyncio.sleep(60))
        raise StartError("not today")

    monkeypatch.setattr(Broker, "_load", load)

    async def main() -> None:
        async with asyncio.timeout(20), asyncio.TaskGroup() as tasks:
            broker = node(config())
            with pytest.raises(StartError, match="not today"):
                await broker.start(tasks)
            await broker.stop()

    asyncio.run(main())
