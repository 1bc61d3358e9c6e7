package quoteway.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;
import org.junit.jupiter.api.parallel.Isolated;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import quoteway.interop.peer.EtaClient;
import quoteway.interop.peer.EtaProvider;
import quoteway.interop.peer.Relay;

/**
 * Connection versions 11 to 14 on both sides of the server. ETA Java keeps the length of fragment headers, which depends on the version, in
 * static variables: sessions of different versions in one JVM spoil each other's fragments. So nothing else runs beside these tests, and within
 * one only one side sends at a time.
 */
@Isolated
@Execution(ExecutionMode.SAME_THREAD)
@ExtendWith(World.Extension.class)
class VersionTest {
    @ParameterizedTest(name = "connection version {0}")
    @ValueSource(ints = {11, 12, 13, 14})
    void aClientOfEveryVersion(int version, World w) {
        EtaProvider provider = w.etaProvider();
        w.serve(provider.port());
        Relay relay = w.with(new Relay(w.port(), version));
        EtaClient client = TransportTest.connect(w, EtaClient.options(relay.port()));
        assertEquals(version, relay.versionsSeen().get(relay.versionsSeen().size() - 1));
        TransportTest.exercise(client, provider, true);
    }

    @ParameterizedTest(name = "connection version {0}")
    @ValueSource(ints = {11, 12, 13, 14})
    void aProviderOfEveryVersion(int version, World w) {
        EtaProvider provider = w.etaProvider();
        Relay relay = w.with(new Relay(provider.port(), version));
        w.serve("[source_distributor]\nrecovery_interval_ms = 50\n", relay.port());
        TransportTest.exercise(w.etaClientOf(World.FEED), provider, true);
        assertEquals(version, relay.versionsSeen().get(relay.versionsSeen().size() - 1));
        assertEquals(14, relay.versionsSeen().get(0), "the newest version is tried first");
    }
}
