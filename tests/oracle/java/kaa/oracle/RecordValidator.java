package kaa.oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.requests.ProduceRequest;
import org.apache.kafka.common.requests.ProduceResponse;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.PrimitiveRef;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogValidator;
import org.apache.kafka.storage.internals.log.RecordValidationException;

/** Judges records with the broker's own validator, which also gives offsets and may encode anew. */
final class RecordValidator {
    private RecordValidator() {
    }

    static JsonNode validate(JsonNode item) throws Exception {
        Counters counters = new Counters();
        try {
            return validate(item, counters);
        } catch (RuntimeException refused) {
            throw refusal(refused, counters.row);
        }
    }

    private static ObjectNode validate(JsonNode item, Counters counters) throws Exception {
        MemoryRecords records = MemoryRecords.readableRecords(Json.buffer(item, "bytes"));
        if (item.hasNonNull("produceVersion")) {
            ProduceRequest.validateRecords((short) item.get("produceVersion").asInt(), records);
        }
        for (RecordBatch batch : records.batches()) {
            batch.ensureValid();
        }
        CompressionType source = sourceCompression(item, records);
        String target = item.path("compression").asText("producer");
        Compression compression = target.equals("producer")
            ? Compression.of(source).build()
            : RecordBuilder.compression(target, item.path("level"));
        LogValidator validator = new LogValidator(
            records,
            new TopicPartition(item.path("topic").asText("topic"), item.path("partition").asInt()),
            new ManualTime(item.path("now").asLong()),
            source,
            compression,
            item.path("compacted").asBoolean(),
            (byte) item.path("magic").asInt(RecordBatch.CURRENT_MAGIC_VALUE),
            TimestampType.valueOf(item.path("timestampType").asText("CREATE_TIME")),
            item.path("timestampBeforeMaxMs").asLong(Long.MAX_VALUE),
            item.path("timestampAfterMaxMs").asLong(Long.MAX_VALUE),
            item.path("partitionLeaderEpoch").asInt(),
            AppendOrigin.valueOf(item.path("origin").asText("CLIENT")));
        PrimitiveRef.LongRef offset = PrimitiveRef.ofLong(item.path("firstOffset").asLong());
        LogValidator.ValidationResult result =
            validator.validateMessagesAndAssignOffsets(offset, counters, BufferSupplier.NO_CACHING);
        ObjectNode answer = Json.object()
            .put("nextOffset", offset.value)
            .put("logAppendTimeMs", result.logAppendTimeMs())
            .put("maxTimestampMs", result.maxTimestampMs())
            .put("messageSizeMaybeChanged", result.messageSizeMaybeChanged())
            .put("recordsConverted", result.recordValidationStats().numRecordsConverted());
        answer.set("bytes", Json.binary(result.validatedRecords().buffer()));
        answer.set("counters", counters.row);
        return answer;
    }

    /** The broker takes the codec of the last compressed batch. */
    private static CompressionType sourceCompression(JsonNode item, MemoryRecords records) {
        if (item.hasNonNull("sourceCompression")) {
            return CompressionType.forName(item.get("sourceCompression").asText());
        }
        CompressionType source = CompressionType.NONE;
        for (RecordBatch batch : records.batches()) {
            if (batch.isCompressed()) {
                source = batch.compressionType();
            }
        }
        return source;
    }

    /** A refused append, with the records at fault where the broker names them. */
    static FailureWithDetail refusal(RuntimeException refused, ObjectNode counters) {
        ObjectNode detail;
        if (refused instanceof RecordValidationException invalid) {
            detail = Json.failure(invalid.invalidException());
            ArrayNode errors = detail.putArray("recordErrors");
            for (ProduceResponse.RecordError error : invalid.recordErrors()) {
                errors.addArray().add(error.batchIndex).add(error.message);
            }
        } else {
            detail = Json.failure(refused);
        }
        detail.set("counters", counters);
        return new FailureWithDetail(refused, detail);
    }

    /** Which of the broker's meters a batch has moved. */
    private static final class Counters implements LogValidator.MetricsRecorder {
        final ObjectNode row = Json.object();

        private void count(String name) {
            row.put(name, row.path(name).asInt() + 1);
        }

        @Override
        public void recordInvalidMagic() {
            count("invalidMagic");
        }

        @Override
        public void recordInvalidOffset() {
            count("invalidOffset");
        }

        @Override
        public void recordInvalidSequence() {
            count("invalidSequence");
        }

        @Override
        public void recordInvalidChecksums() {
            count("invalidChecksums");
        }

        @Override
        public void recordNoKeyCompactedTopic() {
            count("noKeyCompactedTopic");
        }
    }
}
