package quoteway.interop;

import java.io.BufferedReader;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.function.Predicate;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** {@code quoteway test-client}, as a process: a consumer that takes images as fast as they come. */
final class TestClient implements AutoCloseable {
    private static final Pattern SECONDS = Pattern.compile("\"images_s\":([0-9.]+)");

    private final Process process;
    private final BufferedReader output;

    /** Opens these items (such as {@code RDT{0..99}}), and ends so many seconds after the last image. */
    TestClient(int port, String items, double seconds) {
        var command = List.of(
                Quoteway.binary().toString(), "test-client", "-h", "127.0.0.1", "-p", Integer.toString(port), "-S", World.FEED,
                "-il", items, "-I", "0.1", "-l", "1", "--seconds", Double.toString(seconds));
        try {
            process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.DISCARD).start();
        } catch (IOException e) {
            throw new AssertionError("cannot start " + command + ": " + e.getMessage());
        }
        output = process.inputReader(StandardCharsets.UTF_8);
    }

    /** Waits until this many images are there. */
    void awaitImages(int count) {
        String wanted = Integer.toString(count);
        line(text -> {
            String[] columns = text.trim().split("\\s+");
            return columns.length > 2 && columns[columns.length - 2].equals(wanted);
        });
    }

    /** Seconds from the first request to the last image; the client has ended. */
    double imagesTook() {
        Matcher m = SECONDS.matcher(line(text -> text.contains("\"images_s\"")));
        if (!m.find()) {
            throw new AssertionError("the client has not all images");
        }
        return Double.parseDouble(m.group(1));
    }

    private String line(Predicate<String> fits) {
        try {
            for (String line; (line = output.readLine()) != null; ) {
                if (fits.test(line)) {
                    return line;
                }
            }
        } catch (IOException e) {
            throw new AssertionError("its output cannot be read: " + e.getMessage());
        }
        throw new AssertionError("the client has ended");
    }

    @Override
    public void close() {
        process.destroyForcibly();
    }
}
