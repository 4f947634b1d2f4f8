"""SASL, ACLs and quotas."""

from __future__ import annotations

from kaa.wire.messages.k17_sasl_handshake import SaslHandshakeRequest
from kaa.wire.messages.k29_describe_acls import DescribeAclsRequest
from kaa.wire.messages.k30_create_acls import AclCreation, CreateAclsRequest
from kaa.wire.messages.k31_delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kaa.wire.messages.k36_sasl_authenticate import SaslAuthenticateRequest
from kaa.wire.messages.k48_describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
)
from kaa.wire.messages.k49_alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    OpData,
    RequestEntryData,
)
from kaa.wire.registry import ApiKey
from tests.differential.case import Ask, Story, World, case
from tests.differential.helpers import settled


@case(ApiKey.SASL_HANDSHAKE, "on a listener without SASL")
def _(world: World) -> Story:
    yield SaslHandshakeRequest(mechanism="PLAIN")
    yield SaslHandshakeRequest(mechanism="")


@case(ApiKey.SASL_AUTHENTICATE, "on a listener without SASL")
def _(world: World) -> Story:
    yield SaslAuthenticateRequest(auth_bytes=b"\0user\0secret")
    yield SaslAuthenticateRequest(auth_bytes=b"")


# --- ACLs without an authorizer


def _acl_filter(**codes: int) -> DescribeAclsRequest:
    return DescribeAclsRequest(
        resource_type_filter=codes.get("resource_type", 2),
        resource_name_filter=None,
        pattern_type_filter=codes.get("pattern_type", 3),
        principal_filter=None,
        host_filter=None,
        operation=codes.get("operation", 1),
        permission_type=codes.get("permission_type", 1),
    )


@case(ApiKey.DESCRIBE_ACLS, "without an authorizer")
def _(world: World) -> Story:
    yield _acl_filter()
    yield _acl_filter(operation=99)


@case(ApiKey.DESCRIBE_ACLS, "unknown elements")
def _(world: World) -> Story:
    yield _acl_filter(resource_type=0)
    yield _acl_filter(pattern_type=0)
    yield _acl_filter(operation=0)
    yield _acl_filter(permission_type=0)


def _acl(**codes: int) -> AclCreation:
    return AclCreation(
        resource_type=codes.get("resource_type", 2),
        resource_name="topic",
        resource_pattern_type=codes.get("pattern_type", 3),
        principal="User:someone",
        host="*",
        operation=codes.get("operation", 3),
        permission_type=codes.get("permission_type", 3),
    )


@case(ApiKey.CREATE_ACLS, "without an authorizer")
def _(world: World) -> Story:
    yield CreateAclsRequest(creations=[])
    yield CreateAclsRequest(creations=[_acl(), _acl(resource_type=4), _acl(pattern_type=1)])


@case(ApiKey.CREATE_ACLS, "unknown elements")
def _(world: World) -> Story:
    for field in ("resource_type", "pattern_type", "operation", "permission_type"):
        yield CreateAclsRequest(creations=[_acl(**{field: 0})])


def _delete_filter(**codes: int) -> DeleteAclsFilter:
    return DeleteAclsFilter(
        resource_type_filter=codes.get("resource_type", 2),
        resource_name_filter=None,
        pattern_type_filter=codes.get("pattern_type", 3),
        principal_filter=None,
        host_filter=None,
        operation=codes.get("operation", 3),
        permission_type=codes.get("permission_type", 3),
    )


@case(ApiKey.DELETE_ACLS, "without an authorizer")
def _(world: World) -> Story:
    yield DeleteAclsRequest(filters=[])
    yield DeleteAclsRequest(filters=[_delete_filter(), _delete_filter(operation=1)])


@case(ApiKey.DELETE_ACLS, "unknown elements")
def _(world: World) -> Story:
    for field in ("resource_type", "pattern_type", "operation", "permission_type"):
        yield DeleteAclsRequest(filters=[_delete_filter(**{field: 0})])


# --- quotas

Entity = tuple[tuple[str, str | None], ...]


def _alter(
    *wanted: tuple[Entity, dict[str, float | None]], validate_only: bool = False
) -> AlterClientQuotasRequest:
    """Sets quotas of entities; None removes one."""
    return AlterClientQuotasRequest(
        entries=[
            RequestEntryData(
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                ops=[
                    OpData(key=key, value=0.0 if value is None else value, remove=value is None)
                    for key, value in values.items()
                ],
            )
            for entity, values in wanted
        ],
        validate_only=validate_only,
    )


