#!/usr/bin/env bash
# Aeron Archive 1.44.1 (Maven Central), embedded and spoken to over `aeron:ipc`, beside a program whose prices go over `aeron:ipc` as well: by the number of
# their stream.
#
# Guess: the archive's own conversation is apart from streams of programs, by a channel or a session of its own; where a number is taken, `addPublication`
# says so.
# Seen: stream 10 carries the requests to the archive and 20 its answers, and nothing keeps a program off them. With prices on 10 the archive takes each for a
# request and reports an error for it (expected schemaId=101), and the subscriber of prices is given the client's requests among its ticks. On 20 the client's
# error handler has the ticks, and the subscriber the archive's answers. A recording of such a stream is two: the ticks, and the conversation of the client
# that asked for the recording. Publication, subscription and recording succeed all the same. On 99 nothing of the kind comes.
# Consequence: a program beside an archive numbers its streams from above 20 (10 and 20 here), and a subscriber looks at the session or the first bytes of a
# message before it takes it for its own.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat > pom.xml <<'POM'
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>finding</groupId><artifactId>finding</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>io.aeron</groupId><artifactId>aeron-archive</artifactId><version>1.44.1</version></dependency>
  </dependencies>
</project>
POM
mvn -q -B dependency:build-classpath -Dmdep.outputFile=classpath
cat > Shared.java <<'JAVA'
import io.aeron.Aeron;
import io.aeron.ExclusivePublication;
import io.aeron.Subscription;
import io.aeron.archive.Archive;
import io.aeron.archive.ArchiveThreadingMode;
import io.aeron.archive.ArchivingMediaDriver;
import io.aeron.archive.client.AeronArchive;
import io.aeron.archive.codecs.MessageHeaderDecoder;
import io.aeron.archive.codecs.SourceLocation;
import io.aeron.driver.MediaDriver;
import io.aeron.driver.ThreadingMode;
import java.io.File;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import org.agrona.ErrorHandler;
import org.agrona.concurrent.UnsafeBuffer;

public class Shared {
    static final int TICKS = 3;
    static final byte[] TICK = "tick of IBM 100.25".getBytes();
    static final String IPC = "aeron:ipc";

    static ErrorHandler counting(AtomicInteger count) {
        return error -> {
            if (error.getMessage().contains("expected schemaId=" + MessageHeaderDecoder.SCHEMA_ID)) count.incrementAndGet();
        };
    }

    static void until(String what, BooleanSupplier isReached) {
        long end = System.nanoTime() + 20_000_000_000L;
        while (!isReached.getAsBoolean()) {
            if (System.nanoTime() > end) throw new IllegalStateException("not reached: " + what);
            Thread.yield();
        }
    }

    public static void main(String[] arguments) {
        String folder = arguments[0];
        int stream = Integer.parseInt(arguments[1]);
        AtomicInteger archiveErrors = new AtomicInteger(), clientErrors = new AtomicInteger(), ticks = new AtomicInteger(), others = new AtomicInteger();
        MediaDriver.Context driver = new MediaDriver.Context().aeronDirectoryName(folder + "/driver").threadingMode(ThreadingMode.SHARED);
        Archive.Context archive = new Archive.Context().aeronDirectoryName(folder + "/driver").archiveDir(new File(folder + "/archive"))
            .threadingMode(ArchiveThreadingMode.SHARED).controlChannel("aeron:udp?endpoint=localhost:" + arguments[2])
            .replicationChannel("aeron:udp?endpoint=localhost:0").errorHandler(counting(archiveErrors));
        try (ArchivingMediaDriver both = ArchivingMediaDriver.launch(driver, archive);
            Aeron aeron = Aeron.connect(new Aeron.Context().aeronDirectoryName(folder + "/driver").errorHandler(counting(clientErrors)));
            Subscription subscription = aeron.addSubscription(IPC, stream);
            ExclusivePublication prices = aeron.addExclusivePublication(IPC, stream)) {
            until("a subscriber of prices", prices::isConnected);
            AeronArchive.Context context = new AeronArchive.Context().aeron(aeron).errorHandler(counting(clientErrors))
                .controlRequestChannel(IPC).controlRequestStreamId(archive.localControlStreamId()).controlResponseChannel(IPC);
            try (AeronArchive client = AeronArchive.connect(context)) {
                for (int number = 0; number < TICKS; number++) {
                    until("a tick is sent", () -> prices.offer(new UnsafeBuffer(TICK)) > 0);
                }
                client.startRecording(IPC, stream, SourceLocation.LOCAL);
                boolean isShared = stream == context.controlRequestStreamId() || stream == context.controlResponseStreamId();
                until("the recordings", () -> recordings(client) == (isShared ? 2 : 1));
                until("all ticks and what comes beside them", () -> {
                    subscription.poll((buffer, offset, length, header) -> {
                        boolean isTick = length == TICK.length;
                        boolean isOfArchive = !isTick && new MessageHeaderDecoder().wrap(buffer, offset).schemaId() == MessageHeaderDecoder.SCHEMA_ID;
                        if (isTick) ticks.incrementAndGet();
                        if (isOfArchive) others.incrementAndGet();
                    }, 10);
                    return ticks.get() == TICKS && (!isShared || others.get() > 0);
                });
                String own = context.controlRequestStreamId() + " " + context.controlResponseStreamId();
                System.out.println(own + " stream " + stream + ": " + ticks + " ticks, archive's " + (others.get() > 0)
                    + ", recordings " + recordings(client) + ", errors of the archive " + archiveErrors + ", of its client " + clientErrors);
            }
        }
    }

    static int recordings(AeronArchive client) {
        return client.listRecordings(0, 10, (control, correlation, recording, start, stop, from, to, term, segment, termLength, mtu, session, stream, channel,
            original, source) -> { });
    }
}
JAVA
javac -nowarn -cp "$(cat classpath)" Shared.java
for stream in 10 20 99; do
    port=$(python3 -c 'import socket; free = socket.socket(type=socket.SOCK_DGRAM); free.bind(("127.0.0.1", 0)); print(free.getsockname()[1])')
    java --add-opens java.base/jdk.internal.misc=ALL-UNNAMED --add-opens java.base/sun.nio.ch=ALL-UNNAMED -cp ".:$(cat classpath)" \
        Shared "$folder/$stream" $stream "$port" 2> log | tee -a seen || { cat log; exit 1; }
done
cat > then <<'THEN'
10 20 stream 10: 3 ticks, archive's true, recordings 2, errors of the archive 3, of its client 0
10 20 stream 20: 3 ticks, archive's true, recordings 2, errors of the archive 0, of its client 3
10 20 stream 99: 3 ticks, archive's false, recordings 1, errors of the archive 0, of its client 0
THEN
diff then seen
echo "as it was"
