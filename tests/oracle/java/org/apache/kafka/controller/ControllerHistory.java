package org.apache.kafka.controller;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import kaa.oracle.ManualTime;
import kafka.server.KafkaConfig;
import org.apache.kafka.common.DirectoryId;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.StaleBrokerEpochException;
import org.apache.kafka.common.message.AlterPartitionReassignmentsRequestData;
import org.apache.kafka.common.message.AlterPartitionReassignmentsResponseData;
import org.apache.kafka.common.message.AlterPartitionRequestData;
import org.apache.kafka.common.message.AssignReplicasToDirsRequestData;
import org.apache.kafka.common.message.BrokerHeartbeatRequestData;
import org.apache.kafka.common.message.BrokerRegistrationRequestData;
import org.apache.kafka.common.message.ElectLeadersRequestData;
import org.apache.kafka.common.message.ElectLeadersResponseData;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.metadata.BeginTransactionRecord;
import org.apache.kafka.common.metadata.BrokerRegistrationChangeRecord;
import org.apache.kafka.common.metadata.ClearElrRecord;
import org.apache.kafka.common.metadata.ConfigRecord;
import org.apache.kafka.common.metadata.EndTransactionRecord;
import org.apache.kafka.common.metadata.FeatureLevelRecord;
import org.apache.kafka.common.metadata.PartitionChangeRecord;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.RegisterBrokerRecord;
import org.apache.kafka.common.metadata.RemoveTopicRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.metadata.UnregisterBrokerRecord;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.metadata.BrokerHeartbeatReply;
import org.apache.kafka.metadata.KafkaConfigSchema;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.metadata.placement.ClusterDescriber;
import org.apache.kafka.metadata.placement.PartitionAssignment;
import org.apache.kafka.metadata.placement.PlacementSpec;
import org.apache.kafka.metadata.placement.StripedReplicaPlacer;
import org.apache.kafka.metadata.placement.UsableBroker;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.KRaftVersion;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.timeline.SnapshotRegistry;

/**
 * Kafka's managers of brokers and partitions under a history of requests; in their package, since
 * they are made there. What a request decides is applied at once, and answered as bytes.
 */
public final class ControllerHistory {
    private static final JsonNodeFactory NODES = JsonNodeFactory.instance;
    private static final MetadataRecordSerde SERDE = new MetadataRecordSerde();

    private final ManualTime time = new ManualTime(0);
    private final FeatureControlManager features;
    private final ClusterControlManager cluster;
    private final ConfigurationControlManager configs;
    private final ReplicationControlManager replication;
    private long offset;

    private ControllerHistory(JsonNode item) {
        int nodeId = item.get("node").asInt();
        SnapshotRegistry registry = new SnapshotRegistry(new LogContext());
        features = new FeatureControlManager.Builder()
            .setSnapshotRegistry(registry)
            .setQuorumFeatures(new QuorumFeatures(
                nodeId, QuorumFeatures.defaultSupportedFeatureMap(true), List.of(nodeId)))
            .setKRaftVersionAccessor(new KRaftVersionAccessor() {
                @Override
                public KRaftVersion kraftVersion() {
                    return KRaftVersion.KRAFT_VERSION_0;
                }

                @Override
                public void upgradeKRaftVersion(int epoch, KRaftVersion version, boolean only) {
                    throw new UnsupportedOperationException();
                }
            })
            .build();
        cluster = new ClusterControlManager.Builder()
            .setClusterId(item.get("cluster").asText())
            .setTime(time)
            .setSnapshotRegistry(registry)
            .setSessionTimeoutNs(TimeUnit.MILLISECONDS.toNanos(item.get("session_ms").asLong()))
            .setReplicaPlacer(new StripedReplicaPlacer(new Random(0)))
            .setFeatureControlManager(features)
            .setBrokerShutdownHandler(this::shutDown)
            .build();
        configs = new ConfigurationControlManager.Builder()
            .setSnapshotRegistry(registry)
            .setNodeId(nodeId)
            .setFeatureControl(features)
            .setStaticConfig(Map.of())
            .setKafkaConfigSchema(new KafkaConfigSchema(
                Map.of(
                    ConfigResource.Type.BROKER, KafkaConfig.configDef(),
                    ConfigResource.Type.TOPIC, LogConfig.configDefCopy()),
                ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS))
            .build();
        replication = new ReplicationControlManager.Builder()
            .setSnapshotRegistry(registry)
            .setConfigurationControl(configs)
            .setClusterControl(cluster)
            .setFeatureControl(features)
            .setMaxElectionsPerImbalance(ReplicationControlManager.MAX_ELECTIONS_PER_IMBALANCE)
            .build();
        cluster.activate();
    }

