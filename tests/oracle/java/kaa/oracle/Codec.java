package kaa.oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.io.IOException;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.jar.JarFile;
import java.util.stream.Stream;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.record.internal.BaseRecords;
import org.apache.kafka.common.record.internal.MemoryRecords;

/** Kafka's generated messages by simple class name: bytes to JSON and back, at any version. */
final class Codec {
    private static final String CONVERTER = "JsonConverter";

    private final Map<String, MessageType> types = new ConcurrentHashMap<>();
    private Map<String, String> packages;

    /** A message class with what is needed to use it by reflection. */
    private record MessageType(
            Constructor<?> constructor, Method toJson, Method fromJson, boolean carriesRecords) {
        Message create() throws ReflectiveOperationException {
            return (Message) constructor.newInstance();
        }
    }

    /** Answers with the JSON of a message, its bytes as Java writes them, and what is left over. */
    JsonNode read(JsonNode item) throws Exception {
        MessageType type = type(item.path("name").asText());
        short version = (short) item.path("version").asInt();
        ByteBuffer buffer = Json.buffer(item, "bytes");
        Message message = type.create();
        message.read(new ByteBufferAccessor(buffer), version);
        JsonNode json = (JsonNode) type.toJson.invoke(null, message, version);
        if (type.carriesRecords) {
            putRecords(message, json);
        }
        ObjectNode answer = Json.object();
        answer.set("json", json);
        answer.set("bytes", bytes(message, version));
        return answer.put("remaining", buffer.remaining());
    }

    JsonNode write(JsonNode item) throws Exception {
        MessageType type = type(item.path("name").asText());
        short version = (short) item.path("version").asInt();
        Message message = (Message) type.fromJson.invoke(null, item.path("json"), version);
        return bytes(message, version);
    }

    private static JsonNode bytes(Message message, short version) {
        return Json.binary(MessageUtil.toByteBufferAccessor(message, version).buffer());
    }

    JsonNode classes(JsonNode item) throws Exception {
        ArrayNode answer = Json.array();
        for (Map.Entry<String, String> entry : new TreeMap<>(packages()).entrySet()) {
            Message message = type(entry.getKey()).create();
            ObjectNode row = answer.addObject()
                .put("name", entry.getKey())
                .put("package", entry.getValue())
                .put("lowest", message.lowestSupportedVersion())
                .put("highest", message.highestSupportedVersion());
            if (message instanceof ApiMessage api) {
                row.put("apiKey", api.apiKey());
            }
        }
        return answer;
    }

    private MessageType type(String name) throws ReflectiveOperationException, IOException {
        MessageType known = types.get(name);
        if (known != null) {
            return known;
        }
        String home = packages().get(name);
        if (home == null) {
            throw new ClassNotFoundException("no generated message is named " + name);
        }
        Class<?> message = Class.forName(home + "." + name);
        Class<?> converter = Class.forName(home + "." + name + CONVERTER);
        MessageType type = new MessageType(
            message.getConstructor(),
            converter.getMethod("write", message, short.class),
            converter.getMethod("read", JsonNode.class, short.class),
            carriesRecords(message));
        types.put(name, type);
        return type;
    }

    /** A generated message is told by its converter, so the jars say which messages there are. */
    private synchronized Map<String, String> packages() throws IOException {
        if (packages == null) {
            Map<String, String> found = new HashMap<>();
            for (String entry : System.getProperty("java.class.path").split(File.pathSeparator)) {
                if (new File(entry).getName().startsWith("kafka")) {
                    scan(entry, found);
                }
            }
            packages = found;
        }
        return packages;
    }

    private static void scan(String jar, Map<String, String> found) throws IOException {
        String ending = CONVERTER + ".class";
        try (JarFile file = new JarFile(jar)) {
            file.stream()
                .map(entry -> entry.getName())
                .filter(path -> path.endsWith(ending) && path.indexOf('$') < 0)
                .forEach(path -> {
                    int slash = path.lastIndexOf('/');
                    String name = path.substring(slash + 1, path.length() - ending.length());
                    found.put(name, path.substring(0, slash).replace('/', '.'));
                });
        }
    }

    private static boolean carriesRecords(Class<?> message) {
        return Stream.concat(Stream.of(message), Arrays.stream(message.getDeclaredClasses()))
            .flatMap(type -> Arrays.stream(type.getDeclaredFields()))
            .anyMatch(field -> BaseRecords.class.isAssignableFrom(field.getType()));
    }

    /** Kafka's converters leave record bytes out of the JSON; here they are wanted. */
    private static void putRecords(Message message, JsonNode json) throws IllegalAccessException {
        for (Field field : message.getClass().getDeclaredFields()) {
            if (Modifier.isStatic(field.getModifiers()) || !json.has(field.getName())) {
                continue;
            }
            field.setAccessible(true);
            Object value = field.get(message);
            JsonNode node = json.get(field.getName());
            if (value instanceof MemoryRecords records) {
                ((ObjectNode) json).set(field.getName(), Json.binary(records.buffer()));
            } else if (value instanceof Message nested) {
                putRecords(nested, node);
            } else if (value instanceof Collection<?> elements) {
                int index = 0;
                for (Object element : elements) {
                    if (element instanceof Message nested) {
                        putRecords(nested, node.get(index++));
                    }
                }
            }
        }
    }
}
