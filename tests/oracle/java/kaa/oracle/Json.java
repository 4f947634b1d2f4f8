package kaa.oracle;

import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.json.JsonReadFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.nio.ByteBuffer;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.common.protocol.Errors;

/** JSON as both sides understand it: bytes are base64, NaN and the infinities are bare words. */
final class Json {
    private static final JsonNodeFactory NODES = JsonNodeFactory.instance;

    @SuppressWarnings("deprecation")
    static final JsonMapper MAPPER = JsonMapper.builder()
        .enable(JsonReadFeature.ALLOW_NON_NUMERIC_NUMBERS)
        .disable(JsonGenerator.Feature.QUOTE_NON_NUMERIC_NUMBERS)
        .disable(JsonParser.Feature.AUTO_CLOSE_SOURCE)
        .build();

    private Json() {
    }

    static ObjectNode object() {
        return NODES.objectNode();
    }

    static ArrayNode array() {
        return NODES.arrayNode();
    }

    static JsonNode binary(ByteBuffer buffer) {
        if (buffer == null) {
            return NODES.nullNode();
        }
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return NODES.binaryNode(bytes);
    }

    /** The bytes of a field; null where the field is absent or null. */
    static byte[] bytes(JsonNode item, String field) throws IOException {
        JsonNode node = item.path(field);
        return node.isMissingNode() || node.isNull() ? null : node.binaryValue();
    }

    static ByteBuffer buffer(JsonNode item, String field) throws IOException {
        byte[] bytes = bytes(item, field);
        return bytes == null ? null : ByteBuffer.wrap(bytes);
    }

    /** What went wrong, with the error code that a broker would answer for it. */
    static ObjectNode failure(Throwable thrown) {
        Throwable cause = thrown;
        while (wraps(cause) && cause.getCause() != null) {
            cause = cause.getCause();
        }
        return object()
            .put("class", cause.getClass().getName())
            .put("message", cause.getMessage())
            .put("code", Errors.forException(cause).code());
    }

    private static boolean wraps(Throwable thrown) {
        return thrown instanceof InvocationTargetException || thrown instanceof ExecutionException;
    }
}
