package quoteway.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;

import com.refinitiv.eta.codec.DataStates;
import com.refinitiv.eta.codec.MapEntryActions;
import com.refinitiv.eta.codec.StateCodes;
import com.refinitiv.eta.codec.StreamStates;
import com.refinitiv.eta.rdm.Directory.ServiceFilterIds;
import com.refinitiv.eta.rdm.DomainTypes;
import java.nio.ByteBuffer;
import java.util.Map;
import org.junit.jupiter.api.Assertions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import quoteway.interop.peer.EtaClient;
import quoteway.interop.peer.EtaProvider;
import quoteway.interop.peer.Service;
import quoteway.interop.wire.Body;
import quoteway.interop.wire.Message;
import quoteway.interop.wire.Message.Kind;
import quoteway.interop.wire.Quotes;

/**
 * States of items, groups and services, by table 18 and sections 4.4.3 to 4.4.5 of the RDM usage guide, seen by clients that do their own fan-out:
 * a transient status in the directory counts as a status of each item.
 */
@ExtendWith(World.Extension.class)
class RawStateTest {
    private static final int MP = DomainTypes.MARKET_PRICE;
    private static final Message.State SUSPECT =
            new Message.State(StreamStates.OPEN, DataStates.SUSPECT, StateCodes.NONE, "source is stale");

    private static Map<String, Long> policy(long singleOpen, long allowSuspect) {
        return Map.of("SingleOpen", singleOpen, "AllowSuspectData", allowSuspect);
    }

    private static EtaClient client(World w, long singleOpen, long allowSuspect) {
        EtaClient client = w.etaClient(policy(singleOpen, allowSuspect));
        client.awaitService(World.FEED);
        return client;
    }

    /** The state that the next message gives the item on {@code stream}: its own status, or a transient one of its service. */
    private static Message.State nextState(EtaClient client, int stream) {
        while (true) {
            Message m = client.inbox().next(n -> n.streamId == stream || n.streamId == EtaClient.DIRECTORY_STREAM, "status for " + stream);
            if (m.streamId == stream) {
                return m.is(Kind.STATUS).state;
            }
            client.note(m);
            for (Message.Entry service : m.tree().entries()) {
                if (service.action() == MapEntryActions.DELETE) {
                    return new Message.State(StreamStates.CLOSED_RECOVER, DataStates.SUSPECT, StateCodes.NONE, "service deleted");
                }
                var filters = (Message.Tree) service.value();
                for (Message.Entry filter : filters.entries()) {
                    boolean transientOne = (Integer) filter.id() == ServiceFilterIds.STATE || (Integer) filter.id() == ServiceFilterIds.GROUP;
                    if (transientOne && filter.value() instanceof Message.Tree t && t.get("Status") instanceof Message.State s) {
                        return s;
                    }
                }
            }
        }
    }

    private static void is(int stream, int data, Message.State state) {
        assertEquals(
                StreamStates.toString(stream) + "/" + DataStates.toString(data),
                StreamStates.toString(state.stream()) + "/" + DataStates.toString(state.data()),
                state.toString());
    }

    @ParameterizedTest(name = "SingleOpen {0}, AllowSuspectData {1}")
    @CsvSource({"1, 1, OPEN", "1, 0, OPEN", "0, 1, OPEN", "0, 0, CLOSED_RECOVER"})
    void aSuspectItem(long singleOpen, long allowSuspect, String stream, World w) {
        EtaProvider provider = w.etaProvider();
        w.serve(provider.port());
        EtaClient client = client(w, singleOpen, allowSuspect);
        client.request(5, client.serviceId(World.FEED), "S");
        client.next(5).solicitedImage().openOk();
        EtaProvider.Item item = provider.awaitOpen("S");
        item.status(StreamStates.OPEN, DataStates.SUSPECT, StateCodes.GAP_DETECTED, "gap");
        Message status = client.next(5).is(Kind.STATUS);
        is(stream.equals("OPEN") ? StreamStates.OPEN : StreamStates.CLOSED_RECOVER, DataStates.SUSPECT, status.state);
        if (stream.equals("OPEN")) {
            assertEquals(StateCodes.GAP_DETECTED, status.state.code());
            assertEquals("gap", status.state.text());
            item.update(1);
            client.next(5).is(Kind.UPDATE);
            item.status(StreamStates.OPEN, DataStates.OK, StateCodes.NONE, "well again");
            client.next(5).is(Kind.STATUS).openOk();
        } else {
            // For this client the stream is over: it may be opened again.
            client.request(5, client.serviceId(World.FEED), "S");
            client.next(5).is(Kind.REFRESH).openOk();
        }
    }

