package quoteway.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.refinitiv.ema.access.EmaFactory;
import com.refinitiv.ema.rdm.DataDictionary;
import com.refinitiv.ema.rdm.DictionaryEntry;
import com.refinitiv.ema.rdm.EmaRdm;
import com.refinitiv.eta.codec.MapEntryActions;
import com.refinitiv.eta.codec.StateCodes;
import com.refinitiv.eta.codec.StreamStates;
import com.refinitiv.eta.rdm.Directory;
import com.refinitiv.eta.rdm.Directory.ServiceFilterIds;
import com.refinitiv.eta.rdm.DomainTypes;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import quoteway.interop.peer.Dictionaries;
import quoteway.interop.peer.DictionaryReader;
import quoteway.interop.peer.EmaConsumer;
import quoteway.interop.peer.EmaProvider;
import quoteway.interop.peer.EtaClient;
import quoteway.interop.peer.EtaProvider;
import quoteway.interop.peer.Service;
import quoteway.interop.wire.Message;
import quoteway.interop.wire.Message.Kind;
import quoteway.interop.wire.Quotes;

/** Login, directory and dictionary. */
@ExtendWith(World.Extension.class)
class SessionTest {
    @Test
    void theLoginIsEchoedAndClaimsWhatWorks(World w) {
        w.serve();
        EtaClient client = w.with(new EtaClient("eta-client", w.port()));
        client.login(Map.of("ApplicationId", "300", "Position", "10.0.0.1/desk", "AllowSuspectData", 0L));
        Message refresh = client.next().on(EtaClient.LOGIN_STREAM).domain(DomainTypes.LOGIN).solicitedImage().openOk();
        assertEquals("user", refresh.name);
        assertEquals(1, refresh.nameType);
        assertNull(refresh.serviceId);
        var attributes = (Message.Tree) refresh.attrib;
        assertEquals("300", attributes.get("ApplicationId"));
        assertEquals("10.0.0.1/desk", attributes.get("Position"));
        assertEquals(1L, attributes.get("SingleOpen"));
        assertEquals(0L, attributes.get("AllowSuspectData"));
        assertEquals(1L, attributes.get("SupportOMMPost"));
        assertEquals(1L, attributes.get("SupportViewRequests"));
        assertEquals(7L, attributes.get("SupportBatchRequests"));
        assertEquals(1L, attributes.get("SupportOptimizedPauseResume"));
        assertEquals(1L, attributes.get("SupportProviderDictionaryDownload"));
        client.openDirectory();
        client.inbox().assertEmpty();
    }

    @Test
    void emaSeesItsLoginAndEverythingOfAService(World w) {
        EmaProvider provider = w.emaProvider(Service.of(World.FEED, 250), Service.of("OTHER_FEED", 999));
        w.serve(provider.port());
        EmaConsumer consumer = w.emaConsumer();
        Message login = consumer.login().next().is(Kind.REFRESH).openOk().domain(EmaRdm.MMT_LOGIN);
        assertEquals("user", login.name);
        assertEquals(1L, ((Message.Tree) login.attrib).get("SupportOMMPost"));
        Message directory = consumer.directory().next().is(Kind.REFRESH).openOk();
        assertEquals(2, directory.tree().entries().size(), directory.toString());
        for (Message.Entry service : directory.tree().entries()) {
            assertTrue((Long) service.id() >= 1 && (Long) service.id() < 0xfe);
            var filters = (Message.Tree) service.value();
            Message.Tree info = filters.tree(ServiceFilterIds.INFO);
            assertTrue(List.of(World.FEED, "OTHER_FEED").contains(info.get("Name")), info.toString());
            assertTrue(((List<?>) info.get("Capabilities")).containsAll(List.of(5L, 6L, 7L, 8L, 200L)), info.toString());
            assertEquals(List.of("RWFFld", "RWFEnum"), info.get("DictionariesProvided"));
            assertEquals(List.of("RWFFld", "RWFEnum"), info.get("DictionariesUsed"));
            assertEquals(1, ((List<?>) info.get("QoS")).size());
            Message.Tree state = filters.tree(ServiceFilterIds.STATE);
            assertEquals(1L, state.get("ServiceState"));
            assertEquals(1L, state.get("AcceptingRequests"));
        }
        // What the server asked the provider for.
        Message upstream = provider.logins().next().message();
        assertNotNull(upstream.name);
        assertEquals(0L, ((Message.Tree) upstream.attrib).get("Role") == null ? 0L : ((Message.Tree) upstream.attrib).get("Role"));
    }

