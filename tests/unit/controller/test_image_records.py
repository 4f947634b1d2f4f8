"""Whatever happened to a cluster, the records of its image make an equal one."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kaa.controller.feature_table import record_version
from kaa.controller.framing import decode_record, encode_record
from kaa.controller.image import ClusterImage
from kaa.wire.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from kaa.wire.messages.k67_allocate_producer_ids import AllocateProducerIdsRequest
from kaa.wire.messages.metadata_cluster import FeatureLevelRecord
from tests.unit.controller.cluster import Cluster
from tests.unit.controller.replica_node import image_of
from tests.unit.controller.test_configs import alter, changed
from tests.unit.controller.test_quotas import alter as alter_quotas
from tests.unit.controller.test_quotas import entry


def rebuilt(image: ClusterImage) -> ClusterImage:
    """The image that the bytes of a snapshot make."""
    other = ClusterImage()
    for record in image.records():
        value = encode_record(record, record_version(record, image.features))
        other.replay(decode_record(value)[0])
    return other


def test_metadata_version_comes_first() -> None:
    first = next(iter(Cluster(1).image.records()))
    assert first == FeatureLevelRecord(name="metadata.version", feature_level=30)


actions = st.lists(
    st.tuples(
        st.sampled_from(["create", "delete", "fence", "unfence", "config", "quota", "ids"]),
        st.integers(0, 3),
    ),
    max_size=15,
)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(actions=actions, metadata_version=st.sampled_from([30, 24, 18, 14]))
def test_an_image_is_equal_to_the_one_its_own_records_make(
    actions: list[tuple[str, int]], metadata_version: int
) -> None:
    cluster = Cluster(4, metadata_version=metadata_version, directories=2)
    for what, number in actions:
        name = f"topic-{number}"
        handlers: dict[str, Any] = {
            "create": lambda: cluster.create(name, partitions=number + 1, factor=2),  # noqa: B023
            "delete": lambda: cluster.send(
                DeleteTopicsRequest(topics=[DeleteTopicState(name=name)])  # noqa: B023
            ),
            "fence": lambda: cluster.fence(number),  # noqa: B023
            "unfence": lambda: cluster.heartbeat(number),  # noqa: B023
            "config": lambda: alter(
                cluster,
                changed(2, name, ("retention.ms", 0, str(number))),  # noqa: B023
            ),
            "quota": lambda: alter_quotas(
                cluster,
                entry({"user": name}, producer_byte_rate=number + 1),  # noqa: B023
            ),
            "ids": lambda: cluster.send(
                AllocateProducerIdsRequest(broker_id=0, broker_epoch=cluster.epochs[0])
            ),
        }
        handlers[what]()
    assert image_of(rebuilt(cluster.image)) == image_of(cluster.image)
