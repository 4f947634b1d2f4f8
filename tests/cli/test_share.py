from __future__ import annotations

import asyncio
import json

from kaa.cli.client import EXIT_NOT_FOUND
from kaa.client import ShareConsumer
from tests.cli.groups import kaa


def test_a_group_is_moved_looked_at_and_deleted(bootstrap: str, topic_name: str) -> None:
    assert kaa(bootstrap, "topic", "create", topic_name, "-p", "1").exit_code == 0
    assert kaa(bootstrap, "produce", topic_name, *"abcde").exit_code == 0
    group = f"share-{topic_name}"
    assert kaa(bootstrap, "share", "describe", group).exit_code == EXIT_NOT_FOUND
    plan = kaa(bootstrap, "share", "reset", group, "-t", topic_name, "--to", "2", "-o", "json")
    assert [(row["start_offset"], row["lag"]) for row in json.loads(plan.stdout)] == [(2, 3)]
    assert "nothing was changed" in plan.stderr
    assert group not in kaa(bootstrap, "share", "list", "-o", "name").stdout.split()
    moved = kaa(bootstrap, "share", "reset", group, "-t", topic_name, "--to", "2", "--execute")
    assert moved.exit_code == 0, moved.output
    assert group in kaa(bootstrap, "share", "list", "-o", "name").stdout.split()
    (row,) = json.loads(kaa(bootstrap, "share", "offsets", group, "-o", "json").stdout)
    assert row == {"topic": topic_name, "partition": 0, "start_offset": 2, "lag": 3}
    # Named by what it has read.
    again = kaa(bootstrap, "share", "reset", group, "--to", "end", "--execute", "-o", "json")
    assert json.loads(again.stdout)[0]["start_offset"] == 5
    assert "would be deleted" in kaa(bootstrap, "share", "delete", group).stdout
    assert kaa(bootstrap, "share", "delete", group, "--yes").exit_code == 0
    assert group not in kaa(bootstrap, "share", "list", "-o", "name").stdout.split()


def test_members_are_shown(bootstrap: str, topic_name: str) -> None:
    assert kaa(bootstrap, "topic", "create", topic_name, "-p", "1").exit_code == 0
    group = f"share-{topic_name}"

    async def member() -> str:
        settings = {"bootstrap.servers": bootstrap, "group.id": group, "client.id": "worker"}
        async with ShareConsumer(settings) as consumer:
            consumer.subscribe([topic_name])
            async with asyncio.timeout(60):
                while not consumer._membership.assigned:
                    await consumer.poll(200)
            found = await asyncio.to_thread(
                kaa, bootstrap, "share", "describe", group, "-o", "json"
            )
            return str(found.stdout)

    described = json.loads(asyncio.run(member()))
    assert described["state"] == "Stable"
    (only,) = described["members"]
    assert (only["client_id"], only["partitions"]) == ("worker", [f"{topic_name}-0"])
