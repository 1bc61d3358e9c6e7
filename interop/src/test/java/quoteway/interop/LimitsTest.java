package quoteway.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.refinitiv.eta.codec.StateCodes;
import com.refinitiv.eta.rdm.DomainTypes;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import quoteway.interop.peer.EtaClient;
import quoteway.interop.peer.EtaProvider;
import quoteway.interop.peer.Service;
import quoteway.interop.wire.Body;
import quoteway.interop.wire.Message.Kind;
import quoteway.interop.wire.Quotes;

/** What is bounded: items and logins of clients, connections, and what a provider says it can take. */
@ExtendWith(World.Extension.class)
class LimitsTest {
    private static final int MP = DomainTypes.MARKET_PRICE;

    @Test
    void itemsAndLoginsOfAClient(World w) {
        EtaProvider provider = w.etaProvider();
        w.serve("[p2ps]\nitem_limit = 3\nmax_mounts_per_user = 2\n", provider.port());
        EtaClient client = w.etaClientOf(World.FEED);
        int service = client.serviceId(World.FEED);
        for (int i = 0; i < 3; i++) {
            client.request(5 + i, service, "L" + i);
            client.next(5 + i).solicitedImage().openOk();
        }
        client.request(8, service, "L3");
        client.next(8).is(Kind.STATUS).closed(StateCodes.TOO_MANY_ITEMS);
        client.closeStream(5, MP);
        client.request(8, service, "L3");
        client.next(8).solicitedImage().openOk();

        EtaClient second = w.etaClient();
        EtaClient third = w.with(new EtaClient("third", w.port()));
        third.login(Map.of());
        third.next(EtaClient.LOGIN_STREAM).is(Kind.STATUS).closed(StateCodes.EXCEEDED_MAX_MOUNTS_PER_USER);
        // Another user has mounts of its own.
        EtaClient other = w.with(new EtaClient("other", w.port()));
        other.awaitReady();
        other.login(1, "somebody", Map.of("Position", "here"));
        other.next(1).solicitedImage().openOk();
        second.fence();
    }

    @Test
    void itemsOfAUserOverAllItsConnections(World w) {
        EtaProvider provider = w.etaProvider();
        w.serve("[p2ps]\naggregate_item_limit = 3\n", provider.port());
        EtaClient one = w.etaClientOf(World.FEED);
        EtaClient two = w.etaClientOf(World.FEED);
        int service = one.serviceId(World.FEED);
        one.request(5, service, "A");
        one.next(5).solicitedImage();
        one.request(6, service, "B");
        one.next(6).solicitedImage();
        two.request(5, service, "C");
        two.next(5).solicitedImage();
        two.request(6, service, "D");
        two.next(6).is(Kind.STATUS).closed(StateCodes.TOO_MANY_ITEMS);
        one.reset();
        // When the server has seen the end of that connection there is room again.
        provider.inbox().next(in -> in.message().kind == Kind.CLOSE, "close");
        two.request(6, service, "D");
        two.next(6).solicitedImage().openOk();
    }

    @Test
    void oneConnectionMoreIsRefused(World w) {
        w.serve("[p2ps]\nmax_mounts = 2\n");
        w.etaClient();
        EtaClient second = w.etaClient();
        EtaClient third = w.with(new EtaClient("third", w.port()));
        String reason = third.awaitEnd();
        assertTrue(reason.contains("CHAN_INIT_REFUSED"), reason);
        second.fence();
        second.close();
        // It may take a moment until the server knows.
        EtaClient next = w.with(new EtaClient("next", w.port()));
        while (true) {
            try {
                next.awaitReady();
                break;
            } catch (AssertionError refused) {
                next = w.with(new EtaClient("next", w.port()));
            }
        }
        next.login(Map.of());
        next.next(EtaClient.LOGIN_STREAM).solicitedImage().openOk();
    }

    @Test
    void aProvidersOpenWindowIsObeyed(World w) {
        EtaProvider provider = w.etaProvider(Service.of(World.FEED, 1).withLoad(-1, 2));
        w.serve(provider.port());
        EtaClient client = w.etaClientOf(World.FEED);
        int service = client.serviceId(World.FEED);
        client.request(5, service, "FIRST");
        client.next(5).solicitedImage();
        EtaProvider.Item first = provider.awaitOpen("FIRST");
        provider.onOpen(item -> {});
        for (int i = 0; i < 10; i++) {
            client.request(10 + i, service, "W" + i);
        }
        // Behind the requests, so that no more of them are on their way when it comes.
        client.generic(5, MP, 1, Body.fields(Quotes.update("fence", 1)));
        List<EtaProvider.Item> open = new ArrayList<>();
        open.add(provider.awaitOpen("W0"));
        open.add(provider.awaitOpen("W1"));
        provider.inbox().next().message().is(Kind.GENERIC).on(first.streamId());
        provider.inbox().assertEmpty();
        for (int i = 0; i < 10; i++) {
            open.get(i).refresh(Quotes.image("W" + i, 0));
            client.next(10 + i).solicitedImage().openOk();
            if (i + 2 < 10) {
                open.add(provider.awaitOpen("W" + (i + 2)));
            }
            provider.inbox().assertEmpty();
        }
    }

    @Test
    void aProvidersOpenLimitIsObeyed(World w) {
        EtaProvider provider = w.etaProvider(Service.of(World.FEED, 1).withLoad(3, -1));
        w.serve(provider.port());
        EtaClient client = w.etaClientOf(World.FEED);
        int service = client.serviceId(World.FEED);
        for (int i = 0; i < 3; i++) {
            client.request(5 + i, service, "O" + i);
            client.next(5 + i).solicitedImage().openOk();
            provider.awaitOpen("O" + i);
        }
        client.request(8, service, "O3");
        client.next(8).is(Kind.STATUS).openSuspect();
        client.fence();
        provider.inbox().assertEmpty();
        // A place that becomes free is used.
        client.closeStream(5, MP);
        provider.inbox().next(in -> in.message().kind == Kind.CLOSE, "close");
        provider.awaitOpen("O3");
        client.next(8).is(Kind.REFRESH).openOk().fields(Quotes.image("O3", 0));
    }

    @Test
    void anUnwatchedItemStaysOpenForItsTime(World w) {
        EtaProvider provider = w.etaProvider();
        w.serve("[source_distributor]\nage_unwatched_item_time_s = 1\n", provider.port());
        EtaClient client = w.etaClientOf(World.FEED);
        int service = client.serviceId(World.FEED);
        client.request(5, service, "AGE");
        client.next(5).solicitedImage();
        EtaProvider.Item item = provider.awaitOpen("AGE");
        client.closeStream(5, MP);
        client.request(6, service, "AGE");
        client.next(6).solicitedImage().openOk();
        // The same stream at the provider, asked for its image again; no close in between.
        EtaProvider.Incoming again = provider.inbox().next();
        again.message().is(Kind.REQUEST).on(item.streamId());
        item.update(1);
        client.next(6).is(Kind.UPDATE);
        long start = System.nanoTime();
        client.closeStream(6, MP);
        provider.inbox().next().message().is(Kind.CLOSE).on(item.streamId());
        assertTrue(System.nanoTime() - start > 500_000_000L, "it was kept for its time");
        assertFalse(client.ended());
        assertEquals("AGE", item.name());
    }
}
