from __future__ import annotations

import pytest

from kaa.controller.port import ControllerRequestContext
from kaa.limits import CONFIG_SHOWN_CHARACTERS_MAX, NAMES_ANSWERED_PER_SLICE_MAX, RECORDS_PER_PIECE
from kaa.wire.errors import Errors
from kaa.wire.messages.k49_alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    OpData,
    RequestEntryData,
)
from kaa.wire.messages.metadata_settings import ClientQuotaRecord
from tests.unit.controller.cluster import Cluster

Entity = dict[str, str | None]
LONG = "n" * 30_000


def entry(entity: Entity, **values: float | None) -> RequestEntryData:
    return RequestEntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
        ops=[
            OpData(key=key, value=value or 0.0, remove=value is None)
            for key, value in values.items()
        ],
    )


def alter(
    cluster: Cluster, *entries: RequestEntryData, validate_only: bool = False
) -> list[Errors]:
    request = AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)
    return [Errors.of(each.error_code) for each in cluster.send(request).entries]


def test_many_keys_are_looked_at_in_pieces() -> None:
    cluster = Cluster(0)
    keys = [f"key-{number}" for number in range(3 * NAMES_ANSWERED_PER_SLICE_MAX)]
    many = entry({"user": "alice"}, **dict.fromkeys(keys))
    some = entry({"user": "bob"}, **dict.fromkeys(keys[:RECORDS_PER_PIECE]))
    for entries, pauses in (([many], 7), ([some], 1)):
        request = AlterClientQuotasRequest(entries=entries)
        context = ControllerRequestContext(1)
        pieces = cluster.machine.decide(request, context, now_ms=0, next_offset=0)
        assert sum(1 for _ in pieces) == pauses
    assert alter(cluster, many) == [Errors.NONE]


def test_set_change_and_remove() -> None:
    cluster = Cluster(0)
    entity: Entity = {"user": "alice", "client-id": None}
    key = (("client-id", None), ("user", "alice"))
    assert alter(cluster, entry(entity, producer_byte_rate=10, request_percentage=1.5)) == [
        Errors.NONE
    ]
    assert cluster.image.quotas == {key: {"producer_byte_rate": 10, "request_percentage": 1.5}}
    alter(cluster, entry(entity, producer_byte_rate=10, request_percentage=2))
    assert [each.key for each in cluster.written if isinstance(each, ClientQuotaRecord)] == [
        "request_percentage"
    ]
    alter(cluster, entry(entity, producer_byte_rate=None, request_percentage=None))
    assert cluster.image.quotas == {}
    alter(cluster, entry(entity, producer_byte_rate=None))
    assert cluster.written == []


def test_addresses_have_a_quota_of_their_own() -> None:
    cluster = Cluster(0)
    for name in (None, "10.0.0.1", "::1", "host.example"):
        assert alter(cluster, entry({"ip": name}, connection_creation_rate=5)) == [Errors.NONE]
    assert len(cluster.image.quotas) == 4


@pytest.mark.parametrize(
    "wrong",
    [
        entry({}, producer_byte_rate=1),
        entry({"group": "g"}, producer_byte_rate=1),
        entry({"user": ""}, producer_byte_rate=1),
        entry({"user": "u", "ip": "10.0.0.1"}, producer_byte_rate=1),
        entry({"ip": "300.1.1.1"}, connection_creation_rate=1),
        entry({"ip": "not valid"}, connection_creation_rate=1),
        entry({"ip": "10.0.0.1"}, producer_byte_rate=1),
        entry({"user": "u"}, connection_creation_rate=1),
        entry({"user": "u"}, nosuch=1),
        entry({"user": "u"}, producer_byte_rate=0),
        entry({"user": "u"}, producer_byte_rate=-1),
        entry({"user": "u"}, producer_byte_rate=1.5),
        entry({"user": "u"}, producer_byte_rate=1e19),
        entry({"ip": "10.0.0.1"}, connection_creation_rate=2.0**31),
    ],
)
def test_refusals(wrong: RequestEntryData) -> None:
    cluster = Cluster(0)
    good = entry({"client-id": "c"}, consumer_byte_rate=7)
    assert alter(cluster, wrong, good) == [Errors.INVALID_REQUEST, Errors.NONE]
    assert list(cluster.image.quotas) == [(("client-id", "c"),)]


def test_scram_credentials_are_no_quotas() -> None:
    request = entry({"user": "u"})
    request.ops = [OpData(key="SCRAM-SHA-256", value=1.0)]
    assert alter(Cluster(0), request) == [Errors.INVALID_REQUEST]


def test_a_key_that_is_given_twice() -> None:
    request = entry({"user": "u"}, producer_byte_rate=1)
    request.ops.append(OpData(key="producer_byte_rate", value=2.0))
    assert alter(Cluster(0), request) == [Errors.INVALID_REQUEST]


def test_an_entity_that_is_named_twice_keeps_the_first_change() -> None:
    cluster = Cluster(0)
    first = entry({"user": "u"}, producer_byte_rate=1)
    second = entry({"user": "u"}, producer_byte_rate=2)
    assert alter(cluster, first, second) == [Errors.INVALID_REQUEST]
    assert cluster.image.quotas == {(("user", "u"),): {"producer_byte_rate": 1}}


def test_validate_only() -> None:
    cluster = Cluster(0)
    change = entry({"user": "u"}, producer_byte_rate=1)
    assert alter(cluster, change, validate_only=True) == [Errors.NONE]
    assert cluster.image.quotas == {}


@pytest.mark.parametrize(
    "wrong",
    [
        entry({"ip": LONG}, connection_creation_rate=1),
        entry({LONG: "a"}, producer_byte_rate=1),
        entry({"user": "a"}, **{LONG: 1}),
        RequestEntryData(
            entity=[EntityData(entity_type="user", entity_name="a")],
            ops=[OpData(key=LONG, value=1.0)] * 2,
        ),
    ],
)
def test_a_refusal_does_not_repeat_all_of_a_long_name(wrong: RequestEntryData) -> None:
    (refused,) = Cluster(0).send(AlterClientQuotasRequest(entries=[wrong])).entries
    assert refused.error_code == Errors.INVALID_REQUEST
    assert "n..." in refused.error_message
    assert len(refused.error_message) < 2 * CONFIG_SHOWN_CHARACTERS_MAX
