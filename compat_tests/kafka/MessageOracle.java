import com.fasterxml.jackson.core.json.JsonReadFeature;
import com.fasterxml.jackson.core.json.JsonWriteFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.File;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.Reader;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.jar.JarFile;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.BaseRecords;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.utils.ByteBufferOutputStream;
import org.apache.kafka.common.utils.Utils;

/**
 * Kafka's own codec behind a line protocol: one JSON object a line in, one a line out, in order.
 * An answer is {"ok": ...} or {"error": class name, "message": ...}. Bytes are base64. The end of
 * the input is the end of the program.
 */
public final class MessageOracle {
    private static final String[] PACKAGES = {
        "org.apache.kafka.common.message",
        "org.apache.kafka.coordinator.group.generated",
        "org.apache.kafka.coordinator.transaction.generated",
        "org.apache.kafka.coordinator.share.generated",
        "org.apache.kafka.server.log.remote.metadata.storage.generated",
    };
    /** NaN and the infinities are bare words, both ways, as Python's json has them. */
    private static final ObjectMapper MAPPER = JsonMapper.builder()
        .enable(JsonReadFeature.ALLOW_NON_NUMERIC_NUMBERS)
        .disable(JsonWriteFeature.WRITE_NAN_AS_STRINGS)
        .build();
    private static final JsonNodeFactory JSON = JsonNodeFactory.instance;
    private static final Map<String, Codec> CODECS = new HashMap<>();
    private static final Map<Class<?>, List<Field>> REFERENCES = new HashMap<>();

    public static void main(String[] arguments) throws IOException {
        OutputStream output = new FileOutputStream(FileDescriptor.out);
        OutputStream out = new BufferedOutputStream(output, 1 << 16);
        // Whatever a library prints must not come between two answers.
        System.setOut(System.err);
        Reader input = new InputStreamReader(System.in, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(input, 1 << 16);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.write(MAPPER.writeValueAsBytes(answer(line)));
            out.write('\n');
            if (!in.ready()) {
                out.flush();
            }
        }
        out.flush();
    }

    private static ObjectNode answer(String line) {
        ObjectNode answer = JSON.objectNode();
        try {
            answer.set("ok", perform(MAPPER.readTree(line)));
        } catch (Throwable thrown) {
            boolean wrapped = thrown instanceof InvocationTargetException;
            Throwable cause = wrapped ? thrown.getCause() : thrown;
            answer.put("error", cause.getClass().getName());
            answer.put("message", String.valueOf(cause.getMessage()));
        }
        return answer;
    }

    private static JsonNode perform(JsonNode request) throws Exception {
        String operation = request.get("op").asText();
        switch (operation) {
            case "encode":
                return encode(request);
            case "decode":
                return decode(request);
            case "default":
                Codec codec = Codec.of(request);
                return codec.toJson(codec.create(), codec.version(request));
            case "messages":
                return messages();
            case "build":
                return build(request);
            case "marker":
                return marker(request);
            case "read":
                return read(request.get("bytes").binaryValue());
            default:
                throw new IllegalArgumentException("no operation " + operation);
        }
    }

    /** The generated class of a message and the two halves of its JSON converter. */
    private record Codec(Class<?> message, Method reader, Method writer) {
        static Codec of(JsonNode request) throws Exception {
            String name = request.get("name").asText();
            Codec known = CODECS.get(name);
            if (known == null) {
                known = find(name);
                CODECS.put(name, known);
            }
            return known;
        }

        static Codec find(String name) throws Exception {
            for (String candidate : new String[] {name + "Data", name}) {
                for (String where : PACKAGES) {
                    try {
                        return of(Class.forName(where + "." + candidate));
                    } catch (ClassNotFoundException absent) {
                        continue;
                    }
                }
            }
            throw new ClassNotFoundException("no generated class for " + name);
        }

        static Codec of(Class<?> message) throws Exception {
            Class<?> converter = Class.forName(message.getName() + "JsonConverter");
            return new Codec(
                message,
                converter.getMethod("read", JsonNode.class, short.class),
                converter.getMethod("write", message, short.class, boolean.class));
        }

        /** The generated code would treat a version that is too high as the highest. */
        short version(JsonNode request) throws Exception {
            short version = int16(request, "version");
            short lowest = message.getField("LOWEST_SUPPORTED_VERSION").getShort(null);
            short highest = message.getField("HIGHEST_SUPPORTED_VERSION").getShort(null);
            if (version < lowest || version > highest) {
                String range = lowest + "-" + highest;
                throw new UnsupportedVersionException(message.getSimpleName() + " has " + range);
            }
            return version;
        }

