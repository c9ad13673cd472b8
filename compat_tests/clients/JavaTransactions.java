import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringSerializer;

/** A transactional producer that does what each line of its input says, and tells how it went. */
public class JavaTransactions {
    private final KafkaProducer<String, String> producer;

    private JavaTransactions(String[] settings) {
        Properties config = new Properties();
        for (String setting : settings) {
            String[] pair = setting.split("=", 2);
            config.put(pair[0], pair[1]);
        }
        producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
    }

    public static void main(String[] arguments) throws Exception {
        JavaTransactions it = new JavaTransactions(arguments);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(it.answer(line.split(" ")));
            System.out.flush();
        }
        it.producer.close();
    }

    private String answer(String[] words) {
        try {
            perform(words);
            return "ok";
        } catch (ExecutionException failed) {
            return failed.getCause().getClass().getSimpleName();
        } catch (Exception failed) {
            return failed.getClass().getSimpleName();
        }
    }

    private void perform(String[] words) throws Exception {
        switch (words[0]) {
            case "init":
                producer.initTransactions();
                return;
            case "begin":
                producer.beginTransaction();
                return;
            case "send":
                int partition = Integer.parseInt(words[2]);
                producer.send(new ProducerRecord<>(words[1], partition, null, words[3])).get();
                return;
            case "offset":
                TopicPartition read = new TopicPartition(words[2], Integer.parseInt(words[3]));
                OffsetAndMetadata offset = new OffsetAndMetadata(Long.parseLong(words[4]));
                producer.sendOffsetsToTransaction(
                        Map.of(read, offset), new ConsumerGroupMetadata(words[1]));
                return;
            case "commit":
                producer.commitTransaction();
                return;
            case "abort":
                producer.abortTransaction();
                return;
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }
}
