package quoteway.interop.conformance;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

/**
 * A consumer or provider of a scenario: an EMA object, and what it has given its application and no step has expected yet. EMA's threads put
 * that in; {@code lock}, which all actors of a scenario share, guards it.
 */
abstract class Actor {
    /** How long something that a step waits for may take; a loaded machine is slow. */
    private static final long PATIENCE = TimeUnit.SECONDS.toNanos(Long.getLong("interop.deadline", 30));
    /** Patience is counted in waits of so much: a standstill of the machine, however long, is one of them. */
    private static final long SLICE = TimeUnit.MILLISECONDS.toNanos(100);

    final String name;
    final Chronicle lock;
    /** What came and was not expected yet, in order. */
    final List<Told> inbox = new ArrayList<>();
    /** What came on the streams of login and directory. Steps look for what concerns them. */
    final List<Told> aside = new ArrayList<>();
    /** Services by the ids that they have at this program. */
    final Map<Integer, String> services = new HashMap<>();
    /** What went wrong in a callback, where EMA would hide it. */
    private Throwable failure;

    Actor(String name, Chronicle lock) {
        this.name = name;
        this.lock = lock;
    }

    /** A message has come for the application. */
    final void comes(Told told) {
        inbox.add(told);
        lock.note(name, line(told));
    }

    /** Does this under the lock, and wakes who waits; what goes wrong is kept for the step that waits. */
    void heard(Runnable what) {
        synchronized (lock) {
            try {
                what.run();
            } catch (RuntimeException | AssertionError e) {
                failure = e;
            }
            lock.notifyAll();
        }
    }

    /** Looks until there is an answer, which is not null; fails in the words of {@code otherwise}. */
    <T> T await(Supplier<T> look, Supplier<String> otherwise) {
        long left = PATIENCE;
        synchronized (lock) {
            while (true) {
                T found = look.get();
                if (found != null) {
                    return found;
                }
                if (failure != null) {
                    throw new AssertionError(name + " could not read a message", failure);
                }
                if (left <= 0) {
                    throw new AssertionError(otherwise.get());
                }
                long before = System.nanoTime();
                try {
                    TimeUnit.NANOSECONDS.timedWait(lock, SLICE);
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                    throw new AssertionError("interrupted: " + otherwise.get());
                }
                left -= Math.min(System.nanoTime() - before, SLICE);
            }
        }
    }

    /** What no step has expected, a line each; "nothing" if there is none. */
    String left() {
        synchronized (lock) {
            return inbox.isEmpty() ? "nothing" : String.join("\n       ", inbox.stream().map(this::line).toList());
        }
    }

    boolean hasNews() {
        synchronized (lock) {
            return !inbox.isEmpty();
        }
    }

    /** A message, with the name that its stream has in the scripts. */
    abstract String line(Told told);

    /** The number that stands for the stream of this name in {@link Told#stream}; null if it is not open. */
    abstract Long stream(String stream);

    /** Whether a message that is on no known stream opens the one of this name. */
    boolean opens(Told told, String stream, String knownAs) {
        return false;
    }

    /** A message was expected, on a stream that has this name from now on. */
    void taken(Told told, String knownAs) {}

    /** The next message of that stream, which is of that class and has these words. */
    void gets(String kind, String stream, String knownAs, List<String> words) {
        await(() -> {
            Long id = stream(knownAs);
            for (Told told : aside) {
                if (stream.matches("login|directory") && told.stream == id && told.kind.equals(kind) && told.differs(words) == null) {
                    aside.remove(told);
                    return told;
                }
            }
            for (Told told : inbox) {
                if (id != null && told.stream == id || opens(told, stream, knownAs)) {
                    if (!told.kind.equals(kind)) {
                        throw new AssertionError(line(told));
                    }
                    String why = told.differs(words);
                    if (why != null) {
                        throw new AssertionError(line(told) + " (" + why + ")");
                    }
                    inbox.remove(told);
                    taken(told, knownAs);
                    return told;
                }
            }
            return null;
        }, () -> left());
    }

    abstract void sends(String kind, String stream, List<String> words);

    /** Its connection ends. */
    abstract void goesAway();
}
