package quoteway.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.refinitiv.eta.codec.DataStates;
import com.refinitiv.eta.codec.DataTypes;
import com.refinitiv.eta.codec.MsgClasses;
import com.refinitiv.eta.codec.QosRates;
import com.refinitiv.eta.codec.QosTimeliness;
import com.refinitiv.eta.codec.RequestMsg;
import com.refinitiv.eta.codec.StateCodes;
import com.refinitiv.eta.codec.StreamStates;
import com.refinitiv.eta.rdm.DomainTypes;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Assertions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import quoteway.interop.peer.EtaClient;
import quoteway.interop.peer.EtaProvider;
import quoteway.interop.peer.Service;
import quoteway.interop.wire.Body;
import quoteway.interop.wire.Message;
import quoteway.interop.wire.Message.Kind;
import quoteway.interop.wire.Quotes;

/** What requests the server answers, and how, seen without the SDK's watchlist, which would not send most of these. */
@ExtendWith(World.Extension.class)
class RawRequestTest {
    private static final int MP = DomainTypes.MARKET_PRICE;

    private static void refused(Message status, int code) {
        status.is(Kind.STATUS).closed(code);
        assertFalse(status.state.text().isBlank(), "a refusal says why: " + status);
    }

    /** The stream works: an update of its item arrives next, and nothing before it. */
    private static void streams(EtaClient client, int stream, EtaProvider.Item item, long sequence) {
        item.update(sequence);
        client.next(stream).is(Kind.UPDATE).fields(Quotes.update(item.name(), sequence));
    }

    @Test
    void anItemIsOpenedUnderTheProvidersServiceIdAndAnsweredUnderOurs(World w) {
        EtaProvider provider = w.etaProvider(Service.of(World.FEED, 4711));
        w.serve(provider.port());
        EtaClient client = w.etaClientOf(World.FEED);
        int service = client.serviceId(World.FEED);
        assertTrue(service >= 1 && service < 0xfe, "service ids start at 1 and stay one byte, got " + service);
        client.request(5, service, "IBM.N");
        Message image = client.next(5).solicitedImage().openOk().domain(MP).fields(Quotes.image("IBM.N", 0));
        assertEquals(service, image.serviceId);
        assertEquals("IBM.N", image.name);
        assertEquals(1, image.nameType);
        EtaProvider.Item item = provider.awaitOpen("IBM.N");
        assertEquals(4711, item.request().serviceId);
        assertTrue(item.request().streaming);
        assertEquals(1, item.request().nameType);
        streams(client, 5, item, 1);
        client.closeStream(5, MP);
        assertEquals(item.streamId(), provider.inbox().next().message().is(Kind.CLOSE).streamId);
        client.fence();
        client.inbox().assertEmpty();
    }

    @Test
    void updatesArriveByteForByte(World w) {
        EtaProvider provider = w.etaProvider(Service.of(World.FEED, 300));
        w.serve(provider.port());
        EtaClient client = w.etaClientOf(World.FEED);
        int service = client.serviceId(World.FEED);
        client.request(77, service, "BYTES");
        client.next(77).solicitedImage();
        EtaProvider.Item item = provider.awaitOpen("BYTES");
        for (long i = 1; i <= 50; i++) {
            long sequence = i;
            byte[] plain = item.encodeUpdate(sequence, u -> {}, Body.fields(Quotes.update("BYTES", sequence)));
            item.session().send(plain);
            Message update = client.next(77).is(Kind.UPDATE);
            byte[] seen = update.encoded.clone();
            // All but the stream id.
            System.arraycopy(plain, 4, seen, 4, 4);
            Assertions.assertArrayEquals(plain, seen);
        }
        // With a key the service id is the client's; the rest of message and key is the provider's.
        item.session().send(item.encodeUpdate(51, item::withKey, Body.fields(Quotes.update("BYTES", 51))));
        Message keyed = client.next(77).is(Kind.UPDATE).fields(Quotes.update("BYTES", 51));
        assertEquals(service, keyed.serviceId);
        assertEquals("BYTES", keyed.name);
        assertEquals(51, keyed.sequence);
        // The provider's sequence numbers may go back.
        item.update(3);
        assertEquals(3, client.next(77).is(Kind.UPDATE).sequence);
    }

