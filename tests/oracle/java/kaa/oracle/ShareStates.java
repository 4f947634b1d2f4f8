package kaa.oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.message.DeleteShareGroupStateRequestData;
import org.apache.kafka.common.message.InitializeShareGroupStateRequestData;
import org.apache.kafka.common.message.ReadShareGroupStateRequestData;
import org.apache.kafka.common.message.ReadShareGroupStateResponseData;
import org.apache.kafka.common.message.ReadShareGroupStateSummaryRequestData;
import org.apache.kafka.common.message.ReadShareGroupStateSummaryResponseData;
import org.apache.kafka.common.message.WriteShareGroupStateRequestData;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorResult;
import org.apache.kafka.coordinator.share.ShareCoordinatorConfig;
import org.apache.kafka.coordinator.share.ShareCoordinatorRecordSerde;
import org.apache.kafka.coordinator.share.ShareCoordinatorShard;
import org.apache.kafka.coordinator.share.metrics.ShareCoordinatorMetrics;
import org.apache.kafka.timeline.SnapshotRegistry;

/** Kafka's share coordinator of one partition: commands in, responses and records out. */
final class ShareStates {
    private static final ShareCoordinatorRecordSerde SERDE = new ShareCoordinatorRecordSerde();

    private final ManualTime time = new ManualTime(0);
    private final ShareCoordinatorShard shard;
    private long offset;

    private ShareStates(JsonNode item) {
        Map<String, Object> settings = new HashMap<>();
        settings.put(ShareCoordinatorConfig.SNAPSHOT_UPDATE_RECORDS_PER_SNAPSHOT_CONFIG,
            item.get("updates").asInt());
        settings.put(ShareCoordinatorConfig.COLD_PARTITION_SNAPSHOT_INTERVAL_MS_CONFIG,
            item.get("cold").asInt());
        SnapshotRegistry registry = new SnapshotRegistry(new LogContext());
        shard = new ShareCoordinatorShard.Builder(
            new ShareCoordinatorConfig(
                new AbstractConfig(ShareCoordinatorConfig.CONFIG_DEF, settings)))
            .withSnapshotRegistry(registry)
            .withLogContext(new LogContext())
            .withTime(time)
            .withCoordinatorMetrics(new ShareCoordinatorMetrics(new Metrics()))
            .withTopicPartition(new TopicPartition("__share_group_state", 0))
            .build();
        shard.onLoaded(image(item.get("topics")));
    }

    /** A history from the beginning; for each command what was answered and written. */
    static JsonNode run(JsonNode item) {
        ShareStates states = new ShareStates(item);
        ArrayNode answers = Json.array();
        for (JsonNode command : item.get("commands")) {
            states.time.set(command.get("now").asLong());
            ObjectNode answer = answers.addObject();
            CoordinatorResult<?, CoordinatorRecord> result = states.execute(command, answer);
            ArrayNode records = answer.putArray("records");
            for (CoordinatorRecord record : result.records()) {
                states.shard.replay(states.offset++, -1, (short) -1, record);
                ArrayNode pair = records.addArray();
                pair.add(Json.binary(ByteBuffer.wrap(SERDE.serializeKey(record))));
                byte[] value = SERDE.serializeValue(record);
                pair.add(value == null ? Json.binary(null) : Json.binary(ByteBuffer.wrap(value)));
            }
            Optional<Long> redundant = states.shard.lastRedundantOffset().response();
            answer.put("redundant", redundant.orElse(-1L));
        }
        return answers;
    }

