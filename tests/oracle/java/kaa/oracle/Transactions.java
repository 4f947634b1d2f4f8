package kaa.oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Java's transactional producers, told what to do step by step. */
final class Transactions {
    private final Map<String, KafkaProducer<byte[], byte[]>> producers = new HashMap<>();
    private final Map<String, Object> settings = new HashMap<>();

    private Transactions(JsonNode settings) {
        settings.properties().forEach(
            field -> this.settings.put(field.getKey(), field.getValue().asText()));
    }

    /**
     * Settings of all producers, and steps: the producer, what to do and its arguments. The answer
     * has {@code ok}, or the class of the exception, for each of them.
     */
    static JsonNode run(JsonNode item) {
        Transactions transactions = new Transactions(item.get("settings"));
        ArrayNode answers = Json.MAPPER.createArrayNode();
        try {
            for (JsonNode step : item.get("steps")) {
                answers.add(transactions.outcome(step));
            }
        } finally {
            transactions.producers.values().forEach(producer -> producer.close(Duration.ZERO));
        }
        return answers;
    }

    private String outcome(JsonNode step) {
        try {
            take(step);
            return "ok";
        } catch (ExecutionException failed) {
            return failed.getCause().getClass().getSimpleName();
        } catch (Exception failed) {
            return failed.getClass().getSimpleName();
        }
    }

    @SuppressWarnings("removal")
    private void take(JsonNode step) throws Exception {
        KafkaProducer<byte[], byte[]> producer = producers.computeIfAbsent(
            step.get(0).asText(), name -> new KafkaProducer<>(
                settings, new ByteArraySerializer(), new ByteArraySerializer()));
        switch (step.get(1).asText()) {
            case "init" -> producer.initTransactions();
            case "begin" -> producer.beginTransaction();
            case "send" -> producer.send(new ProducerRecord<>(
                step.get(2).asText(), step.get(3).asInt(), null,
                step.get(4).asText().getBytes(StandardCharsets.UTF_8))).get();
            case "offsets" -> producer.sendOffsetsToTransaction(
                Map.of(new TopicPartition(step.get(3).asText(), step.get(4).asInt()),
                    new OffsetAndMetadata(step.get(5).asLong())),
                new ConsumerGroupMetadata(step.get(2).asText()));
            case "commit" -> producer.commitTransaction();
            case "abort" -> producer.abortTransaction();
            default -> throw new IllegalArgumentException(step.get(1).asText());
        }
    }
}
