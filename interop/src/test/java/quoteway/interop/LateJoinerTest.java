package quoteway.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import quoteway.interop.peer.EmaProvider;

/** Who comes late has its images out of a cache in half of the time, at most, in which a provider written with EMA sends them again. */
@ExtendWith(World.Extension.class)
class LateJoinerTest {
    /** {@code -Dinterop.late=100000}: as many as the published goal has. */
    private static final int ITEMS = Integer.getInteger("interop.late", 2_000);
    /** The least of so many is compared: whatever else the machine does makes it longer. {@code -Dinterop.tries=100}: to look for rare losses. */
    private static final int TRIES = Integer.getInteger("interop.tries", 3);

    @ParameterizedTest(name = "{0}")
    @CsvSource({"p2ps, enable_cache = true", "source_distributor, 'cache_location = \"ssl\"'"})
    void imagesComeOutOfTheCacheInHalfTheTime(String server, String parameter, World w) {
        EmaProvider provider = w.emaProvider().keepingNothing();
        double sentAgain = leastOf(w, "", provider);
        double cached = leastOf(w, "[" + server + "]\n" + parameter + "\n", provider);
        System.out.printf("late joiner, %,d items: %.3f s from EMA, %.3f s out of the cache of %s%n", ITEMS, sentAgain, cached, server);
        assertTrue(cached * 2 <= sentAgain, "%.3f s out of the cache, %.3f s from the provider".formatted(cached, sentAgain));
    }

    private static double leastOf(World w, String config, EmaProvider provider) {
        w.serve(config, provider.port());
        String items = "LATE{0.." + (ITEMS - 1) + "}";
        try (var first = new TestClient(w.port(), items, 3_600)) {
            first.awaitImages(ITEMS);
            double least = Double.MAX_VALUE;
            for (int i = 0; i < TRIES; i++) {
                try (var late = new TestClient(w.port(), items, 0)) {
                    least = Math.min(least, late.imagesTook());
                } finally {
                    assertEquals("", provider.failure());
                }
            }
            return least;
        }
    }
}
