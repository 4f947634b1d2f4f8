"""Kafka's error codes: the int16 in every response, its name, and whether trying again can help.

The table is Kafka's own, code for code and name for name; the sentences are ours. `retriable`
says that the same request may succeed later without any change by the sender (in Java: the
exception of the code is a `RetriableException`). Codes run without a gap from -1, and a
released code never changes its meaning.
"""

from enum import IntEnum
from typing import Final, Self

_RETRY: Final = True
_FINAL: Final = False


class Errors(IntEnum):
    """An error code; it is an int, so it goes into a message field as it is."""

    _value_: int
    retriable: bool
    message: str

    def __new__(cls, code: int, retriable: bool, message: str) -> Self:
        error = int.__new__(cls, code)
        error._value_ = code
        error.retriable = retriable
        error.message = message
        return error

    @staticmethod
    def of(code: int) -> "Errors":
        """The error with this code; a code of a newer Kafka reads as UNKNOWN_SERVER_ERROR."""
        return _BY_CODE.get(code, Errors.UNKNOWN_SERVER_ERROR)

    UNKNOWN_SERVER_ERROR = -1, _FINAL, "Something failed on the server that has no code of its own."
    NONE = 0, _FINAL, "No error."
    OFFSET_OUT_OF_RANGE = 1, _FINAL, "The log holds no such offset."
    CORRUPT_MESSAGE = 2, _RETRY, "The record batch is damaged or breaks the rules of its format."
    UNKNOWN_TOPIC_OR_PARTITION = 3, _RETRY, "The topic or partition is not known here."
    INVALID_FETCH_SIZE = 4, _FINAL, "The size asked for in the fetch makes no sense."
    LEADER_NOT_AVAILABLE = 5, _RETRY, "The partition has no leader at the moment."
    NOT_LEADER_OR_FOLLOWER = (
        6,
        _RETRY,
        "This broker does not lead the partition, or has no replica of it.",
    )
    REQUEST_TIMED_OUT = 7, _RETRY, "The work was not finished within the time allowed."
    BROKER_NOT_AVAILABLE = 8, _FINAL, "No such broker is running."
    REPLICA_NOT_AVAILABLE = 9, _RETRY, "This broker has no usable replica of the partition."
    MESSAGE_TOO_LARGE = 10, _FINAL, "The record batch is above the size limit."
    STALE_CONTROLLER_EPOCH = 11, _FINAL, "The request comes from a controller that was replaced."
    OFFSET_METADATA_TOO_LARGE = 12, _FINAL, "The text stored with the offset is too long."
    NETWORK_EXCEPTION = 13, _RETRY, "The connection broke before the answer came."
    COORDINATOR_LOAD_IN_PROGRESS = 14, _RETRY, "The coordinator is still reading its state."
    COORDINATOR_NOT_AVAILABLE = 15, _RETRY, "No coordinator is ready for this key."
    NOT_COORDINATOR = 16, _RETRY, "Another broker coordinates this key."
    INVALID_TOPIC_EXCEPTION = 17, _FINAL, "The topic may not be named or used like this."
    RECORD_LIST_TOO_LARGE = 18, _FINAL, "The record batch does not fit into one segment."
    NOT_ENOUGH_REPLICAS = 19, _RETRY, "Too few replicas are in sync to accept the write."
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, _RETRY, "Written, but too few replicas kept up."
    INVALID_REQUIRED_ACKS = 21, _FINAL, "acks must be -1, 0 or 1."
    ILLEGAL_GENERATION = 22, _FINAL, "The group has moved on to another generation."
    INCONSISTENT_GROUP_PROTOCOL = 23, _FINAL, "The member shares no protocol with the group."
    INVALID_GROUP_ID = 24, _FINAL, "This is not a usable group id."
    UNKNOWN_MEMBER_ID = 25, _FINAL, "The group has no such member."
    INVALID_SESSION_TIMEOUT = 26, _FINAL, "The session timeout is outside the broker's bounds."
    REBALANCE_IN_PROGRESS = 27, _FINAL, "Members must rejoin, since the group is being rebalanced."
    INVALID_COMMIT_OFFSET_SIZE = 28, _FINAL, "The offset commit is too large to be stored."
    TOPIC_AUTHORIZATION_FAILED = 29, _FINAL, "The principal lacks this right on the topic."
    GROUP_AUTHORIZATION_FAILED = 30, _FINAL, "The principal lacks this right on the group."
    CLUSTER_AUTHORIZATION_FAILED = 31, _FINAL, "The principal lacks this right on the cluster."
    INVALID_TIMESTAMP = 32, _FINAL, "A record's timestamp lies too far from the broker's clock."
    UNSUPPORTED_SASL_MECHANISM = 33, _FINAL, "This listener does not offer the SASL mechanism."
    ILLEGAL_SASL_STATE = 34, _FINAL, "The request does not fit this stage of authentication."
    UNSUPPORTED_VERSION = 35, _FINAL, "This version of the API is not served here."
    TOPIC_ALREADY_EXISTS = 36, _FINAL, "A topic with that name already exists."
    INVALID_PARTITIONS = 37, _FINAL, "That partition count is not possible."
    INVALID_REPLICATION_FACTOR = 38, _FINAL, "That replication factor is not possible here."
    INVALID_REPLICA_ASSIGNMENT = 39, _FINAL, "The replicas cannot be placed in this way."
    INVALID_CONFIG = 40, _FINAL, "A setting is unknown or has an impossible value."
    NOT_CONTROLLER = 41, _RETRY, "Another node is the active controller."
    INVALID_REQUEST = 42, _FINAL, "The request contradicts itself or the protocol."
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, _FINAL, "The stored record format cannot do this."
    POLICY_VIOLATION = 44, _FINAL, "A policy of this cluster forbids the request."
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, _FINAL, "A batch of the producer is missing before this one."
    DUPLICATE_SEQUENCE_NUMBER = 46, _FINAL, "This batch of the producer was appended before."
    INVALID_PRODUCER_EPOCH = 47, _FINAL, "The producer's epoch is out of date."
    INVALID_TXN_STATE = 48, _FINAL, "The transaction is not in a state that allows this."
    INVALID_PRODUCER_ID_MAPPING = 49, _FINAL, "The transactional id belongs to another producer id."
    INVALID_TRANSACTION_TIMEOUT = 50, _FINAL, "The timeout is above the broker's maximum."
    CONCURRENT_TRANSACTIONS = 51, _RETRY, "An earlier step of the transaction has not finished."
    TRANSACTION_COORDINATOR_FENCED = 52, _FINAL, "A newer coordinator owns the transaction."
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, _FINAL, "The principal may not use this id."
    SECURITY_DISABLED = 54, _FINAL, "No authorizer is set up on this cluster."
    OPERATION_NOT_ATTEMPTED = 55, _FINAL, "Skipped, because another part of the request failed."
    KAFKA_STORAGE_ERROR = 56, _RETRY, "The disk that holds the log has failed."
    LOG_DIR_NOT_FOUND = 57, _FINAL, "The broker is not set up with that log directory."
    SASL_AUTHENTICATION_FAILED = 58, _FINAL, "The credentials were not accepted."
    UNKNOWN_PRODUCER_ID = 59, _FINAL, "Nothing is remembered about this producer id."
    REASSIGNMENT_IN_PROGRESS = 60, _FINAL, "The partition is already being moved."
    DELEGATION_TOKEN_AUTH_DISABLED = 61, _FINAL, "Delegation tokens are switched off."
    DELEGATION_TOKEN_NOT_FOUND = 62, _FINAL, "There is no such delegation token."
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, _FINAL, "The token belongs to another principal."
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, _FINAL, "This connection cannot handle tokens."
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, _FINAL, "The principal lacks this right."
    DELEGATION_TOKEN_EXPIRED = 66, _FINAL, "The token's lifetime is over."
    INVALID_PRINCIPAL_TYPE = 67, _FINAL, "Principals of this type cannot be used here."
    NON_EMPTY_GROUP = 68, _FINAL, "The group still has members."
    GROUP_ID_NOT_FOUND = 69, _FINAL, "There is no group with this id."
    FETCH_SESSION_ID_NOT_FOUND = 70, _RETRY, "The fetch session is not, or no longer, cached."
    INVALID_FETCH_SESSION_EPOCH = 71, _RETRY, "The fetch session expected another epoch."
    LISTENER_NOT_FOUND = 72, _RETRY, "The leader cannot be reached through this listener."
    TOPIC_DELETION_DISABLED = 73, _FINAL, "The broker does not allow topics to be deleted."
    FENCED_LEADER_EPOCH = 74, _RETRY, "A newer leader epoch is known here."
    UNKNOWN_LEADER_EPOCH = 75, _RETRY, "This broker has not heard of that leader epoch yet."
    UNSUPPORTED_COMPRESSION_TYPE = 76, _FINAL, "The codec is not available at this API version."
    STALE_BROKER_EPOCH = 77, _FINAL, "The broker has registered again since."
    OFFSET_NOT_AVAILABLE = 78, _RETRY, "The new leader does not know its high watermark yet."
    MEMBER_ID_REQUIRED = 79, _FINAL, "Join again with the member id given in the answer."
    PREFERRED_LEADER_NOT_AVAILABLE = 80, _RETRY, "The preferred replica cannot lead now."
    GROUP_MAX_SIZE_REACHED = 81, _FINAL, "The group is full."
    FENCED_INSTANCE_ID = 82, _FINAL, "Another member has taken over this group instance id."
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, _RETRY, "No replica is able to lead the partition."
    ELECTION_NOT_NEEDED = 84, _RETRY, "The partition already has the leader it should have."
    NO_REASSIGNMENT_IN_PROGRESS = 85, _FINAL, "The partition is not being moved."
    GROUP_SUBSCRIBED_TO_TOPIC = 86, _FINAL, "Offsets stay while the group subscribes to the topic."
    INVALID_RECORD = 87, _FINAL, "A record breaks a rule, so the batch is refused."
    UNSTABLE_OFFSET_COMMIT = 88, _RETRY, "A transaction with offsets for the partition is open."
    THROTTLING_QUOTA_EXCEEDED = 89, _RETRY, "The quota is used up for now."
    PRODUCER_FENCED = 90, _FINAL, "A newer producer uses the same transactional id."
    RESOURCE_NOT_FOUND = 91, _FINAL, "What the request names does not exist."
    DUPLICATE_RESOURCE = 92, _FINAL, "The request names the same thing more than once."
    UNACCEPTABLE_CREDENTIAL = 93, _FINAL, "The credential does not meet the rules."
    INCONSISTENT_VOTER_SET = 94, _FINAL, "One of the two nodes is not a voter of the quorum."
    INVALID_UPDATE_VERSION = 95, _FINAL, "The update is based on a wrong version."
    FEATURE_UPDATE_FAILED = 96, _FINAL, "The feature levels could not be changed."
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, _FINAL, "The forwarded principal cannot be read."
    SNAPSHOT_NOT_FOUND = 98, _FINAL, "There is no snapshot with this id."
    POSITION_OUT_OF_RANGE = 99, _FINAL, "The position lies outside the snapshot."
    UNKNOWN_TOPIC_ID = 100, _RETRY, "No topic with this id is known here."
    DUPLICATE_BROKER_REGISTRATION = 101, _FINAL, "A live broker already has this id."
    BROKER_ID_NOT_REGISTERED = 102, _FINAL, "No broker registered with this id."
    INCONSISTENT_TOPIC_ID = 103, _RETRY, "The log belongs to a topic with another id."
    INCONSISTENT_CLUSTER_ID = 104, _FINAL, "The request is meant for another cluster."
    TRANSACTIONAL_ID_NOT_FOUND = 105, _FINAL, "Nothing is stored for the transactional id."
    FETCH_SESSION_TOPIC_ID_ERROR = 106, _RETRY, "The fetch session mixes topic ids and topic names."
    INELIGIBLE_REPLICA = 107, _FINAL, "A replica that may not be in sync was put into the ISR."
    NEW_LEADER_ELECTED = 108, _FINAL, "The change was made and gave the partition a new leader."
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, _FINAL, "The offset is kept only in remote storage."
    FENCED_MEMBER_EPOCH = 110, _FINAL, "The member was fenced: give up all partitions, then rejoin."
    UNRELEASED_INSTANCE_ID = 111, _FINAL, "The member holding this instance id has not left."
    UNSUPPORTED_ASSIGNOR = 112, _FINAL, "The group cannot work with this assignor."
    STALE_MEMBER_EPOCH = 113, _FINAL, "The member must learn its new epoch by a heartbeat first."
    MISMATCHED_ENDPOINT_TYPE = (
        114,
        _FINAL,
        "A request for controllers reached a broker, or the reverse.",
    )
    UNSUPPORTED_ENDPOINT_TYPE = 115, _FINAL, "Endpoints of this type are not served."
    UNKNOWN_CONTROLLER_ID = 116, _FINAL, "There is no controller with this id."
    UNKNOWN_SUBSCRIPTION_ID = 117, _FINAL, "The telemetry subscription is gone or unknown."
    TELEMETRY_TOO_LARGE = 118, _FINAL, "The pushed telemetry is above the size limit."
    INVALID_REGISTRATION = 119, _FINAL, "The controller refuses the broker's registration."
    TRANSACTION_ABORTABLE = 120, _FINAL, "The transaction must be aborted; the producer may go on."
    INVALID_RECORD_STATE = 121, _FINAL, "The record cannot be acknowledged in its present state."
    SHARE_SESSION_NOT_FOUND = 122, _RETRY, "The share session is not, or no longer, cached."
    INVALID_SHARE_SESSION_EPOCH = 123, _RETRY, "The share session expected another epoch."
    FENCED_STATE_EPOCH = 124, _FINAL, "The share-group state has another epoch."
    INVALID_VOTER_KEY = 125, _FINAL, "This node is not the voter that the request names."
    DUPLICATE_VOTER = 126, _FINAL, "That voter is in the set already."
    VOTER_NOT_FOUND = 127, _FINAL, "That voter is not in the set."
    INVALID_REGULAR_EXPRESSION = 128, _FINAL, "The pattern cannot be compiled."
    REBOOTSTRAP_REQUIRED = 129, _FINAL, "Start again from the bootstrap servers."
    STREAMS_INVALID_TOPOLOGY = 130, _FINAL, "The topology breaks a rule."
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, _FINAL, "The topology epoch is not possible."
    STREAMS_TOPOLOGY_FENCED = 132, _FINAL, "The group has a newer topology."
    SHARE_SESSION_LIMIT_REACHED = 133, _RETRY, "No more share sessions can be opened now."


_BY_CODE: Final = {int(error): error for error in Errors}
