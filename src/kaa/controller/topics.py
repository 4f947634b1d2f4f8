"""Topics come and go: creation, deletion, and more partitions.

A request is taken or refused topic by topic; what is taken is written in one batch. The rules about
names, counts and assignments are Kafka's, and so is their order, since a topic that breaks two of
them is answered with the first.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from kaa.config.describe import describe_created_topic
from kaa.controller.assignments import check_assignment
from kaa.controller.configs import Operation, alter_resource, clear_eligible_leaders
from kaa.controller.feature_table import DIRECTORY_ASSIGNMENT
from kaa.controller.image import PartitionImage
from kaa.controller.image_records import partition_record
from kaa.controller.names import has_collision_characters, topic_name_problem, unified
from kaa.controller.placement import place
from kaa.controller.result import ControllerError, ControllerResult, check_record_count
from kaa.limits import (
    METADATA_PARTITIONS_PER_REQUEST_MAX,
    METADATA_TOPIC_REPORTS_MAX,
    METADATA_TOPICS_PER_PIECE,
    NAMES_ANSWERED_PER_SLICE_MAX,
    RECORDS_PER_PIECE,
)
from kaa.model.kinds import ResourceType
from kaa.model.pieces import mapped
from kaa.model.topics import CLUSTER_METADATA
from kaa.wire.errors import Errors
from kaa.wire.messages.k19_create_topics import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsResponse,
)
from kaa.wire.messages.k20_delete_topics import DeletableTopicResult, DeleteTopicsResponse
from kaa.wire.messages.metadata_topics import RemoveTopicRecord, TopicRecord
from kaa.wire.primitives import UUID_ZERO, random_uuid

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaa.controller.configs import Changes
    from kaa.controller.port import ControllerRequestContext
    from kaa.controller.state import ControllerState
    from kaa.model.pieces import Pieces
    from kaa.wire.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
    from kaa.wire.messages.k20_delete_topics import DeleteTopicsRequest
    from kaa.wire.primitives import Uuid
    from kaa.wire.schema import MetadataRecord

_DEFAULT: Final = -1
_DELETION_DISABLED_VERSION_MIN: Final = 3


# --- creation


def create_topics(
    state: ControllerState, request: CreateTopicsRequest, context: ControllerRequestContext
) -> Pieces[ControllerResult[CreateTopicsResponse]]:
    yield from _check_partition_total(state, request)
    names: Counter[str] = Counter()
    for number, topic in enumerate(request.topics, 1):
        if number % NAMES_ANSWERED_PER_SLICE_MAX == 0:
            yield
        names[topic.name] += 1
    repeated = {name for name, count in names.items() if count > 1}
    collisions = _collision_names(state, names)
    response = CreateTopicsResponse(topics=[])
    records: list[MetadataRecord] = []
    for number, topic in enumerate(request.topics, 1):
        if number % METADATA_TOPICS_PER_PIECE == 0:
            yield
        if topic.name in repeated:
            continue
        try:
            _check_name(state, topic.name, collisions)
            created, result = yield from _create_topic(state, topic, context)
            check_record_count(records, created)
            records += created
        except ControllerError as problem:
            result = _refused(topic.name, problem.error, problem.message)
        response.topics.append(result)
    response.topics += yield from mapped(
        lambda name: _refused(name, Errors.INVALID_REQUEST, "the topic is named twice"),
        (name for name in names if name in repeated),
    )
    return ControllerResult([] if request.validate_only else records, response)


def _refused(name: str, error: Errors, message: str | None) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error, error_message=message, configs=[])


def _check_partition_total(state: ControllerState, request: CreateTopicsRequest) -> Pieces[None]:
    default = state.settings.broker.get_int("num.partitions")
    total = 0
    for number, topic in enumerate(request.topics, 1):
        if number % NAMES_ANSWERED_PER_SLICE_MAX == 0:
            yield
        if topic.assignments:
            total += len(topic.assignments)
        elif topic.num_partitions == _DEFAULT:
            total += default
        else:
            total += max(topic.num_partitions, 0)
    if total > METADATA_PARTITIONS_PER_REQUEST_MAX:
        raise ControllerError(
            Errors.POLICY_VIOLATION,
            f"{total} partitions in one request; {METADATA_PARTITIONS_PER_REQUEST_MAX} are allowed",
        )


def _collision_names(state: ControllerState, names: Iterable[str]) -> dict[str, str]:
    """Existing topics by the name that a metric would show, if any new one may collide."""
    if not any(has_collision_characters(name) for name in names):
        return {}
    return {unified(name): name for name in state.image.topics if has_collision_characters(name)}


def _check_name(state: ControllerState, name: str, collisions: dict[str, str]) -> None:
    if name == CLUSTER_METADATA:
        raise ControllerError(
            Errors.INVALID_REQUEST, f"{name} is the metadata log and cannot be created as a topic"
        )
    problem = topic_name_problem(name)
    if problem is not None:
        raise ControllerError(Errors.INVALID_TOPIC_EXCEPTION, problem)
    if name in state.image.topics:
        raise ControllerError(Errors.TOPIC_ALREADY_EXISTS, f"topic {name} already exists")
    other = collisions.get(unified(name))
    if other is not None and has_collision_characters(name):
        raise ControllerError(
            Errors.INVALID_TOPIC_EXCEPTION, f"topic {name} collides with topic {other}"
        )


def _create_topic(
    state: ControllerState,
    topic: CreatableTopic,
    context: ControllerRequestContext,
) -> Pieces[tuple[list[MetadataRecord], CreatableTopicResult]]:
    config_records = yield from _config_records(state, topic)
    if topic.assignments:
        partitions = yield from _assigned(state, topic)
    else:
        partitions = yield from _placed(state, topic)
    context.charge(len(partitions))
    topic_id = random_uuid(state.random.randbytes)
    result = CreatableTopicResult(
        name=topic.name, topic_id=topic_id, error_message=None, configs=[]
    )
    if context.may_describe(topic.name):
        result.num_partitions = len(partitions)
        result.replication_factor = len(partitions[0].replicas)
        result.configs = _describe(state, topic)
    else:
        result.topic_config_error_code = Errors.TOPIC_AUTHORIZATION_FAILED
    records: list[MetadataRecord] = [TopicRecord(name=topic.name, topic_id=topic_id)]
    records += config_records
    records += yield from mapped(
        lambda each: partition_record(topic_id, *each), sorted(partitions.items())
    )
    return records, result


def _config_records(state: ControllerState, topic: CreatableTopic) -> Pieces[list[MetadataRecord]]:
    without_value = [config.name for config in topic.configs if config.value is None]
    if without_value:
        raise ControllerError(
            Errors.INVALID_CONFIG, f"these settings have no value: {','.join(without_value)}"
        )
    changes: Changes = {}
    for number, config in enumerate(topic.configs, 1):
        if number % NAMES_ANSWERED_PER_SLICE_MAX == 0:
            yield
        changes[config.name] = (int(Operation.SET), config.value)
    if not changes:
        return []
    resource = (int(ResourceType.TOPIC), topic.name)
    records = yield from alter_resource(state, resource, changes, is_new=True)
    return records + clear_eligible_leaders(state, records)


def _describe(state: ControllerState, topic: CreatableTopic) -> list[CreatableTopicConfigs]:
    """Many topics have the same settings, and a report of them is long."""
    overrides = {config.name: config.value for config in topic.configs if config.value is not None}
    key, config = frozenset(overrides.items()), state.config
    reports = state.topic_reports
    if key not in reports:
        if len(reports) >= METADATA_TOPIC_REPORTS_MAX:
            reports.clear()
        reports[key] = [
            CreatableTopicConfigs(
                name=entry.name,
                value=None if entry.is_sensitive else entry.value,
                read_only=entry.read_only,
                config_source=entry.source,
                is_sensitive=entry.is_sensitive,
            )
            for entry in describe_created_topic(config, overrides)
        ]
    return reports[key]


def _assigned(state: ControllerState, topic: CreatableTopic) -> Pieces[dict[int, PartitionImage]]:
    """Partitions whose replicas the sender has chosen."""
    if topic.replication_factor != _DEFAULT or topic.num_partitions != _DEFAULT:
        raise ControllerError(
            Errors.INVALID_REQUEST,
            "with an assignment, replication factor and number of partitions must be -1",
        )
    partitions: dict[int, PartitionImage] = {}
    replication_factor: int | None = None
    for count, assignment in enumerate(topic.assignments, 1):
        if count % RECORDS_PER_PIECE == 0:
            yield
        number, replicas = assignment.partition_index, assignment.broker_ids
        if number in partitions:
            raise ControllerError(
                Errors.INVALID_REPLICA_ASSIGNMENT, f"partition {number} is assigned twice"
            )
        partitions[number] = assigned_partition(state, number, replicas, replication_factor)
        replication_factor = len(replicas)
    if set(partitions) != set(range(len(partitions))):
        raise ControllerError(
            Errors.INVALID_REPLICA_ASSIGNMENT, "partitions must be numbered from 0 without a gap"
        )
    return partitions


def _placed(state: ControllerState, topic: CreatableTopic) -> Pieces[dict[int, PartitionImage]]:
    """Partitions that the controller spreads over the brokers."""
    replication_factor, count = topic.replication_factor, topic.num_partitions
    if replication_factor < _DEFAULT or replication_factor == 0:
        raise ControllerError(
            Errors.INVALID_REPLICATION_FACTOR,
            "the replication factor must be larger than 0, or -1 for the default",
        )
    if count < _DEFAULT or count == 0:
        raise ControllerError(
            Errors.INVALID_PARTITIONS,
            "the number of partitions must be larger than 0, or -1 for the default",
        )
    if count == _DEFAULT:
        count = state.settings.broker.get_int("num.partitions")
    if replication_factor == _DEFAULT:
        replication_factor = state.settings.broker.get_int("default.replication.factor")
    partitions = yield from placed_partitions(state, count, replication_factor)
    return dict(enumerate(partitions))


def placed_partitions(
    state: ControllerState, count: int, replication_factor: int
) -> Pieces[list[PartitionImage]]:
    refusal = ControllerError(
        Errors.INVALID_REPLICATION_FACTOR, "all brokers are fenced or shut down"
    )
    places = place(state, count, replication_factor)
    return (yield from mapped(lambda replicas: _new_partition(state, replicas, refusal), places))


def assigned_partition(
    state: ControllerState, number: int, replicas: list[int], replication_factor: int | None
) -> PartitionImage:
    """A partition whose replicas the sender has chosen; without a factor any number will do."""
    check_assignment(state, replicas, replication_factor)
    refusal = ControllerError(
        Errors.INVALID_REPLICA_ASSIGNMENT,
        f"every broker of partition {number} is fenced or shutting down",
    )
    return _new_partition(state, replicas, refusal)


def _new_partition(
    state: ControllerState, replicas: list[int], refusal: ControllerError
) -> PartitionImage:
    """Led by the first replica that is active; `refusal` is raised if none is."""
    isr = [replica for replica in replicas if state.is_active(replica)]
    if not isr:
        raise refusal
    directories: tuple[Uuid, ...] = ()
    if state.metadata_version >= DIRECTORY_ASSIGNMENT:
        directories = tuple(state.default_directory(replica) for replica in replicas)
    return PartitionImage(
        replicas=tuple(replicas),
        isr=tuple(isr),
        leader=isr[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=directories,
    )


# --- deletion


def delete_topics(
    state: ControllerState, request: DeleteTopicsRequest, context: ControllerRequestContext
) -> Pieces[ControllerResult[DeleteTopicsResponse]]:
    if not state.settings.broker.get_boolean("delete.topic.enable"):
        if context.api_version < _DELETION_DISABLED_VERSION_MIN:
            raise ControllerError(
                Errors.INVALID_REQUEST, "topic deletion is disabled (delete.topic.enable=false)"
            )
        raise ControllerError(Errors.TOPIC_DELETION_DISABLED)
    response = DeleteTopicsResponse(responses=[])
    records: list[MetadataRecord] = []
    found = _DeletionPlan(state)
    for number, name in enumerate(request.topic_names, 1):
        if number % NAMES_ANSWERED_PER_SLICE_MAX == 0:
            yield
        found.add(name, UUID_ZERO)
    for number, topic in enumerate(request.topics, 1):
        if number % NAMES_ANSWERED_PER_SLICE_MAX == 0:
            yield
        found.add(topic.name, topic.topic_id)
    results = yield from found.results()
    for number, result in enumerate(results, 1):
        if number % RECORDS_PER_PIECE == 0:
            yield
        if result.error_code == Errors.NONE:
            try:
                context.charge(len(state.image.topics_by_id[result.topic_id].partitions))
                records.append(RemoveTopicRecord(topic_id=result.topic_id))
            except ControllerError as problem:
                result.error_code, result.error_message = problem.error, problem.message
        response.responses.append(result)
    check_record_count(records)
    return ControllerResult(records, response)


class _DeletionPlan:
    """Topics to delete by name and by id, each at most once."""

    def __init__(self, state: ControllerState) -> None:
        self._image = state.image
        self._mentions: dict[tuple[str | None, Uuid], int] = {}

    def add(self, name: str | None, topic_id: Uuid) -> None:
        key = (name, topic_id)
        self._mentions[key] = self._mentions.get(key, 0) + 1

    def results(self) -> Pieces[list[DeletableTopicResult]]:
        results: list[DeletableTopicResult] = []
        taken: set[Uuid] = set()
        # Those that a name was given for too.
        twice: set[Uuid] = set()
        # Ids go first: a name that stands for one of them is then the one that is refused.
        ordered = [key for key in self._mentions if key[0] is None]
        ordered += [key for key in self._mentions if key[0] is not None]
        for number, key in enumerate(ordered, 1):
            if number % RECORDS_PER_PIECE == 0:
                yield
            name, topic_id = key
            try:
                if self._mentions[key] > 1:
                    what = "id" if name is None else "name"
                    raise ControllerError(
                        Errors.INVALID_REQUEST, f"the topic {what} is given twice"
                    )
                name, topic_id = self._find(name, topic_id)
                if topic_id in taken:
                    # Neither of the two counts, and only the name is answered.
                    twice.add(topic_id)
                    raise ControllerError(
                        Errors.INVALID_REQUEST, "the topic is given by its name and by its id"
                    )
                taken.add(topic_id)
                results.append(DeletableTopicResult(name=name, topic_id=topic_id))
            except ControllerError as problem:
                results.append(
                    DeletableTopicResult(
                        name=name,
                        topic_id=topic_id,
                        error_code=problem.error,
                        error_message=problem.message,
                    )
                )
        return [one for one in results if one.error_code or one.topic_id not in twice]

    def _find(self, name: str | None, topic_id: Uuid) -> tuple[str, Uuid]:
        if name is None:
            if topic_id == UUID_ZERO:
                raise ControllerError(Errors.INVALID_REQUEST, "neither a name nor an id is given")
            topic = self._image.topics_by_id.get(topic_id)
            if topic is None:
                raise ControllerError(Errors.UNKNOWN_TOPIC_ID)
        else:
            if topic_id != UUID_ZERO:
                raise ControllerError(
                    Errors.INVALID_REQUEST, "give either the name or the id of a topic, not both"
                )
            topic = self._image.topics.get(name)
            if topic is None:
                raise ControllerError(Errors.UNKNOWN_TOPIC_OR_PARTITION)
        return topic.name, topic.id
