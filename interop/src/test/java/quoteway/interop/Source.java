package quoteway.interop;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The simulated source, as a process: {@code quoteway sink-driven-src} with a port from the OS, and commands on its input. */
public final class Source implements AutoCloseable {
    private static final Pattern READY = Pattern.compile(".* is published on \\S*:(\\d+);.*");

    private final Process process;
    private final PrintWriter commands;
    private final int port;

    public Source(String... more) {
        var command = new ArrayList<>(List.of(Quoteway.binary().toString(), "sink-driven-src", "--bind", "127.0.0.1", "-N", "0"));
        command.addAll(Arrays.asList(more));
        try {
            process = new ProcessBuilder(command).redirectOutput(ProcessBuilder.Redirect.DISCARD).start();
        } catch (IOException e) {
            throw new AssertionError("cannot start " + command + ": " + e.getMessage());
        }
        commands = new PrintWriter(process.getOutputStream(), true, StandardCharsets.UTF_8);
        var ready = new CompletableFuture<Integer>();
        var pump = new Thread(() -> read(ready), "source-err");
        pump.setDaemon(true);
        pump.start();
        try {
            port = ready.get(30, TimeUnit.SECONDS);
        } catch (InterruptedException | ExecutionException | TimeoutException e) {
            process.destroyForcibly();
            throw new AssertionError("no ready line from " + command + " (" + e + ")");
        }
    }

    private void read(CompletableFuture<Integer> ready) {
        try (var lines = new BufferedReader(new InputStreamReader(process.getErrorStream(), StandardCharsets.UTF_8))) {
            for (String line; (line = lines.readLine()) != null; ) {
                Matcher m = READY.matcher(line);
                if (m.matches()) {
                    ready.complete(Integer.parseInt(m.group(1)));
                }
            }
        } catch (IOException e) {
            // The process has been killed.
        }
        ready.completeExceptionally(new IllegalStateException("it ended"));
    }

    /** Where the Source Distributor connects. */
    public int port() {
        return port;
    }

    /** Gives it a command. */
    public void tell(String command) {
        commands.println(command);
    }

    @Override
    public void close() {
        process.destroyForcibly();
    }
}
