from __future__ import annotations

from collections.abc import Iterator
from dataclasses import FrozenInstanceError, fields, replace

import pytest

from kaa.config.dynamic import apply_dynamic
from kaa.config.topic import topic_default
from kaa.handlers.registry import BROKER_APIS, CONTROLLER_APIS, LazyHandler, find_handlers
from kaa.serving.services import NodeServices, Services
from tests.unit.handlers.support import Node


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as made:
        yield made


def test_services_are_whole_and_stay_as_they_are(node: Node) -> None:
    services = node.services
    for field in fields(Services):
        getattr(services, field.name)
    with pytest.raises(FrozenInstanceError):
        services.groups = services.groups  # type: ignore[misc]


def test_parts_see_what_is_in_force_now(node: Node) -> None:
    services = node.services
    partitions = services.groups.partition_for("g")
    services.view.config = apply_dynamic(node.config, {}, {"log.retention.ms": "77"})
    assert topic_default(services.config, "retention.ms") == 77
    assert replace(services, remote_logs=None).view is services.view
    assert services.groups.partition_for("g") == partitions


def test_handlers_of_controllers_need_no_broker() -> None:
    for apis, kind in ((BROKER_APIS, Services), (CONTROLLER_APIS, NodeServices)):
        for served in find_handlers(apis).values():
            assert isinstance(served.handle, LazyHandler)
            wanted = served.handle.load().__annotations__
            name = wanted.get("services", wanted.get("_services", kind.__name__))
            assert name in {NodeServices.__name__, kind.__name__}, served.api.key
