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
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Transactions of Kafka's own client. See tests/clients/transactions/programs/actor.py. */
public final class JavaActor {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration POLL = Duration.ofMillis(50);
    private static final Duration CLOSE = Duration.ofSeconds(5);
    private static final int RECORDS_MAX = 20;
    private static final FileOutputStream EVENTS = new FileOutputStream(FileDescriptor.out);
    private static final BlockingQueue<JsonNode> COMMANDS = new LinkedBlockingQueue<>();

    private final JsonNode asked;

    private JavaActor(JsonNode asked) {
        this.asked = asked;
    }

    public static void main(String[] arguments) throws Exception {
        System.setOut(System.err); // Whatever logs must not be taken for an event.
        Thread reader = new Thread(JavaActor::readCommands, "commands");
        reader.setDaemon(true);
        reader.start();
        while (true) {
            JsonNode asked = COMMANDS.take();
            JavaActor actor = new JavaActor(asked);
            switch (asked.get("do").asText()) {
                case "produce":
                    actor.produce();
                    break;
                case "read":
                    actor.read();
                    break;
                default:
                    actor.new Copier().live();
            }
            actor.say("closed", JSON.createObjectNode());
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

    private void say(String what, ObjectNode event) {
        event.put("event", what).put("by", asked.get("name").asText());
        try {
            EVENTS.write((event + "\n").getBytes(StandardCharsets.UTF_8)); // In one piece.
        } catch (IOException broken) {
            Runtime.getRuntime().halt(1);
        }
    }

    private KafkaProducer<String, String> newProducer() {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", asked.get("servers").asText());
        settings.put("transactional.id", asked.get("transactional_id").asText());
        settings.put("transaction.timeout.ms", asked.get("timeout_ms").asInt());
        settings.put("reconnect.backoff.max.ms", 200);
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    private KafkaConsumer<String, String> newConsumer(Map<String, Object> more) {
        Map<String, Object> settings = new HashMap<>(more);
        settings.put("bootstrap.servers", asked.get("servers").asText());
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", false);
        settings.put("max.poll.records", RECORDS_MAX);
        settings.put("fetch.max.wait.ms", 50);
        settings.put("metadata.max.age.ms", 500);
        settings.put("reconnect.backoff.max.ms", 200);
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    private void produce() throws InterruptedException {
        try (KafkaProducer<String, String> producer = newProducer()) {
            attempt(producer::initTransactions);
            while (true) {
                JsonNode command = COMMANDS.take();
                if (command.get("do").asText().equals("close")) {
                    producer.close(CLOSE);
                    return;
                }
                attempt(() -> perform(producer, command));
            }
        }
    }

    private interface Action {
        void run() throws Exception;
    }

    private void attempt(Action action) {
        try {
            action.run();
            say("done", JSON.createObjectNode());
        } catch (ExecutionException failed) {
            refuse(failed.getCause());
        } catch (Exception failed) {
            refuse(failed);
        }
    }

    private void refuse(Throwable reason) {
        say("refused", JSON.createObjectNode().put("reason", reason.getClass().getSimpleName()));
    }

    private static void perform(KafkaProducer<String, String> producer, JsonNode command)
            throws Exception {
        switch (command.get("do").asText()) {
            case "begin":
                producer.beginTransaction();
                return;
            case "send":
                TopicPartition where = partition(command.get("partition"));
                producer.send(new ProducerRecord<>(
                        where.topic(), where.partition(), null, command.get("value").asText()))
                        .get();
                return;
            case "offsets":
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                command.get("offsets").forEach(each -> offsets.put(
                        partition(each), new OffsetAndMetadata(each.get(2).asLong())));
                producer.sendOffsetsToTransaction(
                        offsets, new ConsumerGroupMetadata(command.get("group").asText()));
                return;
            case "commit":
                producer.commitTransaction();
                return;
            default:
                producer.abortTransaction();
        }
    }

    private static TopicPartition partition(JsonNode told) {
        return new TopicPartition(told.get(0).asText(), told.get(1).asInt());
    }

    private void read() {
        List<TopicPartition> partitions = new ArrayList<>();
        asked.get("partitions").forEach(each -> partitions.add(partition(each)));
        try (KafkaConsumer<String, String> consumer =
                newConsumer(Map.of("isolation.level", asked.get("isolation").asText()))) {
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            say("done", JSON.createObjectNode());
            while (COMMANDS.poll() == null) {
                for (ConsumerRecord<String, String> record : consumer.poll(POLL)) {
                    ObjectNode event = JSON.createObjectNode();
                    event.putArray("partition").add(record.topic()).add(record.partition());
                    say("read", event.put("offset", record.offset()).put("value", record.value()));
                }
            }
        }
    }

    /** A member of a group. Between two polls it has no transaction. */
    private final class Copier implements ConsumerRebalanceListener {
        private KafkaProducer<String, String> producer = newProducer();
        private final KafkaConsumer<String, String> consumer = newConsumer(Map.of(
                "group.id", asked.get("group").asText(),
                "session.timeout.ms", asked.get("session_ms").asInt(),
                "heartbeat.interval.ms", asked.get("heartbeat_ms").asInt(),
                "isolation.level", "read_committed"));
        private boolean isToHang = false;

        private void live() throws InterruptedException {
            producer.initTransactions();
            consumer.subscribe(List.of(asked.get("source").asText()), this);
            say("done", JSON.createObjectNode());
            while (true) {
                JsonNode command = COMMANDS.poll();
                if (command != null && command.get("do").asText().equals("close")) {
                    break;
                }
                isToHang |= command != null;
                poll();
            }
            consumer.close();
            producer.close(CLOSE);
        }

        private void poll() throws InterruptedException {
            ConsumerRecords<String, String> records = consumer.poll(POLL);
            if (records.isEmpty()) {
                return;
            }
            try {
                copy(records);
            } catch (KafkaException | ExecutionException failed) {
                say("aborted", JSON.createObjectNode().put("reason", failed.toString()));
                recover();
                return;
            }
            say("copied", JSON.createObjectNode().put("count", records.count()));
        }

        private void copy(ConsumerRecords<String, String> records)
                throws InterruptedException, ExecutionException {
            String target = asked.get("target").asText();
            Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
            producer.beginTransaction();
            for (ConsumerRecord<String, String> record : records) {
                producer.send(
                        new ProducerRecord<>(target, record.partition(), null, record.value()));
                offsets.put(
                        new TopicPartition(record.topic(), record.partition()),
                        new OffsetAndMetadata(record.offset() + 1));
            }
            producer.flush();
            hangIfTold();
            producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
            producer.commitTransaction();
        }

        private void hangIfTold() throws InterruptedException {
            if (isToHang) {
                isToHang = false;
                say("hanging", JSON.createObjectNode());
                COMMANDS.take();
            }
        }

        /** Nothing of the transaction is left, and what it has read is read again. */
        private void recover() {
            try {
                producer.abortTransaction();
            } catch (KafkaException fatal) {
                producer.close(Duration.ZERO);
                producer = newProducer();
                producer.initTransactions();
            }
            Map<TopicPartition, OffsetAndMetadata> committed =
                    consumer.committed(consumer.assignment());
            for (TopicPartition each : consumer.assignment()) {
                OffsetAndMetadata offset = committed.get(each);
                consumer.seek(each, offset == null ? 0 : offset.offset());
            }
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            ObjectNode event = JSON.createObjectNode();
            ArrayNode told = event.putArray("partitions");
            partitions.forEach(each -> told.addArray().add(each.topic()).add(each.partition()));
            say("assigned", event);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {}
    }
}
