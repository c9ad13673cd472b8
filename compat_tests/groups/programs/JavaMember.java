import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.serialization.StringDeserializer;

/** A member of a group that is Kafka's own consumer. See tests/clients/groups/programs/member.py. */
public final class JavaMember implements ConsumerRebalanceListener {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration POLL = Duration.ofMillis(50);
    private static final FileOutputStream EVENTS = new FileOutputStream(FileDescriptor.out);
    private static final BlockingQueue<JsonNode> COMMANDS = new LinkedBlockingQueue<>();

    private final String name;
    private final boolean commitsAlways;
    private final KafkaConsumer<String, String> consumer;
    private final Map<TopicPartition, OffsetAndMetadata> uncommitted = new HashMap<>();

    private JavaMember(JsonNode join) {
        name = join.get("name").asText();
        commitsAlways = join.get("commits_always").asBoolean();
        consumer = new KafkaConsumer<>(settings(join));
        if (join.get("pattern").isNull()) {
            List<String> topics = new ArrayList<>();
            join.get("topics").forEach(topic -> topics.add(topic.asText()));
            consumer.subscribe(topics, this);
        } else if (join.get("protocol").asText().equals("consumer")) {
            consumer.subscribe(new SubscriptionPattern(join.get("pattern").asText()), this);
        } else {
            consumer.subscribe(Pattern.compile(join.get("pattern").asText()), this);
        }
    }

    public static void main(String[] arguments) throws Exception {
        System.setOut(System.err); // Whatever logs must not be taken for an event.
        Thread reader = new Thread(JavaMember::readCommands, "commands");
        reader.setDaemon(true);
        reader.start();
        while (true) {
            new JavaMember(COMMANDS.take()).live();
        }
    }

    private static void readCommands() {
        try (BufferedReader lines =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                COMMANDS.add(JSON.readTree(line));
            }
        } catch (IOException broken) {
            System.err.println("commands: " + broken);
        }
        Runtime.getRuntime().halt(0);
    }

    private static Map<String, Object> settings(JsonNode join) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", join.get("servers").asText());
        settings.put("group.id", join.get("group").asText());
        settings.put("group.protocol", join.get("protocol").asText());
        settings.put("client.rack", join.get("rack").asText(""));
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", false);
        settings.put("fetch.max.wait.ms", 50);
        settings.put("metadata.max.age.ms", 500);
        settings.put("reconnect.backoff.max.ms", 200);
        settings.put("key.deserializer", StringDeserializer.class);
        settings.put("value.deserializer", StringDeserializer.class);
        if (!join.get("instance").isNull()) {
            settings.put("group.instance.id", join.get("instance").asText());
        }
        JsonNode assignor = join.get("assignor");
        if (join.get("protocol").asText().equals("consumer")) {
            if (!assignor.isNull()) {
                settings.put("group.remote.assignor", assignor.asText());
            }
        } else {
            settings.put("partition.assignment.strategy", Map.of(
                    "range", "org.apache.kafka.clients.consumer.RangeAssignor",
                    "cooperative-sticky",
                    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor")
                    .get(assignor.asText()));
            settings.put("session.timeout.ms", join.get("session_ms").asInt());
            settings.put("heartbeat.interval.ms", join.get("heartbeat_ms").asInt());
        }
        return settings;
    }

    private void live() {
        for (String command = ""; !command.equals("leave"); ) {
            JsonNode next = COMMANDS.poll();
            command = next == null ? "" : next.get("do").asText();
            try {
                if (command.isEmpty()) {
                    poll();
                } else {
                    commitAll();
                    if (command.equals("commit")) {
                        say("done", JSON.createObjectNode());
                    }
                }
            } catch (RuntimeException failed) {
                fail(failed);
            }
        }
        say("leaving", JSON.createObjectNode());
        consumer.close();
        say("left", JSON.createObjectNode());
    }

    private void poll() {
        for (ConsumerRecord<String, String> record : consumer.poll(POLL)) {
            TopicPartition where = new TopicPartition(record.topic(), record.partition());
            uncommitted.put(where, new OffsetAndMetadata(record.offset() + 1));
            ObjectNode event = JSON.createObjectNode();
            event.putArray("partition").add(where.topic()).add(where.partition());
            say("read", event.put("offset", record.offset()).put("value", record.value()));
        }
        if (commitsAlways) {
            commit(uncommitted.keySet());
        }
    }

    private void commitAll() {
        while (true) {
            try {
                commit(uncommitted.keySet());
                return;
            } catch (RebalanceInProgressException tooEarly) {
                poll(); // It asks for this: the rebalance goes on in there.
            }
        }
    }

    private void commit(Collection<TopicPartition> partitions) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>(uncommitted);
        offsets.keySet().retainAll(partitions);
        if (offsets.isEmpty()) {
            return;
        }
        consumer.commitSync(offsets);
        uncommitted.keySet().removeAll(offsets.keySet());
        ObjectNode event = JSON.createObjectNode();
        ArrayNode told = event.putArray("offsets");
        offsets.forEach((where, offset) -> told.addArray()
                .add(where.topic()).add(where.partition()).add(offset.offset()));
        say("committed", event);
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        sayPartitions("assigned", partitions);
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        try {
            commit(partitions);
        } catch (RuntimeException failed) {
            fail(failed);
        }
        sayPartitions("revoked", partitions);
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        uncommitted.keySet().removeAll(partitions);
        sayPartitions("lost", partitions);
    }

    private void fail(RuntimeException failed) {
        say("failed", JSON.createObjectNode().put("reason", failed.toString()));
    }

    private void sayPartitions(String what, Collection<TopicPartition> partitions) {
        ObjectNode event = JSON.createObjectNode();
        ArrayNode told = event.putArray("partitions");
        partitions.forEach(each -> told.addArray().add(each.topic()).add(each.partition()));
        say(what, event);
    }

    private void say(String what, ObjectNode event) {
        event.put("event", what).put("by", name);
        try {
            EVENTS.write((event + "\n").getBytes(StandardCharsets.UTF_8)); // In one piece.
        } catch (IOException broken) {
            Runtime.getRuntime().halt(1);
        }
    }
}
