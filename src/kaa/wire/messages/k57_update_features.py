"""UpdateFeatures, key 57. Changes the finalized levels of cluster features."""

from kaa.wire.schema import Int8, Int16, Int32, Request, Response, Struct, field


class FeatureUpdateKey(Struct):
    feature: str = field("0+")
    max_version_level: Int16 = field("0+")
    allow_downgrade: bool = field("0")
    upgrade_type: Int8 = field("1+", default=1)


class UpdateFeaturesRequest(
    Request["UpdateFeaturesResponse"],
    key=57,
    versions="0-2",
    flexible="0+",
    listeners=("broker", "controller"),
):
    timeout_ms: Int32 = field("0+", default=60000)
    feature_updates: list[FeatureUpdateKey] = field("0+")
    validate_only: bool = field("1+")


class UpdatableFeatureResult(Struct):
    feature: str = field("0+")
    error_code: Int16 = field("0+")
    error_message: str | None = field("0+")


class UpdateFeaturesResponse(Response, key=57, versions="0-2", flexible="0+"):
    throttle_time_ms: Int32 = field("0+")
    error_code: Int16 = field("0+")
    error_message: str | None = field("0+")
    results: list[UpdatableFeatureResult] = field("0-1", ignorable=True)
