package quoteway.interop;

import java.util.concurrent.atomic.AtomicInteger;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.TestPlan;

/** Ends the run with its counts, also where Maven itself is told to be quiet. */
public final class Summary implements TestExecutionListener {
    private final AtomicInteger passed = new AtomicInteger();
    private final AtomicInteger failed = new AtomicInteger();
    private final AtomicInteger skipped = new AtomicInteger();

    @Override
    public void executionFinished(TestIdentifier test, TestExecutionResult result) {
        if (test.isTest()) {
            switch (result.getStatus()) {
                case SUCCESSFUL -> passed.incrementAndGet();
                case FAILED -> {
                    failed.incrementAndGet();
                    // Surefire names a dynamic test by its number alone.
                    System.out.println("failed: " + test.getDisplayName());
                }
                case ABORTED -> skipped.incrementAndGet();
            }
        }
    }

    @Override
    public void executionSkipped(TestIdentifier test, String reason) {
        if (test.isTest()) {
            skipped.incrementAndGet();
        }
    }

    @Override
    public void testPlanExecutionFinished(TestPlan plan) {
        System.out.println("interop: " + passed + " passed, " + failed + " failed, " + skipped + " skipped");
    }
}
