"""The code of the guide runs as it stands."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guides" / "client.md"


def test_code_of_the_guide_runs(
    bootstrap: str, topic_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = GUIDE.read_text().replace("localhost:9092", bootstrap).replace("orders", topic_name)
    produce, consume, create, sync = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names: dict[str, Any] = {"__name__": "guide"}
    exec(compile(create, "create", "exec"), names)
    asyncio.run(names["create"]())
    assert f"{topic_name} created" in capsys.readouterr().out
    exec(compile(produce, "produce", "exec"), names)
    partition, offset = capsys.readouterr().out.split()
    assert (0 <= int(partition) < 3, offset) == (True, "0")
    exec(compile(sync, "sync", "exec"), names)
    assert capsys.readouterr().out.strip() in {"0", "1"}
    exec(compile(consume, "consume", "exec"), names)

    async def read_for_a_while() -> None:
        async with asyncio.timeout(2):
            await names["read"]()

    with pytest.raises(TimeoutError):
        asyncio.run(read_for_a_while())
    assert "b'customer-7' b'value'" in capsys.readouterr().out
