"""Listeners resolved from the settings that describe them together."""

import pytest

from kaa.config import ConfigValues
from kaa.config.broker import BROKER
from kaa.config.listeners import Listeners, ip_version, resolve_listeners
from kaa.model.nodes import Endpoint, SecurityProtocol

PLAINTEXT = SecurityProtocol.PLAINTEXT


def resolve(**settings: str) -> tuple[Listeners | None, list[tuple[str, str]]]:
    texts = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "1@one.example:9093",
    }
    texts |= {name.replace("_", "."): text for name, text in settings.items()}
    values, problems = BROKER.parse_collecting(texts)
    assert problems == []
    listeners, found = resolve_listeners(ConfigValues(values), texts)
    return listeners, [(problem.name, problem.message) for problem in found]


def good(**settings: str) -> Listeners:
    listeners, problems = resolve(**settings)
    assert problems == []
    assert listeners is not None
    return listeners


def test_a_plain_node() -> None:
    listeners = good()
    client = Endpoint("PLAINTEXT", "", 9092, PLAINTEXT)
    controller = Endpoint("CONTROLLER", "", 9093, PLAINTEXT)
    assert listeners == Listeners(
        all=(client, controller),
        broker=(client,),
        controller=(controller,),
        advertised_broker=(client,),
        advertised_controller=(controller._replace(host="one.example"),),
        inter_broker_name="PLAINTEXT",
        early_start_names=frozenset({"CONTROLLER"}),
    )


def test_names_addresses_and_protocols_of_a_rich_node() -> None:
    listeners = good(
        listeners="IN://10.0.0.1:9092,OUT://[::]:9094,CONTROLLER://0.0.0.0:0",
        advertised_listeners="OUT://public.example:443,IN://10.0.0.1:9092",
        listener_security_protocol_map="in:plaintext,OUT:SSL,CONTROLLER:PLAINTEXT",
        inter_broker_listener_name="in",
        controller_quorum_voters="",
        early_start_listeners="OUT,CONTROLLER",
    )
    assert [str(endpoint) for endpoint in listeners.all] == [
        "IN://10.0.0.1:9092",
        "OUT://[::]:9094",
        "CONTROLLER://0.0.0.0:0",
    ]
    assert [str(endpoint) for endpoint in listeners.advertised_broker] == [
        "OUT://public.example:443",
        "IN://10.0.0.1:9092",
    ]
    assert listeners.advertised_controller == (Endpoint("CONTROLLER", "", 0, PLAINTEXT),)
    assert listeners.all[1].security_protocol is SecurityProtocol.SSL
    assert listeners.inter_broker_name == "IN"
    assert listeners.early_start_names == {"OUT", "CONTROLLER"}


