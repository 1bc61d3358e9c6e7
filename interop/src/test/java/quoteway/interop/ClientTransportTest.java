package quoteway.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.refinitiv.ema.access.OmmConsumerConfig;
import com.refinitiv.eta.transport.BindOptions;
import com.refinitiv.eta.transport.ConnectOptions;
import com.refinitiv.eta.transport.ConnectionTypes;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.LongConsumer;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import quoteway.interop.peer.Certificate;
import quoteway.interop.peer.EmaConsumer;
import quoteway.interop.peer.EmaProvider;
import quoteway.interop.peer.EmaWebSocket;
import quoteway.interop.peer.EtaClient;
import quoteway.interop.peer.EtaProvider;
import quoteway.interop.peer.Ports;
import quoteway.interop.peer.Service;
import quoteway.interop.wire.Message;
import quoteway.interop.wire.Message.Kind;
import quoteway.interop.wire.Values;

/** Applications on our client library by WebSocket and TLS, with EMA and ETA at the other end and no server of ours between them. */
@ExtendWith(World.Extension.class)
class ClientTransportTest {
    private static Map<Integer, Object> bid(long tenths) {
        return Map.of(22, new Values.Real(tenths, 13));
    }

    /** Our consumer, logged in at a provider. */
    private static Console watching(World w, int port, boolean webSocket, boolean encrypted, Certificate certificate) {
        var options = new ArrayList<String>();
        if (webSocket) {
            options.add("websocket");
        }
        if (encrypted) {
            options.add("roots=" + certificate.certificate());
        }
        Console consumer = w.with(Console.watch(port, "user", options.toArray(String[]::new)));
        consumer.next("logged in", "user");
        consumer.next("service up", World.FEED);
        return consumer;
    }

    /** The image of item A, and as many updates as its provider sends. */
    private static void takesImageAndUpdates(Console consumer, LongConsumer update) {
        assertTrue(consumer.next("refresh", "A", "", "")[4].startsWith("OPEN/OK"));
        for (long n = 1; n <= 1000; n++) {
            update.accept(n);
        }
        for (long n = 1; n <= 1000; n++) {
            consumer.next("update", "A");
        }
    }

    @ParameterizedTest(name = "WebSocket: {0}, TLS: {1}")
    @CsvSource({"false, true", "true, false", "true, true"})
    void ourConsumerWatchesAnEtaProvider(boolean webSocket, boolean encrypted, World w) throws Exception {
        Certificate certificate = Certificate.make(w::with);
        EtaProvider provider = w.with(Ports.bound(port -> new EtaProvider(
                "eta-provider", port, bind -> listening(bind, webSocket, encrypted, certificate), Service.of(World.FEED, 1)).start()));
        Console consumer = watching(w, provider.port(), webSocket, encrypted, certificate);
        consumer.tell("open " + World.FEED + " A");
        EtaProvider.Item item = provider.awaitOpen("A");
        takesImageAndUpdates(consumer, item::update);
        consumer.tell("close A");
        provider.inbox().next(message -> message.message().kind == Kind.CLOSE, "a close");
        provider.kill();
        consumer.next("lost");
    }

    private static void listening(BindOptions bind, boolean webSocket, boolean encrypted, Certificate certificate) {
        bind.connectionType(encrypted ? ConnectionTypes.ENCRYPTED : webSocket ? ConnectionTypes.WEBSOCKET : ConnectionTypes.SOCKET);
        if (webSocket) {
            bind.wSocketOpts().protocols("rssl.rwf");
        }
        if (encrypted) {
            bind.encryptionOptions().keystoreType("PKCS12");
            bind.encryptionOptions().keystoreFile(certificate.store().toString());
            bind.encryptionOptions().keystorePasswd(Certificate.PASSWORD);
        }
    }

