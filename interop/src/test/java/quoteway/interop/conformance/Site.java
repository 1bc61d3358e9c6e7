package quoteway.interop.conformance;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.junit.jupiter.api.Assumptions;
import quoteway.interop.Quoteway;
import quoteway.interop.conformance.Script.Scenario;
import quoteway.interop.conformance.Script.Setting;
import quoteway.interop.peer.Ports;

/** The server of a scenario, with what that sets, and where its providers are dialled. */
final class Site implements AutoCloseable {
    private static final HttpClient HTTP = HttpClient.newHttpClient();

    private final Map<String, List<String>> sections = new TreeMap<>();
    /** Of each route to a provider of the scenario. */
    private final List<String> ofRoutes = new ArrayList<>();
    private final List<Path> files = new ArrayList<>();
    private final List<Path> folders = new ArrayList<>();
    /** Where the providers are dialled, by the numbers in their names. */
    private final Map<Integer, Integer> routes = new TreeMap<>();
    /** Items that each consumer has on which marks go. */
    private final int marks;
    private final int consumers;
    private final Quoteway server;

    /** {@code always}: the port of a provider that is there from the beginning. */
    Site(Scenario scenario, int always, List<String> consumers, List<String> providers) {
        marks = providers.size() + 1;
        this.consumers = consumers.size();
        add("source_distributor", "recovery_interval_ms = 20");
        scenario.settings().forEach(this::set);
        for (String provider : providers) {
            if (Run.isInteractive(provider)) {
                routes.put(Run.route(provider), Ports.free());
            }
        }
        var text = new StringBuilder();
        sections.forEach((name, lines) -> text.append("[" + name + "]\n" + String.join("\n", lines) + "\n"));
        for (var route : routes.entrySet()) {
            text.append("[[route]]\nhost_list = [\"127.0.0.1:" + route.getValue() + "\"]\nserver_id = \"" + route.getKey() + "\"\n");
            text.append(String.join("\n", ofRoutes) + "\n");
        }
        text.append("[[route]]\nhost_list = [\"127.0.0.1:" + always + "\"]\n");
        String config = file(text.toString()).toString();
        server = Quoteway.start(List.of(), "--config", config, "--interface", "127.0.0.1", "--http-port", "0");
    }

