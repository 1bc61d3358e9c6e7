package quoteway.interop;

import com.refinitiv.ema.access.EmaFactory;
import com.refinitiv.ema.access.OmmConsumerConfig;
import com.refinitiv.eta.transport.ConnectOptions;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;
import org.junit.jupiter.api.extension.TestExecutionExceptionHandler;
import quoteway.interop.peer.EmaConsumer;
import quoteway.interop.peer.EmaNip;
import quoteway.interop.peer.EmaProvider;
import quoteway.interop.peer.EtaClient;
import quoteway.interop.peer.EtaProvider;
import quoteway.interop.peer.Ports;
import quoteway.interop.peer.Service;
import quoteway.interop.wire.Message.Kind;

/**
 * The programs of one test: it starts them, ends them in reverse order whatever happens, and adds the server's output to a failure.
 *
 * <p>With {@code -Dinterop.direct=true} there is no server: clients connect to the first provider. That proves what a test expects of the SDK
 * itself, for the tests whose behaviour exists there.
 */
public final class World implements AutoCloseable {
    public static final String FEED = "DIRECT_FEED";
    static final boolean DIRECT = Boolean.getBoolean("interop.direct");

    private final Deque<AutoCloseable> open = new ArrayDeque<>();
    private final List<Quoteway> servers = new ArrayList<>();
    private int rsslPort;
    private int nipPort;

    /** Closes this, too, when the test ends. */
    public <T extends AutoCloseable> T with(T program) {
        synchronized (open) {
            open.push(program);
        }
        return program;
    }

    public EmaProvider emaProvider(Service... services) {
        return with(Ports.bound(port -> new EmaProvider("ema-provider", port, services).start()));
    }

    public EmaProvider emaProvider() {
        return emaProvider(Service.of(FEED, 1));
    }

    public EtaProvider etaProvider(Service... services) {
        return with(Ports.bound(port -> new EtaProvider("eta-provider", port, services).start()));
    }

    public EtaProvider etaProvider() {
        return etaProvider(Service.of(FEED, 1));
    }

    /** Starts the server under test, dialling these provider ports. */
    public Quoteway serve(Integer... routes) {
        return serve(List.of(routes));
    }

    /** Starts the server with a configuration file of this text and these providers. */
    public Quoteway serve(String config, Integer... routes) {
        try {
            Path file = Files.createTempFile("interop", ".toml");
            with(() -> Files.deleteIfExists(file));
            Files.writeString(file, config);
            return serve(List.of(routes), "--config", file.toString());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    public Quoteway serve(List<Integer> routes, String... more) {
        if (DIRECT) {
            rsslPort = routes.get(0);
            return null;
        }
        return started(Quoteway.start(routes, more));
    }

    /** Starts a Source Distributor that dials these provider ports, as a process of its own. */
    public Quoteway sourceDistributor(int... routes) {
        Quoteway server = Quoteway.sourceDistributor(java.util.Arrays.stream(routes).boxed().toList());
        with(server);
        servers.add(server);
        return server;
    }

    /** Starts a P2PS of it, as a process of its own, which {@link #port} then names. */
    public Quoteway p2ps(Quoteway sourceDistributor, String... more) {
        return started(Quoteway.p2ps(sourceDistributor.rsslPort(), more));
    }

    /** Starts the demo. */
    public Quoteway demo(String... arguments) {
        return started(Quoteway.demo(arguments));
    }

    private Quoteway started(Quoteway server) {
        with(server);
        servers.add(server);
        rsslPort = server.rsslPort();
        nipPort = server.nipPort();
        return server;
    }

    /** Where consumers of the last server connect. */
    public int port() {
        return rsslPort;
    }

    public int nipPort() {
        return nipPort;
    }

    public EmaConsumer emaConsumer() {
        return with(new EmaConsumer("ema-consumer", rsslPort));
    }

    public EmaConsumer emaConsumer(OmmConsumerConfig config) {
        return with(new EmaConsumer("ema-consumer", config));
    }

    public OmmConsumerConfig emaConfig() {
        return EmaFactory.createOmmConsumerConfig().host("localhost:" + rsslPort).username("user");
    }

    public EmaNip emaNip() {
        return with(new EmaNip(nipPort));
    }

    /**
     * Waits until the server has these items of a non-interactive provider: that they were sent says nothing about it, and an item that is not
     * published yet is refused.
     */
    public void awaitPublished(String service, String... items) {
        try (EtaClient client = EtaClient.loggedIn("await-published", rsslPort)) {
            int id = client.awaitService(service);
            for (String item : items) {
                do {
                    client.request(5, id, item, EtaClient::snapshot);
                } while (client.next(5).kind != Kind.REFRESH);
            }
        }
    }

    /** Waits until the last server has this service. */
    public void awaitService(String service) {
        try (EtaClient client = EtaClient.loggedIn("await-service", rsslPort)) {
            client.awaitService(service);
        }
    }

    /** A raw client that knows {@code service} to be up; {@link EtaClient#serviceId} has its id. */
    public EtaClient etaClientOf(String service) {
        EtaClient client = etaClient();
        client.awaitService(service);
        return client;
    }

    /** A raw client, logged in and with an open directory. */
    public EtaClient etaClient() {
        return etaClient(Map.of());
    }

    public EtaClient etaClient(Map<String, ?> loginAttributes) {
        return with(EtaClient.loggedIn("eta-client", EtaClient.options(rsslPort), loginAttributes));
    }

    public EtaClient etaClient(ConnectOptions options) {
        return with(EtaClient.loggedIn("eta-client", options, Map.of()));
    }

    @Override
    public void close() throws Exception {
        Throwable first = null;
        while (!open.isEmpty()) {
            try {
                open.pop().close();
            } catch (Exception | AssertionError e) {
                if (first == null) {
                    first = e;
                } else {
                    first.addSuppressed(e);
                }
            }
        }
        if (first instanceof Exception e) {
            throw e;
        } else if (first instanceof Error e) {
            throw e;
        }
    }

    private String logs() {
        var s = new StringBuilder();
        for (Quoteway server : servers) {
            s.append("\n--- server").append(server.alive() ? "" : " (it has ended)").append('\n').append(server.log());
        }
        return s.toString();
    }

    /** Gives each test its world. */
    public static final class Extension implements ParameterResolver, TestExecutionExceptionHandler, AfterEachCallback {
        private static final ExtensionContext.Namespace SPACE = ExtensionContext.Namespace.create(World.class);

        @Override
        public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
            return parameter.getParameter().getType() == World.class;
        }

        @Override
        public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
            return context.getStore(SPACE).getOrComputeIfAbsent("world", k -> new World());
        }

        @Override
        public void handleTestExecutionException(ExtensionContext context, Throwable failure) throws Throwable {
            World world = context.getStore(SPACE).get("world", World.class);
            if (world != null && !world.servers.isEmpty()) {
                var log = new AssertionError(world.logs());
                log.setStackTrace(new StackTraceElement[0]);
                failure.addSuppressed(log);
            }
            throw failure;
        }

        @Override
        public void afterEach(ExtensionContext context) throws Exception {
            World world = context.getStore(SPACE).remove("world", World.class);
            if (world != null) {
                world.close();
            }
        }
    }
}
