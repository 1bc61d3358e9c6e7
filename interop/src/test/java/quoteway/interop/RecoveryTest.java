package quoteway.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.refinitiv.eta.rdm.DomainTypes;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import quoteway.interop.peer.EmaConsumer;
import quoteway.interop.peer.EmaProvider;
import quoteway.interop.peer.EmaStart;
import quoteway.interop.peer.EtaClient;
import quoteway.interop.peer.EtaProvider;
import quoteway.interop.peer.Ports;
import quoteway.interop.peer.Relay;
import quoteway.interop.peer.Service;
import quoteway.interop.wire.Message.Kind;
import quoteway.interop.wire.Quotes;

/** Providers that die and come back, and what an EMA consumer sees of it, message by message. */
@ExtendWith(World.Extension.class)
class RecoveryTest {
    private static final String FAST = "[source_distributor]\nrecovery_interval_ms = 100\n";

    @ParameterizedTest(name = "back with service id {0}")
    @ValueSource(ints = {1, 700})
    void anEmaProviderIsKilledAndComesBack(int idAfter, World w) {
        EmaProvider provider = w.emaProvider(Service.of(World.FEED, 1));
        var life = new AtomicLong();
        provider.onOpen(item -> item.refresh(Quotes.image(item.name(), life.get())));
        w.serve(FAST, provider.port());
        EmaConsumer consumer = w.emaConsumer();
        List<EmaConsumer.Stream> streams = new ArrayList<>();
        for (int i = 0; i < 20; i++) {
            streams.add(consumer.open(World.FEED, "R" + i));
        }
        int service = 0;
        for (int i = 0; i < 20; i++) {
            service = streams.get(i).next().solicitedImage().openOk().fields(Quotes.image("R" + i, 0)).serviceId;
            provider.awaitOpen("R" + i).update(1);
            streams.get(i).next().is(Kind.UPDATE).fields(Quotes.update("R" + i, 1));
        }
        provider.close();
        for (EmaConsumer.Stream stream : streams) {
            stream.next().is(Kind.STATUS).openSuspect();
        }
        life.set(50);
        provider.offer(Service.of(World.FEED, idAfter)).start();
        for (int i = 0; i < 20; i++) {
            EmaProvider.Item again = provider.awaitOpen("R" + i);
            assertEquals(idAfter, again.request().serviceId);
            var image = streams.get(i).next().unsolicitedImage().openOk().fields(Quotes.image("R" + i, 50));
            assertEquals(service, image.serviceId, "the consumer's service id stays");
            again.update(51);
            streams.get(i).next().is(Kind.UPDATE).fields(Quotes.update("R" + i, 51));
            streams.get(i).inbox().assertEmpty();
        }
    }

    @Test
    void aConnectionThatIsResetRecovers(World w) {
        EtaProvider provider = w.etaProvider();
        w.serve(FAST, provider.port());
        EmaConsumer consumer = w.emaConsumer();
        var stream = consumer.open(World.FEED, "CUT");
        stream.next().solicitedImage().openOk();
        provider.awaitOpen("CUT");
        for (int round = 1; round <= 3; round++) {
            provider.cut();
            stream.next().is(Kind.STATUS).openSuspect();
            EtaProvider.Item again = provider.awaitOpen("CUT");
            stream.next().unsolicitedImage().openOk().fields(Quotes.image("CUT", 0));
            again.update(round);
            stream.next().is(Kind.UPDATE).fields(Quotes.update("CUT", round));
        }
        stream.inbox().assertEmpty();
    }

    @Test
    void anItemOpenedWhileTheProviderIsAwayHasItsFirstImageSolicited(World w) {
        EmaProvider provider = w.emaProvider();
        w.serve(FAST, provider.port());
        EmaConsumer consumer = w.emaConsumer();
        var directory = consumer.directory();
        directory.next().is(Kind.REFRESH);
        provider.close();
        directory.next().is(Kind.UPDATE);
        var stream = consumer.open(World.FEED, "AWAY");
        stream.next().is(Kind.STATUS).openSuspect();
        provider.start();
        stream.next().is(Kind.REFRESH).openOk().fields(Quotes.image("AWAY", 0));
        provider.awaitOpen("AWAY").update(1);
        stream.next().is(Kind.UPDATE).fields(Quotes.update("AWAY", 1));
    }

    @Test
    void aConsumerStartedBeforeAnyProviderConnectsWhenOneArrives(World w) throws Exception {
        int port = Ports.free();
        w.serve(FAST, port);
        var relay = w.with(new Relay(w.port()));
        var started = new CompletableFuture<EmaConsumer>();
        EmaStart.until(() -> {
            var thread = new Thread(
                    () -> {
                        try {
                            started.complete(EmaConsumer.unguarded("early-consumer", relay.port()));
                        } catch (Throwable e) {
                            started.completeExceptionally(e);
                        }
                    },
                    "early-consumer");
            thread.setDaemon(true);
            thread.start();
            relay.awaitConnection();
        });
        EmaProvider provider = w.with(new EmaProvider("late-provider", port, Service.of(World.FEED, 1)).start());
        EmaConsumer consumer = w.with(started.get(30, TimeUnit.SECONDS));
        var stream = consumer.open(World.FEED, "EARLY");
        stream.next().solicitedImage().openOk().fields(Quotes.image("EARLY", 0));
        provider.awaitOpen("EARLY").update(1);
        stream.next().is(Kind.UPDATE).fields(Quotes.update("EARLY", 1));
    }

