"""The code of the guide about queues runs as it stands."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from kaa.client import Admin, Consumer, NewTopic, Producer
from tests.support.broker_process import BrokerProcess

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "queues.md"
SECONDS_MAX = 90


async def prepare(bootstrap: str, topic: str) -> None:
    async with Admin({"bootstrap.servers": bootstrap}) as admin:
        await admin.create_topics([NewTopic(topic, 1), NewTopic(f"{topic}-dead", 1)])
    async with Producer({"bootstrap.servers": bootstrap}) as producer:
        for value in (b"good", b"bad", b"shaky"):
            await producer.send(topic, value)


async def run(names: dict[str, Any], bootstrap: str, topic: str) -> list[bytes]:
    await prepare(bootstrap, topic)
    await names["configure"]()
    tried: list[bytes] = []

    async def do_job(value: bytes) -> None:
        tried.append(value)
        if value == b"bad" or (value == b"shaky" and tried.count(value) == 1):
            raise RuntimeError("it went wrong")

    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": f"{topic}-watch",
        "auto.offset.reset": "earliest",
    }
    async with asyncio.timeout(SECONDS_MAX), asyncio.TaskGroup() as tasks:
        worker = tasks.create_task(names["work"](do_job))
        async with Consumer(settings) as dead:
            dead.subscribe([f"{topic}-dead"])
            found = [record.value for some in (await dead.poll()).values() for record in some]
        assert found == [b"bad"]
        worker.cancel()
    await names["left"]()
    return tried


def test_the_guide_s_work_queue_retries_and_gives_up(
    quick_broker: BrokerProcess, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    bootstrap = quick_broker.bootstrap_servers
    text = GUIDE.read_text().replace("localhost:9092", bootstrap)
    text = text.replace('"jobs', f'"{topic}').replace('"workers"', f'"{topic}-workers"')
    names: dict[str, Any] = {"__name__": "guide"}
    for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(compile(code, "guide", "exec"), names)
    tried = asyncio.run(run(names, bootstrap, topic))
    assert (tried.count(b"good"), tried.count(b"shaky"), tried.count(b"bad")) == (1, 2, 3)
    assert capsys.readouterr().out.startswith(f"{topic} 0 ")