def test_one_ipv4_and_one_ipv6_address_may_share_a_port() -> None:
    good(
        listeners="A://127.0.0.1:9092,PLAINTEXT://[::1]:9092,CONTROLLER://:9093",
        listener_security_protocol_map="A:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    )
    good(listeners="PLAINTEXT://:0,CONTROLLER://:0")


@pytest.mark.parametrize("bound", ["0.0.0.0", "[::]", "[0:0:0:0:0:0:0:0]", ""])
def test_a_controller_on_every_interface_tells_its_own_name(bound: str) -> None:
    listeners = good(listeners=f"PLAINTEXT://h:1,CONTROLLER://{bound}:9093")
    assert [str(each) for each in listeners.advertised_controller] == [
        "CONTROLLER://one.example:9093"
    ]
    unknown = good(
        listeners=f"PLAINTEXT://h:1,CONTROLLER://{bound}:9093", controller_quorum_voters=""
    )
    # The node fills in the name of its machine.
    assert [each.host for each in unknown.advertised_controller] == [""]


def test_an_advertised_controller_address_is_used() -> None:
    listeners = good(advertised_listeners="PLAINTEXT://a:1,CONTROLLER://b:2")
    assert [str(each) for each in listeners.advertised_broker] == ["PLAINTEXT://a:1"]
    assert [str(each) for each in listeners.advertised_controller] == ["CONTROLLER://b:2"]


@pytest.mark.parametrize(
    ("settings", "name", "says"),
    [
        ({"listeners": "nonsense,CONTROLLER://:1"}, "listeners", "NAME://host:port"),
        ({"listeners": "X://:1,CONTROLLER://:2"}, "listeners", "X:PLAINTEXT"),
        (
            {"listeners": "PLAINTEXT://:1,plaintext://:3,CONTROLLER://:2"},
            "listeners",
            "PLAINTEXT twice",
        ),
        ({"listeners": "PLAINTEXT://:1,CONTROLLER://:1"}, "listeners", "different ports"),
        ({"listeners": "PLAINTEXT://h:1,CONTROLLER://1.2.3.4:1"}, "listeners", "different ports"),
        (
            {
                "listeners": "PLAINTEXT://1.2.3.4:1,A://[::1]:1,CONTROLLER://[::2]:1",
                "listener_security_protocol_map": "A:SSL,PLAINTEXT:SSL,CONTROLLER:SSL",
            },
            "listeners",
            "More than two",
        ),
        ({"listeners": "CONTROLLER://:1"}, "listeners", "left for clients"),
        ({"listener_security_protocol_map": "A"}, "listener.security.protocol.map", "pairs"),
        (
            {"listener_security_protocol_map": "a:SSL,A:SSL"},
            "listener.security.protocol.map",
            "A twice",
        ),
        (
            {"listener_security_protocol_map": ":SSL"},
            "listener.security.protocol.map",
            "without a listener name",
        ),
        (
            {"listener_security_protocol_map": "A:TLS"},
            "listener.security.protocol.map",
            "PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL",
        ),
        (
            {"listener_security_protocol_map": "PLAINTEXT:PLAINTEXT"},
            "listeners",
            "CONTROLLER:PLAINTEXT",
        ),
        (
            {"listeners": "SSL://:1,CONTROLLER://:2"},
            "listeners",
            "add CONTROLLER:PLAINTEXT",
        ),
        (
            {
                "controller_listener_names": "controller",
                "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            },
            "controller.listener.names",
            "capitals",
        ),
        ({"controller_listener_names": "CONTROLLER,X"}, "controller.listener.names", "X"),
        ({"inter_broker_listener_name": "NOPE"}, "inter.broker.listener.name", "NOPE"),
        ({"inter_broker_listener_name": "CONTROLLER"}, "inter.broker.listener.name", "PLAINTEXT"),
        (
            {
                "inter_broker_listener_name": "PLAINTEXT",
                "security_inter_broker_protocol": "PLAINTEXT",
            },
            "inter.broker.listener.name",
            "only one",
        ),
        (
            {"security_inter_broker_protocol": "SASL_SSL"},
            "inter.broker.listener.name",
            "set inter.broker.listener.name",
        ),
        ({"advertised_listeners": "PLAINTEXT://0.0.0.0:1"}, "advertised.listeners", "0.0.0.0"),
        ({"listeners": "PLAINTEXT://0.0.0.0:1,CONTROLLER://:2"}, "advertised.listeners", "reach"),
        ({"listeners": "PLAINTEXT://[::]:1,CONTROLLER://:2"}, "advertised.listeners", "reach"),
        (
            {"advertised_listeners": "PLAINTEXT://a:1,CONTROLLER://[::]:2"},
            "advertised.listeners",
            "connect to ::",
        ),
        (
            {"advertised_listeners": "PLAINTEXT://a:1,SSL://a:2"},
            "advertised.listeners",
            "SSL",
        ),
        ({"early_start_listeners": "NOPE"}, "early.start.listeners", "NOPE"),
        ({"controller_quorum_voters": "1@0.0.0.0:9093"}, "controller.quorum.voters", "host name"),
        ({"controller_quorum_voters": "1@[::]:9093"}, "controller.quorum.voters", "host name"),
    ],
)
def test_what_is_wrong_is_named_with_what_to_change(
    settings: dict[str, str], name: str, says: str
) -> None:
    listeners, problems = resolve(**settings)
    assert listeners is None
    assert [problem[0] for problem in problems] == [name]
    assert says in problems[0][1]


def test_ip_versions() -> None:
    assert [ip_version(host) for host in ("1.2.3.4", "::1", "fe80::1%eth0", "h", "")] == [
        4,
        6,
        6,
        None,
        None,
    ]
