"""The code of the guide runs as it stands."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from kaa.client import Consumer

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guides" / "client.md"


async def until_printed(
    function: Callable[[], Coroutine[Any, Any, None]], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Runs code that never ends by itself, until it has printed something."""
    printed = ""
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        task = tasks.create_task(function())
        while text not in printed:
            assert not task.done()
            await asyncio.sleep(0.02)
            printed += capsys.readouterr().out
        task.cancel()


async def bill(names: dict[str, Any], bootstrap: str, topic: str) -> None:
    """A member with the listener of the guide hands its records to the guide's producer."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": f"{topic}-bills",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": "false",
    }
    async with Consumer(settings) as consumer:
        names["subscribe"](consumer)
        async with asyncio.timeout(60):
            while not await consumer.committed():
                await names["bill"](consumer)


def test_code_of_the_guide_runs(
    bootstrap: str, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = GUIDE.read_text().replace("localhost:9092", bootstrap)
    text = text.replace("orders", topic_name).replace("billing", f"{topic_name}-billing")
    text = text.replace("invoices", f"{topic_name}-invoices")
    settings, produce, serialize, transact, group, listener, consume, create, sync = re.findall(
        r"```python\n(.*?)```", text, re.DOTALL
    )
    names: dict[str, Any] = {"__name__": "guide"}
    exec(compile(settings, "settings", "exec"), names)
    exec(compile(serialize, "serialize", "exec"), {"__name__": "guide"})
    exec(compile(create, "create", "exec"), names)
    asyncio.run(names["create"]())
    assert f"{topic_name} created" in capsys.readouterr().out
    exec(compile(produce, "produce", "exec"), names)
    partition, offset = capsys.readouterr().out.split()
    assert (0 <= int(partition) < 3, offset) == (True, "0")
    exec(compile(sync, "sync", "exec"), names)
    offset, topics = capsys.readouterr().out.splitlines()
    assert offset in {"0", "1"}
    assert repr(topic_name) in topics
    for code in (group, consume, transact, listener):
        exec(compile(code, "guide", "exec"), names)
    for name in ("read", "work"):
        asyncio.run(until_printed(names[name], "b'customer-7' b'value'", capsys))
    asyncio.run(bill(names, bootstrap, topic_name))
    assert "given up:" in capsys.readouterr().out
