"""FindCoordinator, key 10. Tells which broker coordinates a group, a transactional id or a share
partition.
"""

from kaa.wire.schema import Int8, Int16, Int32, Request, Response, Struct, field


class FindCoordinatorRequest(
    Request["FindCoordinatorResponse"], key=10, versions="0-6", flexible="3+"
):
    key: str = field("0-3")
    key_type: Int8 = field("1+")
    coordinator_keys: list[str] = field("4+")


class Coordinator(Struct):
    key: str = field("4+")
    node_id: Int32 = field("4+")
    host: str = field("4+")
    port: Int32 = field("4+")
    error_code: Int16 = field("4+")
    error_message: str | None = field("4+", ignorable=True)


class FindCoordinatorResponse(Response, key=10, versions="0-6", flexible="3+"):
    throttle_time_ms: Int32 = field("1+", ignorable=True)
    error_code: Int16 = field("0-3")
    error_message: str | None = field("1-3", ignorable=True)
    node_id: Int32 = field("0-3")
    host: str = field("0-3")
    port: Int32 = field("0-3")
    coordinators: list[Coordinator] = field("4+")
