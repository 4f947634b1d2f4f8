"""Settings of topics, brokers and groups, for the admin client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from kaa.client.admin.base import AdminBase
from kaa.client.arguments import names_of, resource_type_of
from kaa.client.errors import check
from kaa.config.client_habits import config_text
from kaa.model.kinds import ConfigSource, ResourceType
from kaa.wire.messages.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kaa.wire.messages.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class ConfigOperation(IntEnum):
    """What to do with a setting."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigEntry(NamedTuple):
    """A setting as a broker describes it; sensitive ones have no value."""

    name: str
    value: str | None
    source: ConfigSource
    is_sensitive: bool
    is_read_only: bool
    documentation: str | None


class ConfigChange(NamedTuple):
    """One change of a setting; numbers, truth values and lists are written as Kafka has them."""

    name: str
    value: object
    operation: ConfigOperation = ConfigOperation.SET


class ConfigAdmin(AdminBase):
    """The part of the admin client that is about settings."""

    async def describe_configs(
        self,
        resource_type: ResourceType | str,
        name: str | None = None,
        names: Sequence[str] | None = None,
        *,
        documentation: bool = False,
    ) -> list[ConfigEntry]:
        """The settings of a topic, broker or group, all or those named."""
        resource_type, name = _resource(resource_type, name)
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(
                    resource_type=resource_type,
                    resource_name=name,
                    configuration_keys=None if names is None else names_of(names, "setting"),
                )
            ],
            include_documentation=documentation,
        )
        what = f"settings of {resource_type.name.lower()} {name!r}"
        response = await self.cluster.call(
            request, what, self._timeout_ms, node_id=_config_node(resource_type, name)
        )
        result = response.results[0]
        check(result.error_code, what, message=result.error_message)
        return [
            ConfigEntry(
                entry.name,
                entry.value,
                _source(entry.config_source),
                entry.is_sensitive,
                entry.read_only,
                entry.documentation,
            )
            for entry in sorted(result.configs, key=lambda entry: str(entry.name))
        ]

    async def alter_configs(
        self,
        resource_type: ResourceType | str,
        name: str | None = None,
        changes: Iterable[ConfigChange] | Mapping[str, object] | None = None,
        *,
        validate_only: bool = False,
    ) -> None:
        """Changes settings one by one; those that are not named stay. A dictionary sets each of
        its names to its value.
        """
        resource_type, name = _resource(resource_type, name)
        wanted = _changes(changes)
        request = IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=resource_type,
                    resource_name=name,
                    configs=[
                        AlterableConfig(
                            name=change.name,
                            config_operation=change.operation,
                            value=config_text(change.name, change.value),
                        )
                        for change in wanted
                    ],
                )
            ],
            validate_only=validate_only,
        )
        what = f"cannot change settings of {resource_type.name.lower()} {name!r}"
        node_id = _config_node(resource_type, name)
        if node_id is None:
            response, _ = await self._change(request, what)
        else:
            response = await self.cluster.call(request, what, self._timeout_ms, node_id=node_id)
        for result in response.responses:
            check(result.error_code, what, message=result.error_message)


def _resource(resource_type: object, name: object) -> tuple[ResourceType, str]:
    """Whose settings are meant. One argument alone may be either of the two, so it is refused."""
    if name is None or isinstance(name, Mapping):
        raise TypeError(
            "settings belong to a resource type and a name; those of a topic are "
            f"('topic', {resource_type if isinstance(resource_type, str) else 'its name'!r})"
        )
    kind = resource_type_of(resource_type)
    if not isinstance(name, str):
        raise TypeError(f"{name!r} is not the name of a {kind.name.lower()}; names are text")
    return kind, name


def _changes(given: object) -> list[ConfigChange]:
    if isinstance(given, Mapping):
        return [ConfigChange(name, value) for name, value in given.items()]
    if isinstance(given, ConfigChange) or not isinstance(given, Iterable):
        given = [given]
    return [_change(one) for one in given]


def _change(given: object) -> ConfigChange:
    if not isinstance(given, ConfigChange):
        raise TypeError(f"{given!r} is not a change; give a dictionary, or ConfigChange(name, ...)")
    return given


def _config_node(resource_type: ResourceType, name: str) -> int | None:
    """Settings of a broker are known and checked by that broker alone."""
    is_broker = resource_type in {ResourceType.BROKER, ResourceType.BROKER_LOGGER}
    if not is_broker or not name:
        return None
    if not name.isdecimal():
        raise ValueError(f"{name!r} is not the id of a broker; give its number as text")
    return int(name)


def _source(number: int) -> ConfigSource:
    known = {source.value for source in ConfigSource}
    return ConfigSource(number) if number in known else ConfigSource.UNKNOWN
