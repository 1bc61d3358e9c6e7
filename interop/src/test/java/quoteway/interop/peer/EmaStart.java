package quoteway.interop.peer;

import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Supplier;

/**
 * One EMA object at a time may come to life in a JVM: their constructors grow the pools of the SDK's JSON converter, which are static and not
 * guarded. Once constructed they do not disturb each other.
 */
public final class EmaStart {
    private static final ReentrantLock LOCK = new ReentrantLock(true);

    private EmaStart() {}

    /** Runs a constructor that returns soon. */
    static <T> T exclusively(Supplier<T> constructor) {
        LOCK.lock();
        try {
            return constructor.get();
        } finally {
            LOCK.unlock();
        }
    }

    /**
     * Runs {@code start}, which lets a constructor run in another thread and returns when that has got as far as its connection: for a
     * constructor that blocks for long.
     */
    public static void until(Runnable start) {
        LOCK.lock();
        try {
            start.run();
        } finally {
            LOCK.unlock();
        }
    }
}
