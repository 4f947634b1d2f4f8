package kafka.server.share;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.PriorityQueue;
import java.util.concurrent.CompletableFuture;
import java.util.function.Supplier;
import org.apache.kafka.clients.consumer.internals.ShareAcquireMode;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.group.GroupConfigManager;
import org.apache.kafka.coordinator.group.GroupCoordinatorConfig;
import org.apache.kafka.coordinator.group.modern.share.ShareGroupConfig;
import org.apache.kafka.server.share.acknowledge.ShareAcknowledgementBatch;
import org.apache.kafka.server.share.fetch.ShareAcquiredRecords;
import org.apache.kafka.server.share.persister.PartitionFactory;
import org.apache.kafka.server.share.persister.PartitionStateBatchData;
import org.apache.kafka.server.share.persister.Persister;
import org.apache.kafka.server.share.persister.PersisterStateBatch;
import org.apache.kafka.server.share.persister.ReadShareGroupStateResult;
import org.apache.kafka.server.share.persister.TopicData;
import org.apache.kafka.server.share.persister.WriteShareGroupStateParameters;
import org.apache.kafka.server.share.persister.WriteShareGroupStateResult;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.storage.log.FetchPartitionData;
import org.apache.kafka.server.util.timer.Timer;
import org.apache.kafka.server.util.timer.TimerTask;
import org.apache.kafka.server.util.timer.TimerTaskEntry;

/** Kafka's share partition under a history of commands; in its package, to see its offsets. */
public final class SharePartitionHistory {
    private static final JsonNodeFactory NODES = JsonNodeFactory.instance;
    private static final TopicIdPartition PARTITION =
        new TopicIdPartition(new Uuid(1, 2), new TopicPartition("t", 0));

    private final List<CompletableFuture<WriteShareGroupStateResult>> writes = new ArrayList<>();
    private final Alarm alarm = new Alarm();
    private final SharePartition partition;
    private ArrayNode written;

    private SharePartitionHistory(JsonNode item) {
        List<PersisterStateBatch> batches = new ArrayList<>();
        item.get("batches").forEach(batch -> batches.add(new PersisterStateBatch(
            batch.get(0).asLong(), batch.get(1).asLong(),
            (byte) batch.get(3).asInt(), (short) batch.get(2).asInt())));
        ReadShareGroupStateResult state = new ReadShareGroupStateResult.Builder()
            .setTopicsData(List.of(new TopicData<>(PARTITION.topicId(), List.of(
                PartitionFactory.newPartitionAllData(0, 0, item.get("start").asLong(), (short) 0,
                    "", batches)))))
            .build();
        Persister persister = (Persister) Proxy.newProxyInstance(
            SharePartitionHistory.class.getClassLoader(),
            new Class<?>[] {Persister.class},
            (proxy, method, arguments) -> switch (method.getName()) {
                case "readState" -> CompletableFuture.completedFuture(state);
                case "writeState" -> write((WriteShareGroupStateParameters) arguments[0]);
                default -> throw new UnsupportedOperationException(method.getName());
            });
        ConfigDef both = new ConfigDef(GroupCoordinatorConfig.CONFIG_DEF);
        ShareGroupConfig.CONFIG_DEF.configKeys().values().forEach(both::define);
        AbstractConfig config = new AbstractConfig(both, Map.of());
        partition = new SharePartition("g", PARTITION, 0, item.get("locks").asInt(),
            item.get("deliveries").asInt(), item.get("lock_ms").asInt(), alarm, alarm, persister,
            null, new GroupConfigManager(Map.of(), new GroupCoordinatorConfig(config),
                new ShareGroupConfig(config)), null);
        partition.maybeInitialize().join();
    }

    public static JsonNode run(JsonNode item) {
        SharePartitionHistory history = new SharePartitionHistory(item);
        ArrayNode answers = NODES.arrayNode();
        answers.add(history.offsets(NODES.objectNode()));
        for (JsonNode command : item.get("commands")) {
            ObjectNode answer = answers.addObject();
            history.written = answer.putArray("written");
            history.alarm.nowMs = command.get("now").asLong();
            history.execute(command, answer);
            history.offsets(answer);
        }
        return answers;
    }

    private ObjectNode offsets(ObjectNode answer) {
        return answer.put("next", partition.nextFetchOffset())
            .put("start", partition.startOffset())
            .put("end", partition.endOffset())
            .put("done", partition.deliveryCompleteCount())
            .put("room", partition.canAcquireRecords());
    }

    private CompletableFuture<WriteShareGroupStateResult> write(
            WriteShareGroupStateParameters asked) {
        PartitionStateBatchData data = asked.groupTopicPartitionData().topicsData().get(0)
            .partitions().get(0);
        ObjectNode node = written.addObject().put("start", data.startOffset())
            .put("done", data.deliveryCompleteCount());
        ArrayNode batches = node.putArray("batches");
        data.stateBatches().forEach(batch -> batches.addArray().add(batch.firstOffset())
            .add(batch.lastOffset()).add(batch.deliveryCount()).add(batch.deliveryState()));
        CompletableFuture<WriteShareGroupStateResult> future = new CompletableFuture<>();
        writes.add(future);
        return future;
    }