    @Test
    void anUnknownServiceIdIsRefused(World w) {
        EtaProvider provider = w.etaProvider();
        w.serve(provider.port());
        EtaClient client = w.etaClientOf(World.FEED);
        client.request(5, 200, "IBM.N");
        refused(client.next(5), StateCodes.SOURCE_UNKNOWN);
        client.request(6, 60_000, "IBM.N");
        refused(client.next(6), StateCodes.SOURCE_UNKNOWN);
        // The stream id is free again.
        client.request(5, client.serviceId(World.FEED), "IBM.N");
        client.next(5).solicitedImage().openOk();
    }

    @Test
    void aDomainThatTheServiceDoesNotOfferIsRefused(World w) {
        EtaProvider provider = w.etaProvider(Service.of(World.FEED, 1).withDomains(List.of(MP)));
        w.serve(provider.port());
        EtaClient client = w.etaClientOf(World.FEED);
        client.request(5, DomainTypes.MARKET_MAKER, client.serviceId(World.FEED), "IBM.N", r -> {}, Body.NONE);
        refused(client.next(5).domain(DomainTypes.MARKET_MAKER), StateCodes.USAGE_ERROR);
        client.request(5, client.serviceId(World.FEED), "IBM.N");
        client.next(5).solicitedImage();
        assertEquals("IBM.N", provider.awaitOpen("IBM.N").name());
        provider.inbox().assertEmpty();
    }

    @Test
    void aDomainNoOneKnowsIsRelayed(World w) {
        EtaProvider provider = w.etaProvider();
        provider.onOpen(item -> item.refresh(r -> {}, Body.bytes(DataTypes.OPAQUE, "anything".getBytes())));
        w.serve(provider.port());
        EtaClient client = w.etaClientOf(World.FEED);
        client.request(5, 200, client.serviceId(World.FEED), "WHAT", r -> {}, Body.NONE);
        Message image = client.next(5).solicitedImage().openOk().domain(200);
        assertEquals(HexFormat.of().formatHex("anything".getBytes()), image.payload);
    }

    @Test
    void aQosThatIsNotOfferedIsRefused(World w) {
        EtaProvider provider = w.etaProvider();
        w.serve(provider.port());
        EtaClient client = w.etaClientOf(World.FEED);
        int service = client.serviceId(World.FEED);
        client.request(5, service, "IBM.N", r -> EtaClient.qos(r, QosTimeliness.DELAYED, QosRates.TICK_BY_TICK));
        refused(client.next(5), StateCodes.NOT_FOUND);
        client.request(5, service, "IBM.N", r -> EtaClient.qos(r, QosTimeliness.REALTIME, QosRates.TICK_BY_TICK));
        assertEquals(
                EtaClient.qos(QosTimeliness.REALTIME, QosRates.TICK_BY_TICK).toString(), client.next(5).solicitedImage().openOk().qos);
    }

