from __future__ import annotations

from random import Random

from kaa.controller.bootstrap import (
    activation_records,
    bootstrap_records,
    read_bootstrap_records,
)
from kaa.controller.feature_table import record_version
from kaa.controller.framing import encode_record
from kaa.controller.image import ClusterImage
from kaa.controller.state import ControllerSettings, ControllerState
from kaa.wire.messages.metadata_cluster import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
)
from kaa.wire.messages.metadata_settings import ConfigRecord
from tests.unit.controller.cluster import CLUSTER_ID, NODE_ID, Cluster, Quorum, broker_config


def empty_state() -> ControllerState:
    settings = ControllerSettings(NODE_ID, CLUSTER_ID, broker_config(min_insync_replicas="2"))
    return ControllerState(ClusterImage(), settings, Random(1), Quorum())


def test_features_in_the_order_of_their_names() -> None:
    records = bootstrap_records(30, {"group.version": 0, "kraft.version": 1})
    names = [record.name for record in records if isinstance(record, FeatureLevelRecord)]
    assert names == [
        "metadata.version",
        "eligible.leader.replicas.version",
        "share.version",
        "streams.version",
        "transaction.version",
    ]
    values = [encode_record(record, record_version(record, {})) for record in records]
    assert read_bootstrap_records(values) == records


def test_an_empty_log_gets_them_in_a_transaction() -> None:
    result = activation_records(empty_state(), bootstrap_records(), is_transaction_open=False)
    kinds = [type(record) for record in result.records]
    assert (kinds[0], kinds[-1]) == (BeginTransactionRecord, EndTransactionRecord)
    assert result.records[-2] == ConfigRecord(
        resource_type=4, resource_name="", name="min.insync.replicas", value="2"
    )


def test_an_unfinished_bootstrap_is_aborted_first() -> None:
    result = activation_records(empty_state(), bootstrap_records(), is_transaction_open=True)
    assert isinstance(result.records[0], AbortTransactionRecord)
    assert isinstance(result.records[1], BeginTransactionRecord)


def test_old_metadata_knows_no_transactions() -> None:
    result = activation_records(empty_state(), bootstrap_records(12), is_transaction_open=False)
    assert result.is_atomic
    assert result.records == [FeatureLevelRecord(name="metadata.version", feature_level=12)]


def test_a_log_that_has_them_gets_nothing() -> None:
    state = Cluster(1).state
    assert activation_records(state, bootstrap_records(), is_transaction_open=False).records == []
    (abort,) = activation_records(state, bootstrap_records(), is_transaction_open=True).records
    assert isinstance(abort, AbortTransactionRecord)
