package quoteway.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.refinitiv.ema.access.EmaFactory;
import com.refinitiv.ema.rdm.EmaRdm;
import com.refinitiv.eta.codec.NakCodes;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import quoteway.interop.peer.EmaConsumer;
import quoteway.interop.peer.Ports;
import quoteway.interop.peer.Service;
import quoteway.interop.peer.TunnelProvider;
import quoteway.interop.wire.Ema;
import quoteway.interop.wire.Message;
import quoteway.interop.wire.Message.Kind;
import quoteway.interop.wire.Quotes;

/** Posts of several clients of EMA in one tunnel stream to a provider on ETA's reactor, as contribution channels take them. */
@ExtendWith(World.Extension.class)
class TunnelPostsTest {
    @Test
    void allClientsPostInOneTunnelWithALoginOfItsOwn(World w) throws IOException {
        TunnelProvider provider = provider(w);
        Path password = Files.createTempFile("interop", ".password");
        w.with(() -> Files.deleteIfExists(password));
        Files.writeString(password, "secret\n");
        serve(w, provider, "tunnel_stream_user_name = \"site\"\ntunnel_stream_password_file = \"" + password + "\"\n");
        assertTrue(provider.inbox().next().startsWith("asked for TUNNEL of service 4 on domain " + EmaRdm.MMT_SYSTEM));
        provider.inbox().next(line -> line.equals("REQUEST on 1"), "the login in the tunnel");
        EmaConsumer.Stream a = login(w);
        EmaConsumer.Stream b = login(w);
        for (int n = 1; n <= 50; n++) {
            for (EmaConsumer.Stream login : List.of(a, b)) {
                post(login, n);
                provider.inbox().next(line -> line.equals("POST on 1"), "the post");
                Message ack = acknowledged(login);
                assertEquals(n, ack.ackId);
                assertEquals("taken in the tunnel", ack.text);
                assertNull(ack.nakCode);
            }
        }
        // Its provider ends it: it is opened again, and posts go on.
        provider.closeTunnel();
        provider.inbox().next(line -> line.startsWith("asked for TUNNEL"), "the tunnel once more");
        provider.inbox().next(line -> line.equals("REQUEST on 1"), "the login in it");
        Message ack;
        do {
            post(a, 77);
            ack = acknowledged(a);
            assertEquals(77, ack.ackId);
            assertTrue(ack.nakCode == null || ack.nakCode == NakCodes.SOURCE_DOWN, ack::toString);
        } while (ack.nakCode != null);
    }

    @Test
    void postsAreRefusedWhileThereIsNoTunnel(World w) throws IOException {
        // A provider that takes posts on its session, and no tunnel streams.
        var provider = w.emaProvider(Service.of(World.FEED, 17));
        w.serve(List.of(), "--config", file(w, provider.port(), ""));
        EmaConsumer.Stream login = login(w);
        post(login, 1);
        Message nak = acknowledged(login);
        assertEquals(1, nak.ackId);
        assertEquals(NakCodes.SOURCE_DOWN, nak.nakCode);
        assertTrue(nak.text.startsWith("The tunnel stream to the provider is not open"), nak.text);
    }

    private static void serve(World w, TunnelProvider provider, String more) throws IOException {
        w.serve(List.of(), "--config", file(w, provider.port(), more));
    }

    private static String file(World w, int port, String more) throws IOException {
        Path file = Files.createTempFile("interop", ".toml");
        w.with(() -> Files.deleteIfExists(file));
        Files.writeString(file, "[[route]]\nhost_list = [\"127.0.0.1:" + port + "\"]\nservice_list = [\"" + World.FEED
                + "\"]\nenable_tunnel_stream_aggregation = true\n" + more);
        return file.toString();
    }

    private static TunnelProvider provider(World w) {
        Service service = Service.of(World.FEED, 4).withDomains(List.of(EmaRdm.MMT_MARKET_PRICE, EmaRdm.MMT_SYSTEM)).withoutDictionaries();
        return w.with(Ports.bound(port -> new TunnelProvider(port, service)));
    }

    private static EmaConsumer.Stream login(World w) {
        EmaConsumer.Stream login = w.emaConsumer().login();
        login.next().is(Kind.REFRESH).openOk();
        return login;
    }

    private static void post(EmaConsumer.Stream login, int id) {
        login.post(EmaFactory.createPostMsg()
                .domainType(EmaRdm.MMT_MARKET_PRICE)
                .serviceName(World.FEED)
                .name("CONTRIBUTED")
                .postId(id)
                .solicitAck(true)
                .complete(true)
                .payload(Ema.fields(Quotes.update("CONTRIBUTED", id))));
    }

    private static Message acknowledged(EmaConsumer.Stream login) {
        return login.inbox().next(message -> message.kind == Kind.ACK, "the answer to the post");
    }
}
