"""Rules of who may do what, quotas and settings for thousands of names, each in one request."""

from __future__ import annotations

from typing import Any

import pytest

from kaa.wire.errors import Errors
from kaa.wire.messages.k29_describe_acls import DescribeAclsRequest
from kaa.wire.messages.k30_create_acls import AclCreation, CreateAclsRequest
from kaa.wire.messages.k31_delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kaa.wire.messages.k33_alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from kaa.wire.messages.k48_describe_client_quotas import DescribeClientQuotasRequest
from kaa.wire.messages.k49_alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    OpData,
    RequestEntryData,
)
from kaa.wire.schema import Request
from tests.scale.requests import NAMES, TOPICS
from tests.scale.steps import Scale

ANY = 1
TOPIC = 2
LITERAL = 3
READ = 3
ALLOW = 3
RULES = [
    AclCreation(
        resource_type=TOPIC,
        resource_name=name,
        principal="User:reader",
        host="*",
        operation=READ,
        permission_type=ALLOW,
    )
    for name in NAMES
]
EVERY_RULE = DescribeAclsRequest(
    resource_type_filter=ANY,
    resource_name_filter=None,
    pattern_type_filter=ANY,
    principal_filter=None,
    host_filter=None,
    operation=ANY,
    permission_type=ANY,
)


def one_by_one() -> DeleteAclsRequest:
    return DeleteAclsRequest(
        filters=[
            DeleteAclsFilter(
                resource_type_filter=TOPIC,
                resource_name_filter=name,
                pattern_type_filter=LITERAL,
                principal_filter=None,
                host_filter=None,
                operation=ANY,
                permission_type=ANY,
            )
            for name in NAMES
        ]
    )


@pytest.mark.parametrize(
    ("name", "request_"),
    [
        ("CreateAcls", CreateAclsRequest(creations=RULES)),
        ("DescribeAcls", EVERY_RULE),
        ("DeleteAcls", one_by_one()),
    ],
)
def test_rules_for_every_topic(scale: Scale, name: str, request_: Request[Any]) -> None:
    """Of a node without an authorizer: each rule is refused."""
    scale.ask(name, request_)


def quotas(*, removes: bool) -> AlterClientQuotasRequest:
    change = OpData(key="producer_byte_rate", value=1e6, remove=removes)
    return AlterClientQuotasRequest(
        entries=[
            RequestEntryData(
                entity=[EntityData(entity_type="user", entity_name=name)], ops=[change]
            )
            for name in NAMES
        ],
        validate_only=False,
    )


def test_quotas_of_many_users(scale: Scale) -> None:
    ask = scale.node.client.ask

    def set_and_remove() -> None:
        for removes in (False, True):
            answer = ask(quotas(removes=removes))
            assert {one.error_code for one in answer.entries} == {Errors.NONE}
            described = ask(DescribeClientQuotasRequest(components=[]))
            assert len(described.entries or ()) == (0 if removes else TOPICS)

    scale.undisturbed("AlterClientQuotas and DescribeClientQuotas", set_and_remove)


@pytest.mark.parametrize("validates_only", [False, True])
def test_settings_of_every_topic_as_old_tools_send_them(scale: Scale, validates_only: bool) -> None:
    request = AlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=TOPIC,
                resource_name=name,
                configs=[AlterableConfig(name="retention.ms", value="86400003")],
            )
            for name in NAMES
        ],
        validate_only=validates_only,
    )
    answer = scale.node.client.ask(request)
    assert {one.error_code for one in answer.responses} == {Errors.NONE}
    scale.ask("AlterConfigs", request)
