import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** What copier.py does, with Java's client, which speaks the second version of transactions. */
public class JavaCopier {
    private static final String SOURCE = "source", COPY = "copy", GROUP = "copiers";
    private static final Duration WAIT = Duration.ofMillis(200);

    private final String address, name, atOnce;

    private JavaCopier(String address, String number, String atOnce) {
        this.address = address;
        this.name = "copier-" + number;
        this.atOnce = atOnce;
    }

    public static void main(String[] arguments) {
        JavaCopier it = new JavaCopier(arguments[0], arguments[1], arguments[2]);
        while (true) {
            try {
                it.live();
            } catch (KafkaException failed) {
                System.out.println("failed");
            }
        }
    }

    private void live() {
        KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(
                        settings(Map.of("transactional.id", name, "max.block.ms", "10000")),
                        new ByteArraySerializer(),
                        new ByteArraySerializer());
        KafkaConsumer<byte[], byte[]> consumer = null;
        try {
            producer.initTransactions();
            consumer =
                    new KafkaConsumer<>(
                            settings(
                                    Map.of(
                                            "group.id", GROUP,
                                            "group.instance.id", name,
                                            "enable.auto.commit", "false",
                                            "auto.offset.reset", "earliest",
                                            "isolation.level", "read_committed",
                                            "max.poll.records", atOnce)),
                            new ByteArrayDeserializer(),
                            new ByteArrayDeserializer());
            consumer.subscribe(List.of(SOURCE));
            while (true) {
                copy(producer, consumer);
            }
        } finally {
            producer.close(Duration.ZERO);
            if (consumer != null) {
                consumer.close(Duration.ZERO);
            }
        }
    }

    private static void copy(
            KafkaProducer<byte[], byte[]> producer, KafkaConsumer<byte[], byte[]> consumer) {
        ConsumerRecords<byte[], byte[]> found = consumer.poll(WAIT);
        if (found.isEmpty()) {
            return;
        }
        producer.beginTransaction();
        Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();
        for (ConsumerRecord<byte[], byte[]> each : found) {
            producer.send(new ProducerRecord<>(COPY, each.partition(), null, each.value()));
            TopicPartition partition = new TopicPartition(SOURCE, each.partition());
            positions.put(partition, new OffsetAndMetadata(each.offset() + 1));
        }
        producer.sendOffsetsToTransaction(positions, consumer.groupMetadata());
        producer.commitTransaction();
        System.out.println("committed");
    }

    private Properties settings(Map<String, String> more) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", address);
        settings.put("reconnect.backoff.max.ms", "200");
        settings.putAll(more);
        return settings;
    }
}