    @Test
    void twoQosOfOneItemAreTwoItems(World w) {
        EtaProvider provider = w.etaProvider(Service.of(World.FEED, 1)
                .withQos(List.of(
                        Service.qos(QosTimeliness.REALTIME, QosRates.TICK_BY_TICK),
                        Service.qos(QosTimeliness.REALTIME, QosRates.JIT_CONFLATED))));
        provider.onOpen(item -> item.refresh(
                r -> {
                    if (item.request().qos.contains("Conflated")) {
                        r.qos().rate(QosRates.JIT_CONFLATED);
                    }
                },
                Body.fields(Quotes.image(item.name(), item.request().streamId))));
        w.serve(provider.port());
        EtaClient client = w.etaClientOf(World.FEED);
        int service = client.serviceId(World.FEED);
        client.request(5, service, "Q", r -> EtaClient.qos(r, QosTimeliness.REALTIME, QosRates.TICK_BY_TICK));
        EtaProvider.Item ticks = provider.awaitOpen("Q");
        client.next(5).solicitedImage().fields(Quotes.image("Q", ticks.streamId()));
        client.request(6, service, "Q", r -> EtaClient.qos(r, QosTimeliness.REALTIME, QosRates.JIT_CONFLATED));
        EtaProvider.Item slow = provider.awaitOpen("Q");
        client.next(6).solicitedImage().fields(Quotes.image("Q", slow.streamId()));
        assertNotEquals(ticks.streamId(), slow.streamId());
        ticks.update(1);
        slow.update(2);
        client.next(5).is(Kind.UPDATE).fields(Quotes.update("Q", 1));
        client.next(6).is(Kind.UPDATE).fields(Quotes.update("Q", 2));
    }

    @Test
    void theSameItemOnTwoStreamsIsServedOnBoth(World w) {
        EtaProvider provider = w.etaProvider();
        w.serve(provider.port());
        EtaClient client = w.etaClientOf(World.FEED);
        int service = client.serviceId(World.FEED);
        client.request(5, service, "TWICE");
        client.next(5).solicitedImage().openOk();
        client.request(6, service, "TWICE");
        client.next(6).solicitedImage().openOk().fields(Quotes.image("TWICE", 0));
        EtaProvider.Item item = provider.awaitOpen("TWICE");
        item.update(1);
        client.next(5).is(Kind.UPDATE).fields(Quotes.update("TWICE", 1));
        client.next(6).is(Kind.UPDATE).fields(Quotes.update("TWICE", 1));
        client.closeStream(5, MP);
        client.fence();
        item.update(2);
        client.next(6).is(Kind.UPDATE).fields(Quotes.update("TWICE", 2));
        client.inbox().assertEmpty();
    }

    @Test
    void aReissueWithAnotherKeyIsRefusedAndTheStreamStays(World w) {
        EtaProvider provider = w.etaProvider();
        w.serve(provider.port());
        EtaClient client = w.etaClientOf(World.FEED);
        int service = client.serviceId(World.FEED);
        client.request(5, service, "FIRST");
        client.next(5).solicitedImage();
        EtaProvider.Item first = provider.awaitOpen("FIRST");
        client.request(5, service, "SECOND");
        Message status = client.next(5).is(Kind.STATUS);
        assertEquals(StreamStates.OPEN, status.state.stream(), status.toString());
        assertEquals(StateCodes.ALREADY_OPEN, status.state.code(), status.toString());
        streams(client, 5, first, 1);
        // The same for another domain on the stream.
        client.request(5, DomainTypes.MARKET_BY_PRICE, service, "FIRST", r -> {}, Body.NONE);
        status = client.next(5).is(Kind.STATUS);
        assertEquals(StreamStates.OPEN, status.state.stream(), status.toString());
        streams(client, 5, first, 2);
        provider.inbox().assertEmpty();
    }

    @Test
    void aStreamIdOfLoginOrDirectoryIsNotAnItems(World w) {
        EtaProvider provider = w.etaProvider();
        w.serve(provider.port());
        EtaClient client = w.etaClientOf(World.FEED);
        int service = client.serviceId(World.FEED);
        client.request(EtaClient.DIRECTORY_STREAM, service, "IBM.N");
        Message status = client.next(EtaClient.DIRECTORY_STREAM).is(Kind.STATUS);
        assertNotEquals(StateCodes.NONE, status.state.code());
        // Both go on.
        provider.serviceState(1, true, false, null);
        client.next(EtaClient.DIRECTORY_STREAM).is(Kind.UPDATE).domain(DomainTypes.SOURCE);
        client.login(Map.of());
        client.next(EtaClient.LOGIN_STREAM).solicitedImage().openOk();
    }