    private void shutDown(int broker, boolean isClean, List<ApiMessageAndVersion> records) {
        replication.handleBrokerShutdown(broker, isClean, records);
    }

    /** A history from the beginning; for each step what was answered and written. */
    public static JsonNode run(JsonNode item) throws Exception {
        ControllerHistory history = new ControllerHistory(item);
        ArrayNode answers = NODES.arrayNode();
        for (JsonNode step : item.get("steps")) {
            history.time.set(step.get("now").asLong());
            history.offset = step.get("offset").asLong();
            ObjectNode answer = answers.addObject();
            List<ApiMessageAndVersion> records = new ArrayList<>();
            try {
                records = history.execute(step, answer);
            } catch (ApiException refused) {
                answer.put("error", Errors.forException(refused).code());
            }
            ArrayNode written = answer.putArray("records");
            for (ApiMessageAndVersion record : records) {
                written.add(frame(record));
                history.replay(record);
            }
            if (answer.has("shutting_down") && answer.get("shutting_down").asBoolean()) {
                history.cluster.heartbeatManager().maybeUpdateControlledShutdownOffset(
                    step.get("broker").asInt(), history.offset - 1);
            }
        }
        return answers;
    }

    private List<ApiMessageAndVersion> execute(JsonNode step, ObjectNode answer)
            throws IOException {
        short version = (short) step.path("version").asInt();
        switch (step.get("op").asText()) {
            case "replay": {
                List<ApiMessageAndVersion> records = new ArrayList<>();
                for (JsonNode value : step.get("records")) {
                    byte[] bytes = value.binaryValue();
                    records.add(SERDE.read(
                        new ByteBufferAccessor(ByteBuffer.wrap(bytes)), bytes.length));
                }
                return records;
            }
            case "register": {
                BrokerRegistrationRequestData request = new BrokerRegistrationRequestData();
                read(request, step, version);
                var result = cluster.registerBroker(request, offset,
                    features.finalizedFeatures(Long.MAX_VALUE), version >= 3);
                answer.put("epoch", result.response().epoch());
                return result.records();
            }
            case "heartbeat": {
                BrokerHeartbeatRequestData request = new BrokerHeartbeatRequestData();
                read(request, step, version);
                return heartbeat(request, answer);
            }
            case "unregister":
                return replication.unregisterBroker(step.get("broker").asInt()).records();
            case "alter": {
                AlterPartitionRequestData request = new AlterPartitionRequestData();
                read(request, step, version);
                var result = replication.alterPartition(context(version), request);
                answer.put("response", bytes(result.response(), version));
                return result.records();
            }
            case "reassign": {
                AlterPartitionReassignmentsRequestData request =
                    new AlterPartitionReassignmentsRequestData();
                read(request, step, version);
                var result = replication.alterPartitionReassignments(request);
                ArrayNode errors = answer.putArray("errors");
                for (var topic : result.response().responses()) {
                    for (AlterPartitionReassignmentsResponseData.ReassignablePartitionResponse
                            partition : topic.partitions()) {
                        errors.add(partition.errorCode());
                    }
                }
                return result.records();
            }
            case "elect": {
                ElectLeadersRequestData request = new ElectLeadersRequestData();
                read(request, step, version);
                var result = replication.electLeaders(request);
                ObjectNode errors = answer.putObject("elections");
                for (var topic : result.response().replicaElectionResults()) {
                    for (ElectLeadersResponseData.PartitionResult partition
                            : topic.partitionResult()) {
                        errors.put(
                            topic.topic() + "-" + partition.partitionId(), partition.errorCode());
                    }
                }
                return result.records();
            }
            case "directories": {
                AssignReplicasToDirsRequestData request = new AssignReplicasToDirsRequestData();
                read(request, step, version);
                return replication.handleAssignReplicasToDirs(request).records();
            }
            case "balance":
                return replication.maybeBalancePartitionLeaders().records();
            case "unclean":
                return replication.maybeElectUncleanLeaders().records();
            case "expire": {
                var result = replication.maybeFenceOneStaleBroker();
                answer.put("more", result.response());
                return result.records();
            }
            default:
                throw new IllegalArgumentException("no step " + step.get("op"));
        }
    }

