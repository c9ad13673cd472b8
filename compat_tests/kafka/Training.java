import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.Exit;

/**
 * Does for once, in one process, what the tests do with a process each: formats a directory, runs a
 * broker in it, and asks it with some of Kafka's tools. When it ends, the virtual machine knows the
 * classes that this takes, and writes them down if it was told to.
 */
public final class Training {
    private static final class Ended extends Error {}

    /** What the tool wanted to end with. Some catch what stops them, and want to end once more. */
    private static volatile Integer status;

    /** The argument is a directory that the broker may fill. */
    public static void main(String[] arguments) {
        Exit.setExitProcedure(Training::end);
        try {
            train(Path.of(arguments[0]));
        } catch (Throwable thrown) {
            thrown.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
        System.exit(0);
    }

    private static void end(int wanted, String message) {
        status = status == null ? wanted : status;
        throw new Ended();
    }

    private static void train(Path home) throws IOException {
        String address = "127.0.0.1:" + freePort();
        Path config = Files.write(home.resolve("server.properties"), properties(address, home));
        String id = Uuid.ONE_UUID.toString();
        run("kafka.tools.StorageTool", "format", "-t", id, "-c", config.toString(), "--standalone");
        Thread broker = new Thread(() -> run("kafka.Kafka", config.toString()), "broker");
        broker.setDaemon(true);
        broker.start();

        String tools = "org.apache.kafka.tools.";
        String[] where = {"--bootstrap-server", address, "--topic", "topic"};
        run(tools + "TopicCommand", with(where, "--create"));
        System.setIn(new ByteArrayInputStream("value\n".getBytes(StandardCharsets.UTF_8)));
        run(tools + "ConsoleProducer", where);
        run(tools + "consumer.ConsoleConsumer",
            with(where, "--group", "group", "--from-beginning", "--max-messages", "1"));
        run(tools + "TopicCommand", with(where, "--describe"));
        run(tools + "consumer.group.ConsumerGroupCommand",
            "--bootstrap-server", address, "--describe", "--group", "group");
    }

    private static List<String> properties(String address, Path home) throws IOException {
        String controller = "127.0.0.1:" + freePort();
        return List.of(
            "process.roles=broker,controller",
            "node.id=1",
            "controller.listener.names=CONTROLLER",
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "listeners=PLAINTEXT://" + address + ",CONTROLLER://" + controller,
            "controller.quorum.bootstrap.servers=" + controller,
            "offsets.topic.replication.factor=1",
            "offsets.topic.num.partitions=1",
            "group.initial.rebalance.delay.ms=0",
            "log.dirs=" + home.resolve("data"));
    }

    private static int freePort() throws IOException {
        try (ServerSocket socket = new ServerSocket(0)) {
            return socket.getLocalPort();
        }
    }

    private static String[] with(String[] some, String... more) {
        String[] all = Arrays.copyOf(some, some.length + more.length);
        System.arraycopy(more, 0, all, some.length, more.length);
        return all;
    }

    /** Runs a main class until it returns or would end the process. */
    private static void run(String main, String... arguments) {
        status = null;
        try {
            Class.forName(main).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException thrown) {
            if (!(thrown.getCause() instanceof Ended) || status != 0) {
                throw new AssertionError(main, thrown.getCause());
            }
        } catch (ReflectiveOperationException missing) {
            throw new AssertionError(main, missing);
        }
    }
}
