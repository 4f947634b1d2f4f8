"""What a change of the metadata means for a node: each of its parts follows by itself.

The parts subscribe one by one, in the order in which they rest on each other: the view that all
read first, then the settings, then what a broker has of topics and partitions. So a part that fails
costs nothing but itself (`kaa.controller.publisher` says what happens then): a setting that cannot
be applied must not keep a partition from being made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.broker.topic_configs import log_config, log_manager_config
from kaa.config.dynamic import in_force
from kaa.model.kinds import ResourceType

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaa.config.server import BrokerConfig
    from kaa.controller.image import ClusterImage, Delta
    from kaa.controller.replica import MetadataReplica
    from kaa.log.manager import LogManager
    from kaa.serving.services import Services
    from kaa.serving.view import NodeView


class NodeChanges:
    """The parts of every node; the only one who changes what is in the view."""

    def __init__(
        self,
        config: BrokerConfig,
        view: NodeView,
        logs: LogManager,
        *,
        directories_changed: Callable[[], None],
        report: Callable[[str], None],
    ) -> None:
        """`config` has the settings of the start; `directories_changed` is called when other
        directories than before are cordoned.
        """
        self._config = config
        self._view = view
        self._logs = logs
        self._directories_changed = directories_changed
        self._report = report

    def subscribe_to(self, replica: MetadataReplica) -> None:
        self._replica = replica
        replica.subscribe("the view of the cluster", self._take_image)
        replica.subscribe("the settings", self._apply_settings)

    def _take_image(self, image: ClusterImage, _: Delta) -> None:
        self._view.image = image
        self._view.image_offset = self._replica.committed_offset

    def _apply_settings(self, image: ClusterImage, delta: Delta) -> None:
        if not any(kind == ResourceType.BROKER for kind, _ in delta.configs):
            return
        for_all, for_this = (
            image.configs.get((ResourceType.BROKER, name), {})
            for name in ("", str(self._config.node_id))
        )
        config, problems = in_force(self._config, for_all, for_this)
        for problem in problems:
            self._report(f"a stored setting is left out: {problem.message}")
        self._view.config = config
        self._logs.reconfigure(log_manager_config(config, log_config(config, {})))
        if self._logs.cordon(config.cordoned_log_dirs):
            self._directories_changed()


class BrokerChanges:
    """The parts that only a broker has."""

    def __init__(self, services: Services, are_replicas_started: Callable[[], bool]) -> None:
        self._services = services
        self._are_replicas_started = are_replicas_started

    def subscribe_to(self, replica: MetadataReplica) -> None:
        replica.subscribe("the topics of groups", self._update_topics)
        replica.subscribe("the replicas", self._apply_to_replicas)
        replica.subscribe("the groups", self._delete_from_groups)
        replica.subscribe("the share groups", self._delete_from_shares)
        replica.subscribe("the share partitions", self._delete_share_partitions)

    def _update_topics(self, image: ClusterImage, delta: Delta) -> None:
        services = self._services
        services.groups.topics.update(image, delta, services.image_offset)

    def _apply_to_replicas(self, image: ClusterImage, delta: Delta) -> None:
        # Before they have taken over a whole image, logs of another topic may lie in their places.
        if self._are_replicas_started():
            self._services.replicas.apply(image, delta)

    def _delete_from_groups(self, _: ClusterImage, delta: Delta) -> None:
        if delta.deleted_topics and self._are_replicas_started():
            self._services.groups.topics_deleted(
                {topic.id: topic.name for topic in delta.deleted_topics.values()}
            )

    def _delete_from_shares(self, _: ClusterImage, delta: Delta) -> None:
        if delta.deleted_topics and self._are_replicas_started():
            self._services.shares.topics_deleted(delta.deleted_topics)

    def _delete_share_partitions(self, _: ClusterImage, delta: Delta) -> None:
        if delta.deleted_topics and self._are_replicas_started():
            self._services.share_partitions.topics_deleted(delta.deleted_topics)