    @Test
    void twoProvidersOfOneServiceStandInForEachOther(World w) {
        EmaProvider first = w.emaProvider(Service.of(World.FEED, 3));
        EmaProvider second = w.emaProvider(Service.of(World.FEED, 4));
        first.onOpen(item -> item.refresh(Quotes.image(item.name(), 100)));
        second.onOpen(item -> item.refresh(Quotes.image(item.name(), 200)));
        w.serve(FAST, first.port(), second.port());
        // Both are there, each with its login.
        first.logins().next();
        second.logins().next();
        EmaConsumer consumer = w.emaConsumer();
        EtaClient raw = w.etaClientOf(World.FEED);
        int service = raw.serviceId(World.FEED);
        List<EmaConsumer.Stream> streams = new ArrayList<>();
        for (int i = 0; i < 10; i++) {
            streams.add(consumer.open(World.FEED, "T" + i));
        }
        List<EmaConsumer.Stream> atFirst = new ArrayList<>();
        List<EmaConsumer.Stream> atSecond = new ArrayList<>();
        for (EmaConsumer.Stream stream : streams) {
            var image = stream.next().solicitedImage().openOk();
            long from = Quotes.sequence(image.fields());
            (from == 100 ? atFirst : atSecond).add(stream);
            assertEquals(service, image.serviceId);
        }
        // The one that serves something dies (a balanced server uses both, a preferring one only one).
        boolean killFirst = !atFirst.isEmpty();
        EmaProvider survivor = killFirst ? second : first;
        (killFirst ? first : second).close();
        for (EmaConsumer.Stream stream : killFirst ? atFirst : atSecond) {
            stream.next().is(Kind.STATUS).openSuspect();
            var image = stream.next().unsolicitedImage().openOk();
            assertEquals(killFirst ? 200 : 100, Quotes.sequence(image.fields()));
            assertEquals(service, image.serviceId);
        }
        for (int i = 0; i < 10; i++) {
            survivor.awaitOpen("T" + i).update(300 + i);
            streams.get(i).next().is(Kind.UPDATE).fields(Quotes.update("T" + i, 300 + i));
            streams.get(i).inbox().assertEmpty();
        }
        // To consumers the service was never down, nor anything else than it was.
        raw.fence();
        for (var m : raw.inbox().drain()) {
            assertEquals(DomainTypes.SOURCE, m.domain);
            raw.note(m);
            raw.awaitService(World.FEED);
        }
    }

    @Test
    void twoServicesOfTwoProvidersDoNotMix(World w) {
        EmaProvider one = w.emaProvider(Service.of("ONE", 1));
        EmaProvider two = w.emaProvider(Service.of("TWO", 1));
        one.onOpen(item -> item.refresh(Quotes.image("one", 1)));
        two.onOpen(item -> item.refresh(Quotes.image("two", 2)));
        w.serve(FAST, one.port(), two.port());
        EtaClient raw = w.etaClient();
        int idOne = raw.awaitService("ONE");
        int idTwo = raw.awaitService("TWO");
        assertTrue(idOne != idTwo);
        EmaConsumer consumer = w.emaConsumer();
        var a = consumer.open("ONE", "X");
        var b = consumer.open("TWO", "X");
        a.next().solicitedImage().openOk().fields(Quotes.image("one", 1));
        b.next().solicitedImage().openOk().fields(Quotes.image("two", 2));
        one.close();
        a.next().is(Kind.STATUS).openSuspect();
        two.awaitOpen("X").update(1);
        b.next().is(Kind.UPDATE).fields(Quotes.update("X", 1));
        one.start();
        a.next().unsolicitedImage().openOk().fields(Quotes.image("one", 1));
        b.inbox().assertEmpty();
    }

    @Test
    void theServerIsKilledAndComesBack(World w) {
        EmaProvider provider = w.emaProvider();
        var port = Ports.free();
        var server = Quoteway.start(List.of(provider.port()), "--rssl-port", Integer.toString(port));
        EmaConsumer consumer;
        try {
            consumer = w.with(new EmaConsumer("ema-consumer", port));
            var stream = consumer.open(World.FEED, "BACK");
            stream.next().solicitedImage().openOk();
            provider.awaitOpen("BACK");
            server.kill();
            stream.next().is(Kind.STATUS).openSuspect();
            server = Quoteway.start(List.of(provider.port()), "--rssl-port", Integer.toString(port));
            // EMA asks again, so this image answers a request.
            stream.inbox().next(m -> m.kind == Kind.REFRESH, "image").openOk().fields(Quotes.image("BACK", 0));
            provider.awaitOpen("BACK").update(1);
            stream.next().is(Kind.UPDATE).fields(Quotes.update("BACK", 1));
        } finally {
            server.close();
        }
    }
}
