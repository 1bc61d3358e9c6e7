package quoteway.interop;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import quoteway.interop.wire.Inbox;

/**
 * An application on our client library, as a process: the example {@code console} of {@code crates/client-io}, which takes commands on its input
 * and prints what comes, one line each, columns with tabs between them.
 */
public final class Console implements AutoCloseable {
    private final Process process;
    private final PrintWriter commands;
    private final Inbox<String> inbox;
    private final List<String> arguments;
    private int port;

    private Console(String... arguments) {
        this.arguments = List.of(arguments);
        inbox = new Inbox<>("console " + String.join(" ", arguments));
        var command = new ArrayList<String>();
        command.add(binary().toString());
        command.addAll(this.arguments);
        try {
            process = new ProcessBuilder(command).redirectErrorStream(true).start();
        } catch (IOException e) {
            throw new AssertionError("cannot start " + command + ": " + e.getMessage());
        }
        commands = new PrintWriter(process.getOutputStream(), true, StandardCharsets.UTF_8);
        var pump = new Thread(this::read, "console");
        pump.setDaemon(true);
        pump.start();
    }

    /** A consumer of the servers of a list. */
    public static Console watch(int port, String user, String... options) {
        var arguments = new ArrayList<>(List.of("watch", "127.0.0.1:" + port, user));
        arguments.addAll(List.of(options));
        return new Console(arguments.toArray(String[]::new));
    }

    /** An interactive provider at a free port, or at that of one that was killed. */
    public static Console listen(int port, String service, String... options) {
        var arguments = new ArrayList<>(List.of("listen", Integer.toString(port), service));
        arguments.addAll(List.of(options));
        var console = new Console(arguments.toArray(String[]::new));
        console.port = Integer.parseInt(console.next("listening")[1]);
        return console;
    }

    /** A non-interactive provider at a server. */
    public static Console dial(int port, String service) {
        var console = new Console("dial", "127.0.0.1:" + port, service, "publisher");
        console.next("ready");
        return console;
    }

    /** The example: {@code QUOTEWAY_CONSOLE}, else the release build of this workspace. */
    private static Path binary() {
        String bin = System.getenv("QUOTEWAY_CONSOLE");
        Path path = bin != null ? Path.of(bin) : Quoteway.binary().resolveSibling("examples").resolve("console");
        if (!Files.isExecutable(path)) {
            throw new AssertionError(
                    "no example at " + path.normalize() + "; run `cargo build --release -p client-io --example console` or set QUOTEWAY_CONSOLE");
        }
        return path.normalize().toAbsolutePath();
    }

    private void read() {
        try (var lines = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8))) {
            for (String line; (line = lines.readLine()) != null; ) {
                inbox.put(line);
            }
        } catch (IOException e) {
            // The process has been killed.
        }
        inbox.end("the process has ended");
    }

    /** Where an interactive provider listens. */
    public int port() {
        return port;
    }

    /** Gives it a command. */
    public Console tell(String command) {
        commands.println(command);
        return this;
    }

    /** The columns of the next line that begins with these; others stay. */
    public String[] next(String... columns) {
        String wanted = String.join("\t", columns);
        return inbox.next(line -> (line + "\t").startsWith(wanted + "\t"), wanted).split("\t", -1);
    }

    /** Lines that nobody has taken. */
    public List<String> left() {
        return inbox.drain();
    }

    /** Ends it without notice. */
    public void kill() {
        process.destroyForcibly();
        try {
            process.waitFor(5, TimeUnit.SECONDS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    @Override
    public void close() {
        kill();
    }
}
