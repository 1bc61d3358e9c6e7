package quoteway.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.refinitiv.eta.codec.DataStates;
import com.refinitiv.eta.codec.MapEntryActions;
import com.refinitiv.eta.codec.StateCodes;
import com.refinitiv.eta.codec.StreamStates;
import com.refinitiv.eta.rdm.Directory.ServiceFilterIds;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import quoteway.interop.peer.EmaNip;
import quoteway.interop.peer.EtaClient;
import quoteway.interop.peer.EtaNip;
import quoteway.interop.wire.Body;
import quoteway.interop.wire.Message;
import quoteway.interop.wire.Message.Kind;
import quoteway.interop.wire.Quotes;
import quoteway.interop.wire.Values;

/** Providers that dial in and publish what they like; the hub holds their images. */
@ExtendWith(World.Extension.class)
class NonInteractiveTest {
    /** What nobody publishes is told at once, however lately the service was offered. */
    private static final String NO_PATIENCE = "[source_distributor]\npublication_patience_ms = 0\n";

    private static final String SERVICE = EmaNip.SERVICE;

    private static Map<Integer, Object> merged(String item, long image, long... updates) {
        var fields = new HashMap<>(Quotes.image(item, image));
        for (long update : updates) {
            fields.putAll(Quotes.update(item, update));
        }
        return fields;
    }

    @ParameterizedTest(name = "key in updates: {0}")
    @ValueSource(booleans = {false, true})
    void emaPublishesWithItsDefaultConfiguration(boolean withKey, World w) {
        w.serve();
        EmaNip nip = w.emaNip();
        nip.image("NIP", 0);
        w.awaitPublished(SERVICE, "NIP");
        var consumer = w.emaConsumer();
        var stream = consumer.open(SERVICE, "NIP");
        Message image = stream.next().solicitedImage().openOk().fields(Quotes.image("NIP", 0));
        assertEquals(SERVICE, image.serviceName);
        for (long i = 1; i <= 100; i++) {
            nip.update("NIP", i, withKey);
        }
        for (long i = 1; i <= 100; i++) {
            Message update = stream.next().is(Kind.UPDATE).fields(Quotes.update("NIP", i));
            assertEquals(i, update.sequence);
            assertEquals("NIP", update.name);
        }
        // Who comes later gets the image as it is now.
        var late = w.emaConsumer().open(SERVICE, "NIP");
        late.next().solicitedImage().openOk().fields(merged("NIP", 0, 100));
        nip.update("NIP", 101, withKey);
        late.next().is(Kind.UPDATE).fields(Quotes.update("NIP", 101));
        stream.next().is(Kind.UPDATE).fields(Quotes.update("NIP", 101));
        stream.inbox().assertEmpty();
    }

    @Test
    void itsDirectoryIsMadeFitForEma(World w) {
        w.serve();
        w.emaNip();
        EtaClient client = w.etaClientOf(SERVICE);
        int id = client.serviceId(SERVICE);
        assertTrue(id >= 1 && id < 0xfe);
        client.requestDirectory(50, 63, null, false);
        Message directory = client.next(50).solicitedImage();
        Message.Tree info = directory.tree().tree((long) id).tree(ServiceFilterIds.INFO);
        assertTrue(((List<?>) info.get("Capabilities")).containsAll(List.of(5L, 6L)), info.toString());
        assertEquals(List.of("RWFFld", "RWFEnum"), info.get("DictionariesProvided"));
        assertEquals(List.of("RWFFld", "RWFEnum"), info.get("DictionariesUsed"));
        assertTrue(!((List<?>) info.get("QoS")).isEmpty(), info.toString());
        Message.Tree state = directory.tree().tree((long) id).tree(ServiceFilterIds.STATE);
        assertEquals(1L, state.get("ServiceState"));
        assertEquals(1L, state.get("AcceptingRequests"));
    }