    @Test
    void aReissueWithTheSameKeyGetsAnImageAndWithNoRefreshNone(World w) {
        EtaProvider provider = w.etaProvider();
        var served = new AtomicLong();
        provider.onOpen(item -> item.refresh(Quotes.image(item.name(), served.getAndIncrement())));
        w.serve(provider.port());
        EtaClient client = w.etaClientOf(World.FEED);
        int service = client.serviceId(World.FEED);
        client.request(5, service, "AGAIN");
        client.next(5).solicitedImage().fields(Quotes.image("AGAIN", 0));
        EtaProvider.Item item = provider.awaitOpen("AGAIN");
        client.request(5, service, "AGAIN");
        client.next(5).solicitedImage().fields(Quotes.image("AGAIN", 1));
        client.request(5, service, "AGAIN", r -> r.applyNoRefresh());
        client.fence();
        streams(client, 5, item, 1);
        client.inbox().assertEmpty();
    }

    @Test
    void aSnapshotIsNonStreamingAndLeavesNoWatcher(World w) {
        EtaProvider provider = w.etaProvider();
        w.serve(provider.port());
        EtaClient client = w.etaClientOf(World.FEED);
        int service = client.serviceId(World.FEED);
        client.request(5, service, "SNAP", EtaClient::snapshot);
        client.next(5).solicitedImage().state(StreamStates.NON_STREAMING, DataStates.OK).fields(Quotes.image("SNAP", 0));
        // While it streams for another stream, a snapshot of the same item is an image, and no update.
        client.request(6, service, "LIVE");
        client.next(6).solicitedImage().openOk();
        EtaProvider.Item live = provider.awaitOpen("LIVE");
        client.request(7, service, "LIVE", EtaClient::snapshot);
        client.next(7).solicitedImage().state(StreamStates.NON_STREAMING, DataStates.OK);
        streams(client, 6, live, 1);
        client.fence();
        client.inbox().assertEmpty();
        // The stream id is free.
        client.request(7, service, "OTHER");
        client.next(7).solicitedImage().openOk().fields(Quotes.image("OTHER", 0));
    }

    @Test
    void aBatchIsAnsweredOnItsOwnStreamAndItemByItem(World w) {
        EtaProvider provider = w.etaProvider();
        provider.onOpen(item -> {
            if (item.name().startsWith("BAD")) {
                item.status(StreamStates.CLOSED, DataStates.SUSPECT, StateCodes.NOT_FOUND, "no such name");
            } else {
                item.refresh(Quotes.image(item.name(), 0));
            }
        });
        w.serve(provider.port());
        EtaClient client = w.etaClientOf(World.FEED);
        int service = client.serviceId(World.FEED);
        client.batch(10, MP, service, List.of("A", "BAD1", "B", "BAD2", "C"), r -> {});
        Message batch = client.next(10).is(Kind.STATUS).state(StreamStates.CLOSED, DataStates.OK);
        assertTrue(batch.state.text().contains("5"), batch.toString());
        List<String> names = List.of("A", "BAD1", "B", "BAD2", "C");
        for (int i = 0; i < names.size(); i++) {
            Message answer = client.next(11 + i);
            if (names.get(i).startsWith("BAD")) {
                answer.is(Kind.STATUS).closed(StateCodes.NOT_FOUND);
            } else {
                answer.solicitedImage().openOk().fields(Quotes.image(names.get(i), 0));
                assertEquals(names.get(i), answer.name);
            }
        }
        // One request to the provider for each name, none of them a batch.
        for (String name : names) {
            Message request = provider.inbox().next().message().is(Kind.REQUEST);
            assertTrue(names.contains(request.name) && !request.batch, "for " + name + " came " + request);
        }
        client.fence();
        client.inbox().assertEmpty();
        provider.inbox().assertEmpty();
    }