    @ParameterizedTest(name = "SingleOpen {0}, AllowSuspectData {1}")
    @CsvSource({"1, 1", "1, 0", "0, 1", "0, 0"})
    void anItemThatTheProviderClosesForRecovery(long singleOpen, long allowSuspect, World w) {
        EtaProvider provider = w.etaProvider();
        w.serve("[source_distributor]\nrecovery_interval_ms = 100\n", provider.port());
        EtaClient client = client(w, singleOpen, allowSuspect);
        client.request(5, client.serviceId(World.FEED), "R");
        client.next(5).solicitedImage().openOk();
        provider.awaitOpen("R").status(StreamStates.CLOSED_RECOVER, DataStates.SUSPECT, StateCodes.NONE, "source lost");
        Message status = client.next(5).is(Kind.STATUS);
        if (singleOpen == 1) {
            is(StreamStates.OPEN, DataStates.SUSPECT, status.state);
            // The server recovers it.
            EtaProvider.Item again = provider.awaitOpen("R");
            client.next(5).unsolicitedImage().openOk().fields(Quotes.image("R", 0));
            again.update(1);
            client.next(5).is(Kind.UPDATE).fields(Quotes.update("R", 1));
        } else {
            is(StreamStates.CLOSED_RECOVER, DataStates.SUSPECT, status.state);
            client.request(5, client.serviceId(World.FEED), "R");
            client.next(5).solicitedImage().openOk();
        }
    }

    @ParameterizedTest(name = "SingleOpen {0}, AllowSuspectData {1}")
    @CsvSource({"1, 1", "1, 0", "0, 1", "0, 0"})
    void theProvidersConnectionGoesDown(long singleOpen, long allowSuspect, World w) {
        EtaProvider provider = w.etaProvider();
        w.serve("[source_distributor]\nrecovery_interval_ms = 100\n", provider.port());
        EtaClient client = client(w, singleOpen, allowSuspect);
        client.request(5, client.serviceId(World.FEED), "D");
        client.next(5).solicitedImage().openOk();
        provider.awaitOpen("D");
        provider.kill();
        Message.State state = nextState(client, 5);
        if (singleOpen == 1) {
            is(StreamStates.OPEN, DataStates.SUSPECT, state);
            provider.start();
            EtaProvider.Item again = provider.awaitOpen("D");
            client.next(5).unsolicitedImage().openOk().fields(Quotes.image("D", 0));
            again.update(1);
            client.next(5).is(Kind.UPDATE).fields(Quotes.update("D", 1));
        } else {
            is(StreamStates.CLOSED_RECOVER, DataStates.SUSPECT, state);
            // A request while the service is down.
            client.awaitServiceDown(World.FEED);
            client.request(6, client.serviceId(World.FEED), "D");
            client.next(6).is(Kind.STATUS).state(StreamStates.CLOSED_RECOVER, DataStates.SUSPECT);
            provider.start();
            client.awaitService(World.FEED);
            client.request(5, client.serviceId(World.FEED), "D");
            client.next(5).solicitedImage().openOk();
        }
    }

