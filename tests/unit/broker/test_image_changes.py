"""Parts of a node follow the metadata by themselves: a fault of one costs the others nothing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from kaa.broker.node import Broker, running
from kaa.controller.port import ControllerRequestContext
from kaa.model.kinds import ResourceType
from kaa.replication.partition import Partition
from kaa.wire.errors import Errors
from kaa.wire.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
from kaa.wire.messages.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.unit.broker.support import config, formatted

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.serving.services import Services

LOW, HIGH = "log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"


async def create_topic(broker: Broker) -> None:
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=1000)
    response = await broker.services.controller.submit(request, ControllerRequestContext(7))
    assert [result.error_code for result in response.topics] == [Errors.NONE]


async def store(broker: Broker, settings: dict[str, str]) -> None:
    """As the listener of controllers takes them, which knows no broker's static settings."""
    changes = [
        AlterableConfig(name=name, config_operation=0, value=value)
        for name, value in settings.items()
    ]
    resource = AlterConfigsResource(
        resource_type=ResourceType.BROKER, resource_name="", configs=changes
    )
    request = IncrementalAlterConfigsRequest(resources=[resource])
    response = await broker.services.controller.submit(request, ControllerRequestContext(1))
    assert [result.error_code for result in response.responses] == [Errors.NONE]


def reporting_node(reports: list[str]) -> Broker:
    return Broker(config(), files=formatted(config()), report=reports.append)


def test_stored_settings_that_do_not_go_together_keep_no_partition_from_being_made() -> None:
    reports: list[str] = []

    async def scenario() -> None:
        async with running(reporting_node(reports)) as broker:
            await asyncio.gather(
                store(broker, {LOW: "100", HIGH: "50", "num.io.threads": "9"}),
                create_topic(broker),
            )
            assert isinstance(broker.services.replicas.find("t", 0), Partition)
            view = broker.services.view
            assert (view.config.get_int(LOW), view.config.get_int(HIGH)) == (0, 50)
            assert view.config.get_int("num.io.threads") == 9

    asyncio.run(scenario())
    assert [report for report in reports if "is left out" in report and LOW in report]


@pytest.mark.parametrize(
    ("broken", "name"),
    [
        (lambda services: (services.logs, "reconfigure"), "the settings"),
        (lambda services: (services.groups.topics, "update"), "the topics of groups"),
    ],
)
def test_a_part_that_fails_is_named_and_the_others_follow(
    broken: Callable[[Services], tuple[object, str]], name: str
) -> None:
    reports: list[str] = []

    def fail(*_: Any) -> None:
        raise RuntimeError("planted")

    async def scenario(patch: pytest.MonkeyPatch) -> None:
        async with running(reporting_node(reports)) as broker:
            patch.setattr(*broken(broker.services), fail)
            await asyncio.gather(store(broker, {"num.io.threads": "9"}), create_topic(broker))
            assert isinstance(broker.services.replicas.find("t", 0), Partition)

    with pytest.MonkeyPatch.context() as patch:
        asyncio.run(scenario(patch))
    assert [report for report in reports if report.startswith(f"{name} could not follow")]
