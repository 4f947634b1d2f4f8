"""Every API of the pinned Kafka: its key, its two messages, its headers and its ranges of versions.

The table has what a node must know of every API to say what it serves. The messages themselves are
loaded when an API is first used; their names follow from its own (`FETCH` with the key 1 is
`FetchRequest` and `FetchResponse` in `messages/k01_fetch.py`).

There are two ranges. *Served* are the versions that a node accepts. *Advertised* is what
ApiVersions tells clients, and differs for one API: Produce says it starts at 0, because librdkafka
would otherwise refuse to use compression, though versions 0 to 2 are refused (KAFKA-18659). A
highest version that is still unstable is in neither unless unstable versions are enabled.
"""

from __future__ import annotations

from enum import IntEnum
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Final

from kaa.wire.primitives import Versions

if TYPE_CHECKING:
    from typing import Any

    from kaa.wire.schema import Request, Response


class ApiKey(IntEnum):
    """The keys of Kafka's requests. 4 to 7 were removed with ZooKeeper and are never answered."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92


PRODUCE_ADVERTISED_VERSION_MIN: Final = 0
# The versions of the messages: the oldest and the newest.
VALID_VERSIONS: Final = {
    ApiKey.PRODUCE: Versions(3, 13),
    ApiKey.FETCH: Versions(4, 18),
    ApiKey.LIST_OFFSETS: Versions(1, 11),
    ApiKey.METADATA: Versions(0, 13),
    ApiKey.OFFSET_COMMIT: Versions(2, 10),
    ApiKey.OFFSET_FETCH: Versions(1, 10),
    ApiKey.FIND_COORDINATOR: Versions(0, 6),
    ApiKey.JOIN_GROUP: Versions(0, 9),
    ApiKey.HEARTBEAT: Versions(0, 4),
    ApiKey.LEAVE_GROUP: Versions(0, 5),
    ApiKey.SYNC_GROUP: Versions(0, 5),
    ApiKey.DESCRIBE_GROUPS: Versions(0, 6),
    ApiKey.LIST_GROUPS: Versions(0, 5),
    ApiKey.SASL_HANDSHAKE: Versions(0, 1),
    ApiKey.API_VERSIONS: Versions(0, 4),
    ApiKey.CREATE_TOPICS: Versions(2, 7),
    ApiKey.DELETE_TOPICS: Versions(1, 6),
    ApiKey.DELETE_RECORDS: Versions(0, 2),
    ApiKey.INIT_PRODUCER_ID: Versions(0, 6),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Versions(2, 4),
    ApiKey.ADD_PARTITIONS_TO_TXN: Versions(0, 5),
    ApiKey.ADD_OFFSETS_TO_TXN: Versions(0, 4),
    ApiKey.END_TXN: Versions(0, 5),
    ApiKey.WRITE_TXN_MARKERS: Versions(1, 2),
    ApiKey.TXN_OFFSET_COMMIT: Versions(0, 5),
    ApiKey.DESCRIBE_ACLS: Versions(1, 3),
    ApiKey.CREATE_ACLS: Versions(1, 3),
    ApiKey.DELETE_ACLS: Versions(1, 3),
    ApiKey.DESCRIBE_CONFIGS: Versions(1, 4),
    ApiKey.ALTER_CONFIGS: Versions(0, 2),
    ApiKey.ALTER_REPLICA_LOG_DIRS: Versions(1, 2),
    ApiKey.DESCRIBE_LOG_DIRS: Versions(1, 5),
    ApiKey.SASL_AUTHENTICATE: Versions(0, 2),
    ApiKey.CREATE_PARTITIONS: Versions(0, 3),
    ApiKey.CREATE_DELEGATION_TOKEN: Versions(1, 3),
    ApiKey.RENEW_DELEGATION_TOKEN: Versions(1, 2),
    ApiKey.EXPIRE_DELEGATION_TOKEN: Versions(1, 2),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: Versions(1, 3),
    ApiKey.DELETE_GROUPS: Versions(0, 2),
    ApiKey.ELECT_LEADERS: Versions(0, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Versions(0, 1),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Versions(0, 1),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Versions(0, 0),
    ApiKey.OFFSET_DELETE: Versions(0, 0),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: Versions(0, 1),
    ApiKey.ALTER_CLIENT_QUOTAS: Versions(0, 1),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Versions(0, 0),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Versions(0, 0),
    ApiKey.VOTE: Versions(0, 2),
    ApiKey.BEGIN_QUORUM_EPOCH: Versions(0, 1),
    ApiKey.END_QUORUM_EPOCH: Versions(0, 1),
    ApiKey.DESCRIBE_QUORUM: Versions(0, 2),
    ApiKey.ALTER_PARTITION: Versions(2, 3),
    ApiKey.UPDATE_FEATURES: Versions(0, 2),
    ApiKey.ENVELOPE: Versions(0, 0),
    ApiKey.FETCH_SNAPSHOT: Versions(0, 1),
    ApiKey.DESCRIBE_CLUSTER: Versions(0, 2),
    ApiKey.DESCRIBE_PRODUCERS: Versions(0, 0),
    ApiKey.BROKER_REGISTRATION: Versions(0, 4),
    ApiKey.BROKER_HEARTBEAT: Versions(0, 2),
    ApiKey.UNREGISTER_BROKER: Versions(0, 0),
    ApiKey.DESCRIBE_TRANSACTIONS: Versions(0, 0),
    ApiKey.LIST_TRANSACTIONS: Versions(0, 2),
    ApiKey.ALLOCATE_PRODUCER_IDS: Versions(0, 0),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Versions(0, 1),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Versions(0, 1),
    ApiKey.CONTROLLER_REGISTRATION: Versions(0, 0),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: Versions(0, 0),
    ApiKey.PUSH_TELEMETRY: Versions(0, 0),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: Versions(0, 0),
    ApiKey.LIST_CONFIG_RESOURCES: Versions(0, 1),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Versions(0, 0),
    ApiKey.SHARE_GROUP_HEARTBEAT: Versions(1, 1),
    ApiKey.SHARE_GROUP_DESCRIBE: Versions(1, 1),
    ApiKey.SHARE_FETCH: Versions(1, 2),
    ApiKey.SHARE_ACKNOWLEDGE: Versions(1, 2),
    ApiKey.ADD_RAFT_VOTER: Versions(0, 1),
    ApiKey.REMOVE_RAFT_VOTER: Versions(0, 0),
    ApiKey.UPDATE_RAFT_VOTER: Versions(0, 0),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: Versions(0, 0),
    ApiKey.READ_SHARE_GROUP_STATE: Versions(0, 0),
    ApiKey.WRITE_SHARE_GROUP_STATE: Versions(0, 1),
    ApiKey.DELETE_SHARE_GROUP_STATE: Versions(0, 0),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: Versions(0, 1),
    ApiKey.STREAMS_GROUP_HEARTBEAT: Versions(0, 0),
    ApiKey.STREAMS_GROUP_DESCRIBE: Versions(0, 0),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: Versions(0, 1),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: Versions(0, 0),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: Versions(0, 0),
}
# The newest version of these may still change.
UNSTABLE: Final = frozenset({ApiKey.INIT_PRODUCER_ID})


class Api:
    """One API; `api` gives it by its key. Its messages are loaded when they are first asked for."""

    def __init__(self, key: ApiKey) -> None:
        self.key = key

    @cached_property
    def request(self) -> type[Request]:
        found: type[Request] = self._message("Request")
        return found

    @cached_property
    def response(self) -> type[Response]:
        found: type[Response] = self._message("Response")
        return found

    def _message(self, kind: str) -> Any:
        key = self.key
        module = import_module(f"kaa.wire.messages.k{key.value:02d}_{key.name.lower()}")
        return getattr(module, self.name + kind)

    @property
    def name(self) -> str:
        """Kafka's name, for example `DescribeCluster`."""
        return self.key.name.title().replace("_", "")

    @property
    def listener_types(self) -> tuple[str, ...]:
        """The kinds of listener that serve it: `broker`, `controller` or both."""
        return self.request.listener_types

    def served_versions(self, *, unstable: bool = False) -> Versions:
        """The versions a node accepts; `unstable` adds a highest version that may still change."""
        low, high = VALID_VERSIONS[self.key]
        if self.key in UNSTABLE and not unstable:
            high -= 1
        return Versions(low, high)

    def advertised_versions(self, *, unstable: bool = False) -> Versions:
        """The versions that ApiVersions names."""
        served = self.served_versions(unstable=unstable)
        if self.key is ApiKey.PRODUCE:
            return Versions(PRODUCE_ADVERTISED_VERSION_MIN, served.high)
        return served

    def request_header_version(self, version: int) -> int:
        low, high = self.request.flexible_versions
        return 2 if low <= version <= high else 1

    def response_header_version(self, version: int) -> int:
        """ApiVersions keeps version 0: a client reads its answer before it knows what a node
        speaks.
        """
        if self.key is ApiKey.API_VERSIONS:
            return 0
        return 1 if version in self.response.flexible_versions else 0


# Keyed by number, so that an ApiKey and its plain number find the same object.
_apis: Final[dict[int, Api]] = {}


def api(key: int) -> Api:
    """The API with this key; raises ValueError for a key that Kafka does not have."""
    found = _apis.get(key)
    if found is None:
        found = _apis[key] = Api(ApiKey(key))
    return found
