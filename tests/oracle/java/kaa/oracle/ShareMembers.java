package kaa.oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Java's share consumer, which says of every record what became of it. */
final class ShareMembers {
    private static final Duration POLL = Duration.ofMillis(200);

    private ShareMembers() {
    }

    /**
     * Accepts a number of records of a topic, and answers with what each poll brought. With `renew`
     * a record is kept for longer when it comes, and accepted when it comes again.
     */
    static JsonNode consume(JsonNode item) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", item.get("bootstrap").asText());
        settings.put("group.id", item.get("group").asText());
        settings.put("share.acknowledgement.mode", "explicit");
        item.get("settings").properties().forEach(
            field -> settings.put(field.getKey(), field.getValue().asText()));
        boolean isRenewing = item.get("renew").asBoolean();
        long deadline = System.nanoTime() + item.get("seconds").asLong() * 1_000_000_000L;
        ObjectNode answer = Json.object();
        ArrayNode polls = answer.putArray("polls");
        Set<String> renewed = new HashSet<>();
        int accepted = 0;
        try (KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(
                settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(item.get("topic").asText()));
            while (accepted < item.get("count").asInt() && System.nanoTime() < deadline) {
                ConsumerRecords<String, String> records = consumer.poll(POLL);
                if (records.isEmpty()) {
                    continue;
                }
                ArrayNode poll = polls.addArray();
                for (ConsumerRecord<String, String> record : records) {
                    short deliveries = record.deliveryCount().orElse((short) 0);
                    poll.addArray().add(record.value()).add(deliveries);
                    boolean isNew = renewed.add(record.partition() + "-" + record.offset());
                    boolean keeps = isRenewing && isNew;
                    consumer.acknowledge(
                        record, keeps ? AcknowledgeType.RENEW : AcknowledgeType.ACCEPT);
                    accepted += keeps ? 0 : 1;
                }
                consumer.commitSync();
            }
        }
        return answer;
    }
}