    @ParameterizedTest(name = "SingleOpen {0}, AllowSuspectData {1}")
    @CsvSource({"1, 1", "1, 0", "0, 1", "0, 0"})
    void aRequestWhileTheServiceIsDown(long singleOpen, long allowSuspect, World w) {
        EtaProvider provider = w.etaProvider();
        w.serve(provider.port());
        EtaClient client = client(w, singleOpen, allowSuspect);
        provider.serviceState(1, false, true, null);
        Message down = client.next(EtaClient.DIRECTORY_STREAM).is(Kind.UPDATE);
        client.note(down);
        client.request(5, client.serviceId(World.FEED), "N");
        Message status = client.next(5).is(Kind.STATUS);
        if (singleOpen == 1) {
            is(StreamStates.OPEN, DataStates.SUSPECT, status.state);
            provider.serviceState(1, true, true, null);
            client.next(5).solicitedImage().openOk().fields(Quotes.image("N", 0));
        } else {
            is(StreamStates.CLOSED_RECOVER, DataStates.SUSPECT, status.state);
            client.request(6, client.serviceId(World.FEED), "N");
            is(StreamStates.CLOSED_RECOVER, DataStates.SUSPECT, client.next(6).is(Kind.STATUS).state);
        }
    }

    @ParameterizedTest(name = "SingleOpen {0}, AllowSuspectData {1}")
    @CsvSource({"1, 1", "1, 0", "0, 1", "0, 0"})
    void aRequestThatIsNotAccepted(long singleOpen, long allowSuspect, World w) {
        EtaProvider provider = w.etaProvider();
        w.serve(provider.port());
        EtaClient client = client(w, singleOpen, allowSuspect);
        int service = client.serviceId(World.FEED);
        client.request(4, service, "BEFORE");
        client.next(4).solicitedImage();
        EtaProvider.Item before = provider.awaitOpen("BEFORE");
        provider.serviceState(1, true, false, null);
        client.note(client.next(EtaClient.DIRECTORY_STREAM).is(Kind.UPDATE));
        client.request(5, service, "NEW");
        Message status = client.next(5).is(Kind.STATUS);
        if (singleOpen == 1) {
            is(StreamStates.OPEN, DataStates.SUSPECT, status.state);
        } else {
            is(StreamStates.CLOSED_RECOVER, DataStates.SUSPECT, status.state);
        }
        // Existing streams are not touched, and may be reissued.
        before.update(1);
        client.next(4).is(Kind.UPDATE).fields(Quotes.update("BEFORE", 1));
        client.request(4, service, "BEFORE");
        client.next(4).solicitedImage().openOk();
        provider.serviceState(1, true, true, null);
        if (singleOpen == 1) {
            client.next(5).solicitedImage().openOk();
        }
    }

    @Test
    void serviceStateAloneTouchesNoStream(World w) {
        EtaProvider provider = w.etaProvider();
        w.serve(provider.port());
        EtaClient client = client(w, 1, 1);
        client.request(5, client.serviceId(World.FEED), "KEEP");
        client.next(5).solicitedImage().openOk();
        EtaProvider.Item item = provider.awaitOpen("KEEP");
        provider.serviceState(1, false, false, null);
        Message down = client.next(EtaClient.DIRECTORY_STREAM).is(Kind.UPDATE);
        Message.Tree state = down.tree().tree((long) client.serviceId(World.FEED)).tree(ServiceFilterIds.STATE);
        assertEquals(0L, state.get("ServiceState"));
        assertNull(state.get("Status"));
        item.update(1);
        client.next(5).is(Kind.UPDATE).fields(Quotes.update("KEEP", 1));
        provider.serviceState(1, true, true, null);
        client.next(EtaClient.DIRECTORY_STREAM).is(Kind.UPDATE);
        item.update(2);
        client.next(5).is(Kind.UPDATE).fields(Quotes.update("KEEP", 2));
        client.inbox().assertEmpty();
    }