    @Test
    void anItemThatWasNeverPublishedIsNotFound(World w) {
        w.serve(NO_PATIENCE);
        EmaNip nip = w.emaNip();
        nip.image("THERE", 0);
        w.awaitPublished(SERVICE, "THERE");
        EtaClient client = w.etaClientOf(SERVICE);
        int service = client.serviceId(SERVICE);
        client.request(5, service, "NEVER");
        client.next(5).is(Kind.STATUS).closed(StateCodes.NOT_FOUND);
        client.request(6, service, "THERE");
        client.next(6).solicitedImage().openOk().fields(Quotes.image("THERE", 0));
        // Once it is published it can be had.
        nip.image("NEVER", 4);
        nip.update("THERE", 1, false);
        // Behind the image, so that is there.
        client.next(6).is(Kind.UPDATE);
        client.request(5, service, "NEVER");
        client.next(5).solicitedImage().openOk().fields(Quotes.image("NEVER", 4));
    }

    /** Publishers that begin publish their items one after the other, behind their directory. */
    @Test
    void anItemIsWaitedForBehindANewDirectory(World w) {
        w.serve("[source_distributor]\npublication_patience_ms = 60000\n");
        EmaNip nip = w.emaNip();
        nip.image("THERE", 0);
        w.awaitPublished(SERVICE, "THERE");
        EtaClient client = w.etaClientOf(SERVICE);
        client.request(5, client.serviceId(SERVICE), "SOON");
        client.next(5).is(Kind.STATUS).openSuspect();
        nip.image("SOON", 4);
        client.next(5).solicitedImage().openOk().fields(Quotes.image("SOON", 4));
    }

    @Test
    void aLostProviderLeavesSuspectImagesThatComeBackOneByOne(World w) {
        w.serve();
        EmaNip nip = w.with(new EmaNip(w.nipPort()));
        nip.image("A", 1);
        nip.image("B", 2);
        nip.image("C", 3);
        w.awaitPublished(SERVICE, "A", "B", "C");
        var consumer = w.emaConsumer();
        var a = consumer.open(SERVICE, "A");
        var b = consumer.open(SERVICE, "B");
        a.next().solicitedImage().openOk().fields(Quotes.image("A", 1));
        b.next().solicitedImage().openOk().fields(Quotes.image("B", 2));
        EtaClient raw = w.etaClientOf(SERVICE);
        int service = raw.serviceId(SERVICE);
        nip.close();
        a.next().is(Kind.STATUS).openSuspect();
        b.next().is(Kind.STATUS).openSuspect();
        raw.awaitServiceDown(SERVICE);

        // Its image can still be had, as suspect.
        raw.request(7, service, "C");
        Message held = raw.next(7);
        assertEquals(DataStates.SUSPECT, held.state.data(), held.toString());

        EmaNip back = w.emaNip();
        back.image("A", 11);
        a.next().unsolicitedImage().openOk().fields(Quotes.image("A", 11));
        back.update("A", 12, false);
        a.next().is(Kind.UPDATE).fields(Quotes.update("A", 12));
        b.inbox().assertEmpty();
        back.image("B", 21);
        b.next().unsolicitedImage().openOk().fields(Quotes.image("B", 21));
        a.inbox().assertEmpty();
        b.inbox().assertEmpty();
    }

