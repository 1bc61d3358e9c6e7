package quoteway.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.refinitiv.ema.access.EmaFactory;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;
import quoteway.interop.peer.EmaConsumer;
import quoteway.interop.peer.EmaProvider;
import quoteway.interop.wire.Message;
import quoteway.interop.wire.Message.Kind;
import quoteway.interop.wire.Quotes;

/** An unmodified EMA consumer of a replay: from a time on it has the image of then and what came from there on. */
@ExtendWith(World.Extension.class)
class ReplayTest {
    private static final String ITEM = "REPLAYED.N";
    private static final Pattern UPDATES = Pattern.compile("\"update\":\\{\"bytes\":\\d+,\"records\":(\\d+)");

    /** A {@code quoteway} of which a line of standard error says that it is ready. */
    private static final class Tool implements AutoCloseable {
        private final Process process;
        private final Matcher ready;

        Tool(Pattern ready, String... arguments) throws IOException {
            process = new ProcessBuilder(command(arguments)).redirectOutput(ProcessBuilder.Redirect.DISCARD).start();
            var lines = new BufferedReader(new InputStreamReader(process.getErrorStream(), StandardCharsets.UTF_8));
            Matcher found = null;
            for (String line; found == null && (line = lines.readLine()) != null; ) {
                Matcher m = ready.matcher(line);
                found = m.matches() ? m : null;
            }
            assertTrue(found != null, () -> String.join(" ", arguments) + " has ended");
            this.ready = found;
            var pump = new Thread(() -> readAway(lines), "tool");
            pump.setDaemon(true);
            pump.start();
        }

        private static void readAway(BufferedReader lines) {
            try (lines) {
                while (lines.readLine() != null) {}
            } catch (IOException e) {
                // The process has been killed.
            }
        }

        int port() {
            return Integer.parseInt(ready.group(1));
        }

        /** Ends it in order. */
        void end() throws InterruptedException {
            // Process.destroy would close the pipes, too, and with them the tool's last words, which it cannot do without.
            process.toHandle().destroy();
            assertTrue(process.waitFor(30, TimeUnit.SECONDS), "SIGTERM does not end it");
            assertEquals(0, process.exitValue());
        }

        @Override
        public void close() {
            process.destroyForcibly();
        }
    }

    private static List<String> command(String... arguments) {
        var command = new ArrayList<>(List.of(Quoteway.binary().toString()));
        command.addAll(List.of(arguments));
        return command;
    }

