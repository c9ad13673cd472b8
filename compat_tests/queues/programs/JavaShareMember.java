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
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** A member of a share group, of Kafka's own client. See tests/clients/queues/programs/member.py. */
public final class JavaShareMember {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration POLL = Duration.ofMillis(100);
    private static final Duration WAIT = Duration.ofSeconds(30);
    private static final FileOutputStream EVENTS = new FileOutputStream(FileDescriptor.out);
    private static final BlockingQueue<JsonNode> COMMANDS = new LinkedBlockingQueue<>();

    private final JsonNode joined;
    private final boolean isExplicit;
    private final KafkaShareConsumer<String, String> consumer;
    private final Map<String, ConsumerRecord<String, String>> held = new HashMap<>();

    private JavaShareMember(JsonNode joined) {
        this.joined = joined;
        isExplicit = joined.get("is_explicit").asBoolean();
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", joined.get("servers").asText());
        settings.put("group.id", joined.get("group").asText());
        settings.put("share.acknowledgement.mode", isExplicit ? "explicit" : "implicit");
        settings.put("share.acquire.mode",
                joined.get("is_strict").asBoolean() ? "record_limit" : "batch_optimized");
        settings.put("max.poll.records", joined.get("records_max").asInt());
        settings.put("fetch.max.wait.ms", 50);
        settings.put("metadata.max.age.ms", 500);
        settings.put("reconnect.backoff.max.ms", 200);
        consumer =
                new KafkaShareConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        consumer.setAcknowledgementCommitCallback(this::sayOutcome);
        List<String> topics = new ArrayList<>();
        joined.get("topics").forEach(each -> topics.add(each.asText()));
        consumer.subscribe(topics);
    }

    public static void main(String[] arguments) throws Exception {
        System.setOut(System.err); // Whatever logs must not be taken for an event.
        Thread reader = new Thread(JavaShareMember::readCommands, "commands");
        reader.setDaemon(true);
        reader.start();
        while (true) {
            new JavaShareMember(COMMANDS.take()).live();
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

    private void live() throws InterruptedException {
        say("done", JSON.createObjectNode());
        JsonNode command = COMMANDS.take();
        while (!command.get("do").asText().equals("close")) {
            if (command.get("do").asText().equals("work")) {
                command = work();
            } else {
                attempt(command);
                command = COMMANDS.take();
            }
        }
        consumer.close();
        say("closed", JSON.createObjectNode());
    }

    private void say(String what, ObjectNode event) {
        event.put("event", what).put("by", joined.get("name").asText());
        try {
            EVENTS.write((event + "\n").getBytes(StandardCharsets.UTF_8)); // In one piece.
        } catch (IOException broken) {
            Runtime.getRuntime().halt(1);
        }
    }

    private void sayOutcome(Map<TopicIdPartition, Set<Long>> offsets, Exception failure) {
        offsets.forEach((where, acknowledged) -> {
            ObjectNode event = JSON.createObjectNode();
            event.putArray("partition").add(where.topic()).add(where.partition());
            ArrayNode told = event.putArray("offsets");
            acknowledged.stream().sorted().forEach(told::add);
            say("outcome", event.put("error", failure == null ? null : name(failure)));
        });
    }

    private static String name(Exception failure) {
        return failure.getClass().getSimpleName();
    }

    private void attempt(JsonNode command) {
        try {
            say("done", perform(command));
        } catch (KafkaException | IllegalStateException refused) {
            say("refused", JSON.createObjectNode().put("reason", name(refused)));
        }
    }

    private ObjectNode perform(JsonNode command) {
        ObjectNode answer = JSON.createObjectNode();
        switch (command.get("do").asText()) {
            case "poll":
                long deadline = System.nanoTime() + (long) (command.get("seconds").asDouble() * 1e9);
                List<ConsumerRecord<String, String>> records = poll();
                while (records.isEmpty() && System.nanoTime() < deadline) {
                    records = poll();
                }
                answer.set("records", told(records));
                break;
            case "acknowledge":
                acknowledge(command, AcknowledgeType.valueOf(
                        command.get("how").asText().toUpperCase(Locale.ROOT)));
                break;
            case "renew":
                acknowledge(command, AcknowledgeType.RENEW);
                consumer.commitSync(WAIT).values().forEach(each -> each.ifPresent(failure -> {
                    throw failure;
                }));
                while (poll().isEmpty()) {} // What is renewed is polled again.
                break;
            case "commit":
                ArrayNode outcomes = answer.putArray("outcomes");
                consumer.commitSync(WAIT).forEach((where, failure) -> outcomes.addArray()
                        .add(where.topic()).add(where.partition())
                        .add(failure.map(JavaShareMember::name).orElse(null)));
                break;
            default:
                consumer.commitAsync();
        }
        return answer;
    }

    private void acknowledge(JsonNode command, AcknowledgeType how) {
        command.get("places").forEach(each -> consumer.acknowledge(
                held.get(place(each.get(0).asText(), each.get(1).asInt(), each.get(2).asLong())),
                how));
    }

    private static String place(String topic, int partition, long offset) {
        return topic + " " + partition + " " + offset;
    }

    private List<ConsumerRecord<String, String>> poll() {
        List<ConsumerRecord<String, String>> records = new ArrayList<>();
        consumer.poll(POLL).forEach(records::add);
        if (!records.isEmpty()) {
            held.clear();
            records.forEach(
                    each -> held.put(place(each.topic(), each.partition(), each.offset()), each));
        }
        return records;
    }

    private static ArrayNode told(List<ConsumerRecord<String, String>> records) {
        ArrayNode told = JSON.createArrayNode();
        for (ConsumerRecord<String, String> each : records) {
            told.addArray()
                    .add(each.topic())
                    .add(each.partition())
                    .add(each.offset())
                    .add(each.value() == null ? "" : each.value())
                    .add(each.deliveryCount().map(Short::intValue).orElse(0));
        }
        return told;
    }

    /** Until another command comes. */
    private JsonNode work() {
        while (true) {
            JsonNode command = COMMANDS.poll();
            if (command != null) {
                return command;
            }
            try {
                List<ConsumerRecord<String, String>> records = poll();
                if (!records.isEmpty()) {
                    handle(records);
                }
            } catch (KafkaException failed) {
                say("failed", JSON.createObjectNode().put("reason", failed.toString()));
            }
        }
    }

    private void handle(List<ConsumerRecord<String, String>> records) {
        say("taken", event(records));
        if (isExplicit) {
            records.forEach(consumer::acknowledge);
        }
        Map<TopicIdPartition, Optional<KafkaException>> outcomes = consumer.commitSync(WAIT);
        List<ConsumerRecord<String, String>> kept = new ArrayList<>();
        outcomes.forEach((where, failure) -> {
            if (failure.isEmpty()) {
                records.stream()
                        .filter(each -> each.topic().equals(where.topic())
                                && each.partition() == where.partition())
                        .forEach(kept::add);
            }
        });
        say("kept", event(kept));
    }

    private static ObjectNode event(List<ConsumerRecord<String, String>> records) {
        ObjectNode event = JSON.createObjectNode();
        event.set("records", told(records));
        return event;
    }
}
