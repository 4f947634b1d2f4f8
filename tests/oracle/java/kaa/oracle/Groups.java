package kaa.oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.Utils;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.SimpleAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/** The server-side assignors of consumer groups, and the hash of topics. */
final class Groups {
    private Groups() {
    }

    /** Topics with their numbers of partitions, members with what they had; who gets what. */
    static JsonNode assign(JsonNode item) {
        Map<Uuid, Integer> counts = new HashMap<>();
        item.get("topics").properties().forEach(
            field -> counts.put(Uuid.fromString(field.getKey()), field.getValue().asInt()));
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        Map<Uuid, Map<Integer, String>> inverted = new HashMap<>();
        for (JsonNode member : item.get("members")) {
            String id = member.get("id").asText();
            Set<Uuid> topics = new HashSet<>();
            member.get("topics").forEach(topic -> topics.add(Uuid.fromString(topic.asText())));
            Map<Uuid, Set<Integer>> owned = assignment(member.get("assignment"));
            owned.forEach((topic, partitions) -> partitions.forEach(partition ->
                inverted.computeIfAbsent(topic, key -> new HashMap<>()).put(partition, id)));
            JsonNode instance = member.get("instance");
            members.put(id, new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(),
                instance.isNull() ? Optional.empty() : Optional.of(instance.asText()),
                topics,
                new Assignment(owned)));
        }
        PartitionAssignor assignor = switch (item.get("assignor").asText()) {
            case "range" -> new RangeAssignor();
            case "simple" -> new SimpleAssignor();
            default -> new UniformAssignor();
        };
        SubscriptionType type = item.get("homogeneous").asBoolean()
            ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        Map<String, MemberAssignment> result = assignor.assign(
            spec(members, type, inverted, item.get("assignable")), describer(counts)).members();
        ObjectNode answer = Json.object();
        result.forEach((id, assigned) -> {
            ObjectNode topics = answer.putObject(id);
            assigned.partitions().forEach((topic, partitions) -> {
                ArrayNode numbers = topics.putArray(topic.toString());
                partitions.stream().sorted().forEach(numbers::add);
            });
        });
        return answer;
    }

    /** Without a word about it, every partition can be assigned. */
    private static GroupSpecImpl spec(
        Map<String, MemberSubscriptionAndAssignmentImpl> members,
        SubscriptionType type,
        Map<Uuid, Map<Integer, String>> inverted,
        JsonNode assignable
    ) {
        if (assignable == null) {
            return new GroupSpecImpl(members, type, inverted);
        }
        return new GroupSpecImpl(members, type, inverted, Optional.of(assignment(assignable)));
    }

    private static Map<Uuid, Set<Integer>> assignment(JsonNode node) {
        Map<Uuid, Set<Integer>> owned = new HashMap<>();
        node.properties().forEach(field -> {
            List<Integer> partitions = new ArrayList<>();
            field.getValue().forEach(partition -> partitions.add(partition.asInt()));
            owned.put(Uuid.fromString(field.getKey()), new HashSet<>(partitions));
        });
        return owned;
    }

    private static SubscribedTopicDescriber describer(Map<Uuid, Integer> counts) {
        return new SubscribedTopicDescriber() {
            @Override
            public int numPartitions(Uuid topicId) {
                return counts.getOrDefault(topicId, -1);
            }

            @Override
            public Set<String> racksForPartition(Uuid topicId, int partition) {
                return Set.of();
            }
        };
    }

    /** The hash that a group stores of its topics: name, id and the racks of each partition. */
    static JsonNode hash(JsonNode item) {
        Map<String, Long> hashes = new HashMap<>();
        for (JsonNode topic : item.get("topics")) {
            String name = topic.get("name").asText();
            hashes.put(name, Utils.computeTopicHash(name, image(topic)));
        }
        return Json.object().put("hash", Utils.computeGroupHash(hashes));
    }

    private static CoordinatorMetadataImage image(JsonNode topic) {
        CoordinatorMetadataImage.TopicMetadata metadata =
            new CoordinatorMetadataImage.TopicMetadata() {
                @Override
                public String name() {
                    return topic.get("name").asText();
                }

                @Override
                public Uuid id() {
                    return Uuid.fromString(topic.get("id").asText());
                }

                @Override
                public int partitionCount() {
                    return topic.get("partitions").size();
                }

                @Override
                public List<String> partitionRacks(int partition) {
                    List<String> racks = new ArrayList<>();
                    topic.get("partitions").get(partition)
                        .forEach(rack -> racks.add(rack.asText()));
                    return racks;
                }
            };
        return (CoordinatorMetadataImage) Proxy.newProxyInstance(
            Groups.class.getClassLoader(),
            new Class<?>[] {CoordinatorMetadataImage.class},
            (proxy, method, arguments) -> Optional.of(metadata));
    }
}
