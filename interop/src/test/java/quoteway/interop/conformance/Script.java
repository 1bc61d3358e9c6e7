package quoteway.interop.conformance;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** The scenarios of {@code crates/sim/conformance}, read as {@code crates/sim/src/conformance/script.rs} reads them. */
final class Script {
    private Script() {}

    /** What is set up, and the steps. {@code only}: the variants that it is for, all if there are none. */
    record Scenario(String file, String title, List<String> only, List<Setting> settings, List<Step> steps) {}

    record Setting(String key, String value) {}

    /** A line that does or expects something; text in quotation marks is one word, with them. */
    record Step(int line, String text, List<String> only, List<String> words) {}

    /** All scenarios, file by file. */
    static List<Scenario> all() {
        Path folder = Path.of(System.getProperty("interop.basedir", ".")).resolve("../crates/sim/conformance");
        try (var entries = Files.list(folder)) {
            var all = new ArrayList<Scenario>();
            for (Path file : entries.filter(path -> path.toString().endsWith(".txt")).sorted().toList()) {
                all.addAll(read(file.getFileName().toString(), Files.readString(file)));
            }
            return all;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    static List<Scenario> read(String file, String text) {
        var all = new ArrayList<Scenario>();
        int number = 0;
        for (String whole : text.split("\n")) {
            number++;
            String line = whole.strip();
            if (line.isEmpty() || line.startsWith("#")) {
                continue;
            }
            if (line.startsWith("scenario:")) {
                String title = line.substring("scenario:".length()).strip();
                all.add(new Scenario(file, title, new ArrayList<>(), new ArrayList<>(), new ArrayList<>()));
                continue;
            }
            if (all.isEmpty()) {
                throw new AssertionError(file + ", line " + number + ": a file begins with a line scenario: TITLE");
            }
            Scenario scenario = all.get(all.size() - 1);
            if (line.startsWith("only:")) {
                scenario.only.addAll(split(line.substring("only:".length())));
            } else if (line.startsWith("set:")) {
                for (String setting : split(line.substring("set:".length()))) {
                    int at = setting.indexOf('=');
                    scenario.settings.add(new Setting(setting.substring(0, at), setting.substring(at + 1)));
                }
            } else {
                scenario.steps.add(step(number, line));
            }
        }
        return all;
    }

    static Step step(int number, String line) {
        int end = line.startsWith("[") ? line.indexOf(']') : -1;
        List<String> only = end < 0 ? List.of() : split(line.substring(1, end));
        return new Step(number, line, only, split(line.substring(end + 1)));
    }

    private static List<String> split(String line) {
        var words = new ArrayList<String>();
        String rest = line.strip();
        while (!rest.isEmpty() && !rest.startsWith("#")) {
            int end = rest.startsWith("\"") ? rest.indexOf('"', 1) + 1 : rest.indexOf(' ');
            end = end < 0 ? rest.length() : end;
            words.add(rest.substring(0, end));
            rest = rest.substring(end).strip();
        }
        return words;
    }
}
