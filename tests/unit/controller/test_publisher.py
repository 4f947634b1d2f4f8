from __future__ import annotations

import asyncio

from kaa.controller.image import ClusterImage, Delta
from kaa.controller.publisher import ImagePublisher
from kaa.limits import PUBLISHED_CHANGES_PER_TURN_MAX, PUBLISHED_PARTITIONS_PER_TURN_MAX
from kaa.wire.messages.metadata_cluster import FeatureLevelRecord, RegisterControllerRecord
from kaa.wire.messages.metadata_settings import ClientQuotaRecord, ConfigRecord, EntityData
from kaa.wire.messages.metadata_topics import PartitionRecord, RemoveTopicRecord, TopicRecord
from tests.support.ids import uuid


def image() -> ClusterImage:
    made = ClusterImage()
    made.replay(FeatureLevelRecord(name="metadata.version", feature_level=30))
    return made


def add_topic(made: ClusterImage, number: int, partitions: int) -> None:
    made.replay(TopicRecord(name=f"t{number}", topic_id=uuid(number)))
    for partition in range(partitions):
        made.replay(PartitionRecord(topic_id=uuid(number), partition_id=partition))


class Followed:
    def __init__(self, made: ClusterImage) -> None:
        self.deltas: list[Delta] = []
        self.offsets: list[int] = []
        self.reports: list[str] = []
        self.publisher = ImagePublisher(
            asyncio.get_running_loop(), made, self.reports.append, self.offsets.append
        )
        self.publisher.subscribe("the list", lambda _, delta: self.deltas.append(delta))


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_a_change_is_published_later_in_the_order_of_the_log() -> None:
    async def scenario() -> None:
        made = image()
        followed = Followed(made)
        followed.publisher.committed(made, 5)
        assert followed.deltas == []
        assert followed.publisher.published_offset == 0
        await turns()
        assert [delta.features for delta in followed.deltas] == [{"metadata.version"}]
        assert followed.offsets == [5]
        # Nothing changed, and yet the node has followed further.
        followed.publisher.committed(made, 9)
        await turns()
        assert len(followed.deltas) == 1
        assert followed.publisher.published_offset == 9

    asyncio.run(scenario())


def test_many_partitions_come_in_slices_and_the_offset_after_the_last() -> None:
    async def scenario() -> None:
        made = image()
        followed = Followed(made)
        count = 3 * PUBLISHED_PARTITIONS_PER_TURN_MAX + 1
        add_topic(made, 1, count)
        followed.publisher.committed(made, 10)
        await asyncio.sleep(0)
        assert len(followed.deltas) == 1
        assert followed.offsets == []
        # What is committed meanwhile comes after it.
        add_topic(made, 2, 1)
        followed.publisher.committed(made, 20)
        await turns()
        sizes = [len(delta.partitions) for delta in followed.deltas]
        assert sizes == [PUBLISHED_PARTITIONS_PER_TURN_MAX] * 3 + [1, 1]
        assert followed.deltas[0].features
        assert not followed.deltas[1].features
        assert followed.offsets == [10, 20]

    asyncio.run(scenario())


def test_many_deletions_and_settings_come_in_slices_before_the_partitions() -> None:
    async def scenario() -> None:
        made = image()
        followed = Followed(made)
        count = 2 * PUBLISHED_CHANGES_PER_TURN_MAX
        for number in range(count):
            add_topic(made, number, 1)
        made.take_delta()
        for number in range(count):
            made.replay(RemoveTopicRecord(topic_id=uuid(number)))
            name = f"n{number}"
            made.replay(ConfigRecord(resource_type=2, resource_name=name, name="a", value="b"))
            entity = [EntityData(entity_type="user", entity_name=name)]
            made.replay(ClientQuotaRecord(entity=entity, key="producer_byte_rate", value=1.0))
        add_topic(made, count, PUBLISHED_PARTITIONS_PER_TURN_MAX)
        followed.publisher.committed(made, 10)
        await turns()
        sizes = [
            (
                len(delta.deleted_topics),
                len(delta.configs),
                len(delta.quotas),
                len(delta.partitions),
            )
            for delta in followed.deltas
        ]
        assert [sum(size) for size in zip(*sizes, strict=True)] == [
            count,
            count,
            count,
            PUBLISHED_PARTITIONS_PER_TURN_MAX,
        ]
        most = PUBLISHED_CHANGES_PER_TURN_MAX
        assert all(2 * deleted + others + more <= most for deleted, others, more, _ in sizes)
        # Each kind begins where the one before it has ended.
        kinds = [index for size in sizes for index, number in enumerate(size) if number]
        assert kinds == sorted(kinds)
        assert followed.offsets == [10]

    asyncio.run(scenario())


def test_a_topic_that_went_before_its_turn_is_not_published_as_there() -> None:
    async def scenario() -> None:
        made = image()
        followed = Followed(made)
        add_topic(made, 1, 2 * PUBLISHED_PARTITIONS_PER_TURN_MAX)
        followed.publisher.committed(made, 10)
        await asyncio.sleep(0)
        made.replay(RemoveTopicRecord(topic_id=uuid(1)))
        followed.publisher.committed(made, 11)
        await turns()
        assert [len(delta.partitions) for delta in followed.deltas] == [
            PUBLISHED_PARTITIONS_PER_TURN_MAX,
            0,
        ]
        assert list(followed.deltas[-1].deleted_topics) == [uuid(1)]

    asyncio.run(scenario())


def test_a_subscriber_that_fails_stops_neither_others_nor_what_follows() -> None:
    async def scenario() -> None:
        made = image()
        followed = Followed(made)
        after: list[Delta] = []

        def fail(_: ClusterImage, delta: Delta) -> None:
            if not delta.partitions:
                raise OSError("no space left")

        followed.publisher.subscribe("the disk", fail)
        followed.publisher.subscribe("the last", lambda _, delta: after.append(delta))
        followed.publisher.committed(made, 5)
        await turns()
        assert len(followed.deltas) == len(after) == 1
        assert followed.publisher.fault_count == 1
        assert "the disk could not follow" in followed.reports[0]
        assert "no space left" in followed.reports[0]
        add_topic(made, 1, 1)
        followed.publisher.committed(made, 6)
        await turns()
        assert len(followed.deltas) == len(after) == 2
        assert followed.publisher.published_offset == 6

    asyncio.run(scenario())


def test_nothing_is_published_of_a_cluster_without_features() -> None:
    async def scenario() -> None:
        made = ClusterImage()
        followed = Followed(made)
        add_topic(made, 1, 1)
        followed.publisher.committed(made, 3)
        await turns()
        assert followed.deltas == []
        made.replay(FeatureLevelRecord(name="metadata.version", feature_level=30))
        followed.publisher.committed(made, 4)
        await turns()
        assert len(followed.deltas[0].partitions) == 1

    asyncio.run(scenario())


def test_another_image_is_published_even_if_no_subscriber_follows_what_changed() -> None:
    """Subscribers read the image; they must not go on with one that nothing changes any more."""

    async def scenario() -> None:
        made = image()
        seen: list[ClusterImage] = []
        followed = Followed(made)
        followed.publisher.subscribe("the reader", lambda read, _: seen.append(read))
        followed.publisher.committed(made, 4)
        await turns()
        loaded = made.copy()
        loaded.replay(RegisterControllerRecord(controller_id=9))
        followed.publisher.committed(loaded, 8)
        await turns()
        assert [id(one) for one in seen] == [id(made), id(loaded)]
        followed.publisher.committed(loaded, 9)
        await turns()
        assert len(seen) == 2

    asyncio.run(scenario())
