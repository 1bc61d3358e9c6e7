package quoteway.interop.conformance;

import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.condition.DisabledIfSystemProperty;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import quoteway.interop.conformance.Script.Scenario;
import quoteway.interop.peer.Ports;

/**
 * The scenarios of {@code crates/sim/conformance} with EMA as consumer, interactive provider and non-interactive provider, and the binary between
 * them. What EMA does not let an application do or see is in {@code conformance-ema.txt}: whatever is not there runs. {@code QUOTEWAY_SCENARIO=text}
 * runs those whose title has the text.
 */
@DisabledIfSystemProperty(named = "interop.direct", matches = "true")
class EmaConformanceTest {
    /** So many of them run, at least. */
    private static final int LEAST = 90;

    /** The scripts leave a second between what must not have happened yet and what must have. */
    private static final Duration TOO_LATE = Duration.ofMillis(400);

    /** A third of the shortest time after which a server or EMA does something by itself. */
    private static final Duration TOO_STILL = Duration.ofSeconds(5);

    private static final int TRIES = 5;
    private static final String WANTED = System.getenv().getOrDefault("QUOTEWAY_SCENARIO", "");
    private static final Table TABLE = Table.read();
    private static final List<Scenario> ALL = Script.all();
    private static final AtomicInteger RAN = new AtomicInteger();
    private static Provider always;
    private static int alwaysAt;

    @BeforeAll
    static void start() {
        always = Ports.bound(port -> {
            alwaysAt = port;
            return new Provider("always", new Chronicle(), port, 0, "", new Words(List.of()));
        });
    }

    @AfterAll
    static void enoughHaveRun() {
        always.goesAway();
        System.out.println("conformance: " + RAN + " of " + ALL.size() + " scenarios ran with EMA, " + TABLE.leftOut().size() + " left out");
        assertTrue(RAN.get() >= LEAST || !WANTED.isEmpty(), () -> "only " + RAN + " scenarios ran of " + ALL.size());
    }

    @TestFactory
    Stream<DynamicTest> scenario() {
        return ALL.stream()
                .filter(scenario -> Run.isFor(scenario.only()))
                .filter(scenario -> !TABLE.leftOut().containsKey(scenario.title()) && scenario.title().contains(WANTED))
                .map(scenario -> DynamicTest.dynamicTest(scenario.title(), () -> goes(scenario)));
    }

    private static void goes(Scenario scenario) {
        for (int tries = 1; !went(scenario, tries == TRIES); tries++) {
            // Once more: this machine was slower than the script.
        }
        RAN.incrementAndGet();
    }

    /**
     * False if it failed where that shows nothing: this machine stood still, or time passes in the scenario and it was too slow for what must not
     * have happened yet.
     */
    private static boolean went(Scenario scenario, boolean last) {
        boolean hasTime = scenario.settings().stream().anyMatch(setting -> setting.key().startsWith("confla"))
                || scenario.steps().stream().anyMatch(step -> step.words().get(0).equals("after"));
        long begun = System.nanoTime();
        try (var run = new Run(scenario, always, alwaysAt)) {
            try {
                run.play(TABLE.steps(scenario));
            } catch (AssertionError e) {
                boolean slow = hasTime && run.late().compareTo(TOO_LATE) >= 0;
                Duration still = Standstill.since(begun);
                if (last || !slow && still.compareTo(TOO_STILL) < 0) {
                    throw e;
                }
                System.out.println("again: " + scenario.title() + (slow ? "" : ": this machine stood still for " + still.toMillis() + " ms"));
                return false;
            }
        }
        return true;
    }

    /** What the table speaks of is in the scripts, so that it does not outlive what it is about. */
    @Test
    void theTableSpeaksOfScenariosThatThereAre() {
        var titles = new HashSet<String>();
        ALL.forEach(scenario -> assertTrue(titles.add(scenario.title()), () -> "twice: " + scenario.title()));
        TABLE.leftOut().keySet().forEach(title -> assertTrue(titles.contains(title), () -> "no scenario: " + title));
        TABLE.changes().keySet().forEach(title -> assertTrue(titles.contains(title), () -> "no scenario: " + title));
        ALL.forEach(TABLE::steps);
    }

    /** A step that something else comes for, one that nothing may come for, and what no step has expected. */
    @ParameterizedTest
    @ValueSource(strings = {"A gets REFRESH 5 32=2", "A gets nothing", ""})
    void whatDoesNotGoAsItSaysFails(String last) {
        String text = """
                scenario: A wrong one
                P1 comes up with FEED
                A logs in
                A sends REQUEST 5 item=IBM service=FEED
                P1 gets REQUEST IBM
                P1 sends REFRESH IBM Open/Ok solicited complete clear-cache 32=1
                """;
        Scenario scenario = Script.read("wrong.txt", text + last).get(0);
        try (var run = new Run(scenario, always, alwaysAt)) {
            var failure = assertThrows(AssertionError.class, () -> run.play(scenario.steps()));
            assertTrue(failure.getMessage().contains("got: ") && failure.getMessage().contains("32=1"), failure::getMessage);
        }
    }
}
