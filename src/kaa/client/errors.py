"""What can go wrong for a client, as types, each with a sentence that says what to do.

`KafkaError` carries a code that a broker answered with. The others happened on the way: nobody
listens (`UnreachableError`), the connection ended (`DisconnectedError`), time ran out
(`RequestTimeoutError`), the two sides share no version (`UnsupportedApiError`), or what came
was no answer (`ProtocolError`).
"""

from __future__ import annotations

from typing import Final

from kaa.wire.errors import Errors


class ClientError(Exception):
    """Base of all errors of the client."""

    # Whether the same call may succeed later without any change by the caller.
    retriable = False


_CHECK_LISTENER: Final = (
    "check that a broker listens there and that security.protocol is the one of its listener"
)


class UnreachableError(ClientError):
    """No connection could be opened."""

    retriable = True

    def __init__(self, address: str, reason: str, hint: str = _CHECK_LISTENER) -> None:
        super().__init__(f"cannot connect to {address}: {reason}; {hint}")
        self.address = address


class UntrustedError(UnreachableError):
    """Nobody that this client trusts vouches for the broker; trying again does not help."""

    retriable = False

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(
            address,
            f"its certificate is not trusted ({reason})",
            "set ssl.truststore.location to the certificate of the authority that vouches for it",
        )


class NoTlsError(UnreachableError):
    """The other side ended the handshake of TLS, as a listener does that speaks plain text."""

    def __init__(self, address: str) -> None:
        super().__init__(
            address,
            "it ended the handshake of TLS, so its listener seems to speak plain text",
            "set security.protocol to PLAINTEXT (SASL_PLAINTEXT with a user), or name a listener "
            "with TLS",
        )


class DisconnectedError(ClientError):
    """The connection ended before the answer came."""

    retriable = True

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"the connection to {address} ended: {reason}")
        self.address = address


class RequestTimeoutError(ClientError):
    """A request, or a call with all its retries, took too long."""

    retriable = True


class UnsupportedApiError(ClientError):
    """The broker does not serve the API, or in no version that is known here."""


class ProtocolError(ClientError):
    """Bytes that do not answer what was asked."""


class SecurityConfigError(ClientError):
    """Settings of TLS or SASL that cannot be used."""


class AuthenticationError(ClientError):
    """This side has nothing to authenticate with, such as a token that its provider refused."""


class SerializationError(ClientError, TypeError):
    """A key, value or header has no bytes, or bytes could not be read as an object."""


class NotSubscribedError(ClientError):
    """A consumer was asked for records before it knew of what; subscribe or assign first."""


class BufferExhaustedError(ClientError):
    """Records wait for brokers and no memory came free in time."""

    retriable = True


class ClosedError(ClientError):
    """The client was used after its end, or before its start."""


