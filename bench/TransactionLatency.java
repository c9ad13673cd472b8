import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Makes one small transaction after another, in three ways: a record for one partition, a record
 * for each of ten, and the copy of a record with its offset. Prints a line for each: the
 * milliseconds of the median and of the 99th of a hundred.
 *
 * <p>TransactionLatency HOST:PORT TOPIC SOURCE COUNT ID
 */
public final class TransactionLatency {
    private static final int WARM_UP = 200;

    private final String topic;
    private final String source;
    private final KafkaProducer<byte[], byte[]> producer;
    private final KafkaConsumer<byte[], byte[]> consumer;

    private TransactionLatency(String address, String topic, String source, String id) {
        this.topic = topic;
        this.source = source;
        Map<String, Object> common = Map.of("bootstrap.servers", address);
        Map<String, Object> writing = new HashMap<>(common);
        writing.put("transactional.id", id);
        producer = new KafkaProducer<>(writing, new ByteArraySerializer(), new ByteArraySerializer());
        Map<String, Object> reading = new HashMap<>(common);
        reading.put("group.id", "copying");
        reading.put("enable.auto.commit", "false");
        reading.put("max.poll.records", "1");
        consumer = new KafkaConsumer<>(reading, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.assign(List.of(new TopicPartition(source, 0)));
        consumer.seekToBeginning(consumer.assignment());
    }

    public static void main(String[] arguments) {
        TransactionLatency it =
            new TransactionLatency(arguments[0], arguments[1], arguments[2], arguments[4]);
        int count = Integer.parseInt(arguments[3]);
        it.producer.initTransactions();
        it.measure(count, 1, false);
        it.measure(count, 10, false);
        it.measure(count, 1, true);
        it.producer.close();
        it.consumer.close();
    }

    private void measure(int count, int partitions, boolean copies) {
        double[] took = new double[count];
        for (int number = -WARM_UP; number < count; number++) {
            long began = System.nanoTime();
            transact(partitions, copies);
            if (number >= 0) {
                took[number] = (System.nanoTime() - began) / 1e6;
            }
        }
        Arrays.sort(took);
        System.out.println(took[count / 2] + " " + took[count * 99 / 100]);
    }

    private void transact(int partitions, boolean copies) {
        producer.beginTransaction();
        for (int partition = 0; partition < partitions; partition++) {
            producer.send(new ProducerRecord<>(topic, partition, null, new byte[1000]));
        }
        if (copies) {
            ConsumerRecords<byte[], byte[]> read = consumer.poll(Duration.ofSeconds(60));
            TopicPartition from = new TopicPartition(source, 0);
            OffsetAndMetadata next = new OffsetAndMetadata(read.records(from).get(0).offset() + 1);
            producer.sendOffsetsToTransaction(Map.of(from, next), consumer.groupMetadata());
        }
        producer.commitTransaction();
    }
}
