"""What the decisions of the active controller rest on."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from kaa.config.dynamic import in_force
from kaa.controller.broker_partitions import BrokerPartitions
from kaa.controller.directories import MIGRATING, UNASSIGNED, is_online
from kaa.controller.feature_table import ELR_VERSION, METADATA_VERSION
from kaa.controller.heartbeats import Heartbeats
from kaa.controller.result import ControllerError
from kaa.model.kinds import ResourceType
from kaa.wire.errors import Errors

if TYPE_CHECKING:
    from kaa.config.server import BrokerConfig
    from kaa.controller.image import ClusterImage
    from kaa.model.seams import RandomSource
    from kaa.wire.messages.k19_create_topics import CreatableTopicConfigs
    from kaa.wire.primitives import Uuid


class ControllerSettings(NamedTuple):
    """What the controller takes from the configuration of its node."""

    node_id: int
    cluster_id: str
    # The settings of the node: defaults of topics, timeouts, intervals.
    broker: BrokerConfig


class QuorumView(Protocol):
    """What the quorum knows about itself and the controller decides by."""

    @property
    def kraft_version(self) -> int:
        """The level in force, from the moment its record is appended."""
        ...

    def knows_voters(self, level: int) -> bool:
        """Whether every voter has reported what the log must say of it at a level of
        kraft.version, and supports it.
        """
        ...


class ControllerState:
    """The newest image, what is kept outside of it, and the moment of the decision."""

    def __init__(
        self,
        image: ClusterImage,
        settings: ControllerSettings,
        random: RandomSource,
        quorum: QuorumView,
    ) -> None:
        # Ahead of the committed image by what is written and not yet committed.
        self.image = image
        self.settings = settings
        self.random = random
        self.quorum = quorum
        # Of the same image; both change by the same records.
        self.partitions = BrokerPartitions()
        self.heartbeats = Heartbeats(settings.broker.get_int("broker.session.timeout.ms"))
        # Where the registrations of brokers stand in the log.
        self.registration_offsets: dict[int, int] = {}
        # Where the next record will be; set before every decision.
        self.next_offset = 0
        # Monotonic time of the decision.
        self.now_ms = 0
        # What the cluster says for all brokers and for this node, and the settings that follow.
        self._layers: tuple[dict[str, str], dict[str, str]] = ({}, {})
        self._config = settings.broker
        # The settings of new topics as `config` makes them, by their own; for answers.
        self.topic_reports: dict[frozenset[tuple[str, str]], list[CreatableTopicConfigs]] = {}

    # --- features

    @property
    def metadata_version(self) -> int:
        level = self.image.features.get(METADATA_VERSION)
        if level is None:
            raise ControllerError(Errors.UNKNOWN_SERVER_ERROR, "the cluster has no metadata yet")
        return level

    @property
    def is_elr_enabled(self) -> bool:
        return self.image.features.get(ELR_VERSION, 0) > 0

    # --- brokers

    def is_active(self, broker_id: int) -> bool:
        broker = self.image.brokers.get(broker_id)
        return broker is not None and not broker.is_fenced and not broker.is_in_controlled_shutdown

    def lowest_active_offset(self) -> int | None:
        """How far all brokers have applied the log that are neither fenced nor shutting down;
        None if there is no such broker.
        """
        progress = [
            self.heartbeats.progress(broker.id)
            for broker in self.image.brokers.values()
            if not broker.is_fenced
        ]
        offsets = [each.metadata_offset for each in progress if not each.is_shutting_down]
        return min(offsets, default=None)

    def registration_offset(self, broker_id: int) -> int:
        """From where on a broker knows its own registration. What it changed about partitions
        stands before it, from the broker's epoch on.
        """
        return self.registration_offsets.get(broker_id, self.image.brokers[broker_id].epoch)

    def default_directory(self, broker_id: int) -> Uuid:
        """Where a new replica on a broker goes: its only directory, or one of its choice."""
        broker = self.image.brokers.get(broker_id)
        if broker is None:
            return UNASSIGNED
        if not broker.directories:
            return MIGRATING
        return broker.directories[0] if len(broker.directories) == 1 else UNASSIGNED

    def has_online_directory(self, broker_id: int, directory: Uuid) -> bool:
        broker = self.image.brokers.get(broker_id)
        return broker is not None and is_online(directory, broker.directories)

    def check_broker_epoch(self, broker_id: int, broker_epoch: int) -> None:
        broker = self.image.brokers.get(broker_id)
        if broker is None:
            raise ControllerError(
                Errors.STALE_BROKER_EPOCH, f"broker {broker_id} is not registered"
            )
        if broker.epoch != broker_epoch:
            raise ControllerError(
                Errors.STALE_BROKER_EPOCH,
                f"the epoch of broker {broker_id} is {broker.epoch}, not {broker_epoch}",
            )

    # --- settings

    @property
    def config(self) -> BrokerConfig:
        """The settings of the node with what the cluster says on top, where that can be used."""
        configs = self.image.configs
        everyone = configs.get((ResourceType.BROKER, ""), {})
        this_node = configs.get((ResourceType.BROKER, str(self.settings.node_id)), {})
        if (everyone, this_node) != self._layers:
            self._layers = (dict(everyone), dict(this_node))
            # The brokers complain about what cannot be used.
            self._config, _ = in_force(self.settings.broker, everyone, this_node)
            self.topic_reports.clear()
        return self._config

    # --- settings of topics that decide about leaders

    def topic_setting(self, topic: str, name: str) -> str | None:
        """A setting that topic and broker have under one name, as text; None for the static one."""
        configs = self.image.configs
        for resource in (
            (ResourceType.TOPIC, topic),
            (ResourceType.BROKER, str(self.settings.node_id)),
            (ResourceType.BROKER, ""),
        ):
            value = configs.get(resource, {}).get(name)
            if value is not None:
                return value
        return None

    def min_isr(self, topic: str) -> int:
        """`min.insync.replicas` of a topic, but no more than it has replicas."""
        text = self.topic_setting(topic, "min.insync.replicas")
        wanted = (
            int(text) if text is not None else self.settings.broker.get_int("min.insync.replicas")
        )
        partition = self.image.topics[topic].partitions.get(0)
        return wanted if partition is None else min(wanted, len(partition.replicas))

    def is_unclean_election_enabled(self, topic: str) -> bool:
        text = self.topic_setting(topic, "unclean.leader.election.enable")
        if text is not None:
            return text.lower() == "true"
        return self.settings.broker.get_boolean("unclean.leader.election.enable")