    private Path file(String text) {
        try {
            Path file = Files.createTempFile("conformance", ".toml");
            files.add(file);
            return Files.writeString(file, text);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private Path folder() {
        try {
            Path folder = Files.createTempDirectory("conformance");
            folders.add(folder);
            return folder;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private void add(String section, String line) {
        sections.computeIfAbsent(section, s -> new ArrayList<>()).add(line);
    }

    /** As {@code crates/quoteway/tests/all/hub/scenarios/setup.rs} does; limits leave room for the items of marks. */
    private void set(Setting setting) {
        String value = setting.value();
        String listed = "[\"" + value.replace("/", ":") + "\"]";
        switch (setting.key()) {
            case "provider-choice" -> add("source_distributor", "provider_choice = \"" + value + "\"");
            case "sequence-numbers" -> add("source_distributor", "provides_sequence_numbers = " + !value.equals("0"));
            case "service-group" -> add("source_distributor", "service_group_list = [\"" + value.replace("/", "=") + "\"]");
            case "max-cache" -> ofRoutes.add("max_cache = " + value);
            case "named-there" -> ofRoutes.add("app_service_name = [\"" + value.replace("/", "=") + "\"]");
            case "locked" -> add("source_distributor", "locked_item_list = [\"" + value.substring(value.indexOf('/') + 1) + "\"]");
            case "standby-pair" -> add("source_distributor", "active_standby_pairs = [\"" + value + "\"]");
            case "pause-resume" -> add("p2ps", "support_pause_resume = " + !value.equals("0"));
            case "preemption" -> add("source_distributor", "preemption = " + !value.equals("0"));
            case "takeover-on-suspect" -> add("source_distributor", "takeover_on_suspect = " + !value.equals("0"));
            case "max-mounts-per-user" -> add("p2ps", "max_mounts_per_user = " + value);
            case "item-limit" -> add("p2ps", "item_limit = " + (Integer.parseInt(value) + marks));
            case "items-per-user" -> add("p2ps", "aggregate_item_limit = " + (Integer.parseInt(value) + 2 * marks));
            case "total-items" -> add("p2ps", "total_item_limit = " + (Integer.parseInt(value) + consumers * marks));
            case "of-service" -> {
                String[] parts = value.split("[/:]");
                boolean on = !parts[2].equals("0");
                String line = switch (parts[1]) {
                    case "recover-on-close" -> "recover_items_on_close = " + on;
                    case "retry-limit" -> "retry_limit = " + parts[2];
                    case "stale-retry-s" -> "stale_recovery_retry_time_s = " + parts[2];
                    case "include-unwatched" -> "include_unwatched_items_in_load = " + on;
                    case "restart-s" -> "service_restart_time_s = " + parts[2];
                    case "failback-s" -> "failback_s = " + parts[2];
                    case "age-unwatched-s" -> "age_unwatched_item_time_s = " + parts[2];
                    case "request-timeout-s" -> "request_timeout_s = " + parts[2];
                    case "post-flush-ms" -> "insert_flush_interval_ms = " + parts[2];
                    case "max-pending-posts" -> "max_pending_out_insert = " + parts[2];
                    case "forward-priority" -> "forward_item_priority_to_src_app = " + on;
                    case "point-to-point" -> "use_point_to_point_data = " + on;
                    case "post-timeout-s" -> "post_timeout_s = " + parts[2];
                    case "discourage-on-outage" -> "discourage_requests_on_outage = " + on;
                    default -> throw new AssertionError("nothing of a service is called " + parts[1]);
                };
                add("service." + parts[0], line);
            }
            case "recover-on-close" -> add("source_distributor", "recover_items_on_close = " + !value.equals("0"));
            case "retry-limit" -> add("source_distributor", "retry_limit = " + value);
            case "stale-retry-s" -> add("source_distributor", "stale_recovery_retry_time_s = " + value);
            case "supports-snapshots" -> add("source_distributor", "supports_snapshots = " + listed);
            case "contrib-fields" -> add("source_distributor", "contrib_field_list = " + listed);
            case "contrib-exchange-fields" -> add("source_distributor", "contrib_exchange_field_list = " + listed);
            case "contrib-rtl" -> add("source_distributor", "contrib_insert_rtl = " + listed);
            case "contrib-services" -> add("source_distributor", "contrib_service_list = [\"" + value + "\"]");
            case "max-posts-per-client" -> add("p2ps", "max_posts_per_client = " + value);
            case "max-views-per-item" -> add("p2ps", "max_views_per_item = " + value);
            case "warm-standby" -> add("p2ps", "support_warm_standby = " + !value.equals("0"));
            case "rtds-status-texts" -> add("hub", "rtds_status_texts = " + !value.equals("0"));
            case "service-id" -> add("p2ps", "service_ids = [\"" + value.replace("/", "=") + "\"]");
            case "distributor-without" -> add("filters", "remove_fields = " + listed);
            case "p2ps-without" -> add("filters", "p2ps_remove_fields = " + listed);
            case "p2ps-only" -> add("filters", "p2ps_pass_fields = " + listed);
            case "p2ps-headlines" -> {
                String[] parts = value.split("[/:]");
                add("p2ps", "news_service_item_pair_list = [\"" + parts[0] + ":N2_*\"]");
                add("p2ps", "headline_permission_field = [\"" + parts[0] + ":" + parts[1] + "=" + parts[2] + "\"]");
            }
            case "distributor-where" -> {
                String[] parts = value.split("[/:]");
                add("filters", "filter_field = [\"" + parts[0] + ":" + parts[1] + "\"]");
                add("filters", "filter_field_values = [\"" + parts[0] + ":" + parts[2] + "\"]");
            }
            case "distributor-withholds" -> add("filters", "withhold_updates = " + listed.replace("Quote", "quote"));
            case "interruption-s" -> ofRoutes.add("interruption_detection = true\ninterruption_duration_ms = " + value + "000");
            case "traffic-window-s" -> ofRoutes.add("traffic_window_s = " + value);
            case "conflate-ms" -> {
                // Marks come at once.
                add("conflation", "update_aggregation = [\"FEED\"]");
                add("conflation", "aggregation_interval_ms = [\"FEED:" + value + "\"]");
            }
            case "distributor-conflate-ms" -> {
                add("source_conflation", "update_aggregation = [\"FEED\"]");
                add("source_conflation", "aggregation_interval_ms = [\"FEED:" + value + "\"]");
            }
            case "delay" -> {
                // NAME/SERVICE:SECONDS:FIELD
                String[] parts = value.split("[/:]");
                String section = "delay." + parts[0];
                add(section, "delayed_service = \"" + parts[1] + "\"");
                add(section, "delay_s = " + parts[2]);
                add(section, "fee_fields = [\"" + parts[3] + "\"]");
                add(section, "delay_journal = \"" + folder() + "\"");
            }
            case "conflation-offered-ms" -> add("conflation", "offered_interval_ms = [\"FEED:" + value + "\"]");
            case "blocked" -> {
                Path names = file(value.substring(value.indexOf('/') + 1) + "\n");
                add("p2ps", "blocked_items_file = [\"" + value.substring(0, value.indexOf('/')) + ":" + names + "\"]");
            }
            default -> throw new AssertionError("the setting " + setting.key() + " is for the simulated world alone");
        }
    }

    /** Where consumers connect. */
    int rsslPort() {
        return server.rsslPort();
    }

    /** Where non-interactive providers connect. */
    int nipPort() {
        return server.nipPort();
    }

    /** Where it dials the provider of this number. */
    int route(int number) {
        return routes.get(number);
    }

    String log() {
        return server.log();
    }

    /** An operator blocks or unblocks {@code SERVICE/ITEM}. */
    void operate(String action, String what) {
        int at = what.indexOf('/');
        ask(action, "{\"service\":\"" + what.substring(0, at) + "\",\"name\":\"" + what.substring(at + 1) + "\",\"why\":\"blocked by the script\"}");
    }

    /** An operator has a service served by the provider of this number. */
    void switchTo(String service, int number) {
        ask("switch", "{\"service\":\"" + service + "\",\"provider\":\"127.0.0.1:" + route(number) + "\",\"why\":\"the script\"}");
    }

    private void ask(String action, String body) {
        // scripts/split-serve.sh has two processes, which operators ask for different things.
        Assumptions.assumeTrue(server.httpPort().isPresent(), "operators cannot ask this server");
        int port = server.httpPort().getAsInt();
        var request = HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + port + "/api/v1/" + action))
                .POST(HttpRequest.BodyPublishers.ofString(body))
                .build();
        try {
            HttpResponse<String> answer = HTTP.send(request, HttpResponse.BodyHandlers.ofString());
            if (answer.statusCode() != 200) {
                throw new AssertionError(action + ": " + answer.statusCode() + " " + answer.body());
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new AssertionError("interrupted");
        }
    }

    @Override
    public void close() {
        server.close();
        files.forEach(file -> file.toFile().delete());
        folders.forEach(Site::remove);
    }

    private static void remove(Path folder) {
        try (var all = Files.walk(folder)) {
            all.sorted(Comparator.reverseOrder()).forEach(path -> path.toFile().delete());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
