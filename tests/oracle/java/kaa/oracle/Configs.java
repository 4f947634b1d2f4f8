package kaa.oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.fasterxml.jackson.databind.node.TextNode;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Collectors;
import kafka.docker.KafkaDockerWrapper$;
import kafka.server.KafkaConfig;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.Endpoint;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.DynamicBrokerConfig;
import org.apache.kafka.server.config.QuotaConfig;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.server.metrics.ClientMetricsConfigs;
import org.apache.kafka.storage.internals.log.LogConfig;
import scala.jdk.javaapi.CollectionConverters;

/** Kafka's tables of settings, and its judgement of values, of whole configurations, of changes. */
final class Configs {
    private final Map<String, ConfigDef> tables = new HashMap<>();

    Configs() {
        tables.put("broker", KafkaConfig.configDef());
        tables.put("broker quotas", QuotaConfig.brokerQuotaConfigs());
        tables.put("topic", LogConfig.configDefCopy());
        tables.put("group", GroupConfig.CONFIG_DEF);
        tables.put("producer", ProducerConfig.configDef());
        tables.put("consumer", ConsumerConfig.configDef());
        tables.put("admin client", AdminClientConfig.configDef());
        tables.put("client metrics", ClientMetricsConfigs.configDef());
        tables.put("user and client", QuotaConfig.scramMechanismsPlusUserAndClientQuotaConfigs());
        tables.put("IP address", QuotaConfig.ipConfigs());
    }

    void register(Map<String, Operation> operations) {
        operations.put("config.table", this::table);
        operations.put("config.parse", this::parse);
        operations.put("config.updateModes", item -> strings(
            DynamicBrokerConfig.dynamicConfigUpdateModes()));
        operations.put("config.topicSynonyms", Configs::topicSynonyms);
        operations.put("config.groupSynonyms", Configs::groupSynonyms);
        operations.put("config.broker", Configs::broker);
        operations.put("config.topic", Configs::topic);
        operations.put("config.group", Configs::group);
        operations.put("config.clientMetrics", Configs::clientMetrics);
        operations.put("config.client", Configs::client);
        operations.put("config.dynamic", Configs::dynamic);
        operations.put("config.environment", Configs::environment);
        operations.put("config.readProperties", Configs::readProperties);
        operations.put("config.writeProperties", Configs::writeProperties);
    }

    private JsonNode table(JsonNode item) throws Exception {
        ArrayNode rows = Json.array();
        for (ConfigDef.ConfigKey key : tables.get(item.asText()).configKeys().values()) {
            ObjectNode row = rows.addObject()
                .put("name", key.name)
                .put("type", key.type.name())
                .put("required", !key.hasDefault())
                .put("default", key.hasDefault() ? text(key.defaultValue, key.type) : null)
                .put("importance", key.importance.name())
                .put("validValues", key.validator == null ? null : key.validator.toString())
                .put("internal", key.internalConfig)
                .put("documentation", key.documentation);
            if (key.validator instanceof ConfigDef.ValidList) {
                row.put("emptyAllowed", flag(key.validator, "isEmptyAllowed"));
                row.put("nullAllowed", flag(key.validator, "isNullAllowed"));
            }
        }
        return rows;
    }

    private static boolean flag(Object validator, String name) throws Exception {
        Field field = validator.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field.getBoolean(validator);
    }

    /** One value of one setting, as text again. */
    private JsonNode parse(JsonNode item) {
        ConfigDef.ConfigKey key = tables.get(item.get("scope").asText()).configKeys()
            .get(item.get("name").asText());
        Object value = new ConfigDef().define(key)
            .parse(Map.of(key.name, item.get("text").asText())).get(key.name);
        return TextNode.valueOf(text(value, key.type));
    }

    private static String text(Object value, ConfigDef.Type type) {
        if (value instanceof Password password) {
            return password.value();
        }
        if (value instanceof List<?> list) {
            // Defaults that are classes are listed as such.
            return String.join(",", list.stream().map(each ->
                each instanceof Class<?> named ? named.getName() : each.toString()).toList());
        }
        return ConfigDef.convertToString(value, type);
    }

    private static ObjectNode strings(Map<String, String> map) {
        ObjectNode answer = Json.object();
        map.forEach(answer::put);
        return answer;
    }

    private static JsonNode topicSynonyms(JsonNode item) {
        ObjectNode answer = Json.object();
        ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS.forEach((name, synonyms) -> {
            ArrayNode row = answer.putArray(name);
            synonyms.forEach(synonym -> row.addArray()
                .add(synonym.name())
                .add(Long.parseLong(synonym.converter().apply("1"))));
        });
        return answer;
    }

    private static JsonNode groupSynonyms(JsonNode item) {
        ObjectNode answer = Json.object();
        GroupConfig.ALL_GROUP_CONFIG_SYNONYMS.forEach((name, synonym) ->
            answer.put(name, synonym.orElse(null)));
        return answer;
    }

    private static KafkaConfig kafkaConfig(JsonNode settings) {
        return KafkaConfig.fromProps(properties(settings), false);
    }

