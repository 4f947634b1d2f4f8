package kaa.oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.LongNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;

/**
 * Answers questions about Kafka over a unix socket.
 *
 * <p>A frame is a four-byte length and that many bytes of JSON. A request is
 * {@code {"op": name, "items": [...]}}; its answer is an array with one entry for each item, in
 * order: {@code {"ok": value}} or {@code {"error": {...}}}. Every connection has a thread of its
 * own and is answered in order.
 */
public final class Server {
    private static final int BUFFER = 1 << 16;

    private final Map<String, Operation> operations = new HashMap<>();
    private final Lifetime lifetime;

    private Server(Lifetime lifetime) {
        this.lifetime = lifetime;
        operations.put("ping", item -> LongNode.valueOf(ProcessHandle.current().pid()));
        operations.put("stop", item -> lifetime.end());
        Codec codec = new Codec();
        operations.put("codec.read", codec::read);
        operations.put("codec.write", codec::write);
        operations.put("codec.classes", codec::classes);
        operations.put("errors", Tables::errors);
        operations.put("apikeys", Tables::apiKeys);
        operations.put("records.read", RecordReader::read);
        operations.put("records.build", RecordBuilder::build);
        operations.put("records.validate", RecordValidator::validate);
        operations.put("murmur2", Tables::murmur2);
        operations.put("group.assign", Groups::assign);
        operations.put("group.assignTasks", StreamsTasks::assign);
        operations.put("group.hash", Groups::hash);
        new Configs().register(operations);
        operations.put("transactions.run", Transactions::run);
        operations.put("remote.partition", RemoteLog::partition);
        operations.put("remote.replay", RemoteLog::replay);
        operations.put("remote.choose", RemoteLog::choose);
        operations.put("share.consume", ShareMembers::consume);
        operations.put("share.states", ShareStates::run);
        operations.put("share.partition", kafka.server.share.SharePartitionHistory::run);
        operations.put("controller.run", org.apache.kafka.controller.ControllerHistory::run);
        operations.put("controller.place", org.apache.kafka.controller.ControllerHistory::place);
        operations.put("tool.run", new Tools()::run);
        new Logs().register(operations);
        new Members().register(operations);
        Broker broker = new Broker();
        operations.put("broker.start", broker::start);
        operations.put("broker.stop", broker::stop);
    }

    /** Arguments: the socket to listen on, and how many milliseconds to live without a client. */
    public static void main(String[] arguments) throws IOException {
        Path socket = Path.of(arguments[0]);
        ServerSocketChannel listener = ServerSocketChannel.open(StandardProtocolFamily.UNIX);
        listener.bind(UnixDomainSocketAddress.of(socket));
        Server server = new Server(new Lifetime(socket.getParent(), Long.parseLong(arguments[1])));
        server.lifetime.begin();
        while (true) {
            SocketChannel client = listener.accept();
            server.lifetime.enter();
            Thread thread = new Thread(() -> server.serve(client), "client");
            thread.setDaemon(true);
            thread.start();
        }
    }

    private void serve(SocketChannel client) {
        try (client;
             InputStream raw = new BufferedInputStream(Channels.newInputStream(client), BUFFER);
             DataInputStream in = new DataInputStream(raw);
             OutputStream out = Channels.newOutputStream(client)) {
            while (true) {
                byte[] frame = in.readNBytes(in.readInt());
                byte[] answer = Json.MAPPER.writeValueAsBytes(answer(Json.MAPPER.readTree(frame)));
                ByteBuffer sent = ByteBuffer.allocate(Integer.BYTES + answer.length);
                out.write(sent.putInt(answer.length).put(answer).array());
            }
        } catch (EOFException gone) {
            // The usual end: the client has closed its side.
        } catch (IOException broken) {
            System.err.println("lost a client: " + broken);
        } finally {
            lifetime.leave();
        }
    }

    private ArrayNode answer(JsonNode request) {
        String name = request.path("op").asText();
        Operation operation = operations.get(name);
        ArrayNode answers = Json.array();
        for (JsonNode item : request.path("items")) {
            ObjectNode answer = answers.addObject();
            try {
                if (operation == null) {
                    throw new IllegalArgumentException("no operation named " + name);
                }
                answer.set("ok", operation.answer(item));
            } catch (FailureWithDetail detailed) {
                answer.set("error", detailed.detail);
            } catch (Throwable thrown) {
                answer.set("error", Json.failure(thrown));
            }
        }
        return answers;
    }
}