        Message create() throws Exception {
            return (Message) message.getConstructor().newInstance();
        }

        Message fromJson(JsonNode value, short version) throws Exception {
            return (Message) reader.invoke(null, value, version);
        }

        JsonNode toJson(Message value, short version) throws Exception {
            JsonNode json = (JsonNode) writer.invoke(null, value, version, true);
            fillRecords(value, json);
            return json;
        }
    }

    private static JsonNode encode(JsonNode request) throws Exception {
        Codec codec = Codec.of(request);
        short version = codec.version(request);
        Message message = codec.fromJson(request.get("value"), version);
        ByteBuffer encoded = MessageUtil.toByteBufferAccessor(message, version).buffer();
        return JSON.binaryNode(Utils.toArray(encoded));
    }

    private static JsonNode decode(JsonNode request) throws Exception {
        Codec codec = Codec.of(request);
        short version = codec.version(request);
        ByteBuffer buffer = ByteBuffer.wrap(request.get("bytes").binaryValue());
        Message message = codec.create();
        message.read(new ByteBufferAccessor(buffer), version);
        ObjectNode decoded = JSON.objectNode();
        decoded.set("value", codec.toJson(message, version));
        decoded.put("read", buffer.position());
        return decoded;
    }

    /** The converters write all records as empty bytes. This puts the real ones in their place. */
    private static void fillRecords(Object struct, JsonNode json) throws IllegalAccessException {
        Class<?> type = struct.getClass();
        for (Field field : REFERENCES.computeIfAbsent(type, MessageOracle::references)) {
            Object value = field.get(struct);
            JsonNode child = json.get(field.getName());
            if (value instanceof MemoryRecords records) {
                ((ObjectNode) json).put(field.getName(), Utils.toArray(records.buffer()));
            } else if (value instanceof Message && child != null) {
                fillRecords(value, child);
            } else if (value instanceof Collection<?> elements && child != null) {
                Iterator<JsonNode> children = child.elements();
                for (Object element : elements) {
                    JsonNode next = children.next();
                    if (element instanceof Message) {
                        fillRecords(element, next);
                    }
                }
            }
        }
    }

    private static List<Field> references(Class<?> struct) {
        List<Field> found = new ArrayList<>();
        for (Field field : struct.getDeclaredFields()) {
            Class<?> type = field.getType();
            boolean mayHold = BaseRecords.class.isAssignableFrom(type)
                || Message.class.isAssignableFrom(type)
                || Collection.class.isAssignableFrom(type);
            if (mayHold && !Modifier.isStatic(field.getModifiers())) {
                field.setAccessible(true);
                found.add(field);
            }
        }
        return found;
    }

    private static JsonNode messages() throws Exception {
        ObjectNode found = JSON.objectNode();
        for (String path : System.getProperty("java.class.path").split(File.pathSeparator)) {
            if (path.endsWith(".jar") && new File(path).getName().startsWith("kafka-")) {
                addMessages(path, found);
            }
        }
        return found;
    }

    private static void addMessages(String path, ObjectNode found) throws Exception {
        Pattern converter = Pattern.compile("(.+)/([^/$]+)JsonConverter\\.class");
        List<String> packages = List.of(PACKAGES);
        try (JarFile jar = new JarFile(path)) {
            for (String entry : (Iterable<String>) jar.stream().map(Object::toString)::iterator) {
                Matcher match = converter.matcher(entry);
                if (match.matches() && packages.contains(match.group(1).replace('/', '.'))) {
                    String suffix = "(Request|Response|Header)Data$";
                    String name = match.group(2).replaceFirst(suffix, "$1");
                    Message message = Codec.find(name).create();
                    ArrayNode versions = found.putArray(name);
                    short apiKey = message instanceof ApiMessage api ? api.apiKey() : -1;
                    versions.add(apiKey < 0 ? JSON.nullNode() : JSON.numberNode(apiKey));
                    versions.add(message.lowestSupportedVersion());
                    versions.add(message.highestSupportedVersion());
                }
            }
        }
    }

    private static JsonNode build(JsonNode request) throws IOException {
        boolean control = request.get("control").asBoolean();
        long nextOffset = request.get("base_offset").asLong();
        try (MemoryRecordsBuilder builder = builder(request, control)) {
            for (JsonNode json : request.get("records")) {
                long offset = json.hasNonNull("offset") ? json.get("offset").asLong() : nextOffset;
                SimpleRecord record = record(json);
                if (control) {
                    builder.appendControlRecordWithOffset(offset, record);
                } else {
                    builder.appendWithOffset(offset, record);
                }
                nextOffset = offset + 1;
            }
            return JSON.binaryNode(Utils.toArray(builder.build().buffer()));
        }
    }

