package quoteway.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.refinitiv.ema.access.ElementEntry;
import com.refinitiv.ema.access.ElementList;
import com.refinitiv.ema.access.EmaFactory;
import com.refinitiv.ema.access.Map;
import com.refinitiv.ema.access.MapEntry;
import com.refinitiv.eta.codec.DataTypes;
import com.refinitiv.eta.rdm.DomainTypes;
import com.refinitiv.eta.transport.BindOptions;
import com.refinitiv.eta.transport.CompressionTypes;
import com.refinitiv.eta.transport.ConnectOptions;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import quoteway.interop.peer.EmaConsumer;
import quoteway.interop.peer.EmaProvider;
import quoteway.interop.peer.EtaClient;
import quoteway.interop.peer.EtaProvider;
import quoteway.interop.peer.Ports;
import quoteway.interop.peer.Service;
import quoteway.interop.wire.Body;
import quoteway.interop.wire.Message;
import quoteway.interop.wire.Message.Kind;
import quoteway.interop.wire.Quotes;

/** Packing, fragments, compression and pings of sessions, on both sides of the server. */
@ExtendWith(World.Extension.class)
class TransportTest {
    private static final int MP = DomainTypes.MARKET_PRICE;

    /** Content that compresses a little, and differs all along. */
    private static byte[] large(int size, long seed) {
        var bytes = new byte[size];
        var random = new Random(seed);
        for (int i = 0; i < size; i++) {
            bytes[i] = (byte) (i % 3 == 0 ? random.nextInt(256) : i >> 8);
        }
        return bytes;
    }

    private static Body opaque(int size, long seed) {
        return Body.bytes(DataTypes.OPAQUE, large(size, seed));
    }

    /** Large and small messages both ways, interleaved, all of them whole. */
    static void exercise(EtaClient client, EtaProvider provider) {
        exercise(client, provider, false);
    }

    /** The same; with {@code inTurn} only one side at a time has a message in fragments under way. */
    static void exercise(EtaClient client, EtaProvider provider, boolean inTurn) {
        int service = client.serviceId(World.FEED);
        provider.onOpen(item -> item.refresh(r -> {}, opaque(100_000, 1)));
        client.request(5, 200, service, "LARGE", r -> {}, Body.NONE);
        Message image = client.next(5).solicitedImage().openOk();
        assertEquals(HexFormat.of().formatHex(large(100_000, 1)), image.payload);
        EtaProvider.Item big = provider.awaitOpen("LARGE");
        provider.onOpen(item -> item.refresh(Quotes.image(item.name(), 0)));
        client.request(6, service, "SMALL");
        client.next(6).solicitedImage().openOk().fields(Quotes.image("SMALL", 0));
        EtaProvider.Item small = provider.awaitOpen("SMALL");
        int[] sizes = {10, 29, 31, 299, 301, 6_000, 6_140, 6_144, 6_150, 65_000, 200_000};
        for (int i = 0; i < sizes.length; i++) {
            sendFromProvider(big, small, sizes[i], i);
            if (inTurn) {
                receiveAtClient(client, sizes[i], i);
            }
            client.generic(5, 200, i, opaque(sizes[i], 1000 + i));
            if (inTurn) {
                receiveAtProvider(provider, sizes[i], i);
            }
        }
        for (int i = 0; i < sizes.length && !inTurn; i++) {
            receiveAtClient(client, sizes[i], i);
            receiveAtProvider(provider, sizes[i], i);
        }
        client.inbox().assertEmpty();
    }

    private static void sendFromProvider(EtaProvider.Item big, EtaProvider.Item small, int size, int i) {
        big.session().send(big.encodeUpdate(i, u -> {}, opaque(size, i)));
        var packed = new ArrayList<byte[]>();
        for (int n = 0; n < 60; n++) {
            packed.add(small.encodeUpdate(i * 100L + n));
        }
        small.session().sendPacked(packed);
    }

