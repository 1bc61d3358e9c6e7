package quoteway.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.refinitiv.eta.codec.MapEntryActions;
import com.refinitiv.eta.rdm.DomainTypes;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import quoteway.interop.peer.EtaClient;
import quoteway.interop.peer.EtaProvider;
import quoteway.interop.wire.Body;
import quoteway.interop.wire.Message;
import quoteway.interop.wire.Message.Kind;
import quoteway.interop.wire.Quotes;

/** Watchers that come to an item that others watch already. */
@ExtendWith(World.Extension.class)
class RawJoinTest {
    private static final int MP = DomainTypes.MARKET_PRICE;
    private static final int MBP = DomainTypes.MARKET_BY_PRICE;

    @Test
    void aLateJoinerGetsAnImageOfItsOwnAndNoUpdateBeforeIt(World w) {
        EtaProvider provider = w.etaProvider();
        w.serve(provider.port());
        EtaClient early = w.etaClientOf(World.FEED);
        EtaClient late = w.etaClientOf(World.FEED);
        int service = early.serviceId(World.FEED);
        early.request(5, service, "JOIN");
        early.next(5).solicitedImage().fields(Quotes.image("JOIN", 0));
        EtaProvider.Item item = provider.awaitOpen("JOIN");

        // From here on the provider holds its image back.
        provider.onOpen(i -> {});
        late.request(8, service, "JOIN");
        provider.awaitOpen("JOIN");
        for (long i = 1; i <= 10; i++) {
            item.update(i);
        }
        for (long i = 1; i <= 10; i++) {
            early.next(5).is(Kind.UPDATE).fields(Quotes.update("JOIN", i));
        }
        // The early one has seen them all, so they have passed the hub: the late one must have nothing.
        late.fence();
        late.inbox().assertEmpty();
        item.refresh(Quotes.image("JOIN", 10));
        item.update(11);
        late.next(8).solicitedImage().openOk().fields(Quotes.image("JOIN", 10));
        late.next(8).is(Kind.UPDATE).fields(Quotes.update("JOIN", 11));
        // The open watcher saw no second image.
        early.next(5).is(Kind.UPDATE).fields(Quotes.update("JOIN", 11));
        early.inbox().assertEmpty();
    }

    @Test
    void watchersThatWaitShareOneImage(World w) {
        EtaProvider provider = w.etaProvider();
        provider.onOpen(i -> {});
        w.serve(provider.port());
        List<EtaClient> clients = new ArrayList<>();
        for (int i = 0; i < 5; i++) {
            clients.add(w.etaClientOf(World.FEED));
        }
        int service = clients.get(0).serviceId(World.FEED);
        for (EtaClient client : clients) {
            client.request(5, service, "SHARE");
            client.fence();
        }
        EtaProvider.Item item = provider.awaitOpen("SHARE");
        item.refresh(Quotes.image("SHARE", 1));
        for (EtaClient client : clients) {
            client.next(5).solicitedImage().openOk().fields(Quotes.image("SHARE", 1));
        }
        item.update(2);
        for (EtaClient client : clients) {
            client.next(5).is(Kind.UPDATE).fields(Quotes.update("SHARE", 2));
            client.inbox().assertEmpty();
        }
    }

