package quoteway.bench;

import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Locale;

/**
 * Who saw which message when, in the form of the observer of {@code quoteway lab} (its module {@code observer}): one line of JSON, then
 * little-endian words: id (item in the upper half, number within the item in the lower), time, and at the sender the intended time. The clock is
 * {@link System#nanoTime}, which is CLOCK_MONOTONIC on Linux and the same in all processes. Memory is taken and touched before the test.
 */
final class Records {
    private static final int MEASURED_CALLS = 20_000;

    private final String end;
    private final int words;
    private final int every;
    private final int connections;
    private final long[] records;
    private final double costNanos;
    private int used;
    private long missed;

    private Records(String end, int words, int every, int connections, int capacity) {
        this.end = end;
        this.words = words;
        this.every = Math.max(1, every);
        this.connections = connections;
        records = new long[Math.max(1, capacity) * words];
        // Untouched memory would fault in the middle of the test.
        Arrays.fill(records, -1);
        costNanos = measure();
    }

    static Records sender(int every, int capacity) {
        return new Records("sender", 3, every, 1, capacity);
    }

    static Records receiver(int every, int connections, int capacity) {
        return new Records("receiver", 2, every, connections, capacity);
    }

    /** What a call that records costs: the least of several rounds. */
    private double measure() {
        double best = Double.MAX_VALUE;
        for (int round = 0; round < 20; round++) {
            used = 0;
            long begin = System.nanoTime();
            for (int n = 0; n < MEASURED_CALLS; n++) {
                // Chosen whatever `every` is.
                record(0, every * n, begin);
            }
            best = Math.min(best, (System.nanoTime() - begin) / (double) MEASURED_CALLS);
        }
        used = 0;
        missed = 0;
        return best;
    }

    /** A message is about to be handed over, or has been read. A receiver has no intended time. */
    void record(int item, int number, long intended) {
        if (every > 1 && Integer.remainderUnsigned(item + number, every) != 0) {
            return;
        }
        if (used + words > records.length) {
            missed++;
            return;
        }
        records[used] = (long) item << 32 | Integer.toUnsignedLong(number);
        records[used + 1] = System.nanoTime();
        if (words == 3) {
            records[used + 2] = intended;
        }
        used += words;
    }

    void save(Path path) throws IOException {
        String head = String.format(
                Locale.ROOT,
                "{\"end\":\"%s\",\"clock\":\"CLOCK_MONOTONIC\",\"every\":%d,\"connections\":%d,\"records\":%d,\"missed\":%d,\"cost_ns\":%.1f}\n",
                end, every, connections, used / words, missed, costNanos);
        ByteBuffer buffer = ByteBuffer.allocate(1 << 20).order(ByteOrder.LITTLE_ENDIAN);
        try (OutputStream out = new BufferedOutputStream(Files.newOutputStream(path))) {
            out.write(head.getBytes(StandardCharsets.US_ASCII));
            for (int at = 0; at < used; at++) {
                if (!buffer.hasRemaining()) {
                    out.write(buffer.array(), 0, buffer.position());
                    buffer.clear();
                }
                buffer.putLong(records[at]);
            }
            out.write(buffer.array(), 0, buffer.position());
        }
    }
}
