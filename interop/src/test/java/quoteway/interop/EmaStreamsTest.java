package quoteway.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.refinitiv.ema.access.ElementList;
import com.refinitiv.ema.access.EmaFactory;
import com.refinitiv.ema.access.OmmArray;
import com.refinitiv.ema.access.OmmIProviderConfig;
import com.refinitiv.ema.rdm.EmaRdm;
import com.refinitiv.eta.codec.DataStates;
import com.refinitiv.eta.codec.StateCodes;
import com.refinitiv.eta.codec.StreamStates;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import quoteway.interop.peer.EmaConsumer;
import quoteway.interop.peer.EmaProvider;
import quoteway.interop.peer.Ports;
import quoteway.interop.wire.Ema;
import quoteway.interop.wire.Message.Kind;
import quoteway.interop.wire.Quotes;

/** What an EMA consumer does with items, an EMA interactive provider at the other end. */
@ExtendWith(World.Extension.class)
class EmaStreamsTest {
    @Test
    void oneThousandItemsStreamInOrder(World w) {
        EmaProvider provider = w.emaProvider();
        w.serve(provider.port());
        EmaConsumer consumer = w.emaConsumer();
        List<EmaConsumer.Stream> streams = new ArrayList<>();
        for (int i = 0; i < 1000; i++) {
            streams.add(consumer.open(World.FEED, "RIC" + i));
        }
        List<EmaProvider.Item> items = new ArrayList<>();
        for (int i = 0; i < 1000; i++) {
            items.add(provider.awaitOpen("RIC" + i));
        }
        for (long sequence = 1; sequence <= 5; sequence++) {
            for (EmaProvider.Item item : items) {
                item.update(sequence);
            }
        }
        for (int i = 0; i < 1000; i++) {
            var image = streams.get(i).next().solicitedImage().openOk().domain(EmaRdm.MMT_MARKET_PRICE).fields(Quotes.image("RIC" + i, 0));
            assertEquals("RIC" + i, image.name);
            assertEquals(World.FEED, image.serviceName);
            for (long sequence = 1; sequence <= 5; sequence++) {
                var update = streams.get(i).next().is(Kind.UPDATE).fields(Quotes.update("RIC" + i, sequence));
                assertEquals(sequence, update.sequence);
                assertEquals(1, update.updateType);
            }
            streams.get(i).inbox().assertEmpty();
        }
    }

    @Test
    void aSnapshotIsAnsweredOnceAndLeavesNothingBehind(World w) {
        EmaProvider provider = w.emaProvider();
        w.serve(provider.port());
        EmaConsumer consumer = w.emaConsumer();
        var snapshot = consumer.open(EmaFactory.createReqMsg().serviceName(World.FEED).name("SNAP").interestAfterRefresh(false));
        var image = snapshot.next().solicitedImage().fields(Quotes.image("SNAP", 0));
        image.state(StreamStates.NON_STREAMING, DataStates.OK);

        // A stream on the same item afterwards gets the updates, the snapshot does not.
        var stream = consumer.open(World.FEED, "SNAP");
        stream.next().solicitedImage().openOk();
        EmaProvider.Item item = provider.awaitOpen("SNAP");
        if (!item.request().streaming) {
            item = provider.awaitOpen("SNAP");
        }
        item.update(1);
        stream.next().is(Kind.UPDATE).fields(Quotes.update("SNAP", 1));
        snapshot.inbox().assertEmpty();
    }

    @Test
    void aViewGetsItsFieldsAndNoOthers(World w) {
        Assumptions.assumeFalse(World.DIRECT); // The provider of these tests does not filter.
        EmaProvider provider = w.emaProvider();
        w.serve(provider.port());
        EmaConsumer consumer = w.emaConsumer();
        var view = consumer.open(
                EmaFactory.createReqMsg().serviceName(World.FEED).name("VIEW").payload(Ema.view(List.of(22, 25, 178))));
        var whole = new TreeMap<>(Quotes.image("VIEW", 0));
        whole.keySet().retainAll(List.of(22, 25, 178));
        EmaProvider.Item item = provider.awaitOpen("VIEW");
        view.next().solicitedImage().openOk().fields(whole);
        item.update(1);
        var some = new TreeMap<>(Quotes.update("VIEW", 1));
        some.keySet().retainAll(List.of(22, 25, 178));
        view.next().is(Kind.UPDATE).fields(some);

        // Another consumer without a view sees everything; the first one still its own fields.
        EmaConsumer other = w.emaConsumer();
        var full = other.open(World.FEED, "VIEW");
        full.next().solicitedImage().openOk().fields(Quotes.image("VIEW", 0));
        item.update(2);
        full.next().is(Kind.UPDATE).fields(Quotes.update("VIEW", 2));
        some = new TreeMap<>(Quotes.update("VIEW", 2));
        some.keySet().retainAll(List.of(22, 25, 178));
        view.next().is(Kind.UPDATE).fields(some);
        view.inbox().assertEmpty();
    }

