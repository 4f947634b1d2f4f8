"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, ListConfigResources.

Settings of brokers are changed by dry runs only: they would change the nodes under test.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaa.wire.messages import k33_alter_configs, k44_incremental_alter_configs
from kaa.wire.messages.k32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from kaa.wire.messages.k33_alter_configs import AlterConfigsRequest
from kaa.wire.messages.k44_incremental_alter_configs import IncrementalAlterConfigsRequest
from kaa.wire.messages.k74_list_config_resources import ListConfigResourcesRequest
from kaa.wire.registry import ApiKey
from tests.differential.case import Ask, Story, World, case
from tests.differential.helpers import create, settled
from tests.differential.peers import BROKER, CONTROLLER

if TYPE_CHECKING:
    from collections.abc import Sequence

TOPICS, BROKERS, LOGGERS, SUBSCRIPTIONS, GROUPS = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
Change = tuple[str, int, str | None]


def _describe(
    *wanted: tuple[int, str, Sequence[str] | None], detailed: bool = False
) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(
                resource_type=kind,
                resource_name=name,
                configuration_keys=None if keys is None else list(keys),
            )
            for kind, name, keys in wanted
        ],
        include_synonyms=detailed,
    )


# --- DescribeConfigs


@case(ApiKey.DESCRIBE_CONFIGS, "a topic")
def _(world: World) -> Story:
    yield from create(world, retention_ms="1000", cleanup_policy="compact,delete")
    for keys in (None, [], ["retention.ms", "absent"], ["retention.ms", "retention.ms"]):
        for detailed in (False, True):
            yield _describe((TOPICS, world.name(), keys), detailed=detailed)
    yield _describe(*[(TOPICS, world.name(), ["retention.ms"])] * 2)


@case(ApiKey.DESCRIBE_CONFIGS, "documentation", low=3)
def _(world: World) -> Story:
    yield from create(world)
    yield Ask(_incremental((LOGGERS, "1", [("root", SET, "ERROR")])))
    for kind, name, key in (
        (TOPICS, world.name(), "retention.ms"),
        (BROKERS, "1", "num.io.threads"),
        (GROUPS, "g", "consumer.session.timeout.ms"),
        (SUBSCRIPTIONS, "s", "interval.ms"),
        (LOGGERS, "1", "root"),
    ):
        request = _describe((kind, name, [key]))
        request.include_documentation = True
        yield request


@case(ApiKey.DESCRIBE_CONFIGS, "a broker")
def _(world: World) -> Story:
    yield _describe((BROKERS, "1", None))
    yield _describe((BROKERS, "1", None), detailed=True)
    yield _describe((BROKERS, "+1", ["node.id", "log.retention.ms", "log.retention.hours"]))
    yield _describe((BROKERS, "", None), detailed=True)


@case(ApiKey.DESCRIBE_CONFIGS, "groups and subscriptions")
def _(world: World) -> Story:
    for detailed in (False, True):
        yield _describe((GROUPS, world.name("g"), None), detailed=detailed)
        yield _describe((SUBSCRIPTIONS, world.name("s"), None), detailed=detailed)


@case(ApiKey.DESCRIBE_CONFIGS, "loggers")
def _(world: World) -> Story:
    yield Ask(_incremental((LOGGERS, "1", [("root", SET, "ERROR")])))
    yield _describe((LOGGERS, "1", ["root"]), detailed=True)
    yield _describe((LOGGERS, "1", ["no.such.logger"]))


@case(ApiKey.DESCRIBE_CONFIGS, "names that are not answered here")
def _(world: World) -> Story:
    for kind, name in (
        (TOPICS, world.name("absent")),
        (TOPICS, "no such name"),
        (TOPICS, ""),
        (BROKERS, "7"),
        (BROKERS, "x"),
        (LOGGERS, ""),
        (LOGGERS, "7"),
        (LOGGERS, "x"),
        (SUBSCRIPTIONS, ""),
        (GROUPS, ""),
    ):
        yield _describe((kind, name, None))
    yield _describe()