    @Test
    void aStatusOfTheProviderReachesTheWatchers(World w) {
        w.serve(NO_PATIENCE);
        EmaNip nip = w.emaNip();
        nip.image("S", 0);
        w.awaitPublished(SERVICE, "S");
        EtaClient client = w.etaClientOf(SERVICE);
        client.request(5, client.serviceId(SERVICE), "S");
        client.next(5).solicitedImage().openOk();
        nip.status("S", StreamStates.OPEN, DataStates.SUSPECT, StateCodes.NONE, "halted");
        Message status = client.next(5).is(Kind.STATUS).openSuspect();
        assertEquals("halted", status.state.text());
        // A joiner sees the item as it is: suspect.
        EtaClient late = w.etaClientOf(SERVICE);
        late.request(5, late.serviceId(SERVICE), "S");
        late.next(5).is(Kind.REFRESH).openSuspect().fields(Quotes.image("S", 0));
        nip.image("S", 1);
        client.next(5).is(Kind.REFRESH).openOk().fields(Quotes.image("S", 1));
        late.next(5).is(Kind.REFRESH).openOk().fields(Quotes.image("S", 1));
        nip.status("S", StreamStates.CLOSED, DataStates.SUSPECT, StateCodes.NOT_FOUND, "gone for good");
        client.next(5).is(Kind.STATUS).closed(StateCodes.NOT_FOUND);
        late.next(5).is(Kind.STATUS).closed(StateCodes.NOT_FOUND);
        client.request(6, client.serviceId(SERVICE), "S");
        client.next(6).is(Kind.STATUS).closed(StateCodes.NOT_FOUND);
    }

    @Test
    void anItemMayMoveToAnotherStream(World w) {
        w.serve();
        EtaNip nip = w.with(new EtaNip("eta-nip", w.nipPort(), "RAW_PUB", 3));
        nip.refresh(-1, "MOVE", Quotes.image("MOVE", 0));
        w.awaitPublished("RAW_PUB", "MOVE");
        EtaClient client = w.etaClientOf("RAW_PUB");
        client.request(5, client.serviceId("RAW_PUB"), "MOVE");
        client.next(5).solicitedImage().openOk().fields(Quotes.image("MOVE", 0));
        nip.update(-1, "MOVE", 1, false);
        client.next(5).is(Kind.UPDATE).fields(Quotes.update("MOVE", 1));
        nip.refresh(-9, "MOVE", Quotes.image("MOVE", 5));
        client.next(5).is(Kind.REFRESH).openOk().fields(Quotes.image("MOVE", 5));
        nip.update(-9, "MOVE", 6, true);
        client.next(5).is(Kind.UPDATE).fields(Quotes.update("MOVE", 6));
        client.inbox().assertEmpty();
    }

    @Test
    void oneThousandItemsOfOnePublisher(World w) {
        w.serve();
        EtaNip nip = w.with(new EtaNip("eta-nip", w.nipPort(), "RAW_PUB", 3));
        for (int i = 1; i <= 1000; i++) {
            nip.refresh(-i, "N" + i, Quotes.image("N" + i, 0));
        }
        // The last one is there, so all are.
        w.awaitPublished("RAW_PUB", "N1000");
        EtaClient client = w.etaClientOf("RAW_PUB");
        int service = client.serviceId("RAW_PUB");
        for (int i = 1; i <= 1000; i++) {
            client.request(5 + i, service, "N" + i);
        }
        for (int i = 1; i <= 1000; i++) {
            client.next(5 + i).solicitedImage().openOk().fields(Quotes.image("N" + i, 0));
        }
        for (int i = 1; i <= 1000; i++) {
            nip.update(-i, "N" + i, 1, i % 2 == 0);
        }
        for (int i = 1; i <= 1000; i++) {
            client.next(5 + i).is(Kind.UPDATE).fields(Quotes.update("N" + i, 1));
        }
        client.inbox().assertEmpty();
    }

