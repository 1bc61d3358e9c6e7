package quoteway.bench;

import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * An ETA Java provider and ETA Java consumers in two processes, connected by TCP and nothing between: plain channels, no reactor, no watchlist,
 * packed writes, messages copied from a template (so that the figure is that of the transport and the decoder). Prints one line of JSON.
 * Latency is open-loop: from the time at which an update was to be sent until its last field is decoded. The first {@code --warmup} seconds
 * after the last image do not count.
 */
public final class EtaPair {
    private static final int RECORDS_SECONDS = 20;

    private EtaPair() {}

    public static void main(String[] args) throws Exception {
        List<String> arguments = new ArrayList<>(List.of(args));
        if (!arguments.isEmpty() && arguments.get(0).equals("provider")) {
            PairProvider provider = new PairProvider(Options.parse(arguments.subList(1, arguments.size())));
            endWithParent(provider);
            provider.run();
            System.exit(0);
        }
        Options options;
        try {
            options = Options.parse(arguments);
        } catch (IllegalArgumentException e) {
            System.err.println(e.getMessage());
            System.exit(2);
            return;
        }
        Process provider = startProvider(options);
        try {
            String result = new PairConsumer(options).run(port(provider));
            // It writes what it has recorded.
            provider.getOutputStream().close();
            provider.waitFor(RECORDS_SECONDS, TimeUnit.SECONDS);
            System.out.println(result);
        } finally {
            provider.destroyForcibly();
        }
    }

    private static Process startProvider(Options options) throws Exception {
        var command = new ArrayList<String>();
        command.add(System.getProperty("java.home") + File.separator + "bin" + File.separator + "java");
        command.addAll(ManagementFactory.getRuntimeMXBean().getInputArguments());
        command.addAll(List.of("-cp", System.getProperty("java.class.path"), EtaPair.class.getName(), "provider"));
        command.addAll(options.arguments());
        return new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
    }

    private static int port(Process provider) throws Exception {
        var reader = new BufferedReader(new InputStreamReader(provider.getInputStream(), StandardCharsets.UTF_8));
        String line = reader.readLine();
        if (line == null || !line.startsWith("ready ")) {
            throw new IllegalStateException("the provider does not start: " + line);
        }
        return Integer.parseInt(line.substring("ready ".length()));
    }

    /** The standard input ends when the parent wants the end, or when it ends itself, however that happens. */
    private static void endWithParent(PairProvider provider) {
        Thread thread = new Thread(
                () -> {
                    try {
                        while (System.in.read() >= 0) {
                            continue;
                        }
                    } catch (java.io.IOException e) {
                        // The same as its end.
                    }
                    provider.end();
                    // One that hangs where it cannot look does not stay.
                    java.util.concurrent.locks.LockSupport.parkNanos(RECORDS_SECONDS * 1_000_000_000L);
                    System.exit(1);
                },
                "parent");
        thread.setDaemon(true);
        thread.start();
    }
}
