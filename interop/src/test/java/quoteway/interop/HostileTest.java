package quoteway.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.refinitiv.eta.codec.MsgClasses;
import com.refinitiv.eta.codec.RequestMsg;
import com.refinitiv.eta.rdm.DomainTypes;
import java.io.IOException;
import java.net.InetAddress;
import java.net.Socket;
import java.net.SocketException;
import java.net.SocketTimeoutException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import quoteway.interop.peer.EtaClient;
import quoteway.interop.peer.EtaProvider;
import quoteway.interop.peer.EtaSession;
import quoteway.interop.wire.Body;
import quoteway.interop.wire.Message.Kind;
import quoteway.interop.wire.Quotes;

/** Peers that misbehave, and the others, who must not notice. */
@ExtendWith(World.Extension.class)
class HostileTest {
    private static final int MP = DomainTypes.MARKET_PRICE;

    /** Sends bytes and waits until the server closes the connection; what it answered. */
    private static byte[] sendUntilClosed(int port, byte[] bytes) throws IOException {
        try (var socket = new Socket(InetAddress.getLoopbackAddress(), port)) {
            socket.setSoTimeout(20_000);
            socket.getOutputStream().write(bytes);
            try {
                return socket.getInputStream().readAllBytes();
            } catch (SocketException reset) {
                return new byte[0];
            }
        } catch (SocketTimeoutException e) {
            throw new AssertionError("the server keeps a connection that sent garbage", e);
        }
    }

    private static void works(EtaClient client, EtaProvider.Item item, long sequence) {
        item.update(sequence);
        client.next(5).is(Kind.UPDATE).fields(Quotes.update(item.name(), sequence));
    }

    @ParameterizedTest(name = "{0}")
    @ValueSource(
            strings = {
                "474554202f20485454502f312e310d0a0d0a", // an HTTP request without upgrade
                "0003", // cut off in the middle of a frame
                "000200", // shorter than a frame can be
                "00050100000099", // an opcode and version of no one
                "ffff0100000017",
                "000701000000ff00000000000000000000000000000000",
                "0018010000001700ff0000000e01036162630461626364ffffff", // lengths that lie
            })
    void garbageInsteadOfAHandshake(String hex, World w) throws Exception {
        EtaProvider provider = w.etaProvider();
        Quoteway server = w.serve("[p2ps]\nmin_ping_timeout_s = 1\nping_timeout_s = 2\n", provider.port());
        EtaClient client = w.etaClientOf(World.FEED);
        client.request(5, client.serviceId(World.FEED), "OK");
        client.next(5).solicitedImage();
        EtaProvider.Item item = provider.awaitOpen("OK");
        if (hex.length() > 4) {
            sendUntilClosed(server.rsslPort(), HexFormat.of().parseHex(hex));
            sendUntilClosed(server.nipPort(), HexFormat.of().parseHex(hex));
        } else {
            // An unfinished handshake, left alone.
            try (var socket = new Socket(InetAddress.getLoopbackAddress(), server.rsslPort())) {
                socket.getOutputStream().write(HexFormat.of().parseHex(hex));
                works(client, item, 1);
            }
        }
        works(client, item, 2);
        assertTrue(server.alive());
    }

    @Test
    void garbageAfterALogin(World w) {
        EtaProvider provider = w.etaProvider();
        Quoteway server = w.serve(provider.port());
        EtaClient good = w.etaClientOf(World.FEED);
        int service = good.serviceId(World.FEED);
        good.request(5, service, "OK");
        good.next(5).solicitedImage();
        EtaProvider.Item item = provider.awaitOpen("OK");
        var random = new Random(3);
        for (int round = 0; round < 20; round++) {
            EtaClient bad = w.etaClientOf(World.FEED);
            bad.request(5, service, "OK");
            bad.next(5).solicitedImage();
            var bytes = new byte[1 + random.nextInt(60)];
            random.nextBytes(bytes);
            if (round % 2 == 0 && bytes.length > 4) {
                // A header that says more than there is.
                bytes[0] = (byte) 0x7f;
                bytes[1] = (byte) 0xff;
            }
            bad.send(bytes);
            // Whether it is cut off or told so, the others go on.
            works(good, item, round);
            bad.close();
        }
        assertTrue(server.alive());
        good.inbox().assertEmpty();
    }