    @Test
    void aBookIsHeldWithItsChanges(World w) {
        w.serve();
        EtaNip nip = w.with(new EtaNip("eta-nip", w.nipPort(), "RAW_PUB", 3));
        nip.refresh(-1, 8, "BOOK", Body.map(Quotes.bookSummary("BOOK"), Quotes.book("BOOK", 0, 20)));
        nip.refresh(-2, "FENCE", Quotes.image("FENCE", 0));
        w.awaitPublished("RAW_PUB", "FENCE");
        EtaClient early = w.etaClientOf("RAW_PUB");
        int service = early.serviceId("RAW_PUB");
        early.request(5, 8, service, "BOOK", r -> {}, Body.NONE);
        Message image = early.next(5).is(Kind.REFRESH).openOk();
        assertEquals(Quotes.tree(Quotes.bookSummary("BOOK"), Quotes.book("BOOK", 0, 20)), image.tree());
        var changes = List.of(
                new Body.Order(MapEntryActions.UPDATE, "BOOK-0-3", Map.of(3429, Values.Real.whole(77))),
                new Body.Order(MapEntryActions.DELETE, "BOOK-0-4", null),
                new Body.Order(MapEntryActions.ADD, "BOOK-new", Quotes.order("BOOK-new", 1)));
        nip.update(-1, 8, Body.map(null, changes));
        assertEquals(Quotes.tree(null, changes), early.next(5).is(Kind.UPDATE).tree());

        Map<Object, Object> expected = new HashMap<>();
        for (Body.Order order : Quotes.book("BOOK", 0, 20)) {
            expected.put(order.id(), order.fields());
        }
        var changed = new HashMap<>(Quotes.order("BOOK-0-3", 0));
        changed.put(3429, Values.Real.whole(77));
        expected.put("BOOK-0-3", changed);
        expected.remove("BOOK-0-4");
        expected.put("BOOK-new", Quotes.order("BOOK-new", 1));
        EtaClient late = w.etaClientOf("RAW_PUB");
        late.request(5, 8, service, "BOOK", r -> {}, Body.NONE);
        Map<Object, Object> held = new HashMap<>();
        Message part;
        do {
            part = late.next(5).is(Kind.REFRESH).openOk();
            part.tree().entries().forEach(e -> held.put(e.id(), e.value()));
        } while (!part.complete);
        assertEquals(expected, held);
        late.inbox().assertEmpty();
    }

    @Test
    void aPartialTextIsAppliedToTheImage(World w) {
        w.serve();
        EtaNip nip = w.with(new EtaNip("eta-nip", w.nipPort(), "RAW_PUB", 3));
        nip.refresh(-1, "TEXT", Map.of(215, "ABCDEFGHIJ", 22, Values.Real.cents(1)));
        w.awaitPublished("RAW_PUB", "TEXT");
        EtaClient early = w.etaClientOf("RAW_PUB");
        int service = early.serviceId("RAW_PUB");
        early.request(5, service, "TEXT");
        early.next(5).solicitedImage();
        // RMTES: ESC [ column ` text replaces part of what is there.
        nip.update(-1, 6, Body.fields(Map.of(215, "\u001b[3`xyz")));
        early.next(5).is(Kind.UPDATE).fields(Map.of(215, "\u001b[3`xyz"));
        EtaClient late = w.etaClientOf("RAW_PUB");
        late.request(5, service, "TEXT");
        late.next(5).solicitedImage().fields(Map.of(215, "ABCxyzGHIJ", 22, Values.Real.cents(1)));
    }

    @Test
    void bothKindsOfProvidersServeSideBySide(World w) {
        var provider = w.emaProvider();
        w.serve(provider.port());
        EmaNip nip = w.emaNip();
        nip.image("X", 5);
        w.awaitPublished(SERVICE, "X");
        EtaClient raw = w.etaClient();
        raw.awaitService(SERVICE);
        raw.awaitService(World.FEED);
        var consumer = w.emaConsumer();
        var interactive = consumer.open(World.FEED, "X");
        var published = consumer.open(SERVICE, "X");
        interactive.next().solicitedImage().openOk().fields(Quotes.image("X", 0));
        published.next().solicitedImage().openOk().fields(Quotes.image("X", 5));
        nip.update("X", 6, true);
        published.next().is(Kind.UPDATE).fields(Quotes.update("X", 6));
        provider.awaitOpen("X").update(1);
        interactive.next().is(Kind.UPDATE).fields(Quotes.update("X", 1));
        published.inbox().assertEmpty();
    }
}
