package quoteway.interop.conformance;

import java.time.Duration;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;

/**
 * Time in which this machine let no thread of this program run. The peers' own times pass meanwhile (15 s until a request that nobody answers is
 * repeated, pings, EMA's log-in), so a scenario that fails behind a long one shows nothing of the server. A server that does not answer
 * is no standstill: threads here run then.
 */
final class Standstill {
    private static final long ASKED_NS = TimeUnit.MILLISECONDS.toNanos(50);
    /** What a loaded machine takes for waking a thread is less. */
    private static final long LEAST_NS = TimeUnit.SECONDS.toNanos(1);

    /** {@code System.nanoTime()} at the end of each, and how long it was. */
    private record One(long end, long length) {}

    private static final ConcurrentLinkedQueue<One> ALL = new ConcurrentLinkedQueue<>();

    static {
        var watch = new Thread(Standstill::watch, "standstill");
        watch.setDaemon(true);
        watch.start();
    }

    private Standstill() {}

    private static void watch() {
        for (long before = System.nanoTime(); ; ) {
            try {
                TimeUnit.NANOSECONDS.sleep(ASKED_NS);
            } catch (InterruptedException e) {
                return;
            }
            long now = System.nanoTime();
            if (now - before - ASKED_NS > LEAST_NS) {
                ALL.add(new One(now, now - before - ASKED_NS));
            }
            before = now;
        }
    }

    /** All of them that ended after this {@code System.nanoTime()}, together. */
    static Duration since(long begun) {
        return Duration.ofNanos(ALL.stream().filter(one -> one.end() - begun > 0).mapToLong(One::length).sum());
    }
}