    private static void receiveAtClient(EtaClient client, int size, int i) {
        Message update = client.next(5).is(Kind.UPDATE);
        assertEquals(HexFormat.of().formatHex(large(size, i)), update.payload, "update of " + size);
        for (int n = 0; n < 60; n++) {
            client.next(6).is(Kind.UPDATE).fields(Quotes.update("SMALL", i * 100L + n));
        }
    }

    private static void receiveAtProvider(EtaProvider provider, int size, int i) {
        Message generic = provider.inbox().next().message().is(Kind.GENERIC);
        assertEquals(HexFormat.of().formatHex(large(size, 1000 + i)), generic.payload, "generic of " + size);
    }

    static EtaClient connect(World w, ConnectOptions options) {
        EtaClient client = w.etaClient(options);
        client.awaitService(World.FEED);
        return client;
    }

    @ParameterizedTest(name = "server {0}, client offers {1}")
    @CsvSource({"zlib, 1, 1", "lz4, 2, 2", "zlib, 0, 0", "none, 1, 0"})
    void compressionTowardsAClient(String configured, int offered, int agreed, World w) {
        EtaProvider provider = w.etaProvider();
        w.serve("[p2ps]\ncompression_type = \"" + configured + "\"\n", provider.port());
        ConnectOptions options = EtaClient.options(w.port());
        options.compressionType(offered);
        EtaClient client = connect(w, options);
        assertEquals(agreed, client.info().compressionType());
        exercise(client, provider);
    }

    @ParameterizedTest(name = "forced {0}")
    @CsvSource({"zlib, 1", "lz4, 2"})
    void compressionThatTheServerForces(String configured, int agreed, World w) {
        EtaProvider provider = w.etaProvider();
        w.serve("[p2ps]\ncompression_type = \"" + configured + "\"\nforce_rssl_compression = true\n", provider.port());
        EtaClient client = connect(w, EtaClient.options(w.port()));
        assertEquals(agreed, client.info().compressionType());
        exercise(client, provider);
    }

    @ParameterizedTest(name = "provider compression {0} {1}, forced: {2}")
    @CsvSource({"1, zlib, false", "2, lz4, false", "1, none, true", "2, none, true"})
    void compressionTowardsAProvider(int type, String offered, boolean forced, World w) {
        Consumer<BindOptions> compressing = b -> {
            b.compressionType(type);
            b.compressionLevel(6);
            b.forceCompression(forced);
        };
        EtaProvider provider = w.with(
                Ports.bound(port -> new EtaProvider("compressing", port, compressing, Service.of(World.FEED, 1)).start()));
        w.serve("[[route]]\nhost_list = [\"127.0.0.1:" + provider.port() + "\"]\ncompression_type = \"" + offered + "\"\n");
        EtaClient client = w.etaClientOf(World.FEED);
        assertEquals(type == 1 ? CompressionTypes.ZLIB : CompressionTypes.LZ4, provider.awaitSession().info().compressionType());
        exercise(client, provider);
    }

    @Test
    void smallFragmentsOfAProvider(World w) {
        EtaProvider provider =
                w.with(Ports.bound(port ->
                        new EtaProvider("small-fragments", port, b -> b.maxFragmentSize(500), Service.of(World.FEED, 1)).start()));
        w.serve(provider.port());
        exercise(w.etaClientOf(World.FEED), provider);
    }

    @Test
    void smallFragmentsTowardsAClient(World w) {
        EtaProvider provider = w.etaProvider();
        w.serve("[p2ps]\nmax_fragment_size = 500\n", provider.port());
        EtaClient client = w.etaClientOf(World.FEED);
        assertTrue(client.info().maxFragmentSize() <= 500, "maximum " + client.info().maxFragmentSize());
        exercise(client, provider);
    }