    @Test
    void aReissueGetsANewImageAndKeepsTheStream(World w) {
        EmaProvider provider = w.emaProvider();
        var served = new AtomicLong();
        provider.onOpen(item -> item.refresh(Quotes.image(item.name(), served.getAndIncrement())));
        w.serve(provider.port());
        EmaConsumer consumer = w.emaConsumer();
        var stream = consumer.open(World.FEED, "AGAIN");
        stream.next().solicitedImage().openOk().fields(Quotes.image("AGAIN", 0));
        stream.reissue(EmaFactory.createReqMsg().serviceName(World.FEED).name("AGAIN").priority(1, 5));
        stream.next().solicitedImage().openOk().fields(Quotes.image("AGAIN", 1));
        provider.awaitOpen("AGAIN").update(1);
        stream.next().is(Kind.UPDATE).fields(Quotes.update("AGAIN", 1));
    }

    @Test
    void closingTheLastStreamClosesTheItemAtTheProvider(World w) {
        Assumptions.assumeFalse(World.DIRECT);
        EmaProvider provider = w.emaProvider();
        w.serve(provider.port());
        EmaConsumer first = w.emaConsumer();
        EmaConsumer second = w.emaConsumer();
        var a = first.open(World.FEED, "SHUT");
        a.next().solicitedImage().openOk();
        var b = second.open(World.FEED, "SHUT");
        b.next().solicitedImage().openOk();
        a.close();
        EmaProvider.Item item = provider.awaitOpen("SHUT");
        item.update(1);
        b.next().is(Kind.UPDATE).fields(Quotes.update("SHUT", 1));
        b.close();
        provider.awaitClose("SHUT");
        a.inbox().assertEmpty();
    }

    @Test
    void aNameTheProviderDoesNotKnowIsClosedWithItsReason(World w) {
        EmaProvider provider = w.emaProvider();
        provider.onOpen(item -> item.status(StreamStates.CLOSED, DataStates.SUSPECT, StateCodes.NOT_FOUND, "no such name"));
        w.serve(provider.port());
        EmaConsumer consumer = w.emaConsumer();
        var stream = consumer.open(World.FEED, "NOPE");
        var status = stream.next().is(Kind.STATUS).closed(StateCodes.NOT_FOUND);
        assertEquals("no such name", status.state.text());
        provider.awaitOpen("NOPE");

        // It may be asked for again, and then exist.
        provider.onOpen(item -> item.refresh(Quotes.image(item.name(), 7)));
        consumer.open(World.FEED, "NOPE").next().solicitedImage().openOk().fields(Quotes.image("NOPE", 7));
        stream.inbox().assertEmpty();
    }

    @Test
    void aPrivateStreamIsPrivate(World w) {
        EmaProvider provider = w.emaProvider();
        w.serve(provider.port());
        EmaConsumer consumer = w.emaConsumer();
        // An EMA provider takes one stream for a name, unless it is configured to take more; for equal names see RawRequestTest.
        var mine = consumer.open(EmaFactory.createReqMsg().serviceName(World.FEED).name("MINE").privateStream(true));
        assertTrue(mine.next().solicitedImage().openOk().fields(Quotes.image("MINE", 0)).privateStream);
        var common = consumer.open(World.FEED, "OURS");
        assertFalse(common.next().solicitedImage().openOk().privateStream);
        EmaProvider.Item item = provider.awaitOpen("MINE");
        assertTrue(item.request().privateStream);
        assertFalse(provider.awaitOpen("OURS").request().privateStream);
        item.update(11);
        mine.next().is(Kind.UPDATE).fields(Quotes.update("MINE", 11));
        mine.close();
        provider.awaitClose("MINE");
        mine.inbox().assertEmpty();
        common.inbox().assertEmpty();
    }