    @Test
    void streamsOfABatchAreReissuedAndClosedTogether(World w) {
        EtaProvider provider = w.etaProvider();
        var served = new AtomicLong();
        provider.onOpen(item -> item.refresh(Quotes.image(item.name(), served.getAndIncrement())));
        w.serve(provider.port());
        EtaClient client = w.etaClientOf(World.FEED);
        int service = client.serviceId(World.FEED);
        client.batch(10, MP, service, List.of("A", "B"), r -> {});
        client.next(10).is(Kind.STATUS).state(StreamStates.CLOSED, DataStates.OK);
        client.next(11).solicitedImage();
        client.next(12).solicitedImage();
        client.batchReissue(20, MP, List.of(11, 12), r -> {
            r.applyHasPriority();
            r.priority().priorityClass(2);
            r.priority().count(3);
        });
        client.next(20).is(Kind.STATUS).state(StreamStates.CLOSED, DataStates.OK);
        client.next(11).solicitedImage().openOk();
        client.next(12).solicitedImage().openOk();
        client.batchClose(30, MP, List.of(11, 12));
        for (int i = 0; i < 2; i++) {
            provider.inbox().next(in -> in.message().kind == Kind.CLOSE, "close");
        }
        // Closed streams are free.
        client.request(11, service, "C");
        client.next(11).solicitedImage().openOk().fields(Quotes.image("C", 4));
    }

    @Test
    void aViewIsFilteredForItsWatcherAlone(World w) {
        EtaProvider provider = w.etaProvider();
        w.serve(provider.port());
        EtaClient client = w.etaClientOf(World.FEED);
        EtaClient other = w.etaClientOf(World.FEED);
        int service = client.serviceId(World.FEED);
        client.request(5, MP, service, "V", r -> r.applyHasView(), EtaClient.view(List.of(22, 178)));
        var image = new TreeMap<>(Quotes.image("V", 0));
        image.keySet().retainAll(List.of(22, 178));
        client.next(5).solicitedImage().openOk().fields(image);
        EtaProvider.Item item = provider.awaitOpen("V");
        assertTrue(item.request().view, "the union of views goes upstream: " + item.request());
        item.update(1);
        client.next(5).is(Kind.UPDATE).fields(only(Quotes.update("V", 1), 22, 178));

        // A wider view: the union goes upstream, only the new watcher gets an image.
        other.request(5, MP, service, "V", r -> r.applyHasView(), EtaClient.view(List.of(25, 178)));
        other.next(5).solicitedImage().openOk().fields(only(Quotes.image("V", 0), 25, 178));
        item.update(2);
        client.next(5).is(Kind.UPDATE).fields(only(Quotes.update("V", 2), 22, 178));
        other.next(5).is(Kind.UPDATE).fields(only(Quotes.update("V", 2), 25, 178));

        // The first one widens its own view: a new image for it alone.
        client.request(5, MP, service, "V", r -> r.applyHasView(), EtaClient.view(List.of(22, 30, 178)));
        client.next(5).solicitedImage().openOk().fields(only(Quotes.image("V", 0), 22, 30, 178));
        item.update(3);
        client.next(5).is(Kind.UPDATE).fields(only(Quotes.update("V", 3), 22, 30, 178));
        other.next(5).is(Kind.UPDATE).fields(only(Quotes.update("V", 3), 25, 178));
        client.inbox().assertEmpty();
        other.inbox().assertEmpty();
    }

    private static Map<Integer, Object> only(Map<Integer, Object> fields, Integer... ids) {
        var some = new TreeMap<>(fields);
        some.keySet().retainAll(List.of(ids));
        return some;
    }

    @Test
    void aViewThatCannotBeReadIsRefused(World w) {
        EtaProvider provider = w.etaProvider();
        w.serve(provider.port());
        EtaClient client = w.etaClientOf(World.FEED);
        int service = client.serviceId(World.FEED);
        client.request(5, MP, service, "V", r -> r.applyHasView(), Body.elements(Map.of(":ViewType", 99L, ":ViewData", List.of(22))));
        refused(client.next(5), StateCodes.UNSUPPORTED_VIEW_TYPE);
        client.request(6, MP, service, "V", r -> r.applyHasView(), Body.elements(Map.of(":ViewType", 1L)));
        refused(client.next(6), StateCodes.INVALID_VIEW);
        client.fence();
        provider.inbox().assertEmpty();
    }