    @Test
    void theDictionaryIsWholeAndTheProviders(World w) throws Exception {
        EmaProvider provider = w.emaProvider();
        w.serve(provider.port());
        EmaConsumer consumer = w.emaConsumer();
        DataDictionary expected = Dictionaries.full();
        DataDictionary seen = EmaFactory.createDataDictionary();
        for (String name : List.of("RWFFld", "RWFEnum")) {
            DictionaryReader.read(consumer, World.FEED, name, seen);
        }
        List<String> differences = new ArrayList<>();
        for (DictionaryEntry entry : expected.entries()) {
            String wanted = describe(entry);
            String got = seen.hasEntry(entry.fid()) ? describe(seen.entry(entry.fid())) : "nothing";
            if (!wanted.equals(got)) {
                differences.add(wanted + " but got " + got);
            }
        }
        assertEquals(List.of(), differences);
        assertEquals(expected.entries().size(), seen.entries().size());
        assertEquals("USD", seen.enumType(15, 840).display().toString().trim());
        assertEquals(expected.enumTables().size(), seen.enumTables().size());
    }

    private static String describe(DictionaryEntry e) {
        return e.fid() + " " + e.acronym() + " '" + e.ddeAcronym() + "' ripples to " + e.rippleToField() + ", type " + e.rwfType() + " of "
                + e.rwfLength() + ", enumerated 1 " + e.hasEnumType(1) + " 840 " + e.hasEnumType(840);
    }

    @Test
    void aServiceThatComesIsAddedAndOneThatGoesIsDeletedAndKeepsItsId(World w) {
        EtaProvider provider = w.etaProvider(Service.of("FIRST", 1));
        w.serve(provider.port());
        EtaClient client = w.etaClientOf("FIRST");
        int first = client.serviceId("FIRST");
        provider.addService(Service.of("SECOND", 2));
        Message add = client.next().on(EtaClient.DIRECTORY_STREAM).is(Kind.UPDATE);
        assertEquals(MapEntryActions.ADD, add.tree().entries().get(0).action(), add.toString());
        assertNotNull(((Message.Tree) add.tree().entries().get(0).value()).tree(ServiceFilterIds.INFO));
        client.note(add);
        int second = client.awaitService("SECOND");
        assertNotEquals(first, second);
        provider.deleteService(1);
        Message delete = client.next().on(EtaClient.DIRECTORY_STREAM).is(Kind.UPDATE);
        assertEquals(MapEntryActions.DELETE, delete.tree().entries().get(0).action());
        assertEquals((long) first, delete.tree().entries().get(0).id());
        client.note(delete);
        // Another service does not get its id; itself it does.
        provider.addService(Service.of("THIRD", 1));
        int third = client.awaitService("THIRD");
        assertNotEquals(first, third);
        provider.addService(Service.of("FIRST", 8));
        assertEquals(first, client.awaitService("FIRST"));
    }

    @Test
    void aDirectoryIsAnsweredAtOnceWithoutServicesAndByFilterAndService(World w) {
        EtaProvider provider = w.etaProvider(Service.of("ONE", 1), Service.of("TWO", 2));
        w.serve(provider.port());
        EtaClient client = w.etaClientOf("TWO");
        client.awaitService("ONE");
        int two = client.serviceId("TWO");
        client.requestDirectory(20, Directory.ServiceFilterFlags.STATE, two, true);
        Message one = client.next(20).solicitedImage().openOk();
        assertEquals(1, one.tree().entries().size());
        assertEquals((long) two, one.tree().entries().get(0).id());
        var filters = (Message.Tree) one.tree().entries().get(0).value();
        assertEquals(1, filters.entries().size(), "state alone was asked for: " + filters);
        assertNotNull(filters.tree(ServiceFilterIds.STATE));
        assertEquals((long) Directory.ServiceFilterFlags.STATE, one.filter);
        // A service that is not there: an empty map now, the service when it comes.
        client.requestDirectory(21, 63, 99, true);
        Message none = client.next(21).solicitedImage().openOk();
        assertTrue(none.payload == null || none.tree().entries().isEmpty(), none.toString());
        // A snapshot.
        client.requestDirectory(22, 63, null, false);
        Message snapshot = client.next(22).solicitedImage();
        assertEquals(StreamStates.NON_STREAMING, snapshot.state.stream());
        assertEquals(2, snapshot.tree().entries().size());
        // Updates go to the streams whose filter and service they touch.
        provider.serviceState(1, true, false, null);
        client.next(EtaClient.DIRECTORY_STREAM).is(Kind.UPDATE);
        client.fence();
        provider.serviceState(2, true, false, null);
        client.next(EtaClient.DIRECTORY_STREAM).is(Kind.UPDATE);
        assertEquals((long) two, client.next(20).is(Kind.UPDATE).tree().entries().get(0).id());
        client.fence();
        client.inbox().assertEmpty();
    }