@case(ApiKey.DESCRIBE_CONFIGS, "types that do not exist")
def _(world: World) -> Story:
    yield from create(world)
    for kind in (0, 1, 3, 99):
        yield _describe((TOPICS, world.name(), None), (kind, "x", None))


# --- IncrementalAlterConfigs


def _incremental(
    *wanted: tuple[int, str, Sequence[Change]], validate_only: bool = False
) -> IncrementalAlterConfigsRequest:
    return IncrementalAlterConfigsRequest(
        resources=[
            k44_incremental_alter_configs.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    k44_incremental_alter_configs.AlterableConfig(
                        name=each, config_operation=operation, value=value
                    )
                    for each, operation, value in changes
                ],
            )
            for kind, name, changes in wanted
        ],
        validate_only=validate_only,
    )


def _own(world: World, word: str) -> Story:
    """What the topic has by now; `word` is another one each time."""
    yield from settled(world, "".join(letter for letter in word if letter.isalnum()))
    names = ["retention.ms", "cleanup.policy", "flush.ms"]
    yield Ask(_describe((TOPICS, world.name(), names)))


@case(ApiKey.INCREMENTAL_ALTER_CONFIGS, "settings of a topic")
def _(world: World) -> Story:
    yield from create(world, retention_ms="1000")
    name = world.name()
    yield _incremental()
    yield _incremental((TOPICS, name, []))
    yield _incremental((TOPICS, name, [("flush.ms", SET, "9")]), validate_only=True)
    for changes in (
        [("retention.ms", SET, "2000"), ("flush.ms", SET, "5")],
        [("retention.ms", DELETE, None)],
        [("flush.ms", DELETE, "5"), ("retention.bytes", DELETE, None)],
        [("cleanup.policy", APPEND, "compact")],
        [("cleanup.policy", APPEND, "compact,delete")],
        [("cleanup.policy", SUBTRACT, "delete")],
        [("cleanup.policy", SUBTRACT, "delete,absent")],
    ):
        yield _incremental((TOPICS, name, changes))
        yield from _own(world, f"{changes[0][0]}{changes[0][1]}{changes[0][2]}")


@case(ApiKey.INCREMENTAL_ALTER_CONFIGS, "wrong settings of a topic")
def _(world: World) -> Story:
    yield from create(world)
    for changes in (
        [("retention.ms", SET, "x")],
        [("no.such.setting", SET, "1")],
        [("retention.ms", APPEND, "5")],
        [("no.such.setting", APPEND, "5")],
        [("cleanup.policy", SUBTRACT, "delete"), ("retention.ms", SET, "x")],
    ):
        yield _incremental((TOPICS, world.name(), changes))


@case(ApiKey.INCREMENTAL_ALTER_CONFIGS, "topics that do not exist")
def _(world: World) -> Story:
    for name in (world.name("absent"), "no such name", ""):
        yield _incremental((TOPICS, name, [("retention.ms", SET, "1")]))


@case(ApiKey.INCREMENTAL_ALTER_CONFIGS, "null values and names twice", on=(BROKER,))
def _(world: World) -> Story:
    yield from create(world)
    name = world.name()
    yield _incremental((TOPICS, name, [("retention.ms", SET, None)]))
    yield _incremental((TOPICS, name, [("retention.ms", SET, "1"), ("retention.ms", SET, "2")]))


@case(
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    "null values and names twice at the controller",
    on=(CONTROLLER,),
)
def _(world: World) -> Story:
    yield from create(world)
    name = world.name()
    yield _incremental((TOPICS, name, [("retention.ms", SET, "5")]))
    yield _incremental((TOPICS, name, [("retention.ms", SET, None)]))
    yield from _own(world, "null")
    yield _incremental((TOPICS, name, [("retention.ms", SET, "1"), ("retention.ms", SET, "2")]))
    yield from _own(world, "twice")


@case(ApiKey.INCREMENTAL_ALTER_CONFIGS, "a resource twice")
def _(world: World) -> Story:
    yield from create(world)
    change = (TOPICS, world.name(), [("retention.ms", SET, "1")])
    yield _incremental(change, change, validate_only=True)


