"""Points at which a query of Spark is killed, and how its processes come to do that to themselves.

Each Python process of a query loads this through `sitecustomize`. When a module of the sink is
imported, the function that stands at the wanted point is wrapped; in the batch that is named it
kills every process of the session of the system that the query is.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

AT = "KAA_TEST_KILL_AT"
BATCH = "KAA_TEST_KILL_BATCH"
MARK = "KAA_TEST_KILL_MARK"

TASK_POINTS = ("task: after init", "task: in a write", "task: before its message")
DRIVER_POINTS = {
    "before the decision": ("Decide", False),
    "decision without answer": ("Decide", True),
    "before the first end": ("End", False),
    "between two ends": ("End", True),
    "after the ends": ("ListOpen", False),
    "before done": ("MarkDone", False),
    "after done": ("MarkDone", True),
    "before Spark's own log": ("Await", True),
}
"""Point -> effect of the machine, and whether it has taken place."""
IN_ABORT = "in abort"
POINTS = (*TASK_POINTS, *DRIVER_POINTS, IN_ABORT)


def kill() -> None:
    """Ends every process of this session, this one last."""
    import psutil

    Path(os.environ[MARK]).touch()
    session = os.getsid(0)
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and os.getsid(process.pid) == session:
                process.kill()
        except (OSError, psutil.NoSuchProcess):
            continue
    os.kill(os.getpid(), signal.SIGKILL)


def patch_tasks(module: ModuleType, point: str) -> None:
    """`kaa.spark.once.tasks`"""
    batch = int(os.environ[BATCH])
    opened, writing = module._open, module.write_transaction
    current: list[int] = []

    def open_transaction(brokers: Any, options: Any, names: Any) -> Any:
        current[:] = [names.batch_id]
        entry = opened(brokers, options, names)
        if point == "task: after init" and names.batch_id == batch:
            kill()
        return entry

    class RowWriter(module.RowWriter):  # type: ignore[misc, name-defined]  # It is patched in.
        def _wait(self) -> None:
            if self._pending is not None and point == "task: in a write" and current == [batch]:
                kill()
            super()._wait()

    def write_transaction(options: Any, names: Any, batches: Any) -> Any:
        written = writing(options, names, batches)
        if point == "task: before its message" and names.batch_id == batch:
            kill()
        return written

    module.__dict__.update(
        _open=open_transaction, RowWriter=RowWriter, write_transaction=write_transaction
    )


def patch_driver(module: ModuleType, point: str) -> None:
    """`kaa.spark.once.driver`"""
    batch = int(os.environ[BATCH])
    perform = module.Driver._perform
    current: list[int] = []

    async def wrapped(self: Any, effect: Any) -> Any:
        name = type(effect).__name__
        if name in {"Decide", "MarkDone"}:
            current[:] = [effect.decision.batch_id]
        if point == IN_ABORT:
            if name == "Decide" and current == [batch]:
                raise RuntimeError("as a commit that fails")
            if name == "End" and not effect.is_commit:
                kill()
            return await perform(self, effect)
        wanted, after = DRIVER_POINTS[point]
        is_there = name == wanted and current == [batch]
        if is_there and not after:
            kill()
        answer = await perform(self, effect)
        if is_there:
            kill()
        return answer

    if point in DRIVER_POINTS or point == IN_ABORT:
        module.Driver._perform = wrapped


PATCHES: dict[str, Callable[[ModuleType, str], None]] = {
    "kaa.spark.once.tasks": patch_tasks,
    "kaa.spark.once.driver": patch_driver,
}


class Finder(MetaPathFinder):
    """Finds the modules of the sink as everyone does, and wraps them once they are loaded."""

    def __init__(self, point: str) -> None:
        self._point = point
        self._left = dict(PATCHES)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        patch = self._left.pop(fullname, None)
        if patch is None:
            return None
        spec = importlib.util.find_spec(fullname)
        assert spec is not None
        loader: Any = spec.loader
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            patch(module, self._point)

        loader.exec_module = exec_module
        return spec


def install() -> None:
    """Begins to watch imports, if this process belongs to a query that is to be killed."""
    point = os.environ.get(AT)
    if point:
        sys.meta_path.insert(0, Finder(point))
