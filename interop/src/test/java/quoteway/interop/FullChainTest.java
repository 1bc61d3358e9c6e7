package quoteway.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import quoteway.interop.peer.EmaConsumer;
import quoteway.interop.peer.EmaProvider;
import quoteway.interop.peer.EtaClient;
import quoteway.interop.peer.EtaProvider;
import quoteway.interop.wire.Message;
import quoteway.interop.wire.Message.Kind;
import quoteway.interop.wire.Quotes;

/** The whole way from a provider to several consumers: every value compared, no update lost, repeated or out of order. */
@ExtendWith(World.Extension.class)
class FullChainTest {
    private static final int ITEMS = 100;

    @Test
    void emaToEma(World w) {
        int updates = 300;
        EmaProvider provider = w.emaProvider();
        w.serve(provider.port());
        List<List<EmaConsumer.Stream>> watchers = new ArrayList<>();
        for (int c = 0; c < 2; c++) {
            EmaConsumer consumer = w.emaConsumer();
            List<EmaConsumer.Stream> streams = new ArrayList<>();
            for (int i = 0; i < ITEMS; i++) {
                streams.add(consumer.open(World.FEED, "C" + i));
            }
            for (int i = 0; i < ITEMS; i++) {
                streams.get(i).next().solicitedImage().openOk().fields(Quotes.image("C" + i, 0));
            }
            watchers.add(streams);
        }
        List<EmaProvider.Item> items = new ArrayList<>();
        for (int i = 0; i < ITEMS; i++) {
            items.add(provider.awaitOpen("C" + i));
        }
        var sequences = new long[ITEMS];
        var random = new Random(42);
        for (int n = 0; n < updates * ITEMS; n++) {
            int i = random.nextInt(ITEMS);
            items.get(i).update(++sequences[i]);
        }
        for (List<EmaConsumer.Stream> streams : watchers) {
            for (int i = 0; i < ITEMS; i++) {
                for (long s = 1; s <= sequences[i]; s++) {
                    Message update = streams.get(i).next().is(Kind.UPDATE).fields(Quotes.update("C" + i, s));
                    assertEquals(s, update.sequence);
                }
                streams.get(i).inbox().assertEmpty();
            }
        }
    }

    @ParameterizedTest(name = "{0}")
    @ValueSource(strings = {"writer_thread_count = 0", "writer_thread_count = 2", "timed_writes = true"})
    void rawToRawPackedWhileWatchersComeAndGo(String p2ps, World w) {
        int rounds = 80;
        int burst = 2_500;
        EtaProvider provider = w.etaProvider();
        w.serve("[p2ps]\n" + p2ps + "\n", provider.port());
        EtaClient steady = w.etaClientOf(World.FEED);
        EtaClient restless = w.etaClientOf(World.FEED);
        int service = steady.serviceId(World.FEED);
        for (int i = 0; i < ITEMS; i++) {
            steady.request(100 + i, service, "C" + i);
        }
        List<EtaProvider.Item> items = new ArrayList<>();
        for (int i = 0; i < ITEMS; i++) {
            steady.next(100 + i).solicitedImage().openOk();
            items.add(provider.awaitOpen("C" + i));
        }
        var sequences = new long[ITEMS];
        var seen = new long[ITEMS];
        var random = new Random(7);
        for (int round = 0; round < rounds; round++) {
            var packed = new ArrayList<byte[]>(burst);
            for (int n = 0; n < burst; n++) {
                int i = random.nextInt(ITEMS);
                packed.add(items.get(i).encodeUpdate(++sequences[i]));
            }
            items.get(0).session().sendPacked(packed);
            // Another client opens and closes some of the items all the while.
            int stream = 5 + round;
            restless.request(stream, service, "C" + round % ITEMS);
            if (round > 0) {
                check(steady, burst, seen);
            }
            restless.next(stream).solicitedImage().openOk();
            restless.closeStream(stream, 6);
        }
        check(steady, burst, seen);
        assertEquals(List.of(Arrays.stream(sequences).boxed().toArray()), List.of(Arrays.stream(seen).boxed().toArray()));
        steady.inbox().assertEmpty();
        // The restless one never saw an update before its image, nor one behind its close out of order.
        var last = new HashMap<Integer, Long>();
        for (Message m : restless.inbox().drain()) {
            assertEquals(Kind.UPDATE, m.kind, m.toString());
            Long before = last.put(m.streamId, m.sequence);
            if (before != null) {
                assertEquals(before + 1, m.sequence, m.toString());
            }
        }
    }

    /** Takes that many updates: each the next of its item, with its values. */
    private static void check(EtaClient client, int updates, long[] seen) {
        for (int n = 0; n < updates; n++) {
            Message update = client.next().is(Kind.UPDATE);
            int i = update.streamId - 100;
            assertEquals(++seen[i], update.sequence, "sequence of C" + i);
            update.fields(Quotes.update("C" + i, seen[i]));
        }
    }
}
