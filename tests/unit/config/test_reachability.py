from __future__ import annotations

import pytest

from kaa.config.server import load_broker_config
from kaa.config.sources import merge_settings

STATIC = "controller.quorum.voters=1@{0},2@{1}"
DYNAMIC = "controller.quorum.bootstrap.servers={0},{1}"
MACHINES = ("one.example:9093", "[2001:db8::2]:9093")
ONE_MACHINE = ("localhost:9093", "[::1]:9094")


def warnings(quorum: str, places: tuple[str, str], bound: str, *more: str) -> list[str]:
    """What is said of the controller of node 1."""
    overrides = [
        "process.roles=controller",
        "node.id=1",
        f"listeners=CONTROLLER://{bound}",
        "controller.listener.names=CONTROLLER",
        quorum.format(*places),
        *more,
    ]
    found = load_broker_config(merge_settings(overrides=overrides)).warnings
    return [warning for warning in found if "CONTROLLER" in warning]


@pytest.mark.parametrize("quorum", [STATIC, DYNAMIC])
@pytest.mark.parametrize("bound", ["127.0.0.1:9093", "localhost:9093", "[::1]:9093"])
@pytest.mark.parametrize("advertised", ["", "one.example:9093"])
def test_a_controller_that_others_cannot_connect_to(
    quorum: str, bound: str, advertised: str
) -> None:
    more = [f"advertised.listeners=CONTROLLER://{advertised}"] if advertised else []
    (warning,) = warnings(quorum, MACHINES, bound, *more)
    assert "this machine alone" in warning
    assert "one.example:9093, [2001:db8::2]:9093" in warning
    assert "set listeners" in warning


def test_a_controller_that_sends_others_to_themselves() -> None:
    more = "advertised.listeners=CONTROLLER://localhost:9093"
    _, warning = warnings(DYNAMIC, MACHINES, "10.0.0.1:9093", more)
    assert "address for other controllers is CONTROLLER://localhost:9093" in warning
    assert "set advertised.listeners" in warning


@pytest.mark.parametrize("bound", ["10.0.0.1:9093", "0.0.0.0:9093", "[::]:9093", ":9093"])
def test_a_controller_that_is_open_to_the_network(bound: str) -> None:
    (warning,) = warnings(STATIC, MACHINES, bound)
    assert "control the cluster" in warning


@pytest.mark.parametrize("quorum", [STATIC, DYNAMIC])
def test_controllers_of_one_machine(quorum: str) -> None:
    assert warnings(quorum, ONE_MACHINE, "127.0.0.1:9093") == []


def test_a_broker_alone_has_no_controller_to_reach() -> None:
    overrides = [
        "process.roles=broker",
        "node.id=3",
        "listeners=PLAINTEXT://127.0.0.1:9092",
        "controller.listener.names=CONTROLLER",
        STATIC.format(*MACHINES),
    ]
    assert load_broker_config(merge_settings(overrides=overrides)).warnings == ()