    private static MemoryRecordsBuilder builder(JsonNode request, boolean control) {
        return new MemoryRecordsBuilder(
            new ByteBufferOutputStream(1024),
            RecordBatch.CURRENT_MAGIC_VALUE,
            compression(request.get("compression").asText(), request.get("level")),
            TimestampType.forName(request.get("timestamp_type").asText()),
            request.get("base_offset").asLong(),
            request.get("log_append_time").asLong(),
            request.get("producer_id").asLong(),
            int16(request, "producer_epoch"),
            request.get("base_sequence").asInt(),
            request.get("transactional").asBoolean(),
            control,
            request.get("partition_leader_epoch").asInt(),
            Integer.MAX_VALUE,
            request.get("delete_horizon_ms").asLong());
    }

    private static Compression compression(String name, JsonNode level) {
        if (level == null || level.isNull()) {
            return Compression.of(name).build();
        }
        switch (name) {
            case "gzip":
                return Compression.gzip().level(level.asInt()).build();
            case "lz4":
                return Compression.lz4().level(level.asInt()).build();
            case "zstd":
                return Compression.zstd().level(level.asInt()).build();
            default:
                throw new IllegalArgumentException(name + " has no levels");
        }
    }

    private static SimpleRecord record(JsonNode json) throws IOException {
        List<Header> headers = new ArrayList<>();
        for (JsonNode header : json.get("headers")) {
            headers.add(new RecordHeader(header.get(0).asText(), header.get(1).binaryValue()));
        }
        return new SimpleRecord(
            json.get("timestamp").asLong(),
            json.get("key").binaryValue(),
            json.get("value").binaryValue(),
            headers.toArray(new Header[0]));
    }

    private static JsonNode marker(JsonNode request) {
        boolean commit = request.get("commit").asBoolean();
        ControlRecordType type = commit ? ControlRecordType.COMMIT : ControlRecordType.ABORT;
        MemoryRecords records = MemoryRecords.withEndTransactionMarker(
            request.get("base_offset").asLong(),
            request.get("timestamp").asLong(),
            request.get("partition_leader_epoch").asInt(),
            request.get("producer_id").asLong(),
            int16(request, "producer_epoch"),
            new EndTransactionMarker(type, request.get("coordinator_epoch").asInt()));
        return JSON.binaryNode(Utils.toArray(records.buffer()));
    }

    private static JsonNode read(byte[] bytes) {
        ArrayNode batches = JSON.arrayNode();
        MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(bytes));
        for (MutableRecordBatch batch : records.batches()) {
            batch.ensureValid();
            ArrayNode contents = describe(batch, batches.addObject()).putArray("records");
            for (Record record : batch) {
                describe(record, contents.addObject());
            }
        }
        return batches;
    }

    private static ObjectNode describe(MutableRecordBatch batch, ObjectNode node) {
        node.put("magic", batch.magic())
            .put("base_offset", batch.baseOffset())
            .put("last_offset", batch.lastOffset())
            .put("size_bytes", batch.sizeInBytes())
            .put("partition_leader_epoch", batch.partitionLeaderEpoch())
            .put("compression", batch.compressionType().name)
            .put("timestamp_type", batch.timestampType().name)
            .put("max_timestamp", batch.maxTimestamp())
            .put("transactional", batch.isTransactional())
            .put("control", batch.isControlBatch())
            .put("producer_id", batch.producerId())
            .put("producer_epoch", batch.producerEpoch())
            .put("base_sequence", batch.baseSequence())
            .put("last_sequence", batch.lastSequence())
            .put("count", batch.countOrNull());
        node.set("delete_horizon_ms", batch.deleteHorizonMs().isPresent()
            ? JSON.numberNode(batch.deleteHorizonMs().getAsLong())
            : JSON.nullNode());
        return node;
    }

    private static void describe(Record record, ObjectNode node) {
        record.ensureValid();
        node.put("offset", record.offset())
            .put("timestamp", record.timestamp())
            .put("key", Utils.toNullableArray(record.key()))
            .put("value", Utils.toNullableArray(record.value()));
        ArrayNode headers = node.putArray("headers");
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(header.value());
        }
    }

    private static short int16(JsonNode request, String key) {
        int number = request.get(key).asInt();
        if (number != (short) number) {
            throw new IllegalArgumentException(key + " " + number + " is not an int16");
        }
        return (short) number;
    }
}
