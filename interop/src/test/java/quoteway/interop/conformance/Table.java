package quoteway.interop.conformance;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import quoteway.interop.conformance.Script.Scenario;
import quoteway.interop.conformance.Script.Step;

/**
 * {@code conformance-ema.txt}: what of the scenarios is not to be had with EMA, each with its reason: scenarios that do not run, by title, and steps
 * that others stand for, in the order of the scenario.
 */
record Table(Map<String, String> leftOut, Map<String, List<Change>> changes) {
    /** A step as the scenario has it, and the steps instead of it: none, if EMA hides it. */
    record Change(String step, List<String> instead) {}

    static Table read() {
        try (InputStream file = Table.class.getResourceAsStream("/conformance-ema.txt")) {
            return read(new String(file.readAllBytes(), StandardCharsets.UTF_8));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static Table read(String text) {
        var table = new Table(new LinkedHashMap<>(), new LinkedHashMap<>());
        String reason = null;
        String title = null;
        for (String line : text.split("\n")) {
            if (line.isBlank() || line.startsWith("#")) {
                continue;
            }
            if (line.startsWith("because ")) {
                reason = line;
            } else if (reason == null) {
                throw new AssertionError("no reason is given: " + line);
            } else if (line.startsWith("    ")) {
                table.leftOut.remove(title);
                String[] parts = line.split("=>", 2);
                List<String> instead = parts.length == 1 ? List.of() : Arrays.stream(parts[1].split(";")).map(String::strip).toList();
                table.changes.computeIfAbsent(title, t -> new ArrayList<>()).add(new Change(parts[0].strip(), instead));
            } else {
                title = line.strip();
                String before = table.changes.containsKey(title) ? null : table.leftOut.put(title, reason);
                if (before != null) {
                    throw new AssertionError("twice: " + title);
                }
            }
        }
        return table;
    }

    /** The steps of a scenario as they are played with EMA; fails if a step that is to be changed is not there. */
    List<Step> steps(Scenario scenario) {
        var left = new ArrayDeque<>(changes.getOrDefault(scenario.title(), List.of()));
        var steps = new ArrayList<Step>();
        for (Step step : scenario.steps()) {
            if (left.isEmpty() || !left.peek().step().equals(step.text())) {
                steps.add(step);
            } else {
                left.remove().instead().forEach(line -> steps.add(Script.step(step.line(), line)));
            }
        }
        if (!left.isEmpty()) {
            throw new AssertionError(scenario.title() + " has no step: " + left.peek().step());
        }
        return steps;
    }
}
