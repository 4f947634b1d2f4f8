"""What a node runs with when nobody gives it a file: one node on this machine, for trying things
out.

The listener for clients is on 127.0.0.1:9092, the controller's on any free loopback port, internal
topics have one replica, and groups start without waiting for more members. The environment and the
command line change any of it.
"""

from collections.abc import Iterable, Mapping

from kaa.config.sources import Setting, Settings, merge_settings

CONTROLLER_LISTENER = "CONTROLLER"
_CONTROLLER_ADDRESS = f"{CONTROLLER_LISTENER}://127.0.0.1:0"

DEFAULTS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": f"PLAINTEXT://127.0.0.1:9092,{_CONTROLLER_ADDRESS}",
    "controller.listener.names": CONTROLLER_LISTENER,
    "controller.quorum.bootstrap.servers": "127.0.0.1:0",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}

# A default gives way to another name for the same thing.
_GIVES_WAY_TO = {
    "node.id": "broker.id",
    "log.dirs": "log.dir",
    "controller.quorum.bootstrap.servers": "controller.quorum.voters",
}


def development_settings(
    data_dir: str,
    *,
    environment: Mapping[str, str] | None = None,
    overrides: Iterable[str] = (),
) -> Settings:
    """The settings of a node without a file, with its data in `data_dir` by default."""
    overrides = list(overrides)
    given = merge_settings(environment=environment, overrides=overrides)
    defaults = {
        name: text
        for name, text in {**DEFAULTS, "log.dirs": data_dir}.items()
        if _GIVES_WAY_TO.get(name) not in given
    }
    settings = merge_settings(development=defaults, environment=environment, overrides=overrides)
    listeners = settings["listeners"]
    if "controller.listener.names" not in given and not _has_controller(listeners):
        text = f"{listeners.text},{_CONTROLLER_ADDRESS}"
        settings["listeners"] = listeners._replace(text=text)
    return settings


def _has_controller(listeners: Setting) -> bool:
    return f"{CONTROLLER_LISTENER}://" in listeners.text.upper()
