"""DescribeDelegationToken, key 41. Lists delegation tokens."""

from kaa.wire.schema import Int16, Int32, Int64, Request, Response, Struct, field


class DescribeDelegationTokenOwner(Struct):
    principal_type: str = field("0+")
    principal_name: str = field("0+")


class DescribeDelegationTokenRequest(
    Request["DescribeDelegationTokenResponse"],
    key=41,
    versions="1-3",
    flexible="2+",
    listeners=("broker", "controller"),
):
    owners: list[DescribeDelegationTokenOwner] | None = field("0+")


class DescribedDelegationTokenRenewer(Struct):
    principal_type: str = field("0+")
    principal_name: str = field("0+")


class DescribedDelegationToken(Struct):
    principal_type: str = field("0+")
    principal_name: str = field("0+")
    token_requester_principal_type: str = field("3+")
    token_requester_principal_name: str = field("3+")
    issue_timestamp: Int64 = field("0+")
    expiry_timestamp: Int64 = field("0+")
    max_timestamp: Int64 = field("0+")
    token_id: str = field("0+")
    hmac: bytes = field("0+")
    renewers: list[DescribedDelegationTokenRenewer] = field("0+")


class DescribeDelegationTokenResponse(Response, key=41, versions="1-3", flexible="2+"):
    error_code: Int16 = field("0+")
    tokens: list[DescribedDelegationToken] = field("0+")
    throttle_time_ms: Int32 = field("0+")
