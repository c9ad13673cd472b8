import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * Counts words exactly once: a repartition topic, a store with a changelog, and an output that has
 * every count of every word. Says when it runs, and ends when its stdin does.
 */
public final class WordCount {
    private static final FileOutputStream EVENTS = new FileOutputStream(FileDescriptor.out);

    public static void main(String[] arguments) throws IOException {
        System.setOut(System.err); // Whatever logs must not be taken for an event.
        String source = arguments[3];
        String target = arguments[4];
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(source)
                .flatMapValues(line -> Arrays.asList(line.split(" ")))
                .groupBy((key, word) -> word, Grouped.as("words"))
                .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("counts")
                        .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
                .toStream()
                .mapValues(count -> Long.toString(count))
                .to(target, Produced.with(Serdes.String(), Serdes.String()));
        KafkaStreams streams = new KafkaStreams(
                builder.build(), settings(arguments[0], arguments[1], arguments[2]));
        streams.setUncaughtExceptionHandler(failure -> {
            say("replaced " + failure);
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.setStateListener((now, before) -> say(now.toString().toLowerCase()));
        streams.start();
        while (System.in.read() >= 0) {
            continue;
        }
        Runtime.getRuntime().halt(0);
    }

    private static Properties settings(String servers, String id, String directory) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("application.id", id);
        settings.put("state.dir", directory);
        settings.put("processing.guarantee", "exactly_once_v2");
        settings.put("default.key.serde", Serdes.StringSerde.class);
        settings.put("default.value.serde", Serdes.StringSerde.class);
        settings.put("num.stream.threads", 2);
        settings.put("replication.factor", 1);
        settings.put("commit.interval.ms", 100);
        settings.put("statestore.cache.max.bytes", 0);
        settings.put("repartition.purge.interval.ms", 500);
        settings.put("consumer.auto.offset.reset", "earliest");
        settings.put("consumer.session.timeout.ms", 3000);
        settings.put("consumer.heartbeat.interval.ms", 300);
        settings.put("producer.transaction.timeout.ms", 5000);
        settings.put("reconnect.backoff.max.ms", 200);
        return settings;
    }

    private static synchronized void say(String what) {
        try {
            EVENTS.write((what + "\n").getBytes(StandardCharsets.UTF_8));
        } catch (IOException broken) {
            Runtime.getRuntime().halt(1);
        }
    }
}
