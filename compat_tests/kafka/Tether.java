import java.io.IOException;
import java.util.Arrays;

/**
 * Runs the main class named by its first argument with the others, for as long as stdin is open:
 * whoever holds the other end takes the program along when it dies, however it dies.
 */
public final class Tether {
    public static void main(String[] arguments) throws ReflectiveOperationException {
        Thread watch = new Thread(Tether::haltWhenLetGo, "tether");
        watch.setDaemon(true);
        watch.start();
        String[] rest = Arrays.copyOfRange(arguments, 1, arguments.length);
        Class.forName(arguments[0]).getMethod("main", String[].class).invoke(null, (Object) rest);
    }

    private static void haltWhenLetGo() {
        try {
            while (System.in.read() >= 0) {
                continue;
            }
        } catch (IOException broken) {
            System.err.println("tether: " + broken);
        }
        Runtime.getRuntime().halt(1);
    }
}
