"""Consumer groups of kafka-python and aiokafka."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.clients.groups import Audit, Feed, LibrdkafkaMember, wait_for
from tests.clients.groups_python import AiokafkaMember, KafkaPythonMember
from tests.clients.librdkafka import create_topic

PARTITIONS = 6


def test_kafka_python(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, PARTITIONS)
    audit = Audit()
    feed = Feed(bootstrap, topic)
    first = KafkaPythonMember(audit, bootstrap, topic, "m0")
    wait_for(lambda: audit.is_balanced(["m0"], PARTITIONS))
    others = [KafkaPythonMember(audit, bootstrap, topic, f"m{number}") for number in (1, 2, 3)]
    wait_for(lambda: audit.is_balanced(["m0", "m1", "m2", "m3"], PARTITIONS))
    for member in others[:2]:
        member.leave()
    wait_for(lambda: audit.is_balanced(["m0", "m3"], PARTITIONS))
    sent = feed.stop()
    wait_for(lambda: set(audit.read) >= sent)
    first.leave()
    others[2].leave()
    assert audit.breaches == []


async def until(what: Callable[[], bool]) -> None:
    await asyncio.to_thread(wait_for, what)


@pytest.mark.parametrize("how", ["leave", "die"])
def test_aiokafka(bootstrap: str, topic: str, how: str) -> None:
    create_topic(bootstrap, topic, PARTITIONS)
    audit = Audit()
    feed = Feed(bootstrap, topic)

    async def main() -> None:
        async with asyncio.TaskGroup():
            members = [AiokafkaMember(audit, bootstrap, topic, f"m{n}") for n in range(4)]
            await members[0].start()
            await until(lambda: audit.is_balanced(["m0"], PARTITIONS))
            for member in members[1:]:
                await member.start()
            names = [member.name for member in members]
            await until(lambda: audit.is_balanced(names, PARTITIONS))
            await getattr(members[1], how)()
            if how == "die":
                audit.gone("m1")
            await until(lambda: audit.is_balanced(["m0", "m2", "m3"], PARTITIONS))
            sent = await asyncio.to_thread(feed.stop)
            await until(lambda: set(audit.read) >= sent)
            for member in (members[0], *members[2:]):
                await member.leave()

    asyncio.run(main())
    assert audit.breaches == []


def test_members_of_different_libraries(bootstrap: str, topic: str) -> None:
    """All of them know the range assignor, and the leader assigns for all."""
    create_topic(bootstrap, topic, PARTITIONS)
    audit = Audit()
    feed = Feed(bootstrap, topic)
    one = LibrdkafkaMember(audit, bootstrap, topic, "librdkafka", group_id=topic)
    wait_for(lambda: audit.is_balanced(["librdkafka"], PARTITIONS))
    two = KafkaPythonMember(audit, bootstrap, topic, "kafka-python")
    wait_for(lambda: audit.is_balanced(["librdkafka", "kafka-python"], PARTITIONS))
    one.leave()
    wait_for(lambda: audit.is_balanced(["kafka-python"], PARTITIONS))
    three = LibrdkafkaMember(audit, bootstrap, topic, "another", group_id=topic)
    wait_for(lambda: audit.is_balanced(["another", "kafka-python"], PARTITIONS))
    sent = feed.stop()
    wait_for(lambda: set(audit.read) >= sent)
    two.leave()
    three.leave()
    assert audit.breaches == []
