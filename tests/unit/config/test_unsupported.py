"""What this version refuses, ignores, and knows as removed."""

import re
from pathlib import Path

import pytest

import kaa
from kaa.config import ConfigValues
from kaa.config.broker import BROKER
from kaa.config.listeners import Listeners
from kaa.config.unsupported import (
    INEFFECTIVE,
    REFUSED_NAMES,
    is_missing,
    is_removed,
    listener_refusals,
    refusals,
)
from kaa.model.nodes import Endpoint, SecurityProtocol

GOOD = {
    "process.roles": "controller,broker",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
}


def refused(settings: dict[str, str]) -> dict[str, str]:
    values, problems = BROKER.parse_collecting({**GOOD, **settings})
    assert problems == []
    return dict(refusals(ConfigValues(values)))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
        ("alter.config.policy.class.name", "a.Policy"),
        ("create.topic.policy.class.name", "a.Policy"),
        ("client.quota.callback.class", "a.Quota"),
        ("config.providers", "file"),
        ("principal.builder.class", "a.Builder"),
    ],
)
def test_refused(name: str, text: str) -> None:
    found = refused({name: text})
    assert list(found) == [name]
    assert "this version of Kaa does not have" in found[name]
    assert name in REFUSED_NAMES


def test_several_controllers_of_any_role_are_fine() -> None:
    assert refused({"process.roles": "broker"}) == refused({"process.roles": "controller"}) == {}
    assert refused({"controller.quorum.voters": "1@a:1,2@b:1"}) == {}
    assert refused({"controller.quorum.bootstrap.servers": "a:1,b:1"}) == {}


def test_classes_of_remote_storage_are_those_that_kaa_stands_in_for() -> None:
    enabled = {"remote.log.storage.system.enable": "true"}
    name, metadata = (
        "remote.log.storage.manager.class.name",
        "remote.log.metadata.manager.class.name",
    )
    local = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
    assert refused(enabled) == refused({**enabled, name: local}) == {}
    assert refused({**enabled, name: "kaa.tier.ObjectStore"}) == {}
    found = refused({**enabled, name: "io.aiven.Store", metadata: "a.List"})
    assert list(found) == [name, metadata]
    assert f"use kaa.tier.ObjectStore or {local}" in found[name]
    # Where nothing is tiered nobody asks for them.
    assert refused({name: "io.aiven.Store"}) == {}


def test_the_defaults_are_not_refused() -> None:
    assert refused({}) == {}
    assert refused({"authorizer.class.name": "", "config.providers": ""}) == {}
    assert list(refusals(ConfigValues({}))) == []


def test_secured_listeners_are_refused_together() -> None:
    secured = [
        Endpoint(protocol.name, "", 9092 + index, protocol)
        for index, protocol in enumerate(SecurityProtocol)
    ]
    listeners = Listeners(tuple(secured), (), (), (), (), "", frozenset())
    (problem,) = listener_refusals(listeners)
    assert problem.name == "listeners"
    assert "SSL (SSL), SASL_PLAINTEXT (SASL_PLAINTEXT), SASL_SSL (SASL_SSL)" in problem.message
    assert list(listener_refusals(listeners._replace(all=tuple(secured[:1])))) == []


def test_names_are_real_settings_and_removed_ones_are_not() -> None:
    assert all(name in BROKER for name in INEFFECTIVE | set(REFUSED_NAMES))
    assert not any(is_removed(name) for name in BROKER.names())
    for name in ("zookeeper.connect", "inter.broker.protocol.version", "port"):
        assert is_removed(name)


# Names that are put together where they are used.
_COMPOSED = re.compile(
    r"(offsets\.topic|transaction\.state\.log)\.(min\.isr|num\.partitions|replication\.factor|"
    r"segment\.bytes)|group\.consumer\..*|share\.coordinator\.state\.topic\..*|"
    # Settings that a group may have itself, and their bounds.
    r"group\.(share|streams)\.((min|max)\.)?(assignment\.interval|heartbeat\.interval|"
    r"initial\.rebalance\.delay|record\.lock\.duration|session\.timeout)\.ms|"
    r"group\.(share|streams)\.((min|max)\.)?(num\.standby\.replicas|delivery\.count\.limit|"
    r"partition\.max\.record\.locks)"
)


def test_every_setting_has_an_effect_or_says_that_it_has_none() -> None:
    """A setting that is accepted in silence and read by nobody misleads its owner."""
    root = Path(kaa.__file__).parent
    tables = root / "config" / "tables"
    sources = [path for path in root.rglob("*.py") if tables not in path.parents]
    # Storage takes its settings by the names of its fields.
    text = "".join(path.read_text() for path in sources if path.name != "unsupported.py")
    silent = [
        name
        for name in BROKER.names()
        if f'"{name}"' not in text
        and f"{name.replace('.', '_')}: " not in text
        and name not in INEFFECTIVE
        and name not in REFUSED_NAMES
        and not is_missing(name)
        and not _COMPOSED.fullmatch(name)
    ]
    assert silent == []


def test_settings_of_missing_parts() -> None:
    assert is_missing("ssl.keystore.location")
    assert not is_missing("follower.replication.throttled.rate")
    assert not is_missing("num.replica.fetchers")
    assert not is_missing("num.io.threads")
    assert not is_missing("log.dirs")