    @Test
    void aProviderWithoutViewSupportIsAskedForEverything(World w) {
        EtaProvider provider = w.etaProvider().loginSupport(2);
        w.serve(provider.port());
        EtaClient client = w.etaClientOf(World.FEED);
        client.request(5, MP, client.serviceId(World.FEED), "V", r -> r.applyHasView(), EtaClient.view(List.of(22, 178)));
        client.next(5).solicitedImage().openOk().fields(only(Quotes.image("V", 0), 22, 178));
        assertFalse(provider.awaitOpen("V").request().view);
    }

    @Test
    void theWholeKeyTellsItemsApart(World w) {
        EtaProvider provider = w.etaProvider();
        provider.onOpen(item -> item.refresh(Quotes.image(item.name(), item.streamId())));
        w.serve(provider.port());
        EtaClient client = w.etaClientOf(World.FEED);
        int service = client.serviceId(World.FEED);
        client.request(5, service, "K");
        client.request(6, service, "K", r -> r.msgKey().nameType(2));
        client.request(7, service, "K", r -> {
            r.msgKey().applyHasIdentifier();
            r.msgKey().identifier(-9);
        });
        client.request(8, service, "K", r -> {
            r.msgKey().applyHasFilter();
            r.msgKey().filter(15);
        });
        var upstream = new HashSet<Integer>();
        for (int stream = 5; stream <= 8; stream++) {
            Message image = client.next(stream).solicitedImage().openOk();
            upstream.add((int) Quotes.sequence(image.fields()));
            assertEquals(service, image.serviceId);
        }
        assertEquals(4, upstream.size(), "four items at the provider");
        var keys = new ArrayList<String>();
        for (int i = 0; i < 4; i++) {
            Message r = provider.inbox().next().message().is(Kind.REQUEST);
            keys.add(r.nameType + "/" + r.identifier + "/" + r.filter);
        }
        assertEquals(java.util.Set.of("1/null/null", "2/null/null", "1/-9/null", "1/null/15"), java.util.Set.copyOf(keys));
    }

    @Test
    void genericMessagesReachTheOtherEndOfTheirStream(World w) {
        EtaProvider provider = w.etaProvider();
        w.serve(provider.port());
        EtaClient client = w.etaClientOf(World.FEED);
        int service = client.serviceId(World.FEED);
        client.request(5, service, "TALK");
        client.next(5).solicitedImage();
        EtaProvider.Item item = provider.awaitOpen("TALK");
        for (long i = 1; i <= 20; i++) {
            client.generic(5, MP, i, Body.fields(Quotes.update("ask", i)));
        }
        for (long i = 1; i <= 20; i++) {
            Message question = provider.inbox().next().message().is(Kind.GENERIC).on(item.streamId()).fields(Quotes.update("ask", i));
            assertEquals(i, question.sequence);
            item.session().generic(item.streamId(), MP, i, Body.fields(Quotes.update("answer", i)));
        }
        for (long i = 1; i <= 20; i++) {
            Message answer = client.next(5).is(Kind.GENERIC).fields(Quotes.update("answer", i));
            assertEquals(i, answer.sequence);
        }
    }

    @Test
    void aProviderThatNeverAnswersIsReportedAndAskedAgain(World w) {
        EtaProvider provider = w.etaProvider();
        var asked = new AtomicLong();
        provider.onOpen(item -> {
            if (asked.getAndIncrement() > 0) {
                item.refresh(Quotes.image(item.name(), 3));
            }
        });
        w.serve("[source_distributor]\nrequest_timeout_s = 2\n", provider.port());
        EtaClient client = w.etaClientOf(World.FEED);
        client.request(5, client.serviceId(World.FEED), "MUTE");
        provider.awaitOpen("MUTE");
        Message status = client.next(5).is(Kind.STATUS).openSuspect();
        assertEquals(StateCodes.TIMEOUT, status.state.code(), status.toString());
        // It has had no image yet, so the one that comes at last answers its request.
        client.next(5).solicitedImage().openOk().fields(Quotes.image("MUTE", 3));
        streams(client, 5, provider.lastOpen("MUTE"), 1);
    }

