import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Kafka's Java client, told what to do by lines of JSON on stdin, one answer for each on stdout:
 * {"ok": ...}, or {"refused": the name of Kafka's error}. Bytes are base64.
 */
public final class JavaClient {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration WAIT = Duration.ofSeconds(30);

    private final Map<String, Object> connection;
    private final Admin admin;

    private JavaClient(String address) {
        connection = Map.of("bootstrap.servers", address);
        admin = Admin.create(connection);
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err); // Whatever logs must not answer.
        JavaClient client = new JavaClient(arguments[0]);
        BufferedReader lines =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                answer.set("ok", JSON.valueToTree(client.answer(JSON.readTree(line))));
            } catch (ExecutionException | KafkaException failed) {
                Throwable cause = failed instanceof ExecutionException ? failed.getCause() : failed;
                answer.put("refused", Errors.forException(cause).name() + ": " + cause.getMessage());
            }
            answers.println(JSON.writeValueAsString(answer));
            answers.flush();
        }
        client.admin.close();
    }

    private Object answer(JsonNode asked) throws Exception {
        String topic = asked.path("topic").asText();
        TopicPartition partition = new TopicPartition(topic, asked.path("partition").asInt());
        switch (asked.get("verb").asText()) {
            case "produce":
                return produce(partition, asked);
            case "consume":
                return consume(partition, asked.get("offset").asLong());
            case "offset_at":
                return offsetAt(partition, asked.get("position"));
            case "create_topics":
                return createTopics(asked);
            case "delete_topics":
                return admin.deleteTopics(texts(asked.get("topics"))).all().get();
            case "list_topics":
                return admin.listTopics().names().get();
            case "describe_topics":
                return describeTopics(texts(asked.get("topics")));
            case "create_partitions":
                NewPartitions wanted = NewPartitions.increaseTo(asked.get("count").asInt());
                return admin.createPartitions(Map.of(topic, wanted)).all().get();
            case "delete_records":
                RecordsToDelete before = RecordsToDelete.beforeOffset(asked.get("before").asLong());
                return admin.deleteRecords(Map.of(partition, before))
                        .lowWatermarks().get(partition).get().lowWatermark();
            case "describe_config":
                return describeConfig(topic);
            case "alter_config":
                return alterConfig(topic, asked.get("key").asText(), asked.get("value"));
            case "describe_cluster":
                return describeCluster();
            case "describe_log_dirs":
                return describeLogDirs();
            case "describe_features":
                Map<String, Integer> levels = new HashMap<>();
                admin.describeFeatures().featureMetadata().get().finalizedFeatures()
                        .forEach((name, range) -> levels.put(name, (int) range.maxVersionLevel()));
                return levels;
            default:
                throw new IllegalArgumentException(asked.toString());
        }
    }

    private Object produce(TopicPartition where, JsonNode asked) throws Exception {
        Map<String, Object> config = new HashMap<>(connection);
        config.put("acks", asked.get("acks").asText());
        config.put("compression.type", asked.get("codec").asText());
        config.put("enable.idempotence", asked.get("idempotent").asBoolean());
        config.put("linger.ms", 50);
        config.put("max.request.size", asked.get("request_bytes_max").asInt());
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (JsonNode each : asked.get("messages")) {
                Long timestamp = each.get("timestamp").isNull() ? null : each.get("timestamp").asLong();
                ProducerRecord<byte[], byte[]> made = new ProducerRecord<>(
                        where.topic(), where.partition(), timestamp,
                        bytes(each.get("key")), bytes(each.get("value")));
                for (JsonNode header : each.get("headers")) {
                    made.headers().add(header.get(0).asText(), bytes(header.get(1)));
                }
                sent.add(producer.send(made));
            }
            producer.flush();
            for (Future<RecordMetadata> each : sent) {
                each.get();
            }
        }
        return null;
    }

    private Object consume(TopicPartition where, long offset) {
        ArrayNode found = JSON.createArrayNode();
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(connection, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(List.of(where));
            consumer.seek(where, offset);
            long end = consumer.endOffsets(List.of(where)).get(where);
            while (consumer.position(where) < end) {
                for (ConsumerRecord<byte[], byte[]> each : consumer.poll(WAIT)) {
                    found.add(described(each));
                }
            }
        }
        return found;
    }

    private static ObjectNode described(ConsumerRecord<byte[], byte[]> found) {
        ObjectNode told = JSON.createObjectNode();
        told.put("offset", found.offset());
        told.put("key", text(found.key()));
        told.put("value", text(found.value()));
        told.put("timestamp", found.timestamp());
        told.put("is_append_time", found.timestampType() == TimestampType.LOG_APPEND_TIME);
        ArrayNode headers = told.putArray("headers");
        for (Header header : found.headers()) {
            headers.addArray().add(header.key()).add(text(header.value()));
        }
        return told;
    }

    private Object offsetAt(TopicPartition where, JsonNode position) throws Exception {
        OffsetSpec spec = position.isNumber()
                ? OffsetSpec.forTimestamp(position.asLong())
                : Map.of(
                        "earliest", OffsetSpec.earliest(),
                        "latest", OffsetSpec.latest(),
                        "max timestamp", OffsetSpec.maxTimestamp()).get(position.asText());
        return admin.listOffsets(Map.of(where, spec)).partitionResult(where).get().offset();
    }

    private Object createTopics(JsonNode asked) throws Exception {
        Map<String, String> configs = new HashMap<>();
        asked.get("configs").fields().forEachRemaining(
                each -> configs.put(each.getKey(), each.getValue().asText()));
        List<NewTopic> wanted = new ArrayList<>();
        asked.get("topics").fields().forEachRemaining(each -> wanted.add(
                new NewTopic(each.getKey(), each.getValue().asInt(), (short) 1).configs(configs)));
        return admin.createTopics(wanted).all().get();
    }

    private Object describeTopics(List<String> topics) throws Exception {
        Map<String, Integer> counts = new HashMap<>();
        admin.describeTopics(topics).allTopicNames().get().forEach((name, found) -> {
            if (found.partitions().stream().anyMatch(each -> each.leader() == null)) {
                throw new KafkaException(name + " has a partition without a leader");
            }
            counts.put(name, found.partitions().size());
        });
        return counts;
    }

    private Object describeConfig(String topic) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        Map<String, String> values = new HashMap<>();
        for (ConfigEntry each : admin.describeConfigs(List.of(resource)).all().get().get(resource).entries()) {
            values.put(each.name(), each.value());
        }
        return values;
    }

    private Object alterConfig(String topic, String key, JsonNode value) throws Exception {
        AlterConfigOp change = value.isNull()
                ? new AlterConfigOp(new ConfigEntry(key, null), AlterConfigOp.OpType.DELETE)
                : new AlterConfigOp(new ConfigEntry(key, value.asText()), AlterConfigOp.OpType.SET);
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        return admin.incrementalAlterConfigs(Map.of(resource, List.of(change))).all().get();
    }

    private Object describeCluster() throws Exception {
        Map<Integer, String> nodes = new HashMap<>();
        for (Node each : admin.describeCluster().nodes().get()) {
            nodes.put(each.id(), each.host() + ":" + each.port());
        }
        return Map.of("nodes", nodes, "controller", admin.describeCluster().controller().get().id());
    }

    private Object describeLogDirs() throws Exception {
        ObjectNode directories = JSON.createObjectNode();
        int node = admin.describeCluster().nodes().get().iterator().next().id();
        admin.describeLogDirs(List.of(node)).allDescriptions().get().get(node).forEach((path, found) -> {
            ArrayNode held = directories.putArray(path);
            found.replicaInfos().keySet().forEach(
                    each -> held.addArray().add(each.topic()).add(each.partition()));
        });
        return directories;
    }

    private static List<String> texts(JsonNode array) {
        List<String> found = new ArrayList<>();
        array.forEach(each -> found.add(each.asText()));
        return found;
    }

    private static String text(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }

    private static byte[] bytes(JsonNode text) throws IOException {
        return text.isNull() ? null : text.binaryValue();
    }
}
