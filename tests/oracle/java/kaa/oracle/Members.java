package kaa.oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Groups of Java consumers: each member has a thread, and all of a group share one audit. */
final class Members {
    private final Map<String, Audit> audits = new ConcurrentHashMap<>();

    void register(Map<String, Operation> operations) {
        operations.put("members.start", this::start);
        operations.put("members.end", this::end);
        operations.put("members.pause", this::pause);
        operations.put("members.state", this::state);
    }

    /** What the members of a group own and have read; told by them at once. */
    private static final class Audit {
        final Map<String, Member> members = new ConcurrentHashMap<>();
        private final Map<TopicPartition, String> owners = new HashMap<>();
        private final Set<String> read = new HashSet<>();
        private final List<String> breaches = new ArrayList<>();

        synchronized void assigned(String member, Collection<TopicPartition> partitions) {
            for (TopicPartition partition : partitions) {
                String owner = owners.put(partition, member);
                if (owner != null && !owner.equals(member)) {
                    breaches.add(partition + " belongs to " + owner + " and to " + member);
                }
            }
        }

        synchronized void revoked(String member, Collection<TopicPartition> partitions) {
            for (TopicPartition partition : partitions) {
                owners.remove(partition, member);
            }
        }

        synchronized void gone(String member) {
            owners.values().removeIf(member::equals);
        }

        synchronized void note(ConsumerRecords<String, String> records) {
            for (ConsumerRecord<String, String> record : records) {
                read.add(record.value());
            }
        }

        synchronized void failed(String member, Throwable thrown) {
            breaches.add(member + " failed: " + thrown);
        }

        synchronized JsonNode state() {
            ObjectNode answer = Json.object();
            ObjectNode shares = answer.putObject("shares");
            owners.values().forEach(
                owner -> shares.put(owner, shares.path(owner).asInt(0) + 1));
            ArrayNode values = answer.putArray("read");
            read.forEach(values::add);
            ArrayNode found = answer.putArray("breaches");
            breaches.forEach(found::add);
            return answer;
        }
    }

    private static final class Member implements Runnable, ConsumerRebalanceListener {
        private final Audit audit;
        private final String name;
        private final KafkaConsumer<String, String> consumer;
        private final Thread thread;
        private volatile boolean isOver;
        private volatile boolean isLeaving = true;
        private volatile long pauseMs;

        Member(Audit audit, String name, Properties properties, String topic) {
            this.audit = audit;
            this.name = name;
            consumer = new KafkaConsumer<>(
                properties, new StringDeserializer(), new StringDeserializer());
            consumer.subscribe(List.of(topic), this);
            thread = new Thread(this, name);
            thread.setDaemon(true);
            thread.start();
        }

        @Override
        public void run() {
            try {
                while (!isOver) {
                    ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(50));
                    if (!records.isEmpty()) {
                        audit.note(records);
                        consumer.commitAsync();
                    }
                    if (pauseMs > 0) {
                        Thread.sleep(pauseMs);
                        pauseMs = 0;
                    }
                }
            } catch (Throwable thrown) {
                audit.failed(name, thrown);
            } finally {
                CloseOptions.GroupMembershipOperation operation = isLeaving
                    ? CloseOptions.GroupMembershipOperation.LEAVE_GROUP
                    : CloseOptions.GroupMembershipOperation.REMAIN_IN_GROUP;
                consumer.close(CloseOptions.timeout(Duration.ofSeconds(20))
                    .withGroupMembershipOperation(operation));
                audit.gone(name);
            }
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            audit.assigned(name, partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            audit.revoked(name, partitions);
        }
    }

    private JsonNode start(JsonNode item) {
        Audit audit = audits.computeIfAbsent(item.get("audit").asText(), key -> new Audit());
        Properties properties = new Properties();
        item.get("properties").properties().forEach(
            field -> properties.put(field.getKey(), field.getValue().asText()));
        String name = item.get("name").asText();
        Member member = new Member(audit, name, properties, item.get("topic").asText());
        audit.members.put(name, member);
        return Json.object();
    }

    /** A member leaves, or is gone without a word: then its session has to end first. */
    private JsonNode end(JsonNode item) throws InterruptedException {
        Member member = audits.get(item.get("audit").asText())
            .members.remove(item.get("name").asText());
        member.isLeaving = item.get("leaves").asBoolean();
        member.isOver = true;
        member.thread.join(30_000);
        return Json.object();
    }

    /** A member does not poll for a while. */
    private JsonNode pause(JsonNode item) {
        audits.get(item.get("audit").asText())
            .members.get(item.get("name").asText()).pauseMs = item.get("ms").asLong();
        return Json.object();
    }

    private JsonNode state(JsonNode item) {
        return audits.get(item.get("audit").asText()).state();
    }
}