@case(ApiKey.INCREMENTAL_ALTER_CONFIGS, "settings of brokers")
def _(world: World) -> Story:
    for name, changes in (
        ("1", []),
        ("1", [("num.io.threads", SET, "9")]),
        ("1", [("num.io.threads", SET, "x")]),
        ("1", [("num.io.threads", SET, "900")]),
        ("1", [("node.id", SET, "9")]),
        ("1", [("no.such.setting", SET, "9")]),
        ("1", [("no.such.setting", APPEND, "9")]),
        ("1", [("num.io.threads", APPEND, "9")]),
        ("", [("num.io.threads", SET, "9")]),
        ("", [("ssl.keystore.location", SET, "9")]),
        ("", [("listeners", SET, "PLAINTEXT://:1")]),
        ("2", [("num.io.threads", SET, "9")]),
        ("x", [("num.io.threads", SET, "9")]),
        ("-1", [("num.io.threads", SET, "9")]),
    ):
        yield _incremental((BROKERS, name, changes), validate_only=True)


@case(ApiKey.INCREMENTAL_ALTER_CONFIGS, "loggers")
def _(world: World) -> Story:
    for name, changes in (
        ("1", [("root", SET, "INFO")]),
        ("1", [("root", SET, "BAD")]),
        ("1", [("root", SET, "info")]),
        ("1", [("root", DELETE, None)]),
        ("1", [("root", APPEND, "INFO")]),
        ("1", [("root", SUBTRACT, "INFO")]),
        ("1", [("no.such.logger", SET, "INFO")]),
        ("1", [("no.such.logger", DELETE, None)]),
        ("2", [("root", SET, "INFO")]),
        ("", [("root", SET, "INFO")]),
        ("x", [("root", SET, "INFO")]),
    ):
        yield _incremental((LOGGERS, name, changes), validate_only=True)


@case(ApiKey.INCREMENTAL_ALTER_CONFIGS, "an operation on loggers that does not exist")
def _(world: World) -> Story:
    yield _incremental((LOGGERS, "1", [("root", 9, "INFO")]), validate_only=True)


@case(ApiKey.INCREMENTAL_ALTER_CONFIGS, "groups and subscriptions")
def _(world: World) -> Story:
    for kind, name, change in (
        (SUBSCRIPTIONS, world.name("s"), ("interval.ms", SET, "1000")),
        (SUBSCRIPTIONS, world.name("s"), ("interval.ms", SET, "1")),
        (SUBSCRIPTIONS, world.name("s"), ("interval.ms", SET, "x")),
        (SUBSCRIPTIONS, world.name("s"), ("match", SET, "weird")),
        (SUBSCRIPTIONS, world.name("s"), ("weird", SET, "1")),
        (SUBSCRIPTIONS, "", ("interval.ms", SET, "1000")),
        (GROUPS, world.name("g"), ("consumer.session.timeout.ms", SET, "50000")),
        (GROUPS, world.name("g"), ("consumer.session.timeout.ms", SET, "1")),
        (GROUPS, world.name("g"), ("weird", SET, "1")),
        (GROUPS, "", ("consumer.session.timeout.ms", SET, "50000")),
    ):
        yield _incremental((kind, name, [change]))
    yield from settled(world, "others")
    yield Ask(_describe((SUBSCRIPTIONS, world.name("s"), ["interval.ms"])))
    yield Ask(_describe((GROUPS, world.name("g"), ["consumer.session.timeout.ms"])))


@case(ApiKey.INCREMENTAL_ALTER_CONFIGS, "types that do not exist")
def _(world: World) -> Story:
    yield from create(world)
    for kind in (0, 1, 99):
        yield _incremental(
            (TOPICS, world.name(), [("flush.ms", SET, "1")]),
            (kind, "x", [("flush.ms", SET, "1")]),
            validate_only=True,
        )


# --- AlterConfigs


