package quoteway.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.refinitiv.ema.access.OmmConsumerConfig;
import com.refinitiv.eta.transport.ConnectOptions;
import com.refinitiv.eta.transport.ConnectionTypes;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.parallel.ResourceAccessMode;
import org.junit.jupiter.api.parallel.ResourceLock;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import quoteway.interop.peer.Certificate;
import quoteway.interop.peer.EmaProvider;
import quoteway.interop.peer.EmaWebSocket;
import quoteway.interop.peer.EtaClient;
import quoteway.interop.peer.EtaProvider;
import quoteway.interop.peer.ForwardProxy;
import quoteway.interop.peer.Ports;

/**
 * The SDK's ways through firewalls: RSSL and WebSocket, plain or in TLS, straight or by a forward proxy; and ETA's HTTP tunnelling.
 */
@ExtendWith(World.Extension.class)
class TunnelTest {
    /** Starts a server with an encrypted port. */
    private static Quoteway serve(World w, Certificate certificate, int encryptedPort, int provider) {
        String config = "[p2ps]\nencrypted_port = " + encryptedPort + "\nserver_cert_file = \"" + certificate.certificate()
                + "\"\nserver_key_file = \"" + certificate.key() + "\"\n";
        return w.serve(config, provider);
    }

    private static ConnectOptions by(ForwardProxy proxy, ConnectOptions options) {
        options.tunnelingInfo().HTTPproxy(true);
        options.tunnelingInfo().HTTPproxyHostName("127.0.0.1");
        options.tunnelingInfo().HTTPproxyPort(proxy.port());
        return options;
    }

    @ParameterizedTest(name = "by proxy: {0}")
    @ValueSource(booleans = {false, true})
    void rsslInTlsWorks(boolean byProxy, World w) throws Exception {
        Certificate certificate = Certificate.make(w::with);
        EtaProvider provider = w.etaProvider();
        int port = Ports.free();
        serve(w, certificate, port, provider.port());
        ForwardProxy proxy = w.with(new ForwardProxy());
        ConnectOptions options = EtaClient.encrypted(port, ConnectionTypes.SOCKET, certificate);
        EtaClient client = w.etaClient(byProxy ? by(proxy, options) : options);
        TransportTest.exercise(client, provider);
        assertEquals(byProxy ? 1 : 0, proxy.tunnels());
    }

    /** EMA downloads the dictionary, too, which as JSON is one message of many frames. */
    @ResourceLock(value = EmaWebSocket.CONVERTER, mode = ResourceAccessMode.READ)
    @ParameterizedTest(name = "{0}, encrypted: {1}, by proxy: {2}")
    @CsvSource({
        "tr_json2, false, true", "tr_json2, true, false", "tr_json2, true, true",
        "rssl.rwf, false, true", "rssl.rwf, true, false", "rssl.rwf, true, true",
    })
    void webSocketWorks(String protocol, boolean encrypted, boolean byProxy, World w) throws Exception {
        EmaProvider provider = w.emaProvider();
        ForwardProxy proxy = w.with(new ForwardProxy());
        OmmConsumerConfig config;
        if (encrypted) {
            Certificate certificate = Certificate.make(w::with);
            int port = Ports.free();
            serve(w, certificate, port, provider.port());
            config = EmaWebSocket.encrypted(port, protocol, byProxy ? proxy.port() : 0, certificate.store().toString(), Certificate.PASSWORD);
        } else {
            w.serve(provider.port());
            config = EmaWebSocket.byProxy(w.port(), protocol, proxy.port());
        }
        WebSocketTest.everyValueArrives(provider, w.emaConsumer(config));
        assertEquals(byProxy ? 1 : 0, proxy.tunnels());
    }

    /** Large, fragmented and packed messages both ways, within an HTTP request. */
    @ParameterizedTest(name = "encrypted: {0}, by proxy: {1}")
    @CsvSource({"false, false", "false, true", "true, false", "true, true"})
    void rsslInHttpWorks(boolean encrypted, boolean byProxy, World w) throws Exception {
        Certificate certificate = Certificate.make(w::with);
        EtaProvider provider = w.etaProvider();
        int port = Ports.free();
        Quoteway server = serve(w, certificate, port, provider.port());
        ForwardProxy proxy = w.with(new ForwardProxy());
        ConnectOptions options;
        if (encrypted) {
            options = EtaClient.encrypted(port, ConnectionTypes.HTTP, certificate);
            options.tunnelingInfo().tunnelingType("encrypted");
            options.tunnelingInfo().KeystoreType("PKCS12");
            options.tunnelingInfo().KeystoreFile(certificate.store().toString());
            options.tunnelingInfo().KeystorePasswd(Certificate.PASSWORD);
        } else {
            options = EtaClient.options(w.port());
            options.connectionType(ConnectionTypes.HTTP);
            options.tunnelingInfo().tunnelingType("http");
        }
        EtaClient client = w.etaClient(byProxy ? by(proxy, options) : options);
        TransportTest.exercise(client, provider);
        assertEquals(byProxy ? 1 : 0, proxy.tunnels());
        assertTrue(server.log().contains("RSSL in HTTP"), "the log says how it came");
    }
}
