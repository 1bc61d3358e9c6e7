import java.nio.file.Path;
import net.openhft.chronicle.bytes.Bytes;
import net.openhft.chronicle.queue.ChronicleQueue;
import net.openhft.chronicle.queue.ExcerptAppender;
import net.openhft.chronicle.queue.ExcerptTailer;

/**
 * Chronicle Queue's side of peers/recordings: messages of 74 bytes into a queue in files, and out again. {@code Chronicle FOLDER MESSAGES} prints one line a figure:
 * name, messages a second. The first turn warms the JVM and is not told.
 */
public final class Chronicle {
    private static final int BYTES = 74;

    private Chronicle() {}

    public static void main(String[] args) {
        int messages = Integer.parseInt(args[1]);
        turn(Path.of(args[0], "warm"), messages / 4, false);
        turn(Path.of(args[0], "told"), messages, true);
    }

    private static void turn(Path folder, int messages, boolean tells) {
        try (ChronicleQueue queue = ChronicleQueue.singleBuilder(folder).build()) {
            byte[] content = new byte[BYTES];
            Bytes<?> body = Bytes.allocateDirect(BYTES);
            long begin = System.nanoTime();
            try (ExcerptAppender appender = queue.createAppender()) {
                for (int n = 0; n < messages; n++) {
                    body.clear();
                    body.write(content);
                    body.writeLong(0, n);
                    appender.writeBytes(body);
                }
                appender.sync();
            }
            tell(tells, "written", messages, begin);
            begin = System.nanoTime();
            long read = 0;
            try (ExcerptTailer tailer = queue.createTailer()) {
                body.clear();
                while (tailer.readBytes(body)) {
                    read++;
                    body.clear();
                }
            }
            if (read != messages) {
                throw new IllegalStateException(read + " of " + messages + " read");
            }
            tell(tells, "read", messages, begin);
        }
    }

    private static void tell(boolean tells, String what, int messages, long begin) {
        if (tells) {
            System.out.printf("%s %.0f%n", what, messages / ((System.nanoTime() - begin) / 1e9));
        }
    }
}
