package quoteway.codec;

import com.refinitiv.eta.ansipage.Page;
import com.refinitiv.eta.ansipage.PageUpdate;
import java.io.ByteArrayInputStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Locale;
import java.util.Vector;

/**
 * Nanoseconds of an update of a page of 25 rows and 80 columns with ETA Java's page library: the 40 bytes of
 * `cargo bench -p quoteway-page`. The median of rounds, the fastest beside it.
 */
public final class PageBench {
    private static final int ROUNDS = 301;
    private static final int UPDATES = 1000;
    /** A position, a fade, a price, and text behind it. */
    private static final byte[] UPDATE =
            "\u001b[12;24H\u001b[>7;42m1.5521/31\u001b[>m LON  12:03".getBytes(StandardCharsets.US_ASCII);

    private PageBench() {}

    private static void apply(Page page, byte[] bytes, Vector<PageUpdate> changes) {
        changes.clear();
        page.decode(new ByteArrayInputStream(bytes), changes);
    }

    public static void main(String[] args) {
        if (UPDATE.length != 40) {
            throw new IllegalStateException("the update has " + UPDATE.length + " bytes");
        }
        Page page = new Page((short) 25, (short) 80);
        Vector<PageUpdate> changes = new Vector<>();
        for (int row = 1; row <= 25; row++) {
            String text = "\u001b[" + row + ";1H" + "GBP  1.5520/30   LON  12:01  ".repeat(2);
            apply(page, text.getBytes(StandardCharsets.US_ASCII), changes);
        }
        double[] times = new double[ROUNDS];
        for (int round = -ROUNDS; round < ROUNDS; round++) {
            long start = System.nanoTime();
            for (int update = 0; update < UPDATES; update++) {
                apply(page, UPDATE, changes);
            }
            if (round >= 0) {
                times[round] = (System.nanoTime() - start) / (double) UPDATES;
            }
        }
        if (page.getChar((short) 12, (short) 24) != '1') {
            throw new IllegalStateException("the update is not on the page");
        }
        Arrays.sort(times);
        System.out.printf(Locale.ROOT, "update of 40 bytes, ETA Java     %9.1f ns %9.1f ns best%n", times[ROUNDS / 2], times[0]);
    }
}