def _legacy(
    *wanted: tuple[int, str, Sequence[tuple[str, str | None]]], validate_only: bool = False
) -> AlterConfigsRequest:
    return AlterConfigsRequest(
        resources=[
            k33_alter_configs.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    k33_alter_configs.AlterableConfig(name=each, value=value)
                    for each, value in settings
                ],
            )
            for kind, name, settings in wanted
        ],
        validate_only=validate_only,
    )


@case(ApiKey.ALTER_CONFIGS, "settings of a topic")
def _(world: World) -> Story:
    yield from create(world, retention_ms="1000")
    name = world.name()
    yield _legacy()
    yield _legacy((TOPICS, name, [("flush.ms", "9")]), validate_only=True)
    for settings in ([("flush.ms", "5")], [("retention.ms", "7"), ("flush.ms", "5")], []):
        yield _legacy((TOPICS, name, settings))
        yield from _own(world, f"own{len(settings)}")


@case(ApiKey.ALTER_CONFIGS, "what is refused")
def _(world: World) -> Story:
    yield from create(world)
    name = world.name()
    yield _legacy((TOPICS, name, [("retention.ms", "x")]))
    yield _legacy((TOPICS, name, [("no.such.setting", "1")]))
    for wrong in (world.name("absent"), "no such name", ""):
        yield _legacy((TOPICS, wrong, [("retention.ms", "1")]))
    for kind in (LOGGERS, 0, 1, 99):
        yield _legacy((kind, "1", [("root", "INFO")]), validate_only=True)


@case(ApiKey.ALTER_CONFIGS, "settings of brokers")
def _(world: World) -> Story:
    for name, settings in (
        ("1", []),
        ("1", [("num.io.threads", "9")]),
        ("1", [("num.io.threads", "x")]),
        ("1", [("node.id", "9")]),
        ("", [("num.io.threads", "9")]),
        ("2", [("num.io.threads", "9")]),
        ("x", [("num.io.threads", "9")]),
    ):
        yield _legacy((BROKERS, name, settings), validate_only=True)


@case(ApiKey.ALTER_CONFIGS, "null values and names twice", on=(BROKER,))
def _(world: World) -> Story:
    yield from create(world)
    name = world.name()
    yield _legacy((TOPICS, name, [("retention.ms", None)]))
    yield _legacy((TOPICS, name, [("retention.ms", "1"), ("retention.ms", "2")]))


@case(ApiKey.ALTER_CONFIGS, "null values and names twice at the controller", on=(CONTROLLER,))
def _(world: World) -> Story:
    yield from create(world)
    name = world.name()
    yield _legacy((TOPICS, name, [("retention.ms", None)]))
    yield _legacy((TOPICS, name, [("retention.ms", "1"), ("retention.ms", "2")]))
    yield from _own(world, "twice")


# --- ListConfigResources


@case(ApiKey.LIST_CONFIG_RESOURCES, "subscriptions", high=0)
def _(world: World) -> Story:
    yield Ask(_incremental((SUBSCRIPTIONS, "everywhere", [("interval.ms", SET, "1000")])))
    yield from settled(world, "subscribed")
    yield ListConfigResourcesRequest()


@case(ApiKey.LIST_CONFIG_RESOURCES, "brokers", low=1)
def _(world: World) -> Story:
    yield ListConfigResourcesRequest(resource_types=[BROKERS])
    yield ListConfigResourcesRequest(resource_types=[LOGGERS, BROKERS, LOGGERS])


@case(ApiKey.LIST_CONFIG_RESOURCES, "everything", low=1)
def _(world: World) -> Story:
    yield from settled(world, "everything")
    yield ListConfigResourcesRequest(resource_types=[])
    yield ListConfigResourcesRequest(
        resource_types=[TOPICS, BROKERS, LOGGERS, SUBSCRIPTIONS, GROUPS]
    )


@case(ApiKey.LIST_CONFIG_RESOURCES, "types that do not exist", low=1)
def _(world: World) -> Story:
    for kinds in ([0], [1], [99], [TOPICS, 99], [-1]):
        yield ListConfigResourcesRequest(resource_types=kinds)