    @ParameterizedTest(name = "{0}")
    @CsvSource({"zlib, ZLib", "lz4, LZ4"})
    void emaWithCompressionOfItsConfiguration(String configured, String named, World w) {
        EmaProvider provider = w.emaProvider();
        w.serve("[p2ps]\ncompression_type = \"" + configured + "\"\n", provider.port());
        Map config = EmaFactory.createMap();
        config.add(EmaFactory.createMapEntry().keyAscii("ConsumerGroup", MapEntry.MapAction.ADD, group("Consumer", named("Consumer_1",
                EmaFactory.createElementEntry().ascii("Channel", "Channel_1")))));
        config.add(EmaFactory.createMapEntry().keyAscii("ChannelGroup", MapEntry.MapAction.ADD, group("Channel", named("Channel_1",
                EmaFactory.createElementEntry().ascii("ChannelType", "ChannelType::RSSL_SOCKET"),
                EmaFactory.createElementEntry().ascii("CompressionType", "CompressionType::" + named),
                EmaFactory.createElementEntry().uintValue("CompressionThreshold", 30),
                EmaFactory.createElementEntry().ascii("Host", "localhost"),
                EmaFactory.createElementEntry().ascii("Port", Integer.toString(w.port()))))));
        var consumer = w.emaConsumer(
                EmaFactory.createOmmConsumerConfig().config(config).consumerName("Consumer_1").username("user"));
        List<EmaConsumer.Stream> streams = new ArrayList<>();
        for (int i = 0; i < 50; i++) {
            streams.add(consumer.open(World.FEED, "Z" + i));
        }
        for (int i = 0; i < 50; i++) {
            EmaProvider.Item item = provider.awaitOpen("Z" + i);
            for (long s = 1; s <= 20; s++) {
                item.update(s);
            }
        }
        for (int i = 0; i < 50; i++) {
            streams.get(i).next().solicitedImage().openOk().fields(Quotes.image("Z" + i, 0));
            for (long s = 1; s <= 20; s++) {
                streams.get(i).next().is(Kind.UPDATE).fields(Quotes.update("Z" + i, s));
            }
        }
    }

    private static ElementList group(String kind, Map entries) {
        ElementList list = EmaFactory.createElementList();
        if (kind.equals("Consumer")) {
            list.add(EmaFactory.createElementEntry().ascii("DefaultConsumer", "Consumer_1"));
        }
        list.add(EmaFactory.createElementEntry().map(kind + "List", entries));
        return list;
    }

    private static Map named(String name, ElementEntry... elements) {
        ElementList list = EmaFactory.createElementList();
        for (var e : elements) {
            list.add(e);
        }
        Map map = EmaFactory.createMap();
        map.add(EmaFactory.createMapEntry().keyAscii(name, MapEntry.MapAction.ADD, list));
        return map;
    }

    @Test
    void pingsKeepASessionAndTheirLackEndsIt(World w) {
        EtaProvider provider = w.etaProvider();
        w.serve("[p2ps]\nmin_ping_timeout_s = 1\n", provider.port());
        ConnectOptions options = EtaClient.options(w.port());
        options.pingTimeout(5);
        EtaClient good = connect(w, options);
        EtaClient mute = connect(w, options);
        assertEquals(5, good.info().pingTimeout());
        mute.pinging(false);
        long start = System.nanoTime();
        mute.awaitEnd();
        assertTrue(System.nanoTime() - start < 12_000_000_000L, "five seconds were agreed on");
        // The other one lives, as it has been told with pings, and is served.
        assertTrue(good.pingsReceived() >= 1, "pings " + good.pingsReceived());
        good.request(5, good.serviceId(World.FEED), "PING");
        good.next(5).solicitedImage().openOk();
    }

    @Test
    void emptyMessagesAndFieldsAreRelayed(World w) {
        EtaProvider provider = w.etaProvider();
        w.serve(provider.port());
        EtaClient client = w.etaClientOf(World.FEED);
        client.request(5, client.serviceId(World.FEED), "EMPTY");
        client.next(5).solicitedImage();
        EtaProvider.Item item = provider.awaitOpen("EMPTY");
        item.session().send(item.encodeUpdate(1, u -> {}, Body.NONE));
        Message update = client.next(5).is(Kind.UPDATE);
        assertEquals(DataTypes.NO_DATA, update.container);
        item.session().send(item.encodeUpdate(2, u -> {}, Body.fields(java.util.Map.of())));
        client.next(5).is(Kind.UPDATE).fields(java.util.Map.of());
        assertEquals(MP, update.domain);
    }
}
