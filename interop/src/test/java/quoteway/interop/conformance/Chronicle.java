package quoteway.interop.conformance;

import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.List;

/**
 * What was done and what came in a scenario, with the time of each as the server's log has it: a failure is read beside that log. It is also the
 * lock of the scenario's actors.
 */
final class Chronicle {
    /** Lines of it, so that a scenario that goes round does not fill the report. */
    private static final int MOST = 400;

    private final List<String> lines = new ArrayList<>();

    synchronized void note(String who, String what) {
        if (lines.size() < MOST) {
            lines.add(Instant.now().truncatedTo(ChronoUnit.MILLIS) + " " + who + ": " + what);
        }
    }

    @Override
    public synchronized String toString() {
        return String.join("\n", lines);
    }
}