    private void execute(JsonNode command, ObjectNode answer) {
        String member = command.path("member").asText();
        switch (command.get("op").asText()) {
            case "fetch" -> {
                ShareAcquiredRecords found = partition.acquire(member,
                    command.get("record_limit").asBoolean()
                        ? ShareAcquireMode.RECORD_LIMIT : ShareAcquireMode.BATCH_OPTIMIZED,
                    command.get("batch_size").asInt(), command.get("records_max").asInt(),
                    command.get("offset").asLong(), fetched(command),
                    FetchIsolation.TXN_COMMITTED);
                ArrayNode acquired = answer.putArray("acquired");
                found.acquiredRecords().forEach(one -> acquired.addArray().add(one.firstOffset())
                    .add(one.lastOffset()).add(one.deliveryCount()));
            }
            case "acknowledge" -> {
                List<ShareAcknowledgementBatch> batches = new ArrayList<>();
                command.get("batches").forEach(batch -> {
                    List<Byte> types = new ArrayList<>();
                    batch.get(2).forEach(type -> types.add((byte) type.asInt()));
                    batches.add(new ShareAcknowledgementBatch(
                        batch.get(0).asLong(), batch.get(1).asLong(), types));
                });
                outcome(partition.acknowledge(member, batches), answer);
            }
            case "release" -> outcome(partition.releaseAcquiredRecords(member), answer);
            case "written" -> writes.get(command.get("write").asInt()).complete(result(
                command.get("ok").asBoolean() ? 0 : Errors.UNKNOWN_SERVER_ERROR.code()));
            case "expire" -> {
                int before = writes.size();
                alarm.ring();
                List<CompletableFuture<WriteShareGroupStateResult>> made =
                    writes.subList(before, writes.size());
                made.forEach(write -> write.complete(result((short) 0)));
                made.clear();
            }
            case "log_start" -> partition.updateCacheAndOffsets(command.get("offset").asLong());
            default -> throw new IllegalArgumentException("no command " + command.get("op"));
        }
    }

    private static WriteShareGroupStateResult result(short error) {
        return new WriteShareGroupStateResult.Builder().setTopicsData(List.of(new TopicData<>(
            PARTITION.topicId(),
            List.of(PartitionFactory.newPartitionErrorData(0, error, ""))))).build();
    }

    private static void outcome(CompletableFuture<Void> future, ObjectNode answer) {
        int code = 0;
        if (future.isCompletedExceptionally()) {
            code = future.handle((none, thrown) -> Errors.forException(thrown).code()).join();
        }
        answer.put("error", code);
    }

    private static FetchPartitionData fetched(JsonNode command) {
        ByteBuffer buffer = ByteBuffer.allocate(1 << 20);
        for (JsonNode batch : command.get("batches")) {
            long base = batch.get(0).asLong();
            boolean isTransactional = batch.get(2).asLong() >= 0;
            MemoryRecordsBuilder builder = MemoryRecords.builder(buffer, RecordBatch.MAGIC_VALUE_V2,
                Compression.NONE, TimestampType.CREATE_TIME, base, 0L,
                isTransactional ? batch.get(2).asLong() : RecordBatch.NO_PRODUCER_ID,
                isTransactional ? 0 : RecordBatch.NO_PRODUCER_EPOCH,
                isTransactional ? 0 : RecordBatch.NO_SEQUENCE, isTransactional, 0);
            builder.appendWithOffset(base, 0L, null, new byte[0]);
            if (batch.get(1).asLong() > base) {
                builder.appendWithOffset(batch.get(1).asLong(), 0L, null, new byte[0]);
            }
            builder.close();
        }
        buffer.flip();
        List<FetchResponseData.AbortedTransaction> aborted = new ArrayList<>();
        command.get("aborted").forEach(one -> aborted.add(
            new FetchResponseData.AbortedTransaction().setProducerId(one.get(0).asLong())
                .setFirstOffset(one.get(1).asLong())));
        return new FetchPartitionData(Errors.NONE, Long.MAX_VALUE, 0,
            MemoryRecords.readableRecords(buffer), Optional.empty(), OptionalLong.empty(),
            Optional.of(aborted), OptionalInt.empty(), false);
    }

    /** A timer and its clock, which move only when they are told. */
    private static final class Alarm implements Timer, Time {
        private record Entry(long deadlineMs, int number, TimerTask task) { }

        private final PriorityQueue<Entry> entries = new PriorityQueue<>(
            Comparator.comparingLong(Entry::deadlineMs).thenComparingInt(Entry::number));
        private long nowMs;
        private int count;

        @Override
        public void add(TimerTask task) {
            new TimerTaskEntry(task, nowMs + task.delayMs);
            entries.add(new Entry(nowMs + task.delayMs, count++, task));
        }

        void ring() {
            while (!entries.isEmpty() && entries.peek().deadlineMs() <= nowMs) {
                TimerTask task = entries.poll().task();
                if (!task.isCancelled()) {
                    try {
                        task.run();
                    } catch (NullPointerException noReplicaManager) {
                        // There is no fetch that waits and could be told.
                    }
                }
            }
        }

        @Override
        public boolean advanceClock(long timeoutMs) {
            return false;
        }

        @Override
        public int size() {
            return entries.size();
        }

        @Override
        public void close() {
        }

        @Override
        public long milliseconds() {
            return nowMs;
        }

        @Override
        public long nanoseconds() {
            return nowMs * 1_000_000;
        }

        @Override
        public void sleep(long ms) {
            throw new UnsupportedOperationException();
        }

        @Override
        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
            throw new UnsupportedOperationException();
        }
    }
}
