import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Reads so many records from the start of a topic's partitions, as ConsumerPerformance does, but
 * without a group. Prints the seconds from the first poll to the last record.
 *
 * <p>AssignedReader HOST:PORT TOPIC PARTITIONS COUNT
 */
public final class AssignedReader {
    public static void main(String[] arguments) {
        Map<String, Object> options = Map.of(
            "bootstrap.servers", arguments[0],
            "enable.auto.commit", "false",
            "max.poll.records", "5000",
            "key.deserializer", ByteArrayDeserializer.class,
            "value.deserializer", ByteArrayDeserializer.class);
        List<TopicPartition> partitions = IntStream.range(0, Integer.parseInt(arguments[2]))
            .mapToObj(number -> new TopicPartition(arguments[1], number)).toList();
        long wanted = Long.parseLong(arguments[3]);
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(options)) {
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            long began = System.nanoTime();
            for (long found = 0; found < wanted; ) {
                found += consumer.poll(Duration.ofSeconds(10)).count();
            }
            System.out.println((System.nanoTime() - began) / 1e9);
        }
    }
}
