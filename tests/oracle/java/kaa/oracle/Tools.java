package kaa.oracle;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's command-line tools inside this JVM, many at a time if need be.
 *
 * <p>A run is inherited by the threads a tool starts, so that what they print and how they exit
 * goes to the right run. Kafka's tools leave through {@link Exit}, which can be told not to end
 * the process.
 */
public final class Tools {
    private static final List<String> HOMES = List.of(
        "org.apache.kafka.tools",
        "org.apache.kafka.tools.consumer",
        "org.apache.kafka.tools.consumer.group",
        "org.apache.kafka.tools.reassign",
        "org.apache.kafka.tools.streams",
        "org.apache.kafka.shell",
        "kafka.tools",
        "kafka.admin");

    /** How long a tool that has left may take to close what it holds. */
    private static final long UNWIND_MS = 2_000;

    private static final InheritableThreadLocal<Run> CURRENT = new InheritableThreadLocal<>();

    Tools() {
        InputStream plainIn = System.in;
        System.setIn(new InputStream() {
            private InputStream in() {
                Run run = CURRENT.get();
                return run == null ? plainIn : run.in;
            }

            @Override
            public int read() throws IOException {
                return in().read();
            }

            @Override
            public int read(byte[] bytes, int offset, int length) throws IOException {
                return in().read(bytes, offset, length);
            }
        });
        System.setOut(redirect(System.out, true));
        System.setErr(redirect(System.err, false));
        Exit.setExitProcedure((code, message) -> leave(code, false));
        Exit.setHaltProcedure((code, message) -> leave(code, true));
        Exit.setShutdownHookAdder((name, hook) -> {
            Run run = CURRENT.get();
            if (run == null) {
                Runtime.getRuntime().addShutdownHook(new Thread(hook, name));
            } else {
                run.hooks.add(hook);
            }
        });
    }

    /** One tool at work: what it reads, what it has printed, and the exit code it asked for. */
    private static final class Run {
        final InputStream in;
        final ByteArrayOutputStream out = new ByteArrayOutputStream();
        final ByteArrayOutputStream err = new ByteArrayOutputStream();
        final List<Runnable> hooks = new ArrayList<>();
        final CountDownLatch done = new CountDownLatch(1);
        volatile Integer code;
        volatile boolean mute;

        Run(byte[] in) {
            this.in = new ByteArrayInputStream(in);
        }

        /** From here on the process would be gone: later codes and later output do not count. */
        synchronized void exit(int wanted) {
            if (code == null) {
                code = wanted;
                mute = true;
                done.countDown();
            }
        }
    }

    /** Unwinds a tool that has asked to exit. */
    private static final class Left extends Error {
        private static final long serialVersionUID = 1L;

        Left() {
            super("the tool has left", null, false, false);
        }
    }

    private static void leave(int code, boolean halt) {
        Run run = CURRENT.get();
        if (run != null) {
            run.exit(code);
            throw new Left();
        }
        if (halt) {
            Runtime.getRuntime().halt(code);
        }
        Runtime.getRuntime().exit(code);
    }

    private static PrintStream redirect(PrintStream plain, boolean standardOut) {
        OutputStream choice = new OutputStream() {
            private OutputStream out() {
                Run run = CURRENT.get();
                if (run == null) {
                    return plain;
                }
                if (run.mute) {
                    return OutputStream.nullOutputStream();
                }
                return standardOut ? run.out : run.err;
            }

            @Override
            public void write(int value) throws IOException {
                out().write(value);
            }

            @Override
            public void write(byte[] bytes, int offset, int length) throws IOException {
                out().write(bytes, offset, length);
            }

            @Override
            public void flush() throws IOException {
                out().flush();
            }
        };
        return new PrintStream(choice, true, StandardCharsets.UTF_8);
    }

    /** Runs a tool in a process of its own: its name, then its arguments. */
    public static void main(String[] words) throws ReflectiveOperationException {
        String[] arguments = Arrays.copyOfRange(words, 1, words.length);
        find(words[0]).getMethod("main", String[].class).invoke(null, (Object) arguments);
    }

    JsonNode run(JsonNode item) throws Exception {
        Method main = find(item.path("name").asText()).getMethod("main", String[].class);
        List<String> arguments = new ArrayList<>();
        item.path("arguments").forEach(argument -> arguments.add(argument.asText()));
        byte[] stdin = Json.bytes(item, "stdin");
        Run run = new Run(stdin == null ? new byte[0] : stdin);
        String[] words = arguments.toArray(new String[0]);
        Thread thread = new Thread(() -> perform(run, main, words), "tool");
        thread.setDaemon(true);
        thread.start();
        boolean done = run.done.await(item.path("timeoutMs").asLong(), TimeUnit.MILLISECONDS);
        thread.join(done ? UNWIND_MS : 1);
        thread.interrupt();
        if (!done) {
            throw new TimeoutException("the tool goes on and on; it printed: " + run.out + run.err);
        }
        run.mute = false;
        CURRENT.set(run);
        run.hooks.forEach(Runnable::run);
        CURRENT.remove();
        return Json.object()
            .put("code", run.code)
            .put("out", run.out.toString(StandardCharsets.UTF_8))
            .put("err", run.err.toString(StandardCharsets.UTF_8));
    }

    private static void perform(Run run, Method main, String[] arguments) {
        CURRENT.set(run);
        try {
            main.invoke(null, (Object) arguments);
            run.exit(0);
        } catch (InvocationTargetException thrown) {
            if (!(thrown.getCause() instanceof Left)) {
                thrown.getCause().printStackTrace();
                run.exit(1);
            }
        } catch (IllegalAccessException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    private static Class<?> find(String name) throws ClassNotFoundException {
        if (name.indexOf('.') >= 0) {
            return Class.forName(name);
        }
        for (String home : HOMES) {
            try {
                return Class.forName(home + "." + name);
            } catch (ClassNotFoundException elsewhere) {
                continue;
            }
        }
        throw new ClassNotFoundException("no tool is named " + name);
    }
}