    private CoordinatorResult<?, CoordinatorRecord> execute(JsonNode command, ObjectNode answer) {
        String group = command.path("group").asText();
        Uuid topic = Uuid.fromString(command.get("topic").asText());
        int partition = command.path("partition").asInt();
        int stateEpoch = command.path("state_epoch").asInt();
        int leaderEpoch = command.path("leader_epoch").asInt();
        long start = command.path("start").asLong();
        switch (command.get("op").asText()) {
            case "initialise": {
                var result = shard.initializeState(new InitializeShareGroupStateRequestData()
                    .setGroupId(group)
                    .setTopics(List.of(
                        new InitializeShareGroupStateRequestData.InitializeStateData()
                        .setTopicId(topic)
                        .setPartitions(List.of(
                            new InitializeShareGroupStateRequestData.PartitionData()
                                .setPartition(partition)
                                .setStateEpoch(stateEpoch)
                                .setStartOffset(start))))));
                answer.put("error",
                    result.response().results().get(0).partitions().get(0).errorCode());
                return result;
            }
            case "write": {
                List<WriteShareGroupStateRequestData.StateBatch> batches = new ArrayList<>();
                command.get("batches").forEach(batch -> batches.add(
                    new WriteShareGroupStateRequestData.StateBatch()
                        .setFirstOffset(batch.get(0).asLong())
                        .setLastOffset(batch.get(1).asLong())
                        .setDeliveryCount((short) batch.get(2).asInt())
                        .setDeliveryState((byte) batch.get(3).asInt())));
                var result = shard.writeState(new WriteShareGroupStateRequestData()
                    .setGroupId(group)
                    .setTopics(List.of(new WriteShareGroupStateRequestData.WriteStateData()
                        .setTopicId(topic)
                        .setPartitions(List.of(new WriteShareGroupStateRequestData.PartitionData()
                            .setPartition(partition)
                            .setStateEpoch(stateEpoch)
                            .setLeaderEpoch(leaderEpoch)
                            .setStartOffset(start)
                            .setDeliveryCompleteCount(command.get("count").asInt())
                            .setStateBatches(batches))))));
                answer.put("error",
                    result.response().results().get(0).partitions().get(0).errorCode());
                return result;
            }
            case "read": {
                var result = shard.readStateAndMaybeUpdateLeaderEpoch(
                    new ReadShareGroupStateRequestData()
                        .setGroupId(group)
                        .setTopics(List.of(new ReadShareGroupStateRequestData.ReadStateData()
                            .setTopicId(topic)
                            .setPartitions(List.of(
                                new ReadShareGroupStateRequestData.PartitionData()
                                .setPartition(partition)
                                .setLeaderEpoch(leaderEpoch))))));
                ReadShareGroupStateResponseData.PartitionResult found =
                    result.response().results().get(0).partitions().get(0);
                answer.put("error", found.errorCode()).put("start", found.startOffset())
                    .put("state_epoch", found.stateEpoch());
                ArrayNode batches = answer.putArray("batches");
                found.stateBatches().forEach(batch -> batches.addArray()
                    .add(batch.firstOffset()).add(batch.lastOffset())
                    .add(batch.deliveryCount()).add(batch.deliveryState()));
                return result;
            }
            case "summary": {
                var result = shard.readStateSummary(new ReadShareGroupStateSummaryRequestData()
                    .setGroupId(group)
                    .setTopics(List.of(
                        new ReadShareGroupStateSummaryRequestData.ReadStateSummaryData()
                            .setTopicId(topic)
                            .setPartitions(List.of(
                                new ReadShareGroupStateSummaryRequestData.PartitionData()
                                    .setPartition(partition)
                                    .setLeaderEpoch(leaderEpoch))))));
                ReadShareGroupStateSummaryResponseData.PartitionResult found =
                    result.response().results().get(0).partitions().get(0);
                answer.put("error", found.errorCode()).put("start", found.startOffset())
                    .put("state_epoch", found.stateEpoch())
                    .put("leader_epoch", found.leaderEpoch())
                    .put("count", found.deliveryCompleteCount());
                return result;
            }
            case "delete": {
                var result = shard.deleteState(new DeleteShareGroupStateRequestData()
                    .setGroupId(group)
                    .setTopics(List.of(new DeleteShareGroupStateRequestData.DeleteStateData()
                        .setTopicId(topic)
                        .setPartitions(List.of(new DeleteShareGroupStateRequestData.PartitionData()
                            .setPartition(partition))))));
                answer.put("error",
                    result.response().results().get(0).partitions().get(0).errorCode());
                return result;
            }
            case "cold":
                return shard.snapshotColdPartitions();
            default:
                throw new IllegalArgumentException("no command " + command.get("op"));
        }
    }

    private static CoordinatorMetadataImage image(JsonNode topics) {
        return (CoordinatorMetadataImage) Proxy.newProxyInstance(
            ShareStates.class.getClassLoader(),
            new Class<?>[] {CoordinatorMetadataImage.class},
            (proxy, method, arguments) -> {
                JsonNode count = topics.get(arguments[0].toString());
                return count == null ? Optional.empty() : Optional.of(Proxy.newProxyInstance(
                    ShareStates.class.getClassLoader(),
                    new Class<?>[] {CoordinatorMetadataImage.TopicMetadata.class},
                    (inner, question, none) -> count.asInt()));
            });
    }
}
