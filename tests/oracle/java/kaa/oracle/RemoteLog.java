package kaa.oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Iterator;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Optional;
import java.util.OptionalInt;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.server.log.remote.metadata.storage.RemoteLogMetadataCache;
import org.apache.kafka.server.log.remote.metadata.storage.RemoteLogMetadataTopicPartitioner;
import org.apache.kafka.server.log.remote.metadata.storage.serialization.RemoteLogMetadataSerde;
import org.apache.kafka.server.log.remote.storage.RemoteLogManager;
import org.apache.kafka.server.log.remote.storage.RemoteLogMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadataUpdate;
import org.apache.kafka.storage.internals.checkpoint.LeaderEpochCheckpointFile;
import org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;

/** Metadata of remote segments: their bytes, their partition, and what the cache makes of them. */
final class RemoteLog {
    private RemoteLog() {
    }

    static JsonNode partition(JsonNode item) {
        Uuid id = Uuid.fromString(item.get("id").asText());
        TopicPartition partition = new TopicPartition("t", item.get("partition").asInt());
        int count = item.get("count").asInt();
        return Json.object().put("partition", new RemoteLogMetadataTopicPartitioner(count)
            .metadataPartition(new TopicIdPartition(id, partition)));
    }

    /** Reads every event, writes it again, applies it to one cache, and asks it all questions. */
    static JsonNode replay(JsonNode item) throws Exception {
        RemoteLogMetadataSerde serde = new RemoteLogMetadataSerde();
        RemoteLogMetadataCache cache = new RemoteLogMetadataCache();
        call(cache, "markInitialized");
        ArrayNode answers = Json.array();
        for (JsonNode event : item.get("events")) {
            RemoteLogMetadata metadata = serde.deserialize(event.binaryValue());
            ObjectNode answer = answers.addObject();
            answer.put("bytes", serde.serialize(metadata));
            if (metadata instanceof RemoteLogSegmentMetadata segment) {
                call(cache, "addCopyInProgressSegment", segment);
            } else if (metadata instanceof RemoteLogSegmentMetadataUpdate update) {
                try {
                    call(cache, "updateRemoteLogSegmentMetadata", update);
                } catch (InvocationTargetException thrown) {
                    answer.put("error", thrown.getCause().getClass().getSimpleName());
                }
            }
            ask(cache, item, answer);
        }
        return answers;
    }

    /**
     * Which segment Kafka's reader takes for each offset of a leader's log, where each epoch ends
     * in it, and which segments lie wholly in it.
     */
    static JsonNode choose(JsonNode item) throws Exception {
        RemoteLogMetadataCache cache = cacheOf(item);
        long end = item.get("end").asLong();
        Path folder = Files.createTempDirectory("epochs");
        try {
            LeaderEpochFileCache epochs = epochsOf(item, folder);
            ObjectNode answer = Json.object();
            ArrayNode chosen = answer.putArray("chosen");
            for (long offset = item.get("start").asLong(); offset < end; offset++) {
                ArrayNode one = chosen.addArray();
                OptionalInt epoch = epochs.epochForOffset(offset);
                if (epoch.isPresent()) {
                    one.add(epoch.getAsInt());
                    one.add(id((Optional<?>) call(
                        cache, "remoteLogSegmentMetadata", epoch.getAsInt(), offset)));
                }
            }
            ArrayNode ends = answer.putArray("ends");
            for (int epoch = 0; epoch <= item.get("epochs_max").asInt(); epoch++) {
                Map.Entry<Integer, Long> found = epochs.endOffsetFor(epoch, end);
                ends.addArray().add(found.getKey()).add(found.getValue());
            }
            within(cache, epochs, end, answer.putObject("within"));
            return answer;
        } finally {
            Utils.delete(folder.toFile());
        }
    }

    private static RemoteLogMetadataCache cacheOf(JsonNode item) throws Exception {
        RemoteLogMetadataSerde serde = new RemoteLogMetadataSerde();
        RemoteLogMetadataCache cache = new RemoteLogMetadataCache();
        call(cache, "markInitialized");
        for (JsonNode event : item.get("events")) {
            RemoteLogMetadata metadata = serde.deserialize(event.binaryValue());
            if (metadata instanceof RemoteLogSegmentMetadata segment) {
                call(cache, "addCopyInProgressSegment", segment);
            } else {
                call(cache, "updateRemoteLogSegmentMetadata", metadata);
            }
        }
        return cache;
    }

    private static LeaderEpochFileCache epochsOf(JsonNode item, Path folder) throws Exception {
        LeaderEpochFileCache epochs = new LeaderEpochFileCache(
            new TopicPartition("t", 0),
            new LeaderEpochCheckpointFile(
                LeaderEpochCheckpointFile.newFile(folder.toFile()), new LogDirFailureChannel(1)),
            new PromptScheduler());
        for (JsonNode entry : item.get("chain")) {
            epochs.assign(entry.get(0).asInt(), entry.get(1).asLong());
        }
        return epochs;
    }

    private static void within(
            RemoteLogMetadataCache cache, LeaderEpochFileCache epochs, long end, ObjectNode answer)
            throws Exception {
        Method method = RemoteLogManager.class.getDeclaredMethod(
            "isRemoteSegmentWithinLeaderEpochs",
            RemoteLogSegmentMetadata.class, long.class, NavigableMap.class);
        method.setAccessible(true);
        Iterator<?> segments = (Iterator<?>) call(cache, "listAllRemoteLogSegments");
        while (segments.hasNext()) {
            RemoteLogSegmentMetadata segment = (RemoteLogSegmentMetadata) segments.next();
            Object is = method.invoke(null, segment, end, epochs.epochWithOffsets());
            answer.put(segment.remoteLogSegmentId().id().toString(), (Boolean) is);
        }
    }

    private static void ask(RemoteLogMetadataCache cache, JsonNode item, ObjectNode answer)
            throws Exception {
        ArrayNode found = answer.putArray("found");
        for (JsonNode question : item.get("questions")) {
            int epoch = question.get(0).asInt();
            long offset = question.get(1).asLong();
            found.add(id((Optional<?>) call(cache, "remoteLogSegmentMetadata", epoch, offset)));
        }
        ArrayNode highest = answer.putArray("highest");
        ArrayNode lists = answer.putArray("lists");
        for (int epoch = 0; epoch < item.get("epochs").asInt(); epoch++) {
            Optional<?> offset = (Optional<?>) call(cache, "highestOffsetForEpoch", epoch);
            highest.add(offset.map(value -> (Long) value).orElse(null));
            names((Iterator<?>) call(cache, "listRemoteLogSegments", epoch), lists.addArray());
        }
        names((Iterator<?>) call(cache, "listAllRemoteLogSegments"), answer.putArray("all"));
    }

    private static String id(Optional<?> segment) {
        return segment.map(RemoteLog::name).orElse(null);
    }

    private static void names(Iterator<?> segments, ArrayNode names) {
        segments.forEachRemaining(segment -> names.add(name(segment)));
    }

    private static String name(Object segment) {
        RemoteLogSegmentMetadata metadata = (RemoteLogSegmentMetadata) segment;
        return metadata.remoteLogSegmentId().id() + " " + metadata.state();
    }

    /** Most of the cache is visible to its package alone. */
    private static Object call(Object target, String name, Object... arguments) throws Exception {
        for (Method method : target.getClass().getDeclaredMethods()) {
            if (method.getName().equals(name)
                    && method.getParameterCount() == arguments.length) {
                method.setAccessible(true);
                return method.invoke(target, arguments);
            }
        }
        throw new NoSuchMethodException(name);
    }
}
