"""AlterUserScramCredentials, key 51. Changes users' SCRAM credentials."""

from kaa.wire.schema import Int8, Int16, Int32, Request, Response, Struct, field


class ScramCredentialDeletion(Struct):
    name: str = field("0+")
    mechanism: Int8 = field("0+")


class ScramCredentialUpsertion(Struct):
    name: str = field("0+")
    mechanism: Int8 = field("0+")
    iterations: Int32 = field("0+")
    salt: bytes = field("0+")
    salted_password: bytes = field("0+")


class AlterUserScramCredentialsRequest(
    Request["AlterUserScramCredentialsResponse"],
    key=51,
    versions="0",
    flexible="0+",
    listeners=("broker", "controller"),
):
    deletions: list[ScramCredentialDeletion] = field("0+")
    upsertions: list[ScramCredentialUpsertion] = field("0+")


class AlterUserScramCredentialsResult(Struct):
    user: str = field("0+")
    error_code: Int16 = field("0+")
    error_message: str | None = field("0+")


class AlterUserScramCredentialsResponse(Response, key=51, versions="0", flexible="0+"):
    throttle_time_ms: Int32 = field("0+")
    results: list[AlterUserScramCredentialsResult] = field("0+")