    @Test
    void aServiceStatusReachesOpenStreamsAndNoOthers(World w) {
        EtaProvider provider = w.etaProvider();
        provider.onOpen(item -> {
            if (!item.name().equals("PENDING")) {
                item.refresh(Quotes.image(item.name(), 0));
            }
        });
        w.serve(provider.port());
        EtaClient client = client(w, 1, 1);
        // Knows nothing of transient states in directories: no directory stream at all.
        EtaClient blind = w.with(new EtaClient("blind", w.port()));
        blind.login(policy(1, 1));
        blind.next().solicitedImage();
        int service = client.serviceId(World.FEED);
        client.request(5, service, "OPEN");
        client.next(5).solicitedImage().openOk();
        blind.request(5, service, "OPEN");
        blind.next(5).solicitedImage().openOk();
        blind.request(6, service, "PENDING");
        EtaProvider.Item pending = provider.awaitOpen("PENDING");
        EtaProvider.Item item = provider.awaitOpen("OPEN");
        provider.serviceState(1, true, true, SUSPECT);
        Message.State seen = nextState(client, 5);
        is(StreamStates.OPEN, DataStates.SUSPECT, seen);
        assertEquals("source is stale", seen.text());
        Message told = blind.next(5).is(Kind.STATUS).openSuspect();
        assertEquals("source is stale", told.state.text());
        // The one that waits for its first answer gets that and nothing else; nobody who comes later hears of the status.
        pending.refresh(Quotes.image("PENDING", 1));
        blind.next(6).solicitedImage().openOk();
        item.update(1);
        client.next(5).is(Kind.UPDATE);
        blind.next(5).is(Kind.UPDATE);
        client.inbox().assertEmpty();
        blind.inbox().assertEmpty();
        EtaClient later = client(w, 1, 1);
        later.request(5, service, "OPEN");
        later.next(5).solicitedImage().openOk();
        later.fence();
        later.inbox().assertEmpty();
    }

    @Test
    void aGroupStatusReachesItsItemsAndAMergeMovesThem(World w) {
        EtaProvider provider = w.etaProvider(Service.of(World.FEED, 9));
        provider.onOpen(item -> item.refresh(
                r -> r.groupId().data(ByteBuffer.wrap(new byte[] {0, (byte) (item.name().startsWith("ONE") ? 1 : 2)})),
                Body.fields(Quotes.image(item.name(), 0))));
        w.serve(provider.port());
        // Without a directory stream every status comes per item.
        EtaClient finder = client(w, 1, 1);
        int service = finder.serviceId(World.FEED);
        EtaClient client = w.with(new EtaClient("no-directory", w.port()));
        client.login(policy(1, 1));
        client.next().solicitedImage();
        client.request(5, service, "ONE.A");
        String one = client.next(5).solicitedImage().group;
        client.request(6, service, "ONE.B");
        assertEquals(one, client.next(6).solicitedImage().group);
        client.request(7, service, "TWO.A");
        String two = client.next(7).solicitedImage().group;
        Assertions.assertNotEquals(one, two);
        EtaProvider.Item a = provider.awaitOpen("ONE.A");
        EtaProvider.Item c = provider.awaitOpen("TWO.A");

        provider.groupStatus(9, "0001", null, SUSPECT);
        client.next(5).is(Kind.STATUS).openSuspect();
        client.next(6).is(Kind.STATUS).openSuspect();
        provider.groupStatus(9, "0001", null, new Message.State(StreamStates.OPEN, DataStates.OK, StateCodes.NONE, "well"));
        client.next(5).is(Kind.STATUS).openOk();
        client.next(6).is(Kind.STATUS).openOk();
        c.update(1);
        client.next(7).is(Kind.UPDATE);
        client.inbox().assertEmpty();

        // After the merge a status of group 2 is theirs as well.
        provider.groupStatus(9, "0001", "0002", null);
        provider.groupStatus(9, "0002", null, SUSPECT);
        for (int stream = 5; stream <= 7; stream++) {
            int expected = stream;
            Message status = client.inbox().next(m -> m.streamId == expected && m.state != null, "suspect status of " + stream);
            status.is(Kind.STATUS).openSuspect();
        }
        a.update(2);
        assertNotNull(client.next(5).is(Kind.UPDATE));
    }

