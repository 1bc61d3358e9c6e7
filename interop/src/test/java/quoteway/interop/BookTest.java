package quoteway.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.refinitiv.ema.access.EmaFactory;
import com.refinitiv.ema.rdm.EmaRdm;
import com.refinitiv.eta.codec.MapEntryActions;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import quoteway.interop.peer.EmaConsumer;
import quoteway.interop.peer.EmaProvider;
import quoteway.interop.wire.Body;
import quoteway.interop.wire.Ema;
import quoteway.interop.wire.Message;
import quoteway.interop.wire.Message.Kind;
import quoteway.interop.wire.Quotes;

/** MarketByPrice between EMA programs: images in several parts, and what changes them. */
@ExtendWith(World.Extension.class)
class BookTest {
    private static final int PARTS = 5;
    private static final int ORDERS = 40;

    private static void sendBook(EmaProvider.Item item) {
        for (int part = 0; part < PARTS; part++) {
            item.part(
                    part,
                    part == PARTS - 1,
                    part == 0 ? Quotes.bookSummary(item.name()) : null,
                    Quotes.book(item.name(), part, ORDERS));
        }
    }

    private static void expectBook(EmaConsumer.Stream stream, String name, boolean solicited) {
        for (int part = 0; part < PARTS; part++) {
            Message refresh = stream.next().is(Kind.REFRESH).openOk().domain(EmaRdm.MMT_MARKET_BY_PRICE);
            assertEquals(part, refresh.part, refresh.toString());
            assertEquals(solicited, refresh.solicited, refresh.toString());
            assertEquals(part == PARTS - 1, refresh.complete, refresh.toString());
            assertEquals(
                    Quotes.tree(part == 0 ? Quotes.bookSummary(name) : null, Quotes.book(name, part, ORDERS)), refresh.tree());
        }
    }

    private static EmaConsumer.Stream open(EmaConsumer consumer, String name) {
        return consumer.open(
                EmaFactory.createReqMsg().domainType(EmaRdm.MMT_MARKET_BY_PRICE).serviceName(World.FEED).name(name));
    }

    @Test
    void anImageInPartsAndItsUpdates(World w) {
        EmaProvider provider = w.emaProvider();
        provider.onOpen(BookTest::sendBook);
        w.serve(provider.port());
        EmaConsumer.Stream stream = open(w.emaConsumer(), "BOOK");
        expectBook(stream, "BOOK", true);
        EmaProvider.Item item = provider.awaitOpen("BOOK");
        for (long i = 1; i <= 30; i++) {
            var orders = changes("BOOK", i);
            item.update(i, Ema.book(null, orders));
            Message update = stream.next().is(Kind.UPDATE).domain(EmaRdm.MMT_MARKET_BY_PRICE);
            assertEquals(i, update.sequence);
            assertEquals(Quotes.tree(null, orders), update.tree());
        }
        if (!World.DIRECT) {
            // Who comes later gets all parts, in order, before any update.
            EmaConsumer.Stream late = open(w.emaConsumer(), "BOOK");
            expectBook(late, "BOOK", true);
            item.update(31, Ema.book(null, changes("BOOK", 31)));
            assertEquals(31, late.next().is(Kind.UPDATE).sequence);
        } else {
            item.update(31, Ema.book(null, changes("BOOK", 31)));
        }
        assertEquals(31, stream.next().is(Kind.UPDATE).sequence);
        stream.inbox().assertEmpty();
    }

    private static List<Body.Order> changes(String name, long sequence) {
        String changed = name + "-1-" + sequence % ORDERS;
        String added = name + "-new-" + sequence;
        return List.of(
                new Body.Order(MapEntryActions.UPDATE, changed, Quotes.order(changed, sequence)),
                new Body.Order(MapEntryActions.ADD, added, Quotes.order(added, sequence)),
                new Body.Order(MapEntryActions.DELETE, name + "-2-" + sequence, null));
    }

    @Test
    void aBookIsRecoveredWhole(World w) {
        EmaProvider provider = w.emaProvider();
        provider.onOpen(BookTest::sendBook);
        w.serve("[source_distributor]\nrecovery_interval_ms = 100\n", provider.port());
        EmaConsumer.Stream stream = open(w.emaConsumer(), "BOOK");
        expectBook(stream, "BOOK", true);
        provider.awaitOpen("BOOK");
        provider.close();
        stream.next().is(Kind.STATUS).openSuspect();
        provider.start();
        expectBook(stream, "BOOK", false);
        provider.awaitOpen("BOOK").update(1, Ema.book(null, changes("BOOK", 1)));
        stream.next().is(Kind.UPDATE);
        stream.inbox().assertEmpty();
    }
}