    private static void awaitRecorded(Path folder, int updates) throws IOException, InterruptedException {
        for (long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(60); ; Thread.sleep(20)) {
            var info = new ProcessBuilder(command("record", "info", folder.toString(), "--json"))
                    .redirectError(ProcessBuilder.Redirect.DISCARD)
                    .start();
            String text = new String(info.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            Matcher m = UPDATES.matcher(text);
            if (m.find() && Integer.parseInt(m.group(1)) >= updates) {
                return;
            }
            assertTrue(System.nanoTime() < end, () -> updates + " updates are not recorded: " + text);
        }
    }

    @Test
    void emaHasTheImageOfATimeAndWhatCameFromThereOn(World w, @TempDir Path folder) throws Exception {
        EmaProvider provider = w.emaProvider().onOpen(item -> item.refresh(Quotes.image(item.name(), 0)));
        w.serve(provider.port());
        Instant then;
        try (var recorder = new Tool(
                Pattern.compile(".* is recorded into (.*)"),
                "record", folder.toString(), "--server", "localhost:" + w.port(), "--service", World.FEED, "--item-list", ITEM)) {
            EmaProvider.Item item = provider.awaitOpen(ITEM);
            for (long s = 1; s <= 10; s++) {
                item.update(s);
            }
            awaitRecorded(folder, 10);
            then = Instant.now();
            for (long s = 11; s <= 20; s++) {
                item.update(s);
            }
            awaitRecorded(folder, 20);
            recorder.end();
        }
        var image = Message.newFields();
        image.putAll(Quotes.image(ITEM, 0));
        image.putAll(Quotes.update(ITEM, 10));
        Pattern replayed = Pattern.compile(".* is replayed on \\S*:(\\d+), .*");
        try (var replay = new Tool(
                replayed, "replay", folder.toString(), "--port", "0", "--from", then.toString(), "--start-on-open", "--speed", "max")) {
            EmaConsumer consumer = w.with(new EmaConsumer("replay", replay.port()));
            EmaConsumer.Stream stream = consumer.open(World.FEED, ITEM);
            stream.next().is(Kind.REFRESH).openOk().fields(image);
            for (long s = 11; s <= 20; s++) {
                stream.next().is(Kind.UPDATE).fields(Quotes.update(ITEM, s));
            }
            // The item as it was, on a service that is at its end: with its name, and as a snapshot.
            consumer.open(EmaFactory.createReqMsg().serviceName(World.FEED).name(ITEM + "@" + then).interestAfterRefresh(false))
                    .next()
                    .is(Kind.REFRESH)
                    .fields(image);
        }
        try (var replay = new Tool(replayed, "replay", folder.toString(), "--port", "0", "--at", then.toString(), "--start-on-open", "2")) {
            EmaConsumer consumer = w.with(new EmaConsumer("then", replay.port()));
            String service = World.FEED + "@" + then.toString();
            consumer.open(service, ITEM).next().is(Kind.REFRESH).openOk().fields(image);
            // Nothing has been played of the service itself yet.
            consumer.open(World.FEED, ITEM).next().is(Kind.STATUS).openSuspect();
        }
    }

    /** What a real EMA consumer traced is a recording: imported and replayed, another one sees what the first saw. */
    @Test
    void aTraceOfEmaIsARecording(World w, @TempDir Path folder) throws Exception {
        EmaProvider provider = w.emaProvider().onOpen(item -> item.refresh(Quotes.image(item.name(), 0)));
        w.serve(provider.port());
        Path config = folder.resolve("EmaConfig.xml");
        Files.writeString(config, TRACING.formatted(folder.resolve("trace"), w.port()));
        try (var consumer = new EmaConsumer("traced", EmaFactory.createOmmConsumerConfig(config.toString()).username("user"))) {
            EmaConsumer.Stream stream = consumer.open(World.FEED, ITEM);
            stream.next().is(Kind.REFRESH).openOk();
            EmaProvider.Item item = provider.awaitOpen(ITEM);
            for (long s = 1; s <= 10; s++) {
                item.update(s);
                stream.next().is(Kind.UPDATE).fields(Quotes.update(ITEM, s));
            }
        }
        List<String> traces;
        try (var files = Files.list(folder)) {
            traces = files.map(Path::toString).filter(name -> name.contains("trace") && name.endsWith(".xml")).toList();
        }
        assertEquals(1, traces.size(), () -> "traces: " + traces);
        String recording = folder.resolve("recording").toString();
        Process imported = new ProcessBuilder(command("record", "import", recording, traces.get(0))).redirectErrorStream(true).start();
        String told = new String(imported.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertEquals(0, imported.waitFor(), told);
        awaitRecorded(Path.of(recording), 10);
        try (var replay = new Tool(
                Pattern.compile(".* is replayed on \\S*:(\\d+), .*"),
                "replay", recording, "--port", "0", "--start-on-open", "--speed", "max")) {
            EmaConsumer.Stream stream = w.with(new EmaConsumer("replay", replay.port())).open(World.FEED, ITEM);
            Message first = stream.next();
            // The item has no image before the trace has one.
            (first.kind == Kind.STATUS ? stream.next() : first).is(Kind.REFRESH).openOk().fields(Quotes.image(ITEM, 0));
            for (long s = 1; s <= 10; s++) {
                stream.next().is(Kind.UPDATE).fields(Quotes.update(ITEM, s));
            }
        }
    }

    /** The configuration of a consumer that traces into a file; its name and the port are to be filled in. */
    private static final String TRACING = """
            <EmaConfig>
              <ConsumerGroup>
                <DefaultConsumer value="Consumer_1"/>
                <ConsumerList>
                  <Consumer>
                    <Name value="Consumer_1"/>
                    <Channel value="Channel_1"/>
                    <XmlTraceToFile value="1"/>
                    <XmlTraceFileName value="%s"/>
                    <XmlTraceToStdout value="0"/>
                  </Consumer>
                </ConsumerList>
              </ConsumerGroup>
              <ChannelGroup>
                <ChannelList>
                  <Channel>
                    <Name value="Channel_1"/>
                    <ChannelType value="ChannelType::RSSL_SOCKET"/>
                    <Host value="localhost"/>
                    <Port value="%d"/>
                  </Channel>
                </ChannelList>
              </ChannelGroup>
            </EmaConfig>
            """;
}
