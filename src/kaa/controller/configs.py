"""Settings of topics, brokers, groups and metrics subscriptions that the cluster keeps.

A change names a resource and what happens to each of its settings. It is taken or refused resource
by resource: the whole set that a resource would have is checked by the tables of `kaa.config`.
The levels of a broker's loggers belong to that broker alone and never come here.

A change of min.insync.replicas makes eligible leader replicas meaningless, so a ClearElrRecord
follows it. While they are in use, it cannot be set for one broker nor be removed for all.
"""

from __future__ import annotations

from collections import Counter
from enum import IntEnum
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from kaa.config.broker import BROKER, DYNAMIC_BROKER
from kaa.config.definition import InvalidConfigError
from kaa.config.entity import CLIENT_METRICS, validate_client_metrics
from kaa.config.group import GROUP, validate_group
from kaa.config.topic import TOPIC, validate_topic
from kaa.config.values import ConfigError, ConfigType
from kaa.controller.feature_table import CORDONED_LOG_DIRS
from kaa.controller.names import topic_name_problem
from kaa.controller.result import ControllerError, ControllerResult, check_record_count
from kaa.limits import (
    METADATA_CONFIG_VALUE_CHARACTERS_MAX,
    METADATA_CONFIGS_PER_PIECE,
    NAMES_ANSWERED_PER_SLICE_MAX,
    RECORDS_PER_PIECE,
)
from kaa.model.kinds import ResourceType
from kaa.model.pieces import mapped
from kaa.wire.errors import Errors
from kaa.wire.messages.k33_alter_configs import (
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from kaa.wire.messages.k44_incremental_alter_configs import (
    AlterConfigsResourceResponse as IncrementalResourceResponse,
)
from kaa.wire.messages.k44_incremental_alter_configs import (
    IncrementalAlterConfigsResponse,
)
from kaa.wire.messages.metadata_settings import ConfigRecord
from kaa.wire.messages.metadata_topics import ClearElrRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kaa.config.definition import ConfigDef
    from kaa.controller.image import Resource
    from kaa.controller.port import ControllerRequestContext
    from kaa.controller.state import ControllerState
    from kaa.model.pieces import Pieces
    from kaa.wire.messages.k33_alter_configs import AlterConfigsRequest, AlterConfigsResource
    from kaa.wire.messages.k44_incremental_alter_configs import (
        AlterConfigsResource as IncrementalResource,
    )
    from kaa.wire.messages.k44_incremental_alter_configs import IncrementalAlterConfigsRequest
    from kaa.wire.schema import MetadataRecord

_RESOURCE_TYPES: Final = frozenset(ResourceType) - {ResourceType.UNKNOWN}
_MIN_ISR: Final = "min.insync.replicas"
_CORDONED: Final = "cordoned.log.dirs"


class AlteredResource(Protocol):
    """A resource as both requests name it."""

    resource_type: int
    resource_name: str


R = TypeVar("R", bound=AlteredResource)
A = TypeVar("A")


class Operation(IntEnum):
    """What an incremental change does to a setting."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


_OPERATIONS: Final = frozenset(Operation)

_DEFINITIONS: Final[dict[int, ConfigDef]] = {
    ResourceType.TOPIC: TOPIC,
    ResourceType.GROUP: GROUP,
    ResourceType.CLIENT_METRICS: CLIENT_METRICS,
}

# A setting to its operation and the value that comes with it.
Changes = dict[str, tuple[int, str | None]]
# What becomes of settings; None for one that goes.
Altered = dict[str, str | None]


def incremental_alter_configs(
    state: ControllerState, request: IncrementalAlterConfigsRequest, _: ControllerRequestContext
) -> Pieces[ControllerResult[IncrementalAlterConfigsResponse]]:
    def alter(resource: IncrementalResource) -> Pieces[Altered]:
        changes = yield from changes_of(resource)
        return (yield from _altered(state, _key(resource), changes, is_new=False))

    records, answers = yield from _alter_each(
        state, request.resources, alter, IncrementalResourceResponse
    )
    response = IncrementalAlterConfigsResponse(responses=answers)
    return ControllerResult([] if request.validate_only else records, response)


def changes_of(resource: IncrementalResource) -> Pieces[Changes]:
    """What a request wants to become of each setting; the last counts if one is named twice."""
    changes: Changes = {}
    for number, each in enumerate(resource.configs, 1):
        if number % NAMES_ANSWERED_PER_SLICE_MAX == 0:
            yield
        changes[each.name] = (each.config_operation, each.value)
    return changes


def alter_configs(
    state: ControllerState, request: AlterConfigsRequest, _: ControllerRequestContext
) -> Pieces[ControllerResult[AlterConfigsResponse]]:
    """The old call: what is not named is removed."""

    def alter(resource: AlterConfigsResource) -> Pieces[Altered]:
        wanted: dict[str, str | None] = {}
        for number, config in enumerate(resource.configs, 1):
            if number % NAMES_ANSWERED_PER_SLICE_MAX == 0:
                yield
            wanted[config.name] = config.value
        return (yield from _replaced(state, _key(resource), wanted))

    records, answers = yield from _alter_each(
        state, request.resources, alter, AlterConfigsResourceResponse
    )
    response = AlterConfigsResponse(responses=answers)
    return ControllerResult([] if request.validate_only else records, response)


def _alter_each(
    state: ControllerState,
    resources: Sequence[R],
    alter: Callable[[R], Pieces[Altered]],
    answer: Callable[..., A],
) -> Pieces[tuple[list[MetadataRecord], list[A]]]:
    """The records of all changes that are taken, and one answer per resource."""
    altered: dict[Resource, Altered] = {}
    answers = []
    seen = _duplicates(_key(each) for each in resources)
    for number, resource in enumerate(resources, 1):
        if number % METADATA_CONFIGS_PER_PIECE == 0:
            yield
        key = _key(resource)
        error, message = Errors.NONE, None
        try:
            if not _claim(seen, key):
                continue
            altered[key] = yield from alter(resource)
        except ControllerError as problem:
            error, message = problem.error, problem.message
        answers.append(
            answer(
                error_code=error,
                error_message=message,
                resource_type=key[0],
                resource_name=key[1],
            )
        )
    # Before thousands of records are made that are too many.
    check_record_count(*altered.values())
    records: list[MetadataRecord] = []
    for number, (key, settings) in enumerate(altered.items(), 1):
        if number % RECORDS_PER_PIECE == 0:
            yield
        records += yield from _records(key, settings)
    records += clear_eligible_leaders(state, records)
    check_record_count(records)
    return records, answers


def _key(resource: AlteredResource) -> Resource:
    return resource.resource_type, resource.resource_name


def _duplicates(resources: Iterable[Resource]) -> dict[Resource, int]:
    """How often each resource is named; the count turns negative when it was answered."""
    counts: dict[Resource, int] = {}
    for resource in resources:
        counts[resource] = counts.get(resource, 0) + 1
    return counts


def _claim(counts: dict[Resource, int], resource: Resource) -> bool:
    """Claims the answer for a resource, and says whether this is its first mention; one that is
    named twice is refused there.
    """
    count = counts[resource]
    if count < 0:
        return False
    counts[resource] = -1
    if resource[0] not in _RESOURCE_TYPES:
        raise ControllerError(Errors.UNSUPPORTED_VERSION, f"resource type {resource[0]} is unknown")
    if count > 1:
        raise ControllerError(Errors.INVALID_REQUEST, "the resource is named twice")
    return True


# --- one resource


def alter_resource(
    state: ControllerState, resource: Resource, changes: Changes, *, is_new: bool = False
) -> Pieces[list[MetadataRecord]]:
    """The records of a change; ControllerError if it is refused."""
    altered = yield from _altered(state, resource, changes, is_new=is_new)
    return (yield from _records(resource, altered))


def _records(resource: Resource, altered: Altered) -> Pieces[list[MetadataRecord]]:
    kind, name = resource
    records = yield from mapped(
        lambda change: ConfigRecord(
            resource_type=kind, resource_name=name, name=change[0], value=change[1]
        ),
        altered.items(),
    )
    return list(records)


def _altered(
    state: ControllerState, resource: Resource, changes: Changes, *, is_new: bool
) -> Pieces[Altered]:
    """What changes; ControllerError if it is refused."""
    current = state.image.configs.get(resource, {})
    altered: Altered = {}
    for number, (name, (operation, value)) in enumerate(changes.items(), 1):
        if number % RECORDS_PER_PIECE == 0:
            yield
        wanted = new_value(resource, name, operation, value, current.get(name))
        # The settings of a broker are written even if they stay: its files may have changed.
        if wanted != current.get(name) or resource[0] == ResourceType.BROKER:
            altered[name] = wanted
    yield from _check_altered(state, resource, altered, is_new=is_new)
    return altered


def _replaced(
    state: ControllerState, resource: Resource, wanted: Mapping[str, str | None]
) -> Pieces[Altered]:
    current = state.image.configs.get(resource, {})
    is_broker = resource[0] == ResourceType.BROKER
    altered: Altered = {}
    for number, (name, value) in enumerate(wanted.items(), 1):
        if number % NAMES_ANSWERED_PER_SLICE_MAX == 0:
            yield
        if is_broker or value != current.get(name):
            altered[name] = value
    for number, name in enumerate(current, 1):
        if number % NAMES_ANSWERED_PER_SLICE_MAX == 0:
            yield
        if name not in wanted:
            altered[name] = None
    yield from _check_altered(state, resource, altered, is_new=False)
    return altered


def new_value(
    resource: Resource, name: str, operation: int, value: str | None, current: str | None
) -> str | None:
    """What a setting becomes, None if it goes; ControllerError if that cannot be."""
    if operation == Operation.DELETE:
        return None
    if operation not in _OPERATIONS:
        raise ControllerError(Errors.INVALID_REQUEST, f"operation {operation} is unknown")
    if operation == Operation.SET:
        # Brokers refuse null before it comes here; to a controller it deletes.
        return value
    if value is None:
        raise ControllerError(Errors.INVALID_REQUEST, f"{name} has no value")
    definition = _DEFINITIONS.get(resource[0], BROKER)
    key = definition.get(name) or DYNAMIC_BROKER.get(name)
    if key is None or key.type is not ConfigType.LIST:
        what = Operation(operation).name
        raise ControllerError(Errors.INVALID_CONFIG, f"cannot {what} to {name}: it is not a list")
    text = key.default_text if current is None else current
    entries = [entry for entry in (text or "").split(",") if entry]
    given = value.split(",")
    if operation == Operation.APPEND:
        known = set(entries)
        return ",".join(entries + [one for one in dict.fromkeys(given) if one not in known])
    # Each takes one away, the first of its kind; a list may have thousands.
    left = Counter(given)
    kept = []
    for entry in entries:
        if left[entry]:
            left[entry] -= 1
        else:
            kept.append(entry)
    return ",".join(kept)


def _check_altered(
    state: ControllerState, resource: Resource, altered: Altered, *, is_new: bool
) -> Pieces[None]:
    """Checks the settings that the resource would have, and that it exists."""
    existing = state.image.configs.get(resource, {})
    settings = dict(existing)
    for number, (name, value) in enumerate(altered.items(), 1):
        if number % NAMES_ANSWERED_PER_SLICE_MAX == 0:
            yield
        _check_setting(state, resource, name, value)
        if value is None:
            settings.pop(name, None)
        elif len(value) > METADATA_CONFIG_VALUE_CHARACTERS_MAX:
            raise ControllerError(
                Errors.INVALID_CONFIG,
                f"a value may have at most {METADATA_CONFIG_VALUE_CHARACTERS_MAX} characters",
            )
        else:
            settings[name] = value
    try:
        _check_settings(state, resource, settings, existing)
    except ConfigError as error:
        raise ControllerError(Errors.INVALID_CONFIG, str(error)) from error
    if not is_new:
        _check_existence(state, resource)


def _check_setting(
    state: ControllerState, resource: Resource, name: str, value: str | None
) -> None:
    if resource[0] != ResourceType.BROKER:
        return
    if name == _MIN_ISR and state.is_elr_enabled:
        if resource[1]:
            raise ControllerError(
                Errors.INVALID_CONFIG,
                f"{_MIN_ISR} cannot be set for one broker while eligible leader replicas are used",
            )
        if value is None:
            raise ControllerError(
                Errors.INVALID_CONFIG,
                f"{_MIN_ISR} cannot be removed while eligible leader replicas are used",
            )
    if name == _CORDONED and state.metadata_version < CORDONED_LOG_DIRS:
        raise ControllerError(
            Errors.INVALID_CONFIG, f"the metadata.version is too old for {_CORDONED}"
        )


def _check_settings(
    state: ControllerState,
    resource: Resource,
    settings: Mapping[str, str],
    existing: Mapping[str, str],
) -> None:
    kind, name = resource
    broker = state.config
    match kind:
        case ResourceType.TOPIC:
            if not name:
                raise ControllerError(Errors.INVALID_REQUEST, "a topic needs a name")
            problem = topic_name_problem(name)
            if problem is not None:
                raise ControllerError(Errors.INVALID_TOPIC_EXCEPTION, problem)
            is_tiered = broker.get_boolean("remote.log.storage.system.enable")
            validate_topic(broker, settings, existing, remote_storage_enabled=is_tiered)
        case ResourceType.BROKER:
            _check_broker_name(name)
        case ResourceType.GROUP:
            if not name:
                raise ControllerError(Errors.INVALID_REQUEST, "a group needs a name")
            validate_group(broker, settings)
        case ResourceType.CLIENT_METRICS:
            if not name:
                raise ControllerError(Errors.INVALID_REQUEST, "a subscription needs a name")
            _check_client_metrics(settings)
        case _:
            raise ControllerError(Errors.INVALID_REQUEST, f"resources of type {kind} are not kept")


def _check_client_metrics(settings: Mapping[str, str]) -> None:
    """What is of a wrong type or a wrong pattern is an invalid setting, the rest an invalid
    request.
    """
    for name in settings:
        if name not in CLIENT_METRICS:
            raise ControllerError(Errors.INVALID_REQUEST, f"a subscription has no setting {name}")
    CLIENT_METRICS.parse(settings)
    try:
        validate_client_metrics(settings)
    except InvalidConfigError as error:
        if any(problem.name == "match" for problem in error.problems):
            raise
        raise ControllerError(Errors.INVALID_REQUEST, str(error)) from error


def _check_broker_name(name: str) -> None:
    if not name:
        return
    try:
        broker_id = int(name)
    except ValueError:
        raise ControllerError(Errors.INVALID_REQUEST, f"{name} is not a broker id") from None
    if broker_id < 0:
        raise ControllerError(Errors.INVALID_REQUEST, "a broker id must not be negative")


def _check_existence(state: ControllerState, resource: Resource) -> None:
    kind, name = resource
    image = state.image
    if kind == ResourceType.BROKER and name:
        if int(name) not in image.brokers and int(name) not in image.controllers:
            raise ControllerError(
                Errors.BROKER_ID_NOT_REGISTERED, f"no broker or controller {name} is registered"
            )
    elif kind == ResourceType.TOPIC and name not in image.topics:
        raise ControllerError(Errors.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")


def clear_eligible_leaders(
    state: ControllerState, records: Iterable[MetadataRecord]
) -> list[MetadataRecord]:
    """Records that must follow changes of min.insync.replicas."""
    if not state.is_elr_enabled:
        return []
    return [
        ClearElrRecord(
            topic_name=record.resource_name if record.resource_type == ResourceType.TOPIC else ""
        )
        for record in records
        if isinstance(record, ConfigRecord) and record.name == _MIN_ISR
    ]
