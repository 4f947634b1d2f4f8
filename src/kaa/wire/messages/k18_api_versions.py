"""ApiVersions, key 18. Tells a client which APIs, versions and features a node supports; the first
request of most connections.
"""

from kaa.wire.schema import Int16, Int32, Int64, Request, Response, Struct, field


class ApiVersionsRequest(
    Request["ApiVersionsResponse"],
    key=18,
    versions="0-4",
    flexible="3+",
    listeners=("broker", "controller"),
):
    client_software_name: str = field("3+", ignorable=True)
    client_software_version: str = field("3+", ignorable=True)


class ApiVersion(Struct):
    api_key: Int16 = field("0+")
    min_version: Int16 = field("0+")
    max_version: Int16 = field("0+")


class SupportedFeatureKey(Struct):
    name: str = field("3+")
    min_version: Int16 = field("3+")
    max_version: Int16 = field("3+")


class FinalizedFeatureKey(Struct):
    name: str = field("3+")
    max_version_level: Int16 = field("3+")
    min_version_level: Int16 = field("3+")


class ApiVersionsResponse(Response, key=18, versions="0-4", flexible="3+"):
    error_code: Int16 = field("0+")
    api_keys: list[ApiVersion] = field("0+")
    throttle_time_ms: Int32 = field("1+", ignorable=True)
    supported_features: list[SupportedFeatureKey] = field("3+", tag=0, ignorable=True)
    finalized_features_epoch: Int64 = field("3+", default=-1, tag=1, ignorable=True)
    finalized_features: list[FinalizedFeatureKey] = field("3+", tag=2, ignorable=True)
    zk_migration_ready: bool = field("3+", tag=3, ignorable=True)
