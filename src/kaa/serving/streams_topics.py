"""Internal topics of streams groups, made because a heartbeat found them missing.

The member does not wait: its next heartbeat finds the topic. A topic that is being made is not
asked for a second time, and one that the controller refused is not asked for again for a moment, in
which heartbeats tell why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kaa.controller.port import ControllerRequestContext
from kaa.limits import STREAMS_TOPIC_REFUSALS_MAX, STREAMS_TOPICS_NAMED_MAX
from kaa.model.pieces import mapped
from kaa.model.turns import in_turns
from kaa.wire.errors import Errors
from kaa.wire.messages.k19_create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kaa.controller.port import ControllerPort
    from kaa.coordinators.group.streams.topology import InternalTopic
    from kaa.serving.view import NodeView

_CREATE_TOPICS_VERSION: Final = CreateTopicsRequest.valid_versions.high


class _Refusal(NamedTuple):
    until_ms: int
    reason: str


class StreamsTopics:
    """Creates the internal topics of streams groups. `create` returns at once, with the reasons why
    some of them were refused lately.
    """

    def __init__(self, view: NodeView, controller: ControllerPort) -> None:
        self._view = view
        self._controller = controller
        # Names that the controller was asked to create and has not answered about.
        self._under_way: set[str] = set()
        # Why the controller made no topic, oldest first.
        self._refusals: dict[str, _Refusal] = {}

    def create(self, topics: Mapping[str, InternalTopic], ttl_ms: int) -> str:
        """Begins to create topics; why some were refused lately, or nothing."""
        refused = self._refused(topics)
        wanted = [
            topic
            for name, topic in topics.items()
            if name not in refused and name not in self._under_way
        ]
        if wanted:
            self._under_way.update(topic.name for topic in wanted)
            creation = self._create(wanted, ttl_ms)
            self._view.errands.begin("the creation of internal topics", creation)
        reasons = ", ".join(
            f"{name} ({why})" for name, why in list(refused.items())[:STREAMS_TOPICS_NAMED_MAX]
        )
        if len(refused) > STREAMS_TOPICS_NAMED_MAX:
            reasons += f" and {len(refused) - STREAMS_TOPICS_NAMED_MAX} more"
        return reasons

    def _refused(self, names: Iterable[str]) -> dict[str, str]:
        now_ms = self._view.clock.monotonic_ms()
        found = {}
        for name in names:
            refusal = self._refusals.get(name)
            if refusal is not None and refusal.until_ms > now_ms:
                found[name] = refusal.reason
        return found

    async def _create(self, wanted: list[InternalTopic], ttl_ms: int) -> None:
        names = [topic.name for topic in wanted]
        try:
            request = CreateTopicsRequest(
                topics=await in_turns(mapped(_creatable, wanted)),
                timeout_ms=self._view.config.get_int("request.timeout.ms"),
            )
            context = ControllerRequestContext(_CREATE_TOPICS_VERSION)
            response = await self._controller.submit(request, context)
        finally:
            self._under_way.difference_update(names)
        refused = [one for one in response.topics if one.error_code != Errors.NONE]
        # More of them would push each other out.
        for result in refused[-STREAMS_TOPIC_REFUSALS_MAX:]:
            message = result.error_message or Errors.of(result.error_code).message
            self._refuse(result.name, message, ttl_ms)

    def _refuse(self, name: str, reason: str, ttl_ms: int) -> None:
        self._refusals.pop(name, None)
        until_ms = self._view.clock.monotonic_ms() + ttl_ms
        self._refusals[name] = _Refusal(until_ms, reason)
        while len(self._refusals) > STREAMS_TOPIC_REFUSALS_MAX:
            del self._refusals[next(iter(self._refusals))]


def _creatable(topic: InternalTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        # -1 leaves it to the settings of the cluster.
        replication_factor=topic.replication_factor or -1,
        assignments=[],
        configs=[
            CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()
        ],
    )
