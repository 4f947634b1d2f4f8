"""The admin client for scripts without asyncio: each method waits for its asynchronous twin."""

from __future__ import annotations

from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from kaa.client.admin.admin import Admin as Twin
from kaa.client.sync.thread import ClientThread

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

Parameters = ParamSpec("Parameters")
Answer = TypeVar("Answer")


def _waiting(
    method: Callable[Concatenate[Twin, Parameters], Coroutine[Any, Any, Answer]],
) -> Callable[Concatenate[Admin, Parameters], Answer]:
    """The same method, for a thread that waits until it is done."""

    def call(self: Admin, /, *arguments: Parameters.args, **named: Parameters.kwargs) -> Answer:
        return self._call(method(self.asynchronous, *arguments, **named))

    # Its name, its text, and through it its arguments.
    update_wrapper(call, method)
    return call


class Admin(ClientThread[Twin]):
    """`kaa.client.Admin` without asyncio: the same methods, arguments, results and errors."""

    def __init__(self, settings: Mapping[str, object] | None = None, **named: object) -> None:
        super().__init__(lambda: Twin(settings, random=None, clock=None, **named))

    def run(self, work: Callable[[Twin], Coroutine[Any, Any, Answer]]) -> Answer:
        """Several steps on the loop of the client, as one coroutine function."""
        return self._call(work(self.asynchronous))

    list_topics = _waiting(Twin.list_topics)
    describe_topics = _waiting(Twin.describe_topics)
    describe_topic = _waiting(Twin.describe_topic)
    create_topics = _waiting(Twin.create_topics)
    delete_topics = _waiting(Twin.delete_topics)
    create_partitions = _waiting(Twin.create_partitions)
    list_offsets = _waiting(Twin.list_offsets)
    delete_records = _waiting(Twin.delete_records)

    describe_configs = _waiting(Twin.describe_configs)
    alter_configs = _waiting(Twin.alter_configs)

    list_groups = _waiting(Twin.list_groups)
    describe_groups = _waiting(Twin.describe_groups)
    describe_group = _waiting(Twin.describe_group)
    delete_groups = _waiting(Twin.delete_groups)
    remove_members = _waiting(Twin.remove_members)
    list_group_offsets = _waiting(Twin.list_group_offsets)
    alter_group_offsets = _waiting(Twin.alter_group_offsets)
    delete_group_offsets = _waiting(Twin.delete_group_offsets)
    group_lag = _waiting(Twin.group_lag)

    describe_share_group = _waiting(Twin.describe_share_group)
    describe_streams_group = _waiting(Twin.describe_streams_group)
    list_share_group_offsets = _waiting(Twin.list_share_group_offsets)
    alter_share_group_offsets = _waiting(Twin.alter_share_group_offsets)
    delete_share_group_offsets = _waiting(Twin.delete_share_group_offsets)

    list_transactions = _waiting(Twin.list_transactions)
    describe_transactions = _waiting(Twin.describe_transactions)
    describe_transaction = _waiting(Twin.describe_transaction)
    describe_producers = _waiting(Twin.describe_producers)
    find_hanging_transactions = _waiting(Twin.find_hanging_transactions)
    abort_transaction = _waiting(Twin.abort_transaction)
    fence_producers = _waiting(Twin.fence_producers)
    init_producer_id = _waiting(Twin.init_producer_id)

    alter_partition_reassignments = _waiting(Twin.alter_partition_reassignments)
    list_partition_reassignments = _waiting(Twin.list_partition_reassignments)
    elect_leaders = _waiting(Twin.elect_leaders)

    describe_cluster = _waiting(Twin.describe_cluster)
    describe_log_dirs = _waiting(Twin.describe_log_dirs)
    alter_replica_log_dirs = _waiting(Twin.alter_replica_log_dirs)
    describe_features = _waiting(Twin.describe_features)
    update_features = _waiting(Twin.update_features)
    describe_quorum = _waiting(Twin.describe_quorum)
    add_raft_voter = _waiting(Twin.add_raft_voter)
    remove_raft_voter = _waiting(Twin.remove_raft_voter)
    api_versions = _waiting(Twin.api_versions)
