package quoteway.interop.wire;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Predicate;

/**
 * What a program has received and a test has not yet looked at, in order. A test takes one after the other, so whatever it does not expect
 * stands in its way; a wait that ends at its deadline shows what came before.
 */
public final class Inbox<T> {
    private static final Duration DEADLINE = Duration.ofSeconds(Long.getLong("interop.deadline", 30));
    private static final int HISTORY = 40;

    private final String owner;
    private final Deque<T> waiting = new ArrayDeque<>();
    private final Deque<T> taken = new ArrayDeque<>();
    private final ReentrantLock lock = new ReentrantLock();
    private final Condition changed = lock.newCondition();
    private String ended;

    public Inbox(String owner) {
        this.owner = owner;
    }

    public void put(T item) {
        lock.lock();
        try {
            waiting.add(item);
            changed.signalAll();
        } finally {
            lock.unlock();
        }
    }

    /** Nothing more will come: waits fail at once, with this reason. */
    public void end(String reason) {
        lock.lock();
        try {
            ended = ended == null ? reason : ended;
            changed.signalAll();
        } finally {
            lock.unlock();
        }
    }

    /** The oldest one not yet taken. */
    public T next() {
        return next(t -> true, "anything");
    }

    /** The oldest one that fits; others stay. */
    public T next(Predicate<? super T> fits, String what) {
        return next(fits, what, DEADLINE);
    }

    public T next(Predicate<? super T> fits, String what, Duration deadline) {
        lock.lock();
        try {
            long left = deadline.toNanos();
            while (true) {
                for (var i = waiting.iterator(); i.hasNext(); ) {
                    T item = i.next();
                    if (fits.test(item)) {
                        i.remove();
                        remember(item);
                        return item;
                    }
                }
                if (ended != null || left <= 0) {
                    throw new AssertionError(owner + " got no " + what + (ended == null ? " in " + deadline : ", it ended: " + ended)
                            + "\n  not taken: " + lines(waiting) + "\n  taken before: " + lines(taken));
                }
                left = changed.awaitNanos(left);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new AssertionError(owner + " was interrupted while it waited for " + what + "\n  not taken: " + lines(waiting)
                    + "\n  taken before: " + lines(taken));
        } finally {
            lock.unlock();
        }
    }

    /** All that is here now, without waiting. */
    public List<T> drain() {
        lock.lock();
        try {
            var all = new ArrayList<>(waiting);
            waiting.clear();
            all.forEach(this::remember);
            return all;
        } finally {
            lock.unlock();
        }
    }

    /** Fails if something is here that no one asked for. Meaningful only behind a message that must come later. */
    public void assertEmpty() {
        lock.lock();
        try {
            if (!waiting.isEmpty()) {
                throw new AssertionError(owner + " got what it should not: " + lines(waiting) + "\n  taken before: " + lines(taken));
            }
        } finally {
            lock.unlock();
        }
    }

    /** Waits for the end; returns its reason. */
    public String awaitEnd() {
        lock.lock();
        try {
            long left = DEADLINE.toNanos();
            while (ended == null) {
                if (left <= 0) {
                    throw new AssertionError(owner + " did not end\n  not taken: " + lines(waiting) + "\n  taken before: " + lines(taken));
                }
                left = changed.awaitNanos(left);
            }
            return ended;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new AssertionError(owner + " was interrupted");
        } finally {
            lock.unlock();
        }
    }

    public boolean ended() {
        lock.lock();
        try {
            return ended != null;
        } finally {
            lock.unlock();
        }
    }

    private void remember(T item) {
        taken.add(item);
        if (taken.size() > HISTORY) {
            taken.removeFirst();
        }
    }

    private String lines(Deque<T> items) {
        var s = new StringBuilder();
        int skipped = Math.max(0, items.size() - HISTORY);
        if (items.isEmpty()) {
            return "nothing";
        }
        items.stream().skip(skipped).forEach(i -> s.append("\n    ").append(i));
        return (skipped > 0 ? "(" + skipped + " more)" : "") + s;
    }
}
