package quoteway.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.refinitiv.ema.access.EmaFactory;
import com.refinitiv.ema.rdm.EmaRdm;
import com.refinitiv.eta.codec.DataStates;
import com.refinitiv.eta.codec.StateCodes;
import com.refinitiv.eta.codec.StreamStates;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import quoteway.interop.peer.EmaConsumer;
import quoteway.interop.peer.EmaProvider;
import quoteway.interop.peer.ForwardProxy;
import quoteway.interop.peer.Ports;
import quoteway.interop.peer.SlowLink;
import quoteway.interop.wire.Ema;
import quoteway.interop.wire.Message;
import quoteway.interop.wire.Message.Kind;
import quoteway.interop.wire.Quotes;

/** EMA at both ends of three sites of which each is the next one's provider. */
@ExtendWith(World.Extension.class)
class CascadeTest {
    @Test
    void allPassesThroughThreeSitesAndComesBackWhenOneWasAway(World w) {
        EmaProvider provider = w.emaProvider();
        w.serve(provider.port());
        int first = w.port();
        int middlePort = Ports.free();
        Quoteway middle = w.serve(List.of(first), "--rssl-port", String.valueOf(middlePort));
        w.serve(middlePort);
        EmaConsumer consumer = w.emaConsumer();
        var stream = consumer.open(World.FEED, "A");
        var item = provider.awaitOpen("A");
        stream.next().solicitedImage().openOk();
        for (int n = 1; n <= 100; n++) {
            item.update(n);
        }
        for (int n = 1; n <= 100; n++) {
            stream.next().is(Kind.UPDATE).fields(Quotes.update("A", n));
        }
        stream.post(EmaFactory.createPostMsg()
                .domainType(EmaRdm.MMT_MARKET_PRICE)
                .postId(7)
                .solicitAck(true)
                .complete(true)
                .payload(Ema.fields(Quotes.update("A", 1))));
        EmaProvider.Incoming post = provider.inbox().next();
        assertEquals(Kind.POST, post.message().kind);
        provider.acknowledge(post, 0, "");
        stream.next().is(Kind.ACK);

        // One item of many watchers is one item on each link.
        EmaConsumer other = w.emaConsumer();
        other.open(World.FEED, "A").next().solicitedImage().openOk();

        middle.kill();
        Message lost = stream.next().is(Kind.STATUS);
        assertTrue(lost.toString().toLowerCase().contains("suspect"), lost::toString);
        w.serve(List.of(first), "--rssl-port", String.valueOf(middlePort));
        Message next = stream.next();
        while (next.kind == Kind.STATUS) {
            next = stream.next();
        }
        assertEquals(Kind.REFRESH, next.kind);
        next.openOk();
    }

    @Test
    void nothingIsLostOverALongLineThatLosesOneSegmentInAHundred(World w) {
        EmaProvider provider = w.emaProvider();
        w.serve(provider.port());
        SlowLink line = w.with(new SlowLink(w.port(), 100));
        w.serve("[[route]]\nhost_list = [\"127.0.0.1:" + line.port() + "\"]\n");
        w.serve(w.port());
        EmaConsumer consumer = w.emaConsumer();
        List<String> names = List.of("A", "B", "C");
        List<EmaConsumer.Stream> streams = new ArrayList<>();
        List<EmaProvider.Item> items = new ArrayList<>();
        for (String name : names) {
            streams.add(consumer.open(World.FEED, name));
            items.add(provider.awaitOpen(name));
        }
        for (EmaConsumer.Stream stream : streams) {
            image(stream);
        }
        int rounds = 1000;
        for (int n = 1; n <= rounds; n++) {
            for (EmaProvider.Item item : items) {
                item.update(n);
            }
        }
        for (int i = 0; i < names.size(); i++) {
            for (int n = 1; n <= rounds; n++) {
                streams.get(i).next().is(Kind.UPDATE).fields(Quotes.update(names.get(i), n));
            }
            streams.get(i).inbox().assertEmpty();
        }
        assertTrue(line.lost() > 0, "the line has lost nothing");
    }

    @Test
    void aLinkGoesThroughAProxyAndComesBackWithIt(World w) {
        EmaProvider provider = w.emaProvider();
        int firstPort = Ports.free();
        Quoteway first = w.serve(List.of(provider.port()), "--rssl-port", String.valueOf(firstPort));
        ForwardProxy proxy = w.with(new ForwardProxy());
        w.serve("[[route]]\nhost_list = [\"localhost:" + firstPort + "\"]\ncompression_type = \"zlib\"\n"
                + "proxy_host = \"127.0.0.1\"\nproxy_port = " + proxy.port() + "\n");
        var stream = w.emaConsumer().open(World.FEED, "A");
        var item = provider.awaitOpen("A");
        image(stream);
        assertEquals(1, proxy.tunnels());
        item.update(1);
        stream.next().is(Kind.UPDATE).fields(Quotes.update("A", 1));
        first.kill();
        stream.next().is(Kind.STATUS);
        w.serve(List.of(provider.port()), "--rssl-port", String.valueOf(firstPort));
        image(stream);
        assertEquals(2, proxy.tunnels());
    }

    /** What follows is an image, after any number of states. */
    private static void image(EmaConsumer.Stream stream) {
        Message next = stream.next();
        while (next.kind == Kind.STATUS) {
            next = stream.next();
        }
        assertEquals(Kind.REFRESH, next.kind);
        next.openOk();
    }

    @Test
    void whatTheProviderRefusesIsRefusedThreeSitesAway(World w) {
        EmaProvider provider = w.emaProvider();
        w.serve(provider.port());
        w.serve(w.port());
        w.serve(w.port());
        EmaConsumer consumer = w.emaConsumer();
        var unknown = consumer.open("NO_SUCH_SERVICE", "A").next().is(Kind.STATUS);
        assertTrue(unknown.toString().toLowerCase().contains("suspect"), unknown::toString);
        provider.onOpen(item ->
                item.status(StreamStates.CLOSED, DataStates.SUSPECT, StateCodes.NOT_FOUND, "not here"));
        Message refused = consumer.open(World.FEED, "NONE").next();
        assertEquals(Kind.STATUS, refused.kind);
        assertTrue(refused.toString().contains("not here"), refused::toString);
    }
}