    private static Properties properties(JsonNode settings) {
        Properties properties = new Properties();
        settings.properties().forEach(each ->
            properties.setProperty(each.getKey(), each.getValue().asText()));
        return properties;
    }

    private static Map<String, String> texts(JsonNode settings) {
        Map<String, String> texts = new LinkedHashMap<>();
        settings.properties().forEach(each ->
            texts.put(each.getKey(), each.getValue().asText()));
        return texts;
    }

    /** A whole node: refused, or what Kafka works out from its settings. */
    private static JsonNode broker(JsonNode settings) {
        KafkaConfig config = kafkaConfig(settings);
        LogConfig.validateBrokerLogConfigValues(config.extractLogConfigMap(),
            config.remoteLogManagerConfig().isRemoteStorageSystemEnabled());
        ObjectNode answer = Json.object()
            .put("nodeId", config.nodeId())
            .put("metadataLogDir", config.metadataLogDir())
            .put("interBroker", config.interBrokerListenerName().value());
        config.logDirs().forEach(answer.putArray("logDirs")::add);
        put(answer, "listeners", config.listeners());
        put(answer, "advertisedBroker", config.effectiveAdvertisedBrokerListeners());
        put(answer, "advertisedController", config.effectiveAdvertisedControllerListeners());
        ObjectNode topic = answer.putObject("topicDefaults");
        LogConfig log = new LogConfig(config.extractLogConfigMap());
        LogConfig.configNames().forEach(name ->
            topic.put(name, text(log.values().get(name), LogConfig.configType(name).get())));
        return answer;
    }

    private static void put(ObjectNode answer, String name,
                            scala.collection.Seq<Endpoint> endpoints) {
        ArrayNode array = answer.putArray(name);
        CollectionConverters.asJava(endpoints).forEach(endpoint -> array.addArray()
            .add(endpoint.listener())
            .add(endpoint.securityProtocol().name)
            .add(endpoint.host())
            .add(endpoint.port()));
    }

    private static JsonNode topic(JsonNode item) {
        KafkaConfig config = kafkaConfig(item.get("broker"));
        LogConfig.validate(texts(item.path("existing")), texts(item.get("overrides")),
            config.extractLogConfigMap(),
            config.remoteLogManagerConfig().isRemoteStorageSystemEnabled());
        return Json.object();
    }

    private static JsonNode group(JsonNode item) {
        KafkaConfig config = kafkaConfig(item.get("broker"));
        GroupConfig.validate(texts(item.get("overrides")), config.groupCoordinatorConfig(),
            config.shareGroupConfig());
        return Json.object();
    }

    private static JsonNode clientMetrics(JsonNode overrides) {
        ClientMetricsConfigs.validate("name", texts(overrides));
        return Json.object();
    }

    private static JsonNode client(JsonNode item) {
        Map<String, Object> settings = new HashMap<>(texts(item.get("settings")));
        String coder = "org.apache.kafka.common.serialization.ByteArray";
        switch (item.get("kind").asText()) {
            case "producer" -> {
                settings.put("key.serializer", coder + "Serializer");
                settings.put("value.serializer", coder + "Serializer");
                new ProducerConfig(settings);
            }
            case "consumer" -> {
                settings.put("key.deserializer", coder + "Deserializer");
                settings.put("value.deserializer", coder + "Deserializer");
                new ConsumerConfig(settings);
            }
            default -> new AdminClientConfig(settings);
        }
        return Json.object();
    }

    private static JsonNode dynamic(JsonNode item) {
        DynamicBrokerConfig.validateConfigs(properties(item.get("changes")),
            item.get("perBroker").asBoolean());
        return Json.object();
    }

    /** The settings that the Apache image makes of an environment. */
    private static JsonNode environment(JsonNode variables) {
        scala.collection.immutable.Map<String, String> environment =
            scala.collection.immutable.Map$.MODULE$.from(
                CollectionConverters.asScala(texts(variables)));
        ArrayNode lines = Json.array();
        CollectionConverters.asJava(
            KafkaDockerWrapper$.MODULE$.getServerConfigsFromEnv(environment)).forEach(lines::add);
        return lines;
    }

    private static JsonNode readProperties(JsonNode item) throws Exception {
        Properties properties = new Properties();
        properties.load(new ByteArrayInputStream(Json.bytes(item, "bytes")));
        ObjectNode answer = Json.object();
        properties.forEach((name, value) -> answer.put((String) name, (String) value));
        return answer;
    }

    private static JsonNode writeProperties(JsonNode item) throws Exception {
        Properties properties = new Properties();
        properties.setProperty(item.get("name").asText(), item.get("value").asText());
        ByteArrayOutputStream written = new ByteArrayOutputStream();
        properties.store(written, null);
        // The first line is a comment with the time.
        return TextNode.valueOf(written.toString(StandardCharsets.ISO_8859_1).lines()
            .skip(1).collect(Collectors.joining("\n", "", "\n")));
    }
}
