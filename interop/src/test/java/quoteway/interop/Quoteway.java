package quoteway.interop;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalInt;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The server under test, as a process: {@code quoteway serve} or {@code quoteway demo} with ports from the OS. Its output is kept for the report
 * of a failed test.
 */
public final class Quoteway implements AutoCloseable {
    private static final Pattern SERVING = Pattern.compile("ready rssl=\\S*:(\\d+) nip=\\S*:(\\d+).*");
    private static final Pattern DEMONSTRATING = Pattern.compile("ready: DIRECT_FEED on \\S*:(\\d+), ().*");
    private static final Pattern DISTRIBUTING = Pattern.compile("ready nip=\\S* hub=\\S*:(\\d+)().*");
    private static final Pattern FACING_CONSUMERS = Pattern.compile("ready rssl=\\S*:(\\d+)().*");
    private static final Pattern HTTP = Pattern.compile(" http=http://\\S*:(\\d+)/");
    private static final int LOG_LINES = 400;

    private final Process process;
    private final List<String> log = new ArrayList<>();
    private final List<Thread> pumps = new ArrayList<>();
    private final Pattern readyLine;
    private volatile String readyText = "";
    private final int rsslPort;
    private final int nipPort;

    private Quoteway(Pattern readyLine, List<String> arguments) {
        this.readyLine = readyLine;
        var command = new ArrayList<String>();
        command.add(binary().toString());
        command.addAll(arguments);
        var ready = new CompletableFuture<int[]>();
        try {
            process = new ProcessBuilder(command).start();
        } catch (IOException e) {
            throw new AssertionError("cannot start " + command + ": " + e.getMessage());
        }
        pump("out", process.inputReader(StandardCharsets.UTF_8), ready);
        pump("err", new BufferedReader(new InputStreamReader(process.getErrorStream(), StandardCharsets.UTF_8)), null);
        process.onExit().thenAccept(p -> ready.completeExceptionally(new IllegalStateException("it ended with " + p.exitValue())));
        try {
            int[] ports = ready.get(60, TimeUnit.SECONDS);
            rsslPort = ports[0];
            nipPort = ports[1];
        } catch (InterruptedException | ExecutionException | TimeoutException e) {
            process.destroyForcibly();
            throw new AssertionError("no ready line from " + command + " (" + e + ")\n" + log());
        }
    }

    /** Starts a server that dials these provider ports, with further command line arguments. */
    public static Quoteway start(List<Integer> routes, String... more) {
        var arguments = new ArrayList<String>(List.of("serve"));
        for (int port : routes) {
            arguments.add("--route");
            arguments.add("127.0.0.1:" + port);
        }
        if (!List.of(more).contains("--rssl-port")) {
            arguments.addAll(List.of("--rssl-port", "0"));
        }
        arguments.addAll(List.of("--nip-port", "0"));
        arguments.addAll(List.of(more));
        return new Quoteway(SERVING, arguments);
    }

    /** Starts a Source Distributor that dials these provider ports; {@link #rsslPort} is where P2PSs join it. */
    public static Quoteway sourceDistributor(List<Integer> routes) {
        var arguments = new ArrayList<String>(List.of("source-distributor", "--nip-port", "0", "--hub-port", "0"));
        for (int port : routes) {
            arguments.add("--route");
            arguments.add("127.0.0.1:" + port);
        }
        return new Quoteway(DISTRIBUTING, arguments);
    }

    /** Starts a P2PS of the Source Distributor with this port. */
    public static Quoteway p2ps(int sourceDistributor, String... more) {
        var arguments = new ArrayList<String>(List.of("p2ps", "--source-distributor", "127.0.0.1:" + sourceDistributor, "--rssl-port", "0"));
        arguments.addAll(List.of(more));
        return new Quoteway(FACING_CONSUMERS, arguments);
    }

    /** Starts the demo without its screen; non-interactive providers' port is not known. */
    public static Quoteway demo(String... more) {
        var arguments = new ArrayList<>(List.of("demo", "--no-ui", "--rssl-port", "0", "--nip-port", "0"));
        arguments.addAll(List.of(more));
        return new Quoteway(DEMONSTRATING, arguments);
    }

    /** The binary: {@code QUOTEWAY_BIN}, else the release build of this workspace. */
    public static Path binary() {
        String bin = System.getenv("QUOTEWAY_BIN");
        Path path = bin != null ? Path.of(bin) : Path.of(System.getProperty("interop.basedir", ".")).resolve("../target/release/quoteway");
        if (!Files.isExecutable(path)) {
            throw new AssertionError("no server at " + path.normalize() + "; run `cargo build --release` or set QUOTEWAY_BIN");
        }
        return path.normalize().toAbsolutePath();
    }

    private void pump(String stream, BufferedReader reader, CompletableFuture<int[]> ready) {
        Thread thread = new Thread(
                () -> {
                    try (reader) {
                        for (String line; (line = reader.readLine()) != null; ) {
                            synchronized (log) {
                                log.add(stream + ": " + line);
                                if (log.size() > LOG_LINES) {
                                    log.remove(0);
                                }
                            }
                            Matcher m = readyLine.matcher(line);
                            if (ready != null && m.matches()) {
                                readyText = line;
                                int nip = m.group(2).isEmpty() ? 0 : Integer.parseInt(m.group(2));
                                ready.complete(new int[] {Integer.parseInt(m.group(1)), nip});
                            }
                        }
                    } catch (IOException e) {
                        // The process has been killed.
                    }
                },
                "quoteway-" + stream);
        thread.setDaemon(true);
        thread.start();
        pumps.add(thread);
    }

    /** Where consumers connect. */
    public int rsslPort() {
        return rsslPort;
    }

    /** Where non-interactive providers connect. */
    public int nipPort() {
        return nipPort;
    }

    /** Where operators ask; empty if the ready line does not say it. */
    public OptionalInt httpPort() {
        Matcher m = HTTP.matcher(readyText);
        return m.find() ? OptionalInt.of(Integer.parseInt(m.group(1))) : OptionalInt.empty();
    }

    public boolean alive() {
        return process.isAlive();
    }

    /** Resident memory in bytes. */
    public long residentBytes() {
        try {
            for (String line : Files.readAllLines(Path.of("/proc/" + process.pid() + "/status"))) {
                if (line.startsWith("VmRSS:")) {
                    return Long.parseLong(line.replaceAll("\\D", "")) * 1024;
                }
            }
        } catch (IOException e) {
            throw new AssertionError("the server is gone: " + e.getMessage());
        }
        throw new AssertionError("no VmRSS");
    }

    /** The last lines of its output; all of them if it has ended. */
    public String log() {
        if (!process.isAlive()) {
            for (Thread pump : pumps) {
                try {
                    pump.join(2000);
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                }
            }
        }
        synchronized (log) {
            return String.join("\n", log);
        }
    }

    /** Ends it as an operator would; it must end well, and soon for a machine on which all else is tested at the same time. */
    public void stop() {
        // Process.destroy would close the pipes, too, and with them the last words.
        process.toHandle().destroy();
        try {
            if (!process.waitFor(30, TimeUnit.SECONDS)) {
                process.destroyForcibly();
                throw new AssertionError("the server does not end on SIGTERM\n" + log());
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        if (process.exitValue() != 0 && process.exitValue() != 143) {
            throw new AssertionError("the server ended with " + process.exitValue() + "\n" + log());
        }
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
        if (process.isAlive()) {
            stop();
        }
    }
}
