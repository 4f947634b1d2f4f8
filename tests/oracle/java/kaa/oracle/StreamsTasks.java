package kaa.oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.coordinator.group.streams.assignor.AssignmentMemberSpec;
import org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;
import org.apache.kafka.coordinator.group.streams.assignor.TopologyDescriber;

/** The assignor of streams groups. */
final class StreamsTasks {
    private StreamsTasks() {
    }

    /** Subtopologies, members with what they had; who gets what. */
    static JsonNode assign(JsonNode item) {
        Map<String, AssignmentMemberSpec> members = new HashMap<>();
        for (JsonNode member : item.get("members")) {
            members.put(member.get("id").asText(), new AssignmentMemberSpec(
                Optional.empty(), Optional.empty(), tasks(member.get("active")),
                tasks(member.get("standby")), Map.of(), member.get("process").asText(),
                Map.of(), Map.of(), Map.of()));
        }
        Map<String, String> configs =
            Map.of("num.standby.replicas", item.get("standbys").asText());
        ObjectNode answer = Json.object();
        new StickyTaskAssignor()
            .assign(new GroupSpecImpl(members, configs), describer(item.get("subtopologies")))
            .members().forEach((id, assigned) -> {
                ObjectNode kinds = answer.putObject(id);
                put(kinds.putObject("active"), assigned.activeTasks());
                put(kinds.putObject("standby"), assigned.standbyTasks());
            });
        return answer;
    }

    private static void put(ObjectNode node, Map<String, Set<Integer>> tasks) {
        tasks.forEach((name, partitions) -> {
            ArrayNode numbers = node.putArray(name);
            partitions.stream().sorted().forEach(numbers::add);
        });
    }

    private static Map<String, Set<Integer>> tasks(JsonNode node) {
        Map<String, Set<Integer>> found = new HashMap<>();
        node.properties().forEach(field -> {
            Set<Integer> partitions = new HashSet<>();
            field.getValue().forEach(partition -> partitions.add(partition.asInt()));
            found.put(field.getKey(), partitions);
        });
        return found;
    }

    private static TopologyDescriber describer(JsonNode subtopologies) {
        Map<String, JsonNode> byId = new HashMap<>();
        List<String> ids = new ArrayList<>();
        subtopologies.forEach(one -> {
            ids.add(one.get("id").asText());
            byId.put(one.get("id").asText(), one);
        });
        return new TopologyDescriber() {
            @Override
            public List<String> subtopologies() {
                return ids;
            }

            @Override
            public int maxNumInputPartitions(String subtopologyId) {
                return byId.get(subtopologyId).get("tasks").asInt();
            }

            @Override
            public boolean isStateful(String subtopologyId) {
                return byId.get(subtopologyId).get("stateful").asBoolean();
            }
        };
    }
}
