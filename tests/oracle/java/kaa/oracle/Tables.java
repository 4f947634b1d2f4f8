package kaa.oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.utils.Utils;

/** The tables of the protocol as Java has them, and the hash that places a key. */
final class Tables {
    private Tables() {
    }

    static JsonNode errors(JsonNode item) {
        ArrayNode answer = Json.array();
        for (Errors error : Errors.values()) {
            answer.addObject()
                .put("code", error.code())
                .put("name", error.name())
                .put("retriable", error.exception() instanceof RetriableException)
                .put("message", error.message());
        }
        return answer;
    }

    static JsonNode apiKeys(JsonNode item) {
        ArrayNode answer = Json.array();
        for (ApiKeys key : ApiKeys.values()) {
            ObjectNode row = answer.addObject()
                .put("id", key.id)
                .put("name", key.name())
                .put("schema", key.name)
                .put("clusterAction", key.clusterAction)
                .put("forwardable", key.forwardable)
                .put("requiresDelayedAllocation", key.requiresDelayedAllocation)
                .put("served", key.hasValidVersion());
            ArrayNode listeners = row.putArray("listeners");
            for (ApiMessageType.ListenerType listener : ApiMessageType.ListenerType.values()) {
                if (key.inScope(listener)) {
                    listeners.add(listener.name());
                }
            }
            if (key.hasValidVersion()) {
                putVersions(key, row);
            }
        }
        return answer;
    }

    private static void putVersions(ApiKeys key, ObjectNode row) {
        row.put("oldest", key.oldestVersion())
            .put("latest", key.latestVersion(true))
            .put("latestStable", key.latestVersion(false));
        ArrayNode headers = row.putArray("headers");
        for (short version : key.allVersions()) {
            headers.addObject()
                .put("version", version)
                .put("request", key.requestHeaderVersion(version))
                .put("response", key.responseHeaderVersion(version))
                .put("deprecated", key.isVersionDeprecated(version));
        }
        ObjectNode advertised = row.putObject("advertised");
        for (ApiMessageType.ListenerType listener : ApiMessageType.ListenerType.values()) {
            if (key.inScope(listener)) {
                key.toApiVersionForApiResponse(false, listener).ifPresent(range -> advertised
                    .putArray(listener.name()).add(range.minVersion()).add(range.maxVersion()));
            }
        }
    }

    /** The hash of a key, and where the Java producer puts it among so many partitions. */
    static JsonNode murmur2(JsonNode item) throws Exception {
        byte[] key = Json.bytes(item, "key");
        ObjectNode answer = Json.object().put("hash", Utils.murmur2(key));
        int partitions = item.path("partitions").asInt(0);
        if (partitions > 0) {
            answer.put("partition", BuiltInPartitioner.partitionForKey(key, partitions));
        }
        return answer;
    }
}