    @Test
    void anItemClosedByTheProviderIsClosedForAllWithItsReason(World w) {
        EtaProvider provider = w.etaProvider();
        w.serve(provider.port());
        EtaClient client = w.etaClientOf(World.FEED);
        EtaClient other = w.etaClientOf(World.FEED);
        int service = client.serviceId(World.FEED);
        client.request(5, service, "END");
        client.next(5).solicitedImage();
        other.request(9, service, "END");
        other.next(9).solicitedImage();
        EtaProvider.Item item = provider.awaitOpen("END");
        item.status(StreamStates.CLOSED, DataStates.SUSPECT, StateCodes.NOT_ENTITLED, "no longer");
        for (Message status : List.of(client.next(5), other.next(9))) {
            status.is(Kind.STATUS).closed(StateCodes.NOT_ENTITLED);
            assertEquals("no longer", status.state.text());
        }
        // It can be opened again.
        client.request(5, service, "END");
        client.next(5).solicitedImage().openOk();
        other.fence();
        other.inbox().assertEmpty();
    }

    @Test
    void aRedirectReachesTheWatcher(World w) {
        EtaProvider provider = w.etaProvider();
        provider.onOpen(item -> {
            if (item.name().equals("OLD")) {
                item.refresh(
                        r -> {
                            r.state().streamState(StreamStates.REDIRECTED);
                            r.msgKey().name().data("NEW");
                        },
                        Body.NONE);
            } else {
                item.refresh(Quotes.image(item.name(), 0));
            }
        });
        w.serve(provider.port());
        EtaClient client = w.etaClientOf(World.FEED);
        int service = client.serviceId(World.FEED);
        client.request(5, service, "OLD");
        Message redirect = client.next(5).state(StreamStates.REDIRECTED, DataStates.OK);
        assertEquals("NEW", redirect.name);
        assertEquals(service, redirect.serviceId);
        client.request(6, service, "NEW");
        client.next(6).solicitedImage().openOk();
    }

    @Test
    void permissionDataAndGroupOfAnImageAreKept(World w) {
        EtaProvider provider = w.etaProvider();
        provider.onOpen(item -> item.refresh(
                r -> {
                    r.applyHasPermData();
                    r.permData().data("PE62");
                    r.applyHasSeqNum();
                    r.seqNum(0xFFFF_FFFFL);
                    r.applyDoNotCache();
                },
                Body.fields(Quotes.image(item.name(), 0))));
        w.serve(provider.port());
        EtaClient client = w.etaClientOf(World.FEED);
        client.request(5, client.serviceId(World.FEED), "PERM");
        Message image = client.next(5).solicitedImage().openOk();
        assertEquals(HexFormat.of().formatHex("PE62".getBytes()), image.permission);
        assertEquals(0xFFFF_FFFFL, image.sequence);
        assertFalse(image.group.isEmpty());
    }