    @Test
    void genericMessagesGoBothWays(World w) {
        EmaProvider provider = w.emaProvider();
        w.serve(provider.port());
        EmaConsumer consumer = w.emaConsumer();
        var stream = consumer.open(World.FEED, "TALK");
        stream.next().solicitedImage().openOk();
        EmaProvider.Item item = provider.awaitOpen("TALK");
        for (long i = 1; i <= 3; i++) {
            stream.generic(EmaFactory.createGenericMsg()
                    .domainType(EmaRdm.MMT_MARKET_PRICE)
                    .name("ask")
                    .seqNum(i)
                    .complete(true)
                    .payload(Ema.fields(Quotes.update("ask", i))));
        }
        for (long i = 1; i <= 3; i++) {
            var question = provider.inbox().next().message().is(Kind.GENERIC).fields(Quotes.update("ask", i));
            assertEquals("ask", question.name);
            assertEquals(i, question.sequence);
            item.generic(i, Quotes.update("answer", i));
        }
        for (long i = 1; i <= 3; i++) {
            var answer = stream.next().is(Kind.GENERIC).fields(Quotes.update("answer", i));
            assertEquals(i, answer.sequence);
        }
    }

    @Test
    void aProviderWithEmasOwnDirectory(World w) {
        EmaProvider provider = w.with(Ports.bound(port -> new EmaProvider("default-provider", port)
                .configure(c -> c.adminControlDirectory(OmmIProviderConfig.AdminControl.API_CONTROL))
                .start()));
        w.serve(provider.port());
        EmaConsumer consumer = w.emaConsumer();
        var stream = consumer.open("DIRECT_FEED", "IBM.N");
        stream.next().solicitedImage().openOk().fields(Quotes.image("IBM.N", 0));
        provider.awaitOpen("IBM.N").update(1);
        stream.next().is(Kind.UPDATE).fields(Quotes.update("IBM.N", 1));
    }

    @Test
    void aBatchOfEma(World w) {
        EmaProvider provider = w.emaProvider();
        w.serve(provider.port());
        EmaConsumer consumer = w.emaConsumer();
        OmmArray names = EmaFactory.createOmmArray();
        List.of("B1", "B2", "B3").forEach(n -> names.add(EmaFactory.createOmmArrayEntry().ascii(n)));
        ElementList batch = EmaFactory.createElementList();
        batch.add(EmaFactory.createElementEntry().array(":ItemList", names));
        var stream = consumer.open(EmaFactory.createReqMsg().serviceName(World.FEED).payload(batch));
        for (String name : List.of("B1", "B2", "B3")) {
            stream.inbox()
                    .next(m -> m.kind == Kind.REFRESH && name.equals(m.name), "image of " + name)
                    .solicitedImage()
                    .openOk()
                    .fields(Quotes.image(name, 0));
            provider.awaitOpen(name).update(1);
            stream.inbox().next(m -> m.kind == Kind.UPDATE && name.equals(m.name), "update of " + name).fields(Quotes.update(name, 1));
        }
    }

    @Test
    void messagesThatEmaPacksArriveOneByOne(World w) {
        EmaProvider provider = w.emaProvider();
        w.serve(provider.port());
        EmaConsumer consumer = w.emaConsumer();
        List<EmaConsumer.Stream> streams = new ArrayList<>();
        List<EmaProvider.Item> items = new ArrayList<>();
        for (int i = 0; i < 20; i++) {
            streams.add(consumer.open(World.FEED, "P" + i));
            streams.get(i).next().solicitedImage().openOk();
            items.add(provider.awaitOpen("P" + i));
        }
        for (long sequence = 1; sequence <= 10; sequence++) {
            provider.packedUpdates(items, sequence);
        }
        for (int i = 0; i < 20; i++) {
            for (long sequence = 1; sequence <= 10; sequence++) {
                streams.get(i).next().is(Kind.UPDATE).fields(Quotes.update("P" + i, sequence));
            }
            streams.get(i).inbox().assertEmpty();
        }
    }
}
