package quoteway.interop.conformance;

import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.opentest4j.TestAbortedException;
import quoteway.interop.conformance.Script.Scenario;
import quoteway.interop.conformance.Script.Step;

/** A scenario that runs: its server, its actors, and what is done at each step. */
final class Run implements AutoCloseable {
    /** Of the variants of the scripts, {@code quoteway serve} with nothing set is this one. */
    private static final List<String> VARIANT = List.of("plain", "uncached", "processes");

    private final Scenario scenario;
    private final Chronicle lock = new Chronicle();
    private final Map<String, Actor> actors = new LinkedHashMap<>();
    private final Provider always;
    private final Site site;
    /** A consumer that is there for marks alone, while the scenario has none and several providers, whose order nobody would see. */
    private Consumer witness;
    private final boolean needsWitness;
    private long marks;
    /** When the last actor had come, and the time that has passed since then as the script says. */
    private Instant begun = Instant.now();
    private Duration said = Duration.ZERO;

    /** {@code always}: a provider that is there in all scenarios, for marks that need no provider of the scenario. */
    Run(Scenario scenario, Provider always, int alwaysAt) {
        this.scenario = scenario;
        this.always = always;
        List<String> providers = who("comes", "publishes");
        site = new Site(scenario, alwaysAt, who("logs", "connects"), providers);
        needsWitness = providers.size() > 1;
    }

    private List<String> who(String... does) {
        var all = scenario.steps().stream().filter(step -> step.words().size() > 1 && List.of(does).contains(step.words().get(1)));
        return all.map(step -> step.words().get(0)).distinct().toList();
    }

    static boolean isInteractive(String provider) {
        return provider.matches("P\\d");
    }

    static int route(String provider) {
        return Integer.parseInt(provider.substring(1));
    }

    /** Whether a scenario or step is for this server, or for any that is a process. */
    static boolean isFor(List<String> variants) {
        return variants.isEmpty() || variants.stream().anyMatch(VARIANT::contains);
    }

    /** Does these steps; fails with the first that does not go as it says, or with what is left over. */
    void play(List<Step> steps) {
        for (Step step : steps) {
            if (isFor(step.only())) {
                lock.note("step", step.text());
                try {
                    step(step.words());
                } catch (TestAbortedException e) {
                    throw e;
                } catch (RuntimeException | AssertionError e) {
                    throw failure(step.line(), step.text(), e.getMessage() + others(step.words().get(0)), e);
                }
            }
        }
        settle();
        for (Actor actor : actors.values()) {
            if (actor.hasNews()) {
                int last = steps.get(steps.size() - 1).line();
                throw failure(last, "no more than the steps say", actor.name + " also got " + actor.left(), null);
            }
        }
    }

    private AssertionError failure(int line, String expected, String got, Throwable cause) {
        String where = scenario.file() + ", line " + line + ": " + scenario.title();
        return new AssertionError(where + "\n  expected: " + expected + "\n  got: " + got + "\n--- steps\n" + lock + "\n--- server\n" + site.log(), cause);
    }

    /** What others have got and no step has expected: often the reason why a step fails. */
    private String others(String but) {
        var lines = new StringBuilder();
        for (Actor actor : actors.values()) {
            if (!actor.name.equals(but) && actor.hasNews()) {
                lines.append("\n  beside it " + actor.name + " got " + actor.left());
            }
        }
        return lines.toString();
    }

    private void step(List<String> words) {
        List<String> rest = words.subList(Math.min(4, words.size()), words.size());
        String name = words.get(0);
        if (name.equals("after")) {
            passes(Duration.ofMillis((long) (Double.parseDouble(words.get(1)) * 1000)));
            return;
        }
        switch (words.get(1)) {
            case "comes" -> comesUp(name, rest.get(0), words.subList(5, words.size()));
            case "publishes" -> publishes(name, words.get(2));
            case "connects" -> actors.put(name, new Consumer(name, lock, site.rsslPort()));
            case "logs" -> logsIn(name, words.subList(3, words.size()));
            case "goes" -> goesAway(actor(name));
            case "blocks", "unblocks" -> site.operate(words.get(1).substring(0, words.get(1).length() - 1), words.get(2));
            case "switches" -> site.switchTo(words.get(2), route(words.get(4)));
            case "sends" -> sends(actor(name), words.get(2), words.get(3), rest);
            case "gets" -> {
                gets(actor(name), words, rest);
                return;
            }
            default -> throw new AssertionError("this is no step that there is here");
        }
        settle();
        if (List.of("comes", "publishes", "connects", "logs").contains(words.get(1))) {
            begun = Instant.now();
            said = Duration.ZERO;
        }
    }

    /** Time passes, which is what the step is about; what comes meanwhile is looked at behind it. */
    private void passes(Duration time) {
        try {
            Thread.sleep(time.toMillis());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new AssertionError("interrupted");
        }
        said = said.plus(time);
        settle();
    }

