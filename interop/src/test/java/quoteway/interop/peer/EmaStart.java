package quoteway.interop.peer;

import java.util.Arrays;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Supplier;

/**
 * One EMA object at a time may come to life in a JVM: their constructors grow the pools of the SDK's JSON converter, which are static and not
 * guarded. Once constructed they do not disturb each other.
 */
public final class EmaStart {
    private static final ReentrantLock LOCK = new ReentrantLock(true);
    /** EMA gives its login, its directory and its dictionaries 45 s each. */
    private static final int SECONDS = 60;

    private EmaStart() {}

    /**
     * Runs a constructor, in a thread of its own. A test whose time is up is interrupted, and EMA does not bear that in its constructors: the
     * interrupt closes the pipe of its selector ({@code ClosedByInterruptException}), EMA takes that for a fault, uninitializes itself and closes
     * the selector, and then {@code OmmBaseImpl.handleLoginReqTimeout}, {@code loadDirectory} and {@code loadDictionary} go round for ever,
     * since they wait for a state that the uninitialized object never reaches and for a timer that only the selector's loop runs. So the
     * test that waits is interrupted here and EMA is not.
     */
    public static <T> T exclusively(Supplier<T> constructor) {
        var task = new FutureTask<T>(constructor::get);
        var thread = new Thread(task, "ema-start");
        thread.setDaemon(true);
        try {
            LOCK.lockInterruptibly();
            try {
                thread.start();
                return task.get(SECONDS, TimeUnit.SECONDS);
            } finally {
                LOCK.unlock();
            }
        } catch (ExecutionException e) {
            if (e.getCause() instanceof RuntimeException ours) {
                throw ours;
            } else if (e.getCause() instanceof Error ours) {
                throw ours;
            }
            throw new AssertionError(e.getCause());
        } catch (TimeoutException e) {
            throw new AssertionError("EMA's constructor has not returned after " + SECONDS + " s:\n" + where(thread));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new AssertionError("the time of the test is up while EMA starts:\n" + where(thread));
        }
    }

    private static String where(Thread thread) {
        return String.join("\n", Arrays.stream(thread.getStackTrace()).map(frame -> "  at " + frame).toList());
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
