package kaa.oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.IntNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.common.message.FetchResponseData.AbortedTransaction;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.Records;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.BatchMetadata;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.FetchDataInfo;
import org.apache.kafka.storage.internals.log.LogAppendInfo;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.LogStartOffsetIncrementReason;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.ProducerStateEntry;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.log.VerificationGuard;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/** Partition logs in Kafka's own hands: what it writes, and what it makes of files of ours. */
final class Logs {
    private static final int TRANSACTION_TIMEOUT_MS = 900_000;
    private static final int PRODUCER_EXPIRATION_MS = 86_400_000;
    private static final int PRODUCER_CHECK_MS = 600_000;
    private static final int CLEANER_BUFFER = 1 << 20;
    private static final double CLEANER_LOAD = 0.9;

    private final Map<Integer, Open> logs = new ConcurrentHashMap<>();
    private final AtomicInteger nextId = new AtomicInteger();

    /** A log and the clock it lives by. */
    private record Open(UnifiedLog log, ManualTime time) {
    }

    /** What can be done with an open log. */
    @FunctionalInterface
    private interface Step {
        JsonNode take(Open open, JsonNode item) throws Exception;
    }

    void register(Map<String, Operation> operations) {
        operations.put("log.open", this::open);
        step(operations, "log.append", Logs::append);
        step(operations, "log.read", Logs::read);
        step(operations, "log.clean", Logs::clean);
        step(operations, "log.state", (open, item) -> state(open));
        step(operations, "log.roll", (open, item) -> {
            open.log.roll();
            return state(open);
        });
        step(operations, "log.truncate", (open, item) -> {
            open.log.truncateTo(item.path("offset").asLong());
            return state(open);
        });
        step(operations, "log.high_watermark", (open, item) -> {
            open.log.updateHighWatermark(item.path("offset").asLong());
            return state(open);
        });
        step(operations, "log.start_offset", (open, item) -> {
            open.log.maybeIncrementLogStartOffset(
                item.path("offset").asLong(), LogStartOffsetIncrementReason.ClientRecordDeletion);
            return state(open);
        });
        step(operations, "log.delete_old_segments", (open, item) -> {
            open.log.deleteOldSegments();
            return state(open);
        });
        step(operations, "log.timestamp", (open, item) -> Json.MAPPER.valueToTree(
            open.log.fetchOffsetByTimestamp(item.path("timestamp").asLong(), Optional.empty())
                .timestampAndOffsetOpt().map(Logs::timestampAndOffset).orElse(null)));
        operations.put("log.close", item -> {
            Open open = logs.remove(item.path("log").asInt());
            ObjectNode last = state(open);
            open.log.close();
            return last;
        });
    }

    private void step(Map<String, Operation> operations, String name, Step step) {
        operations.put(name, item -> {
            Open open = logs.get(item.path("log").asInt());
            if (item.hasNonNull("now")) {
                open.time.set(item.get("now").asLong());
            }
            return step.take(open, item);
        });
    }

    /** Opens the log in a folder, new or old; an unclean one is recovered. */
    private JsonNode open(JsonNode item) throws Exception {
        Map<String, String> config = new HashMap<>();
        item.path("config").properties().forEach(
            setting -> config.put(setting.getKey(), setting.getValue().asText()));
        ManualTime time = new ManualTime(item.path("now").asLong());
        UnifiedLog log = UnifiedLog.create(
            new File(item.path("folder").asText()),
            new LogConfig(config),
            item.path("startOffset").asLong(),
            item.path("recoveryPoint").asLong(),
            new PromptScheduler(),
            new BrokerTopicStats(),
            time,
            TRANSACTION_TIMEOUT_MS,
            new ProducerStateManagerConfig(PRODUCER_EXPIRATION_MS, false),
            PRODUCER_CHECK_MS,
            new LogDirFailureChannel(1),
            item.path("clean").asBoolean(),
            Optional.empty());
        int id = nextId.incrementAndGet();
        logs.put(id, new Open(log, time));
        return IntNode.valueOf(id);
    }