    @Test
    void truncatedRequestsOfEveryLength(World w) {
        EtaProvider provider = w.etaProvider();
        Quoteway server = w.serve(provider.port());
        EtaClient good = w.etaClientOf(World.FEED);
        int service = good.serviceId(World.FEED);
        good.request(5, service, "OK");
        good.next(5).solicitedImage();
        EtaProvider.Item item = provider.awaitOpen("OK");
        var request = (RequestMsg) EtaSession.message(MsgClasses.REQUEST, 6, MP);
        request.applyStreaming();
        request.applyHasBatch();
        request.msgKey().applyHasServiceId();
        request.msgKey().serviceId(service);
        byte[] whole = Body.elements(Map.of(":ItemList", List.of("A", "B", "C"))).encode(request);
        for (int length = 1; length < whole.length; length++) {
            EtaClient bad = w.with(new EtaClient("truncated", server.rsslPort()));
            bad.login(Map.of());
            bad.next(EtaClient.LOGIN_STREAM).solicitedImage();
            bad.send(Arrays.copyOf(whole, length));
            bad.sendPing();
            bad.close();
        }
        works(good, item, 1);
        assertTrue(server.alive());
    }

    @Test
    void aSlowConsumerIsCutOffAndTheOthersGoOn(World w) {
        EtaProvider provider = w.etaProvider();
        Quoteway server = w.serve(
                "[p2ps]\nguaranteed_output_buffers = 20\nmax_output_buffers = 100\ntcp_send_buf_size = 65536\n", provider.port());
        var options = EtaClient.options(w.port());
        options.sysRecvBufSize(16_384);
        EtaClient slow = w.etaClient(options);
        slow.awaitService(World.FEED);
        EtaClient quick = w.etaClientOf(World.FEED);
        int service = quick.serviceId(World.FEED);
        slow.request(5, service, "FAST");
        slow.next(5).solicitedImage();
        quick.request(5, service, "FAST");
        quick.next(5).solicitedImage();
        EtaProvider.Item item = provider.awaitOpen("FAST");
        slow.reading(false);
        long sequence = 0;
        // About 10 MB, ten times what buffers and kernel hold for one client.
        for (int burst = 0; burst < 100; burst++) {
            var packed = new ArrayList<byte[]>();
            for (int n = 0; n < 1000; n++) {
                packed.add(item.encodeUpdate(++sequence));
            }
            item.session().sendPacked(packed);
            for (int n = 0; n < 1000; n++) {
                assertEquals(sequence - 999 + n, quick.next(5).is(Kind.UPDATE).sequence);
            }
        }
        slow.reading(true);
        slow.awaitEnd();
        // What it got before is in order and without a gap.
        long last = 0;
        for (var m : slow.inbox().drain()) {
            if (m.kind == Kind.UPDATE) {
                assertEquals(last + 1, m.sequence);
                last = m.sequence;
            }
        }
        assertTrue(last < sequence, "it was cut off before the end");
        assertTrue(server.log().toLowerCase().contains("slow"), "the operator is told:\n" + server.log());
        works(quick, item, sequence + 1);
    }

    @Test
    void aProviderThatSendsGarbageIsDroppedAndComesBack(World w) {
        EtaProvider provider = w.etaProvider();
        w.serve("[source_distributor]\nrecovery_interval_ms = 100\n", provider.port());
        EtaClient client = w.etaClientOf(World.FEED);
        client.request(5, client.serviceId(World.FEED), "G");
        client.next(5).solicitedImage();
        EtaProvider.Item item = provider.awaitOpen("G");
        item.session().send(HexFormat.of().parseHex("7fff04060000000a0102030405"));
        EtaProvider.Item again = provider.awaitOpen("G");
        client.inbox().next(m -> m.streamId == 5 && m.kind == Kind.REFRESH, "recovery image").unsolicitedImage().openOk();
        works(client, again, 1);
    }
}
