package kaa.oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.BooleanNode;
import java.util.Properties;
import kafka.server.KafkaConfig;
import kafka.server.KafkaRaftServer;
import org.apache.kafka.common.utils.Time;

/** One real Kafka node in this JVM; its log directories have been formatted before. */
final class Broker {
    private KafkaRaftServer server;

    /** Returns when the node serves clients. */
    synchronized JsonNode start(JsonNode item) {
        if (server != null) {
            throw new IllegalStateException("the node is already running");
        }
        Properties properties = new Properties();
        item.path("properties").properties().forEach(
            setting -> properties.setProperty(setting.getKey(), setting.getValue().asText()));
        KafkaConfig config = KafkaConfig.fromProps(properties);
        KafkaRaftServer starting = new KafkaRaftServer(config, Time.SYSTEM);
        starting.startup();
        server = starting;
        return BooleanNode.TRUE;
    }

    synchronized JsonNode stop(JsonNode item) {
        if (server != null) {
            server.shutdown();
            server.awaitShutdown();
            server = null;
        }
        return BooleanNode.TRUE;
    }
}
