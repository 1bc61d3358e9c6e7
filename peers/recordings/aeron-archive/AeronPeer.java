import io.aeron.Publication;
import io.aeron.Subscription;
import io.aeron.archive.Archive;
import io.aeron.archive.ArchiveThreadingMode;
import io.aeron.archive.ArchivingMediaDriver;
import io.aeron.archive.checksum.Checksums;
import io.aeron.archive.client.AeronArchive;
import io.aeron.archive.status.RecordingPos;
import io.aeron.driver.MediaDriver;
import io.aeron.driver.ThreadingMode;
import io.aeron.logbuffer.FragmentHandler;
import java.nio.file.Path;
import org.agrona.concurrent.UnsafeBuffer;
import org.agrona.concurrent.YieldingIdleStrategy;
import org.agrona.concurrent.status.CountersReader;

/**
 * Aeron Archive's side of peers/recordings: messages of 74 bytes of one publication in shared memory, recorded by an archive in the same process, and replayed by
 * it. {@code AeronPeer FOLDER MESSAGES LEVEL [checked]} prints one line a figure: name, messages a second. LEVEL is the archive's file synchronisation level: 0 leaves
 * it to the system when pages are written, 1 forces each block that was recorded to the disk. With {@code checked} what is recorded has checksums (CRC-32). The first turn warms the JVM and is not told.
 */
public final class AeronPeer {
    private static final String CHANNEL = "aeron:ipc?term-length=64m";
    /** Apart from those of the archive's own control streams, 10 and 20. */
    private static final int STREAM = 1001;
    private static final int BYTES = 74;
    /** Fragments that are taken at a time. */
    private static final int POLL = 256;

    private AeronPeer() {}

    public static void main(String[] args) {
        Path folder = Path.of(args[0]);
        int messages = Integer.parseInt(args[1]);
        int level = Integer.parseInt(args[2]);
        boolean isChecked = args.length > 3 && args[3].equals("checked");
        String media = folder.resolve("media").toString();
        MediaDriver.Context driver = new MediaDriver.Context()
            .aeronDirectoryName(media)
            .threadingMode(ThreadingMode.SHARED)
            .sharedIdleStrategy(new YieldingIdleStrategy())
            .dirDeleteOnStart(true)
            .dirDeleteOnShutdown(true);
        Archive.Context archive = new Archive.Context()
            .aeronDirectoryName(media)
            .archiveDir(folder.resolve("recordings").toFile())
            .threadingMode(ArchiveThreadingMode.SHARED)
            .idleStrategySupplier(YieldingIdleStrategy::new)
            .fileSyncLevel(level)
            .catalogFileSyncLevel(level)
            .recordChecksum(isChecked ? Checksums.crc32() : null)
            .archiveClientContext(new AeronArchive.Context().controlResponseChannel("aeron:ipc"))
            .replicationChannel("aeron:udp?endpoint=localhost:0")
            .controlChannelEnabled(false)
            .deleteArchiveOnStart(true);
        try (ArchivingMediaDriver ignored = ArchivingMediaDriver.launch(driver, archive);
             AeronArchive client = AeronArchive.connect(new AeronArchive.Context()
                 .aeronDirectoryName(media)
                 .controlRequestChannel("aeron:ipc")
                 .controlResponseChannel("aeron:ipc"))) {
            turn(client, STREAM, messages / 4, false);
            turn(client, STREAM + 2, messages, true);
        }
    }

    private static void turn(AeronArchive client, int stream, int messages, boolean tells) {
        UnsafeBuffer body = new UnsafeBuffer(new byte[BYTES]);
        long recording;
        long end;
        try (Publication publication = client.addRecordedExclusivePublication(CHANNEL, stream)) {
            CountersReader counters = client.context().aeron().countersReader();
            int counter;
            while ((counter = RecordingPos.findCounterIdBySession(counters, publication.sessionId(), client.archiveId())) == CountersReader.NULL_COUNTER_ID) {
                Thread.yield();
            }
            recording = RecordingPos.getRecordingId(counters, counter);
            long begin = System.nanoTime();
            for (int n = 0; n < messages; n++) {
                body.putLong(0, n);
                long offered;
                while ((offered = publication.offer(body, 0, BYTES)) < 0) {
                    if (offered == Publication.CLOSED || offered == Publication.MAX_POSITION_EXCEEDED) {
                        throw new IllegalStateException("message " + n + " was refused: " + offered);
                    }
                    Thread.yield();
                }
            }
            end = publication.position();
            // Written is what the archive has given to the system.
            while (counters.getCounterValue(counter) < end) {
                Thread.yield();
            }
            tell(tells, "written", messages, begin);
        }
        long[] read = {0};
        FragmentHandler count = (buffer, offset, length, header) -> read[0]++;
        long begin = System.nanoTime();
        try (Subscription replay = client.replay(recording, 0, end, CHANNEL, stream + 1)) {
            while (read[0] < messages) {
                if (replay.poll(count, POLL) == 0) {
                    Thread.yield();
                }
            }
        }
        tell(tells, "replayed", messages, begin);
    }

    private static void tell(boolean tells, String what, int messages, long begin) {
        if (tells) {
            System.out.printf("%s %.0f%n", what, messages / ((System.nanoTime() - begin) / 1e9));
        }
    }
}
