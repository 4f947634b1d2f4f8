package kaa.oracle;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.utils.ByteBufferOutputStream;

/** Builds one record batch with Kafka's own builder. */
final class RecordBuilder {
    private static final int FIRST_CAPACITY = 1 << 12;

    private RecordBuilder() {
    }

    static JsonNode build(JsonNode item) throws Exception {
        if (item.hasNonNull("marker")) {
            return Json.binary(marker(item).buffer());
        }
        boolean control = item.path("control").asBoolean();
        try (MemoryRecordsBuilder builder = builder(item, control)) {
            long next = item.path("baseOffset").asLong();
            for (JsonNode record : item.path("records")) {
                long offset = record.hasNonNull("offset") ? record.get("offset").asLong() : next;
                SimpleRecord simple = record(record);
                if (control) {
                    builder.appendControlRecordWithOffset(offset, simple);
                } else {
                    builder.appendWithOffset(offset, simple);
                }
                next = offset + 1;
            }
            return Json.binary(builder.build().buffer());
        }
    }

    private static MemoryRecordsBuilder builder(JsonNode item, boolean control) {
        return new MemoryRecordsBuilder(
            new ByteBufferOutputStream(FIRST_CAPACITY),
            (byte) item.path("magic").asInt(RecordBatch.CURRENT_MAGIC_VALUE),
            compression(item.path("compression").asText("none"), item.path("level")),
            TimestampType.valueOf(item.path("timestampType").asText("CREATE_TIME")),
            item.path("baseOffset").asLong(),
            item.path("logAppendTime").asLong(RecordBatch.NO_TIMESTAMP),
            item.path("producerId").asLong(RecordBatch.NO_PRODUCER_ID),
            (short) item.path("producerEpoch").asInt(RecordBatch.NO_PRODUCER_EPOCH),
            item.path("baseSequence").asInt(RecordBatch.NO_SEQUENCE),
            item.path("transactional").asBoolean(),
            control,
            item.path("partitionLeaderEpoch").asInt(RecordBatch.NO_PARTITION_LEADER_EPOCH),
            Integer.MAX_VALUE,
            item.path("deleteHorizonMs").asLong(RecordBatch.NO_TIMESTAMP));
    }

    private static SimpleRecord record(JsonNode record) throws IOException {
        List<Header> headers = new ArrayList<>();
        for (JsonNode header : record.path("headers")) {
            JsonNode value = header.get(1);
            byte[] bytes = value.isNull() ? null : value.binaryValue();
            headers.add(new RecordHeader(header.get(0).asText(), bytes));
        }
        return new SimpleRecord(
            record.path("timestamp").asLong(),
            Json.buffer(record, "key"),
            Json.buffer(record, "value"),
            headers.toArray(new Header[0]));
    }

    private static MemoryRecords marker(JsonNode item) {
        return MemoryRecords.withEndTransactionMarker(
            item.path("baseOffset").asLong(),
            item.path("timestamp").asLong(),
            item.path("partitionLeaderEpoch").asInt(RecordBatch.NO_PARTITION_LEADER_EPOCH),
            item.path("producerId").asLong(),
            (short) item.path("producerEpoch").asInt(),
            new EndTransactionMarker(
                ControlRecordType.valueOf(item.path("marker").asText()),
                item.path("coordinatorEpoch").asInt()));
    }

    /** A codec by name, at a level when one is given and the codec has levels. */
    static Compression compression(String name, JsonNode level) {
        CompressionType type = CompressionType.forName(name);
        if (level.isMissingNode() || level.isNull()) {
            return Compression.of(type).build();
        }
        return switch (type) {
            case GZIP -> Compression.gzip().level(level.asInt()).build();
            case LZ4 -> Compression.lz4().level(level.asInt()).build();
            case ZSTD -> Compression.zstd().level(level.asInt()).build();
            default -> throw new IllegalArgumentException(name + " has no levels");
        };
    }
}