    @Test
    void aMergeAndItsStatusApplyInThatOrder(World w) {
        EtaProvider provider = w.etaProvider();
        provider.onOpen(item -> item.refresh(
                r -> r.groupId().data(ByteBuffer.wrap(new byte[] {0, (byte) (item.name().startsWith("ONE") ? 1 : 2)})),
                Body.fields(Quotes.image(item.name(), 0))));
        w.serve(provider.port());
        EtaClient client = client(w, 1, 1);
        int service = client.serviceId(World.FEED);
        client.request(5, service, "ONE");
        String one = client.next(5).solicitedImage().group;
        client.request(6, service, "TWO");
        client.next(6).solicitedImage();
        // One message with both: the status belongs to group 1 as it was, the merge comes after.
        provider.groupStatus(1, "0001", "0002", SUSPECT);
        Message.State seen = nextState(client, 5);
        is(StreamStates.OPEN, DataStates.SUSPECT, seen);
        EtaProvider.Item two = provider.awaitOpen("TWO");
        two.update(1);
        client.next(6).is(Kind.UPDATE);
        assertNotNull(one);
    }

    @Test
    void aDeletedServiceClosesItsItemsForRecovery(World w) {
        EtaProvider provider = w.etaProvider();
        w.serve(provider.port());
        EtaClient client = client(w, 1, 1);
        int service = client.serviceId(World.FEED);
        client.request(5, service, "LOST");
        client.next(5).solicitedImage();
        provider.deleteService(1);
        is(StreamStates.CLOSED_RECOVER, DataStates.SUSPECT, nextState(client, 5));
        // It comes back under its old id.
        provider.addService(Service.of(World.FEED, 5));
        assertEquals(service, client.awaitService(World.FEED));
        client.request(5, service, "LOST");
        client.next(5).solicitedImage().openOk();
    }

    @Test
    void aPrivateStreamIsNotRecovered(World w) {
        EtaProvider provider = w.etaProvider();
        w.serve("[source_distributor]\nrecovery_interval_ms = 100\n", provider.port());
        EtaClient client = client(w, 1, 1);
        client.request(5, client.serviceId(World.FEED), "P", r -> r.applyPrivateStream());
        assertEquals(true, client.next(5).solicitedImage().openOk().privateStream);
        provider.awaitOpen("P");
        provider.kill();
        Message end = client.next(5).is(Kind.STATUS);
        // Closed one way or the other, never left open.
        Assertions.assertTrue(
                end.state.stream() == StreamStates.CLOSED || end.state.stream() == StreamStates.CLOSED_RECOVER, end.toString());
        client.awaitServiceDown(World.FEED);
        provider.start();
        client.awaitService(World.FEED);
        client.request(6, client.serviceId(World.FEED), "Q");
        client.next(6).solicitedImage().openOk();
        provider.inbox().next(in -> in.message().kind == Kind.REQUEST && "Q".equals(in.message().name), "request for Q");
        provider.inbox().assertEmpty();
        assertEquals(MP, end.domain);
    }

    @Test
    void aGroupOfOneProviderIsNotAnothers(World w) {
        EtaProvider one = w.etaProvider(Service.of("ONE", 1));
        EtaProvider two = w.etaProvider(Service.of("TWO", 1));
        w.serve(one.port(), two.port());
        EtaClient finder = w.etaClient();
        int idOne = finder.awaitService("ONE");
        int idTwo = finder.awaitService("TWO");
        EtaClient client = w.with(new EtaClient("no-directory", w.port()));
        client.login(policy(1, 1));
        client.next().solicitedImage();
        client.request(5, idOne, "A");
        client.next(5).solicitedImage();
        client.request(6, idTwo, "A");
        client.next(6).solicitedImage();
        // Both providers use the group that everybody starts with.
        one.groupStatus(1, "0000", null, SUSPECT);
        client.next(5).is(Kind.STATUS).openSuspect();
        two.awaitOpen("A").update(1);
        client.next(6).is(Kind.UPDATE);
        client.inbox().assertEmpty();
    }
}