    @Test
    void nothingButALoginIsDoneBeforeTheLogin(World w) {
        EtaProvider provider = w.etaProvider();
        w.serve(provider.port());
        w.etaClientOf(World.FEED);
        EtaClient client = w.with(new EtaClient("stranger", w.port()));
        client.awaitReady();
        client.request(5, 1, "IBM.N");
        client.next(5).is(Kind.STATUS).closed(StateCodes.USAGE_ERROR);
        client.requestDirectory(2, 63, null, true);
        client.next(2).is(Kind.STATUS).closed(StateCodes.USAGE_ERROR);
        client.login(Map.of());
        client.next(EtaClient.LOGIN_STREAM).solicitedImage().openOk();
        client.openDirectory();
        client.awaitService(World.FEED);
        client.request(5, client.serviceId(World.FEED), "IBM.N");
        client.next(5).solicitedImage().openOk();
        provider.awaitOpen("IBM.N");
        provider.inbox().assertEmpty();
    }

    @Test
    void aSecondLoginIsRefusedAndTheFirstStays(World w) {
        EtaProvider provider = w.etaProvider();
        w.serve(provider.port());
        EtaClient client = w.etaClientOf(World.FEED);
        client.login(90, "somebody-else", Map.of());
        client.next(90).is(Kind.STATUS).closed(StateCodes.USAGE_ERROR);
        client.request(5, client.serviceId(World.FEED), "IBM.N");
        client.next(5).solicitedImage().openOk();
    }

    @Test
    void aPublisherAtTheConsumersPortIsRefused(World w) {
        w.serve();
        EtaClient client = w.with(new EtaClient("lost-publisher", w.port()));
        client.login(Map.of("Role", 1L));
        client.next(EtaClient.LOGIN_STREAM).is(Kind.STATUS).closed(StateCodes.USAGE_ERROR);
    }

    @Test
    void theServerEndsWell(World w) throws Exception {
        EtaProvider provider = w.etaProvider();
        Quoteway server = w.serve(provider.port());
        EtaClient client = w.etaClientOf(World.FEED);
        client.request(5, client.serviceId(World.FEED), "IBM.N");
        client.next(5).solicitedImage().openOk();
        CompletableFuture<Void> stopped = CompletableFuture.runAsync(server::stop);
        client.awaitEnd();
        stopped.get(60, TimeUnit.SECONDS);
        assertFalse(server.alive());
    }

    @Test
    void aRefreshOfTheLoginCanBeHadAgain(World w) {
        w.serve();
        EtaClient client = w.etaClient();
        client.login(Map.of("AllowSuspectData", 0L));
        Message refresh = client.next(EtaClient.LOGIN_STREAM).solicitedImage().openOk();
        assertEquals(0L, ((Message.Tree) refresh.attrib).get("AllowSuspectData"));
    }

    @Test
    void aPausedLoginIsQuietUntilResumed(World w) {
        EtaProvider provider = w.etaProvider();
        w.serve(provider.port());
        EtaClient paused = w.etaClientOf(World.FEED);
        EtaClient other = w.etaClientOf(World.FEED);
        int service = paused.serviceId(World.FEED);
        paused.request(5, service, "PAUSE");
        paused.next(5).solicitedImage().openOk();
        other.request(5, service, "PAUSE");
        other.next(5).solicitedImage().openOk();
        EtaProvider.Item item = provider.awaitOpen("PAUSE");
        paused.request(5, service, "PAUSE", r -> {
            r.applyPause();
            r.applyNoRefresh();
        });
        paused.fence();
        item.update(1);
        other.next(5).is(Kind.UPDATE).fields(Quotes.update("PAUSE", 1));
        // Resuming brings the stream up to date; whether updates went on meanwhile is the server's choice, but nothing may be lost after.
        paused.request(5, service, "PAUSE");
        Message image = paused.inbox().next(m -> m.kind == Kind.REFRESH, "image after the pause");
        assertEquals(StreamStates.OPEN, image.state.stream());
        item.update(2);
        paused.inbox().next(m -> m.kind == Kind.UPDATE && m.sequence == 2, "update after the pause");
        other.next(5).is(Kind.UPDATE).fields(Quotes.update("PAUSE", 2));
    }
}