    @ParameterizedTest(name = "WebSocket: {0}, TLS: {1}")
    @CsvSource({"false, true", "true, false", "true, true"})
    void ourConsumerWatchesAnEmaProvider(boolean webSocket, boolean encrypted, World w) throws Exception {
        // The provider's folder has the configuration, too.
        Certificate certificate = Certificate.make(w::with);
        EmaProvider provider = w.with(Ports.bound(port -> listening(port, webSocket, encrypted, certificate).start()));
        Console consumer = watching(w, provider.port(), webSocket, encrypted, certificate);
        // Its parts are long: fragments of RSSL, and frames of WebSocket.
        assertTrue(Integer.parseInt(consumer.next("dictionary")[1]) > 10_000);
        consumer.tell("open " + World.FEED + " A");
        EmaProvider.Item item = provider.awaitOpen("A");
        takesImageAndUpdates(consumer, item::update);
        consumer.tell("close A");
        provider.awaitClose("A");
        assertEquals(0, consumer.left().stream().filter(line -> !line.startsWith("connected")).count());
    }

    private static EmaProvider listening(int port, boolean webSocket, boolean encrypted, Certificate certificate) {
        try {
            Path file = EmaWebSocket.listening(certificate.folder(), port, webSocket, encrypted);
            return new EmaProvider("ema-provider", port, Service.of(World.FEED, 1)).configuredBy(file).configure(config -> {
                if (encrypted) {
                    config.keystoreFile(certificate.store().toString()).keystorePasswd(Certificate.PASSWORD).keystoreType("PKCS12");
                }
            });
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** A provider with an item, and the certificate of its port. */
    private static Console provider(World w, Certificate certificate) {
        Console provider = w.with(certificate == null
                ? Console.listen(0, World.FEED)
                : Console.listen(0, World.FEED, "certificate=" + certificate.certificate(), "key=" + certificate.key()));
        provider.tell("publish A BID=1.5");
        return provider;
    }

    @ParameterizedTest(name = "WebSocket: {0}, TLS: {1}")
    @CsvSource({"false, true", "true, false", "true, true"})
    void anEmaConsumerWatchesOurProvider(boolean webSocket, boolean encrypted, World w) throws Exception {
        Certificate certificate = encrypted ? Certificate.make(w::with) : null;
        Console provider = provider(w, certificate);
        OmmConsumerConfig config = !encrypted
                ? EmaWebSocket.consumer(provider.port(), "rssl.rwf")
                : webSocket
                        ? EmaWebSocket.encrypted(provider.port(), "rssl.rwf", 0, certificate.store().toString(), Certificate.PASSWORD)
                        : EmaWebSocket.encryptedSocket(provider.port(), certificate);
        // The constructor has logged in, and has directory and dictionary.
        EmaConsumer.Stream stream = w.emaConsumer(config).open(World.FEED, "A");
        Message image = stream.next().solicitedImage().openOk();
        assertEquals(bid(15), image.fields());
        for (int n = 1; n <= 1000; n++) {
            provider.tell("publish A BID=" + n + ".5");
        }
        for (int n = 1; n <= 1000; n++) {
            stream.next().is(Kind.UPDATE).fields(bid(n * 10L + 5));
        }
        provider.kill();
        stream.next().is(Kind.STATUS).openSuspect();
    }

    @ParameterizedTest(name = "WebSocket: {0}, TLS: {1}")
    @CsvSource({"false, true", "true, false", "true, true"})
    void anEtaConsumerWatchesOurProvider(boolean webSocket, boolean encrypted, World w) throws Exception {
        Certificate certificate = encrypted ? Certificate.make(w::with) : null;
        Console provider = provider(w, certificate);
        int protocol = webSocket ? ConnectionTypes.WEBSOCKET : ConnectionTypes.SOCKET;
        ConnectOptions options = encrypted ? EtaClient.encrypted(provider.port(), protocol, certificate) : EtaClient.options(provider.port());
        if (webSocket) {
            options.wSocketOpts().protocols("rssl.rwf");
            if (!encrypted) {
                options.connectionType(protocol);
            }
        }
        EtaClient client = w.etaClient(options);
        client.request(10, client.awaitService(World.FEED), "A");
        client.next(10).solicitedImage().openOk().fields(bid(15));
        provider.tell("publish A BID=3.5");
        client.next(10).is(Kind.UPDATE).fields(bid(35));
    }
}