    @Test
    void aJoinerInTheMiddleOfASetGetsAWholeOne(World w) {
        EtaProvider provider = w.etaProvider();
        var open = new ArrayList<EtaProvider.Item>();
        provider.onOpen(i -> {
            synchronized (open) {
                open.add(i);
            }
        });
        w.serve(provider.port());
        EtaClient early = w.etaClientOf(World.FEED);
        EtaClient late = w.etaClientOf(World.FEED);
        int service = early.serviceId(World.FEED);
        early.request(5, MBP, service, "BOOK", r -> {}, Body.NONE);
        EtaProvider.Item item = provider.awaitOpen("BOOK");
        item.part(0, false, Body.map(Quotes.bookSummary("BOOK"), Quotes.book("BOOK", 0, 10)));
        early.next(5).is(Kind.REFRESH);
        late.request(9, MBP, service, "BOOK", r -> {}, Body.NONE);
        late.fence();
        // The rest of the first set, with an update between its parts.
        item.session().send(item.encodeUpdate(1, u -> {}, Body.map(null, List.of(change("BOOK-0-1", 1)))));
        item.part(1, false, Body.map(null, Quotes.book("BOOK", 1, 10)));
        item.part(2, true, Body.map(null, Quotes.book("BOOK", 2, 10)));
        early.next(5).is(Kind.UPDATE);
        Message second = early.next(5).is(Kind.REFRESH);
        assertEquals(Quotes.tree(null, Quotes.book("BOOK", 1, 10)), second.tree());
        assertEquals(1, second.part);
        assertTrue(early.next(5).is(Kind.REFRESH).complete);
        late.fence();
        late.inbox().assertEmpty();

        // The reissue for the late joiner is answered with a whole set, which is the late joiner's alone.
        provider.inbox().next(in -> in.message().kind == Kind.REQUEST, "reissue");
        for (int part = 0; part < 3; part++) {
            item.part(part, part == 2, Body.map(part == 0 ? Quotes.bookSummary("BOOK") : null, Quotes.book("BOOK", part, 10)));
        }
        item.session().send(item.encodeUpdate(2, u -> {}, Body.map(null, List.of(change("BOOK-0-1", 2)))));
        for (int part = 0; part < 3; part++) {
            Message refresh = late.next(9).is(Kind.REFRESH).openOk().domain(MBP);
            assertTrue(refresh.solicited, refresh.toString());
            assertEquals(part, refresh.part);
            assertEquals(part == 2, refresh.complete);
            assertEquals(
                    Quotes.tree(part == 0 ? Quotes.bookSummary("BOOK") : null, Quotes.book("BOOK", part, 10)), refresh.tree());
        }
        assertEquals(2, late.next(9).is(Kind.UPDATE).sequence);
        assertEquals(2, early.next(5).is(Kind.UPDATE).sequence);
        early.inbox().assertEmpty();
        late.inbox().assertEmpty();
    }

    private static Body.Order change(String id, long sequence) {
        return new Body.Order(MapEntryActions.UPDATE, id, Quotes.order(id, sequence));
    }

    @ParameterizedTest(name = "egress shards: {0}")
    @ValueSource(ints = {0, 3})
    void oneHundredClientsGetEachUpdateOnce(int shards, World w) {
        EtaProvider provider = w.etaProvider();
        w.serve("[p2ps]\nwriter_thread_count = " + shards + "\n", provider.port());
        List<EtaClient> clients = new ArrayList<>();
        for (int i = 0; i < 100; i++) {
            EtaClient client = w.etaClientOf(World.FEED);
            client.request(5, client.serviceId(World.FEED), "FAN");
            client.next(5).solicitedImage().openOk();
            clients.add(client);
        }
        EtaProvider.Item item = provider.awaitOpen("FAN");
        var packed = new ArrayList<byte[]>();
        for (long i = 1; i <= 50; i++) {
            packed.add(item.encodeUpdate(i));
        }
        item.session().sendPacked(packed);
        for (EtaClient client : clients) {
            for (long i = 1; i <= 50; i++) {
                client.next(5).is(Kind.UPDATE).fields(Quotes.update("FAN", i));
            }
            client.inbox().assertEmpty();
        }
    }

    @Test
    void anItemThatAllHaveLeftIsOpenedAnew(World w) {
        EtaProvider provider = w.etaProvider();
        var served = new AtomicLong();
        provider.onOpen(item -> item.refresh(Quotes.image(item.name(), served.getAndIncrement())));
        w.serve(provider.port());
        EtaClient client = w.etaClientOf(World.FEED);
        int service = client.serviceId(World.FEED);
        for (long round = 0; round < 20; round++) {
            client.request(5, service, "BACK");
            client.next(5).solicitedImage().openOk().fields(Quotes.image("BACK", round));
            EtaProvider.Item item = provider.awaitOpen("BACK");
            item.update(round);
            client.next(5).is(Kind.UPDATE).fields(Quotes.update("BACK", round));
            client.closeStream(5, MP);
            provider.inbox().next(in -> in.message().kind == Kind.CLOSE && in.message().streamId == item.streamId(), "close");
        }
        client.fence();
        client.inbox().assertEmpty();
    }

    @Test
    void aClientThatIsGoneHasClosedItsItems(World w) {
        EtaProvider provider = w.etaProvider();
        w.serve(provider.port());
        EtaClient client = w.etaClientOf(World.FEED);
        client.request(5, client.serviceId(World.FEED), "GONE");
        client.next(5).solicitedImage();
        EtaProvider.Item item = provider.awaitOpen("GONE");
        client.reset();
        assertEquals(item.streamId(), provider.inbox().next().message().is(Kind.CLOSE).streamId);

        // A logout does the same.
        EtaClient polite = w.etaClientOf(World.FEED);
        polite.request(5, polite.serviceId(World.FEED), "GONE");
        polite.next(5).solicitedImage();
        provider.awaitOpen("GONE");
        polite.closeStream(EtaClient.LOGIN_STREAM, DomainTypes.LOGIN);
        provider.inbox().next().message().is(Kind.CLOSE);
    }
}
