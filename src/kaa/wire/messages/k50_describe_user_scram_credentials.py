"""DescribeUserScramCredentials, key 50. Lists users' SCRAM credentials without secrets."""

from kaa.wire.schema import Int8, Int16, Int32, Request, Response, Struct, field


class UserName(Struct):
    name: str = field("0+")


class DescribeUserScramCredentialsRequest(
    Request["DescribeUserScramCredentialsResponse"],
    key=50,
    versions="0",
    flexible="0+",
    listeners=("broker", "controller"),
):
    users: list[UserName] | None = field("0+")


class CredentialInfo(Struct):
    mechanism: Int8 = field("0+")
    iterations: Int32 = field("0+")


class DescribeUserScramCredentialsResult(Struct):
    user: str = field("0+")
    error_code: Int16 = field("0+")
    error_message: str | None = field("0+")
    credential_infos: list[CredentialInfo] = field("0+")


class DescribeUserScramCredentialsResponse(Response, key=50, versions="0", flexible="0+"):
    throttle_time_ms: Int32 = field("0+")
    error_code: Int16 = field("0+")
    error_message: str | None = field("0+")
    results: list[DescribeUserScramCredentialsResult] = field("0+")