    /** How much more time has passed since all actors came than the script says, in which this machine did what takes none there. */
    Duration late() {
        return Duration.between(begun, Instant.now()).minus(said);
    }

    private Actor actor(String name) {
        if (!actors.containsKey(name)) {
            throw new AssertionError(name + " has not come yet");
        }
        return actors.get(name);
    }

    private void comesUp(String name, String services, List<String> words) {
        int route = route(name);
        var provider = new Provider(name, lock, site.route(route), 100 * route, services, new Words(words));
        actors.put(name, provider);
        provider.awaitServer();
    }

    private void publishes(String name, String services) {
        var consumers = new ArrayList<>(who("logs", "connects"));
        consumers.add("witness");
        consumers.replaceAll(consumer -> consumer + "@" + site.rsslPort());
        actors.put(name, new Publisher(name, lock, site.nipPort(), services, name.charAt(0), consumers));
    }

    private void logsIn(String name, List<String> words) {
        var consumer = new Consumer(name, lock, site.rsslPort());
        actors.put(name, consumer);
        consumer.logsIn(new Words(words));
        consumer.gets("REFRESH", "login", "login", List.of("Open/Ok", "solicited"));
    }

    private void goesAway(Actor actor) {
        settle();
        if (actor.hasNews()) {
            throw new AssertionError("before it went it also got " + actor.left());
        }
        actor.goesAway();
        actors.remove(actor.name);
        if (actor instanceof Marks.Source source) {
            consumers().forEach(consumer -> consumer.forgets(source));
        }
    }

    private void sends(Actor actor, String kind, String stream, List<String> words) {
        if (kind.equals("DIRECTORY")) {
            ((Provider) actor).changes(stream, words);
        } else if (kind.equals("STANDBY")) {
            ((Consumer) actor).standby(stream, words.get(0));
        } else if (actor instanceof Consumer consumer && !consumer.isLoggedIn() && stream.equals("login")) {
            consumer.logsIn(new Words(words));
        } else {
            actor.sends(kind, stream, words);
        }
    }

    private void gets(Actor actor, List<String> words, List<String> rest) {
        String kind = words.get(2);
        if (kind.equals("nothing")) {
            if (actor.hasNews()) {
                throw new AssertionError(actor.left());
            }
        } else if (kind.equals("DIRECTORY")) {
            ((Consumer) actor).getsDirectory(words.get(3), rest);
        } else if (!rest.isEmpty() && rest.get(0).equals("as")) {
            actor.gets(kind, words.get(3), rest.get(1), rest.subList(2, rest.size()));
        } else {
            actor.gets(kind, words.get(3), words.get(3), rest);
        }
    }

    private List<Consumer> consumers() {
        var all = new ArrayList<Consumer>();
        for (Actor actor : actors.values()) {
            if (actor instanceof Consumer consumer && consumer.isLoggedIn()) {
                all.add(consumer);
            }
        }
        if (all.isEmpty() && needsWitness) {
            witness = witness == null ? new Consumer("witness", lock, site.rsslPort()) : witness;
            if (!witness.isLoggedIn()) {
                witness.logsIn(new Words(List.of("user=witness")));
            }
            all.add(witness);
        }
        return all;
    }

    /**
     * Marks go down and up on all connections, behind all that was said, twice: what the first ones overtake, or what they bring about, the second
     * ones do not.
     */
    private void settle() {
        var sources = new ArrayList<Marks.Source>(List.of(always));
        actors.values().forEach(actor -> {
            if (actor instanceof Marks.Source source) {
                sources.add(source);
            }
        });
        List<Consumer> consumers = consumers();
        for (Consumer consumer : consumers) {
            sources.forEach(consumer::awaitMarks);
        }
        for (int round = 0; round < 2; round++) {
            long number = ++marks;
            for (Consumer consumer : consumers) {
                for (Marks.Source source : sources) {
                    if (source.takesMarks()) {
                        consumer.marksUp(source, number);
                    }
                }
            }
            for (Consumer consumer : consumers) {
                sources.stream().filter(Marks.Source::takesMarks).forEach(source -> source.awaitMark(consumer.mark, number));
            }
            for (Consumer consumer : consumers) {
                sources.forEach(source -> source.marksDown(consumer.mark, consumer.markType(), number));
            }
            for (Consumer consumer : consumers) {
                if (!consumer.isPaused()) {
                    sources.forEach(source -> consumer.awaitMark(source, number));
                }
            }
        }
    }

    @Override
    public void close() {
        try {
            if (witness != null) {
                witness.goesAway();
            }
            actors.values().forEach(actor -> {
                if (!(actor instanceof Consumer consumer) || consumer.isLoggedIn()) {
                    actor.goesAway();
                }
            });
        } finally {
            site.close();
        }
    }
}
