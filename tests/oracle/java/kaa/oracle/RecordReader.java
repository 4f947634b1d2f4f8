package kaa.oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Iterator;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.DefaultRecordBatch;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;

/** Takes record batches apart, up to the first thing that Kafka cannot read. */
final class RecordReader {
    private RecordReader() {
    }

    static JsonNode read(JsonNode item) throws Exception {
        MemoryRecords records = MemoryRecords.readableRecords(Json.buffer(item, "bytes"));
        ObjectNode answer = Json.object();
        ArrayNode batches = answer.putArray("batches");
        try {
            for (MutableRecordBatch batch : records.batches()) {
                batches.add(describe(batch));
            }
            answer.put("validBytes", records.validBytes());
        } catch (RuntimeException unreadable) {
            answer.set("error", Json.failure(unreadable));
        }
        return answer;
    }

    private static ObjectNode describe(MutableRecordBatch batch) {
        ObjectNode row = Json.object()
            .put("baseOffset", batch.baseOffset())
            .put("lastOffset", batch.lastOffset())
            .put("nextOffset", batch.nextOffset())
            .put("sizeInBytes", batch.sizeInBytes())
            .put("partitionLeaderEpoch", batch.partitionLeaderEpoch())
            .put("magic", batch.magic())
            .put("checksum", batch.checksum())
            .put("valid", batch.isValid())
            .put("compression", batch.compressionType().name)
            .put("timestampType", batch.timestampType().name())
            .put("maxTimestamp", batch.maxTimestamp())
            .put("producerId", batch.producerId())
            .put("producerEpoch", batch.producerEpoch())
            .put("baseSequence", batch.baseSequence())
            .put("lastSequence", batch.lastSequence())
            .put("transactional", batch.isTransactional())
            .put("control", batch.isControlBatch())
            .put("count", batch.countOrNull());
        if (batch instanceof DefaultRecordBatch current) {
            row.put("baseTimestamp", current.baseTimestamp());
        }
        if (batch.deleteHorizonMs().isPresent()) {
            row.put("deleteHorizonMs", batch.deleteHorizonMs().getAsLong());
        }
        ArrayNode records = row.putArray("records");
        try {
            Iterator<Record> iterator = batch.iterator();
            while (iterator.hasNext()) {
                records.add(describe(iterator.next(), batch.isControlBatch()));
            }
        } catch (RuntimeException unreadable) {
            row.set("error", Json.failure(unreadable));
        }
        return row;
    }

    private static ObjectNode describe(Record record, boolean control) {
        ObjectNode row = Json.object()
            .put("offset", record.offset())
            .put("timestamp", record.timestamp())
            .put("sequence", record.sequence())
            .put("sizeInBytes", record.sizeInBytes());
        row.set("key", Json.binary(record.key()));
        row.set("value", Json.binary(record.value()));
        ArrayNode headers = row.putArray("headers");
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(header.value());
        }
        if (control) {
            row.put("controlType", ControlRecordType.parse(record.key()).name());
        }
        return row;
    }
}