    private List<ApiMessageAndVersion> heartbeat(
            BrokerHeartbeatRequestData request, ObjectNode answer) {
        cluster.trackBrokerHeartbeat(request.brokerId(), request.brokerEpoch());
        OptionalLong registered = cluster.registerBrokerRecordOffset(request.brokerId());
        if (registered.isEmpty()) {
            throw new StaleBrokerEpochException("not registered");
        }
        var result = replication.processBrokerHeartbeat(request, registered.getAsLong());
        BrokerHeartbeatReply reply = result.response();
        answer.put("caught_up", reply.isCaughtUp())
            .put("fenced", reply.isFenced())
            .put("shutting_down", reply.inControlledShutdown())
            .put("should_shut_down", reply.shouldShutDown());
        return result.records();
    }

    private void replay(ApiMessageAndVersion record) {
        apply(record.message());
        offset++;
    }

    private void apply(Message message) {
        if (message instanceof RegisterBrokerRecord record) {
            cluster.replay(record, offset);
        } else if (message instanceof UnregisterBrokerRecord record) {
            cluster.replay(record);
        } else if (message instanceof BrokerRegistrationChangeRecord record) {
            cluster.replay(record);
        } else if (message instanceof FeatureLevelRecord record) {
            features.replay(record);
        } else if (message instanceof ConfigRecord record) {
            configs.replay(record);
        } else if (message instanceof TopicRecord record) {
            replication.replay(record);
        } else if (message instanceof PartitionRecord record) {
            replication.replay(record);
        } else if (message instanceof PartitionChangeRecord record) {
            replication.replay(record);
        } else if (message instanceof RemoveTopicRecord record) {
            replication.replay(record);
        } else if (message instanceof ClearElrRecord record) {
            replication.replay(record);
        } else if (!(message instanceof BeginTransactionRecord)
                && !(message instanceof EndTransactionRecord)) {
            throw new IllegalArgumentException("no place for " + message);
        }
    }

    /** Where Kafka's placer puts the replicas of new partitions, with Java's seeded chance. */
    public static JsonNode place(JsonNode item) {
        List<UsableBroker> brokers = new ArrayList<>();
        for (JsonNode broker : item.get("brokers")) {
            brokers.add(new UsableBroker(broker.get(0).asInt(),
                Optional.ofNullable(broker.get(1).isNull() ? null : broker.get(1).asText()),
                broker.get(2).asBoolean()));
        }
        ClusterDescriber describer = (ClusterDescriber) Proxy.newProxyInstance(
            ControllerHistory.class.getClassLoader(),
            new Class<?>[] {ClusterDescriber.class},
            (proxy, method, arguments) -> method.getName().equals("usableBrokers")
                ? brokers.iterator()
                : DirectoryId.UNASSIGNED);
        ArrayNode answer = NODES.arrayNode();
        StripedReplicaPlacer placer =
            new StripedReplicaPlacer(new Random(item.get("seed").asLong()));
        PlacementSpec spec = new PlacementSpec(
            0, item.get("partitions").asInt(), (short) item.get("factor").asInt());
        for (PartitionAssignment partition : placer.place(spec, describer).assignments()) {
            ArrayNode replicas = answer.addArray();
            partition.replicas().forEach(replicas::add);
        }
        return answer;
    }

    private static ControllerRequestContext context(short version) {
        return new ControllerRequestContext(
            new RequestHeaderData().setRequestApiVersion(version),
            KafkaPrincipal.ANONYMOUS, OptionalLong.empty());
    }

    private static void read(Message message, JsonNode step, short version) throws IOException {
        message.read(
            new ByteBufferAccessor(ByteBuffer.wrap(step.get("request").binaryValue())), version);
    }

    private static byte[] bytes(Message message, short version) {
        ByteBuffer buffer = MessageUtil.toByteBufferAccessor(message, version).buffer();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return bytes;
    }

    private static byte[] frame(ApiMessageAndVersion record) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(SERDE.recordSize(record, cache));
        SERDE.write(record, cache, new ByteBufferAccessor(buffer));
        return buffer.array();
    }
}