    private static JsonNode append(Open open, JsonNode item) throws Exception {
        MemoryRecords records = MemoryRecords.readableRecords(Json.buffer(item, "bytes"));
        int leaderEpoch = item.path("leaderEpoch").asInt();
        LogAppendInfo info;
        try {
            if (item.path("follower").asBoolean()) {
                info = open.log.appendAsFollower(records, leaderEpoch);
            } else {
                info = open.log.appendAsLeader(
                    records,
                    leaderEpoch,
                    AppendOrigin.valueOf(item.path("origin").asText("CLIENT")),
                    RequestLocal.noCaching(),
                    VerificationGuard.SENTINEL,
                    (short) item.path("transactionVersion").asInt());
            }
        } catch (RuntimeException refused) {
            throw RecordValidator.refusal(refused, Json.object());
        }
        return Json.object()
            .put("firstOffset", info.firstOffset())
            .put("lastOffset", info.lastOffset())
            .put("lastLeaderEpoch", info.lastLeaderEpoch().orElse(null))
            .put("maxTimestamp", info.maxTimestamp())
            .put("logAppendTime", info.logAppendTime())
            .put("logStartOffset", info.logStartOffset())
            .put("sourceCompression", info.sourceCompression().name)
            .put("validBytes", info.validBytes());
    }

    private static JsonNode read(Open open, JsonNode item) throws Exception {
        FetchDataInfo info = open.log.read(
            item.path("offset").asLong(),
            item.path("maxBytes").asInt(),
            FetchIsolation.valueOf(item.path("isolation").asText("LOG_END")),
            item.path("minOneMessage").asBoolean());
        ObjectNode answer = Json.object();
        answer.set("bytes", Json.binary(bytes(info.records)));
        ArrayNode aborted = answer.putArray("aborted");
        for (AbortedTransaction one : info.abortedTransactions.orElse(List.of())) {
            aborted.addArray().add(one.producerId()).add(one.firstOffset());
        }
        return answer;
    }

    private static ByteBuffer bytes(Records records) throws Exception {
        if (records instanceof MemoryRecords memory) {
            return memory.buffer();
        }
        ByteBuffer buffer = ByteBuffer.allocate(records.sizeInBytes());
        ((FileRecords) records).readInto(buffer, 0);
        return buffer;
    }

    /** Compacts from an offset up to the active segment; answers with the end of what is clean. */
    private static JsonNode clean(Open open, JsonNode item) throws Exception {
        Throttler unlimited =
            new Throttler(Double.MAX_VALUE, Long.MAX_VALUE, "throttler", "entries", open.time);
        Cleaner cleaner = new Cleaner(
            0,
            new SkimpyOffsetMap(item.path("mapBytes").asInt(CLEANER_BUFFER)),
            CLEANER_BUFFER,
            Integer.MAX_VALUE,
            CLEANER_LOAD,
            unlimited,
            open.time,
            partition -> { });
        LogToClean dirty = new LogToClean(
            open.log,
            item.path("firstDirtyOffset").asLong(),
            item.path("firstUncleanableOffset").asLong(open.log.activeSegment().baseOffset()),
            false);
        return Json.object().put("firstDirtyOffset", cleaner.clean(dirty).getKey());
    }

    private static ObjectNode state(Open open) {
        UnifiedLog log = open.log;
        ObjectNode answer = Json.object()
            .put("logStartOffset", log.logStartOffset())
            .put("logEndOffset", log.logEndOffset())
            .put("highWatermark", log.highWatermark())
            .put("lastStableOffset", log.lastStableOffset())
            .put("recoveryPoint", log.recoveryPoint());
        ArrayNode segments = answer.putArray("segments");
        for (LogSegment segment : log.logSegments()) {
            segments.add(segment.baseOffset());
        }
        ArrayNode epochs = answer.putArray("epochs");
        log.leaderEpochCache().epochWithOffsets().forEach(
            (epoch, offset) -> epochs.addArray().add(epoch).add(offset));
        ArrayNode producers = answer.putArray("producers");
        for (ProducerStateEntry entry : log.producerStateManager().activeProducers().values()) {
            producers.add(producer(entry));
        }
        return answer;
    }

    private static ObjectNode producer(ProducerStateEntry entry) {
        ObjectNode row = Json.object()
            .put("producerId", entry.producerId())
            .put("producerEpoch", entry.producerEpoch())
            .put("coordinatorEpoch", entry.coordinatorEpoch())
            .put("lastTimestamp", entry.lastTimestamp());
        entry.currentTxnFirstOffset().ifPresent(
            offset -> row.put("currentTransactionFirstOffset", offset));
        ArrayNode batches = row.putArray("batches");
        for (BatchMetadata batch : entry.batchMetadata()) {
            batches.addArray()
                .add(batch.firstSeq())
                .add(batch.lastSeq())
                .add(batch.firstOffset())
                .add(batch.lastOffset());
        }
        return row;
    }

    private static Map<String, Object> timestampAndOffset(FileRecords.TimestampAndOffset found) {
        return Map.of("timestamp", found.timestamp, "offset", found.offset);
    }
}
