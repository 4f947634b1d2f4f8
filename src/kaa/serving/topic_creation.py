"""Topics that nobody created, made because a client asked for them.

As in Kafka, the client that asks does not wait: it hears that the topic is unknown, asks again
after a moment and finds it. A topic that is being made is not asked for a second time. What the
controller refuses (no broker is there, a name collides) does not reach the client either, which
keeps asking until it gives up.

Internal topics have settings of their own, and are made whenever somebody needs them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from kaa.controller.names import topic_name_problem
from kaa.controller.port import ControllerRequestContext
from kaa.limits import NAMES_ANSWERED_PER_SLICE_MAX
from kaa.model import topics
from kaa.model.pieces import mapped
from kaa.model.turns import Turns, freed, in_turns
from kaa.wire.errors import Errors
from kaa.wire.messages.k19_create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaa.config.server import BrokerConfig
    from kaa.controller.port import ControllerPort
    from kaa.serving.view import NodeView

_CREATE_TOPICS_VERSION: Final = CreateTopicsRequest.valid_versions.high


class TopicCreation:
    """Creates topics that a request named and nobody had made. `create` returns at once, whether or
    not the topic will exist.
    """

    def __init__(self, view: NodeView, controller: ControllerPort) -> None:
        self._view = view
        self._controller = controller
        # Names that the controller was asked to create and has not answered about.
        self._under_way: set[str] = set()

    def name_error(self, name: str) -> Errors:
        """What a client learns about a name without a topic."""
        if topic_name_problem(name) is None:
            return Errors.UNKNOWN_TOPIC_OR_PARTITION
        return Errors.INVALID_TOPIC_EXCEPTION

    async def create(self, names: Iterable[str]) -> dict[str, Errors]:
        """Begins to create topics; gives what the client learns about each of them."""
        answers: dict[str, Errors] = {}
        wanted: list[str] = []
        turns = Turns(NAMES_ANSWERED_PER_SLICE_MAX)
        try:
            for name in names:
                await turns.next()
                answers[name] = error = self.name_error(name)
                if error is not Errors.INVALID_TOPIC_EXCEPTION and name not in self._under_way:
                    self._under_way.add(name)
                    wanted.append(name)
        except asyncio.CancelledError:
            self._under_way.difference_update(wanted)
            raise
        if wanted:
            self._view.errands.begin("the creation of topics", self._create(wanted))
        return answers

    async def _create(self, names: list[str]) -> None:
        config = self._view.config
        try:
            wanted = await in_turns(mapped(lambda name: creatable_topic(config, name), names))
            request = CreateTopicsRequest(
                topics=wanted, timeout_ms=config.get_int("request.timeout.ms")
            )
            context = ControllerRequestContext(_CREATE_TOPICS_VERSION)
            await self._controller.submit(request, context)
            await freed(wanted)
        finally:
            self._under_way.difference_update(names)


def creatable_topic(config: BrokerConfig, name: str) -> CreatableTopic:
    """A topic as the settings of the broker want it to be."""
    settings: dict[str, str] = {}
    match name:
        case topics.CONSUMER_OFFSETS:
            prefix = "offsets.topic"
            settings = {"cleanup.policy": "compact", "compression.type": "producer"}
        case topics.TRANSACTION_STATE:
            prefix = "transaction.state.log"
            settings = {
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": str(config.get_int(f"{prefix}.min.isr")),
                "unclean.leader.election.enable": "false",
            }
        case topics.SHARE_GROUP_STATE:
            prefix = "share.coordinator.state.topic"
            settings = {
                "cleanup.policy": "delete",
                "compression.type": "producer",
                "min.insync.replicas": str(config.get_int(f"{prefix}.min.isr")),
                "retention.ms": "-1",
            }
        case _:
            return _topic(
                name,
                config.get_int("num.partitions"),
                config.get_int("default.replication.factor"),
                settings,
            )
    settings["segment.bytes"] = str(config.get_int(f"{prefix}.segment.bytes"))
    return _topic(
        name,
        config.get_int(f"{prefix}.num.partitions"),
        config.get_int(f"{prefix}.replication.factor"),
        settings,
    )


def _topic(
    name: str, partitions: int, replication_factor: int, settings: dict[str, str]
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        assignments=[],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in settings.items()],
    )
