import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Sends one record for each topic that it reads, and prints what became of it. */
public class Deliver {
    public static void main(String[] arguments) throws Exception {
        boolean isIdempotent = arguments.length > 1;
        Map<String, Object> settings = Map.of(
                "bootstrap.servers", arguments[0],
                "client.id", "it",
                "enable.idempotence", isIdempotent,
                "delivery.timeout.ms", isIdempotent ? 60000 : 4000,
                "request.timeout.ms", 1000,
                "max.block.ms", 60000);
        ByteArraySerializer bytes = new ByteArraySerializer();
        BufferedReader topics = new BufferedReader(new InputStreamReader(System.in));
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings, bytes, bytes)) {
            String topic;
            while ((topic = topics.readLine()) != null) {
                System.out.println(outcome(producer, topic));
                System.out.flush();
            }
        }
    }

    private static String outcome(KafkaProducer<byte[], byte[]> producer, String topic)
            throws InterruptedException {
        try {
            producer.send(new ProducerRecord<>(topic, "v".getBytes())).get();
            return "ok";
        } catch (ExecutionException error) {
            return error.getCause().getClass().getSimpleName();
        }
    }
}