    @Test
    void privateStreamsOfOneNameAreOneToOne(World w) {
        EtaProvider provider = w.etaProvider();
        provider.onOpen(item -> item.refresh(Quotes.image(item.name(), item.streamId())));
        w.serve(provider.port());
        EtaClient a = w.etaClientOf(World.FEED);
        EtaClient b = w.etaClientOf(World.FEED);
        int service = a.serviceId(World.FEED);
        a.request(5, service, "MINE", r -> r.applyPrivateStream());
        EtaProvider.Item atA = provider.awaitOpen("MINE");
        b.request(5, service, "MINE", r -> r.applyPrivateStream());
        EtaProvider.Item atB = provider.awaitOpen("MINE");
        b.request(6, service, "MINE");
        EtaProvider.Item common = provider.awaitOpen("MINE");
        assertTrue(atA.request().privateStream && atB.request().privateStream);
        assertFalse(common.request().privateStream);
        assertTrue(a.next(5).solicitedImage().openOk().fields(Quotes.image("MINE", atA.streamId())).privateStream);
        assertTrue(b.next(5).solicitedImage().openOk().fields(Quotes.image("MINE", atB.streamId())).privateStream);
        assertFalse(b.next(6).solicitedImage().openOk().fields(Quotes.image("MINE", common.streamId())).privateStream);
        atA.update(11);
        atB.update(12);
        common.update(13);
        a.next(5).is(Kind.UPDATE).fields(Quotes.update("MINE", 11));
        b.next(5).is(Kind.UPDATE).fields(Quotes.update("MINE", 12));
        b.next(6).is(Kind.UPDATE).fields(Quotes.update("MINE", 13));
        a.closeStream(5, MP);
        assertEquals(atA.streamId(), provider.inbox().next().message().is(Kind.CLOSE).streamId);
        streams(b, 5, atB, 14);
        a.inbox().assertEmpty();
        b.inbox().assertEmpty();
    }

    @Test
    void attributesOfTheKeyTellItemsApart(World w) {
        EtaProvider provider = w.etaProvider();
        provider.onOpen(item -> item.refresh(Quotes.image(item.name(), item.streamId())));
        w.serve(provider.port());
        EtaClient client = w.etaClientOf(World.FEED);
        int service = client.serviceId(World.FEED);
        for (int i = 0; i < 3; i++) {
            var request = (RequestMsg) EtaClient.message(MsgClasses.REQUEST, 5 + i, MP);
            request.applyStreaming();
            request.msgKey().applyHasServiceId();
            request.msgKey().serviceId(service);
            request.msgKey().applyHasName();
            request.msgKey().name().data("ATTR");
            // The first two are the same item.
            client.send(Body.NONE.encode(request, Map.of("Depth", (long) (i / 2))));
        }
        Message first = provider.inbox().next().message().is(Kind.REQUEST);
        assertEquals(0L, ((Message.Tree) first.attrib).get("Depth"));
        EtaProvider.Item item = new EtaProvider.Item(provider.awaitSession(), first);
        var streams = new HashMap<Integer, Long>();
        for (int i = 0; i < 3; i++) {
            streams.put(5 + i, Quotes.sequence(client.next(5 + i).solicitedImage().openOk().fields()));
        }
        assertEquals(streams.get(5), streams.get(6));
        assertNotEquals(streams.get(5), streams.get(7));
        item.update(1);
        client.next(5).is(Kind.UPDATE);
        client.next(6).is(Kind.UPDATE);
        client.fence();
        client.inbox().assertEmpty();
    }

    @Test
    void oneWatcherWithoutViewMakesTheProviderSendEverything(World w) {
        EtaProvider provider = w.etaProvider();
        w.serve(provider.port());
        EtaClient client = w.etaClientOf(World.FEED);
        int service = client.serviceId(World.FEED);
        client.request(5, MP, service, "V", r -> r.applyHasView(), EtaClient.view(List.of(22)));
        client.next(5).solicitedImage().fields(only(Quotes.image("V", 0), 22));
        EtaProvider.Item item = provider.awaitOpen("V");
        assertTrue(item.request().view);
        assertEquals(List.of(22L), item.request().tree().get(":ViewData"));
        client.request(6, service, "V");
        client.next(6).solicitedImage().fields(Quotes.image("V", 0));
        assertFalse(provider.awaitOpen("V").request().view);
        item.update(1);
        client.next(5).is(Kind.UPDATE).fields(only(Quotes.update("V", 1), 22));
        client.next(6).is(Kind.UPDATE).fields(Quotes.update("V", 1));
        client.inbox().assertEmpty();
    }
}