def _describe(
    *components: tuple[str, int, str | None], strict: bool = False
) -> DescribeClientQuotasRequest:
    return DescribeClientQuotasRequest(
        components=[
            ComponentData(entity_type=kind, match_type=how, match=name)
            for kind, how, name in components
        ],
        strict=strict,
    )


@case(ApiKey.ALTER_CLIENT_QUOTAS, "set, change and remove")
def _(world: World) -> Story:
    user: Entity = (("user", world.name("u")),)
    both: Entity = (("user", world.name("u")), ("client-id", world.name("c")))
    exact = _describe(("user", 0, world.name("u")))
    yield _alter()
    yield _alter((user, {"producer_byte_rate": 10.5}), validate_only=True)
    yield Ask(exact, 1)
    yield _alter(
        (user, {"producer_byte_rate": 10.0, "request_percentage": 20.5}),
        (both, {"consumer_byte_rate": 5.0}),
    )
    yield from settled(world, "set")
    yield Ask(exact, 1)
    yield _alter((user, {"producer_byte_rate": 11.0, "request_percentage": None}))
    yield _alter((both, {"consumer_byte_rate": None, "producer_byte_rate": None}))
    yield from settled(world, "removed")
    yield Ask(exact, 1)


@case(ApiKey.ALTER_CLIENT_QUOTAS, "entities that cannot be")
def _(world: World) -> Story:
    values: dict[str, float | None] = {"producer_byte_rate": 1.0}
    name = world.name("u")
    for entity in (
        (),
        (("weird", name),),
        (("", name),),
        (("user", ""),),
        (("user", name), ("user", name)),
        (("ip", "1.2.3.4"), ("user", name)),
        (("ip", "no address"),),
    ):
        yield _alter((entity, values))


@case(ApiKey.ALTER_CLIENT_QUOTAS, "values that cannot be")
def _(world: World) -> Story:
    user: Entity = (("user", world.name("u")),)
    address: Entity = (("ip", "1.2.3.4"),)
    wrong: tuple[tuple[Entity, dict[str, float | None]], ...] = (
        (user, {"weird": 1.0}),
        (user, {"": 1.0}),
        (user, {"producer_byte_rate": 0.0}),
        (user, {"producer_byte_rate": -1.0}),
        (user, {"producer_byte_rate": 1.5}),
        (user, {"producer_byte_rate": 1e30}),
        (user, {"connection_creation_rate": 1.0}),
        (address, {"producer_byte_rate": 1.0}),
        (address, {"connection_creation_rate": 1.5}),
        (user, {"request_percentage": 0.0}),
        (user, {"controller_mutation_rate": 0.0}),
    )
    for each in wrong:
        yield _alter(each, validate_only=True)


@case(ApiKey.ALTER_CLIENT_QUOTAS, "an entity and a key twice")
def _(world: World) -> Story:
    user: Entity = (("user", world.name("u")),)
    yield _alter((user, {"producer_byte_rate": 1.0}), (user, {"producer_byte_rate": 2.0}))
    request = _alter((user, {"producer_byte_rate": 1.0}))
    request.entries[0].ops *= 2
    yield request


@case(ApiKey.DESCRIBE_CLIENT_QUOTAS, "filters")
def _(world: World) -> Story:
    user, client = world.name("u"), world.name("c")
    yield _alter(
        ((("user", user),), {"producer_byte_rate": 1.0}),
        ((("user", user), ("client-id", client)), {"producer_byte_rate": 2.0}),
        ((("client-id", client),), {"producer_byte_rate": 3.0}),
        ((("user", user), ("client-id", None)), {"producer_byte_rate": 4.0}),
    )
    yield from settled(world, "set")
    for strict in (False, True):
        yield _describe(("user", 0, user), strict=strict)
        yield _describe(("client-id", 0, client), strict=strict)
        yield _describe(("user", 0, user), ("client-id", 0, client), strict=strict)
        yield _describe(("user", 0, user), ("client-id", 1, None), strict=strict)
        yield _describe(("user", 0, user), ("client-id", 2, None), strict=strict)
        yield _describe(("user", 0, world.name("absent")), strict=strict)
    yield _describe(strict=True)


@case(ApiKey.DESCRIBE_CLIENT_QUOTAS, "filters that make no sense")
def _(world: World) -> Story:
    for components in (
        (("", 2, None),),
        (("weird", 2, None),),
        (("user", 2, None), ("user", 1, None)),
        (("user", 7, None),),
        (("user", -1, "u"),),
        (("user", 0, None),),
        (("user", 1, "u"),),
        (("user", 2, "u"),),
        (("ip", 2, None), ("user", 2, None)),
    ):
        yield _describe(*components)
