import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.StringReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.server.config.AbstractKafkaConfig;
import org.apache.kafka.server.config.DynamicBrokerConfig;
import org.apache.kafka.storage.internals.log.LogConfig;
import scala.jdk.javaapi.CollectionConverters;

/**
 * What Kafka and Java make of configuration, for those who ask by lines.
 *
 * <p>`definitions` prints every key. The others read texts, one to a line, and answer each with a
 * line: `properties` and `environment` with entries, `values` with a value as it is shown. Texts
 * are base64 of UTF-8; one of variables is lines of NAME=value, one of values is scope, name and
 * value on lines.
 */
public final class ConfigOracle {
    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("definitions")) {
            print("topic", LogConfig.configKeys());
            print("broker", AbstractKafkaConfig.CONFIG_DEF.configKeys());
            DynamicBrokerConfig.DYNAMIC_SECURITY_CONFIGS.forEach(
                    name -> System.out.println("by-listener\t" + name + "\t\t\t\t"));
            return;
        }
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line; (line = input.readLine()) != null; ) {
            var text = new String(Base64.getDecoder().decode(line), StandardCharsets.UTF_8);
            System.out.println(
                    switch (arguments[0]) {
                        case "properties" -> entries(text);
                        case "environment" -> entries(variables(text));
                        case "values" -> value(text.split("\n", 3));
                        default -> throw new IllegalArgumentException(arguments[0]);
                    });
        }
    }

    private static void print(String scope, Map<String, ConfigDef.ConfigKey> keys) {
        var updates = DynamicBrokerConfig.dynamicConfigUpdateModes();
        for (var key : keys.values()) {
            if (key.internalConfig) continue;
            var update = updates.getOrDefault(key.name, "read-only");
            var rule = key.validator == null ? "" : key.validator.toString();
            System.out.println(
                    String.join("\t", scope, key.name, key.type.name(), update, rule, "."));
        }
    }

    private static String value(String[] question) {
        var keys = question[0].equals("topic")
                ? LogConfig.configKeys()
                : AbstractKafkaConfig.CONFIG_DEF.configKeys();
        var key = keys.get(question[1]);
        try {
            var parsed = new ConfigDef().define(key).parse(Map.of(key.name, question[2]));
            return encoded(ConfigDef.convertToString(parsed.get(key.name), key.type));
        } catch (ConfigException refused) {
            return "refused";
        }
    }

    private static String variables(String text) {
        var environment = new HashMap<String, String>();
        for (var line : text.split("\n")) {
            var equals = line.indexOf('=');
            environment.put(line.substring(0, equals), line.substring(equals + 1));
        }
        var lines = kafka.docker.KafkaDockerWrapper$.MODULE$.getServerConfigsFromEnv(
                scala.collection.immutable.Map$.MODULE$.from(
                        CollectionConverters.asScala(environment)));
        return String.join("\n", CollectionConverters.asJava(lines));
    }

    private static String entries(String text) throws Exception {
        var properties = new Properties();
        try {
            properties.load(new StringReader(text));
        } catch (IllegalArgumentException malformed) {
            return "malformed";
        }
        var line = new StringBuilder();
        for (var name : properties.stringPropertyNames()) {
            line.append(encoded(name)).append('=').append(encoded(properties.getProperty(name)));
            line.append(' ');
        }
        return line.toString();
    }

    private static String encoded(String text) {
        // Not getBytes: that would lose the halves of characters that Java found alone.
        var coded = ByteBuffer.allocate(2 * text.length());
        coded.asCharBuffer().put(text);
        return Base64.getUrlEncoder().withoutPadding().encodeToString(coded.array());
    }
}