HINTS: Final = {
    Errors.UNKNOWN_TOPIC_OR_PARTITION: "create the topic, or check its name (kaa topic list)",
    Errors.UNKNOWN_TOPIC_ID: "the topic was deleted or created again; look it up by name",
    Errors.TOPIC_ALREADY_EXISTS: "choose another name, or use the topic as it is",
    Errors.BROKER_ID_NOT_REGISTERED: "name a broker that exists (kaa cluster info)",
    Errors.OFFSET_OUT_OF_RANGE: "seek to an offset that exists, or set auto.offset.reset",
    Errors.MESSAGE_TOO_LARGE: "send smaller records or raise max.message.bytes of the topic",
    Errors.RECORD_LIST_TOO_LARGE: "lower batch.size or raise segment.bytes of the topic",
    Errors.INVALID_REPLICATION_FACTOR: "ask for at most as many replicas as there are brokers "
    "that take new partitions (kaa cluster brokers, kaa cluster dirs)",
    Errors.INVALID_PARTITIONS: "ask for at least one partition, and for more than there are",
    Errors.INVALID_TOPIC_EXCEPTION: "use letters, digits, '.', '_' and '-', at most 249",
    Errors.POLICY_VIOLATION: "ask for what the policy allows, or for less at once",
    Errors.NOT_ENOUGH_REPLICAS: "bring replicas back, or lower min.insync.replicas",
    Errors.TOPIC_AUTHORIZATION_FAILED: "ask for an ACL on the topic",
    Errors.CLUSTER_AUTHORIZATION_FAILED: "ask for an ACL on the cluster",
    Errors.GROUP_AUTHORIZATION_FAILED: "ask for an ACL on the group",
    Errors.SASL_AUTHENTICATION_FAILED: "check user name, password and sasl.mechanism",
    Errors.PRODUCER_FENCED: "another producer has this transactional.id; stop one of them "
    "and make a new producer",
    Errors.OUT_OF_ORDER_SEQUENCE_NUMBER: "records were lost or refused before; send them again",
    Errors.INVALID_RECORD: "compacted topics take no records without a key",
    Errors.INVALID_CONFIG: "compare names and values with kaa config describe",
    Errors.NOT_LEADER_OR_FOLLOWER: "try again: leadership is moving",
    Errors.LEADER_NOT_AVAILABLE: "bring a replica of the partition back",
    Errors.COORDINATOR_NOT_AVAILABLE: "try again; if that does not help, check whether "
    "__consumer_offsets and __transaction_state have leaders (kaa cluster health)",
    Errors.COORDINATOR_LOAD_IN_PROGRESS: "try again in a moment",
    Errors.NOT_COORDINATOR: "try again: the coordinator is moving",
    Errors.NON_EMPTY_GROUP: "stop the members of the group first (kaa group describe)",
    Errors.GROUP_ID_NOT_FOUND: "check the name of the group (kaa group list)",
    Errors.GROUP_SUBSCRIBED_TO_TOPIC: "stop the members that subscribe to the topic first",
    Errors.UNKNOWN_MEMBER_ID: "the member left or was too slow; only its group can commit now: "
    "stop its members to change offsets from outside",
    Errors.ILLEGAL_GENERATION: "the group was rebalanced meanwhile; poll again and commit what "
    "the new assignment gives",
    Errors.REBALANCE_IN_PROGRESS: "poll, so that the member can rejoin, then commit again",
    Errors.FENCED_INSTANCE_ID: "another member has this group.instance.id; give each its own",
    Errors.UNRELEASED_INSTANCE_ID: "another member has this group.instance.id; stop it, or wait "
    "until its session ends",
    Errors.FENCED_MEMBER_EPOCH: "the member was replaced; poll, so that it joins again",
    Errors.STALE_MEMBER_EPOCH: "the group moved on; poll and commit again",
    Errors.INCONSISTENT_GROUP_PROTOCOL: "use the partition.assignment.strategy and the kind of "
    "client that the other members have (kaa group describe)",
    Errors.INVALID_SESSION_TIMEOUT: "choose session.timeout.ms between the bounds of the broker "
    "(group.min.session.timeout.ms, group.max.session.timeout.ms)",
    Errors.INVALID_GROUP_ID: "set group.id to a text that is not empty",
    Errors.GROUP_MAX_SIZE_REACHED: "raise group.max.size of the brokers, or use fewer members",
    Errors.UNSUPPORTED_ASSIGNOR: "set group.remote.assignor to one of the brokers' "
    "group.consumer.assignors",
    Errors.INVALID_REGULAR_EXPRESSION: "write the pattern in the syntax of RE2",
    Errors.UNSTABLE_OFFSET_COMMIT: "try again: a transaction that commits offsets is open",
    Errors.OFFSET_METADATA_TOO_LARGE: "shorten the text, or raise offset.metadata.max.bytes",
    Errors.INVALID_PRODUCER_EPOCH: "another producer has this transactional.id, or the "
    "transaction took longer than transaction.timeout.ms; make a new producer",
    Errors.INVALID_TXN_STATE: "begin a transaction before sending, and end it once",
    Errors.INVALID_PRODUCER_ID_MAPPING: "the id expired or another producer has it; make a new "
    "producer",
    Errors.INVALID_TRANSACTION_TIMEOUT: "lower transaction.timeout.ms, or raise "
    "transaction.max.timeout.ms of the brokers",
    Errors.CONCURRENT_TRANSACTIONS: "try again: the transaction before is still being ended",
    Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "ask for an ACL on the transactional id",
    Errors.TRANSACTIONAL_ID_NOT_FOUND: "check the id (kaa txn list)",
    Errors.TRANSACTION_ABORTABLE: "abort the transaction, then do it again",
    Errors.UNKNOWN_PRODUCER_ID: "the records of the producer are gone; make a new producer",
    Errors.ILLEGAL_SASL_STATE: "the listener takes no users: set security.protocol to PLAINTEXT "
    "or SSL, or name a listener with SASL",
    Errors.UNSUPPORTED_SASL_MECHANISM: "set sasl.mechanism to one that the listener offers",
    Errors.UNSUPPORTED_VERSION: "use a newer broker, or leave the option out that needs one",
    Errors.MISMATCHED_ENDPOINT_TYPE: "name brokers with -b, or controllers with -X "
    "bootstrap.controllers=HOST:PORT",
    Errors.DUPLICATE_VOTER: "see who votes (kaa cluster quorum)",
    Errors.VOTER_NOT_FOUND: "see who votes (kaa cluster quorum)",
    Errors.TOPIC_DELETION_DISABLED: "set delete.topic.enable=true on the brokers",
}
"""What a user can do about an error."""

DELETED: Final = "the topic was deleted meanwhile"
DELETED_HINT: Final = "create it again (kaa topic create), or stop what uses it"
"""Of a topic that this client has known."""

PARTITION_HINT: Final = "name a partition that exists (kaa topic describe)"
"""For a partition that is not there, of a topic that is."""


class KafkaError(ClientError):
    """A broker answered with an error code."""

    def __init__(
        self,
        error: Errors,
        what: str,
        *,
        message: str | None = None,
        node: str | None = None,
        hint: str | None = None,
    ) -> None:
        """`what` was tried; `message` is the broker's own text, `node` its address, and `hint`
        what to do, where that is not the same for all errors of this kind.
        """
        text = f"{what}: {error.name} ({error.value}): {message or error.message}"
        if node is not None:
            text += f" [broker {node}]"
        hint = hint or HINTS.get(error)
        if hint is not None:
            text += f"; {hint}"
        super().__init__(text)
        self.error = error
        self.what = what
        self.message = message or error.message
        self.node = node
        self.hint = hint
        self.retriable = error.retriable


def check(code: int, what: str, **more: str | None) -> None:
    """Raises what a code stands for, unless it is not an error; `more` as for KafkaError."""
    if code:
        raise KafkaError(Errors.of(code), what, **more)


class CommitFailedError(KafkaError):
    """Offsets were not committed because the consumer is no longer a member: others read on."""


class ProducerFencedError(KafkaError):
    """Another producer took over the transactional id; this one can do nothing more."""
