"""DescribeCluster, key 60. Describes the cluster: its id, controller and nodes."""

from kaa.wire.schema import Int8, Int16, Int32, Request, Response, Struct, field


class DescribeClusterRequest(
    Request["DescribeClusterResponse"],
    key=60,
    versions="0-2",
    flexible="0+",
    listeners=("broker", "controller"),
):
    include_cluster_authorized_operations: bool = field("0+")
    endpoint_type: Int8 = field("1+", default=1)
    include_fenced_brokers: bool = field("2+")


class DescribeClusterBroker(Struct):
    broker_id: Int32 = field("0+")
    host: str = field("0+")
    port: Int32 = field("0+")
    rack: str | None = field("0+", default=None)
    is_fenced: bool = field("2+")


class DescribeClusterResponse(Response, key=60, versions="0-2", flexible="0+"):
    throttle_time_ms: Int32 = field("0+")
    error_code: Int16 = field("0+")
    error_message: str | None = field("0+", default=None)
    endpoint_type: Int8 = field("1+", default=1)
    cluster_id: str = field("0+")
    controller_id: Int32 = field("0+", default=-1)
    brokers: list[DescribeClusterBroker] = field("0+")
    cluster_authorized_operations: Int32 = field("0+", default=-2147483648)
