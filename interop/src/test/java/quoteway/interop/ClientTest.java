package quoteway.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.refinitiv.ema.access.EmaFactory;
import com.refinitiv.ema.access.OmmException;
import com.refinitiv.ema.rdm.EmaRdm;
import com.refinitiv.eta.codec.DataStates;
import com.refinitiv.eta.codec.NakCodes;
import com.refinitiv.eta.codec.RequestMsgFlags;
import com.refinitiv.eta.codec.StateCodes;
import com.refinitiv.eta.codec.StreamStates;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import quoteway.interop.peer.EmaConsumer;
import quoteway.interop.peer.EmaProvider;
import quoteway.interop.peer.EtaClient;
import quoteway.interop.wire.Body;
import quoteway.interop.wire.Ema;
import quoteway.interop.wire.Message;
import quoteway.interop.wire.Message.Kind;
import quoteway.interop.wire.Quotes;
import quoteway.interop.wire.Values;

/** Applications on our client library with EMA and ETA at the other end, and no server of ours between them but where it is said. */
@ExtendWith(World.Extension.class)
class ClientTest {
    private static final Map<Integer, String> NAMES = Map.ofEntries(
            Map.entry(1, "PROD_PERM"), Map.entry(2, "RDNDISPLAY"), Map.entry(3, "DSPLY_NAME"), Map.entry(6, "TRDPRC_1"),
            Map.entry(11, "NETCHNG_1"), Map.entry(15, "CURRENCY"), Map.entry(16, "TRADE_DATE"), Map.entry(18, "TRDTIM_1"),
            Map.entry(22, "BID"), Map.entry(25, "ASK"), Map.entry(30, "BIDSIZE"), Map.entry(31, "ASKSIZE"), Map.entry(178, "TRDVOL_1"));

    /** What our consumer prints of these fields. */
    private static TreeSet<String> printed(Map<Integer, Object> fields) {
        var all = new TreeSet<String>();
        fields.forEach((id, value) -> all.add(NAMES.get(id) + "=" + text(value)));
        return all;
    }

    private static String text(Object value) {
        if (value instanceof Values.Real real) {
            // Hint 14 is a whole number, those below it have so many places.
            var number = java.math.BigDecimal.valueOf(real.mantissa(), 14 - real.hint());
            return number.toPlainString();
        }
        if (value instanceof Values.Enumerated enumerated) {
            return Integer.toString(enumerated.value());
        }
        if (value instanceof java.time.LocalDate date) {
            return date.toString();
        }
        if (value instanceof java.time.LocalTime time) {
            return time.format(java.time.format.DateTimeFormatter.ofPattern("HH:mm:ss"));
        }
        return value == Values.Blank.BLANK ? "" : value.toString();
    }

    private static TreeSet<String> fields(String[] columns, int from) {
        return new TreeSet<>(List.of(columns).subList(from, columns.length));
    }

    private static Console consumerOf(World w, EmaProvider provider) {
        Console console = w.with(Console.watch(provider.port(), "user"));
        console.next("logged in", "user");
        console.next("service up", World.FEED);
        // The provider's own dictionary: no built-in one has as many fields.
        assertTrue(Integer.parseInt(console.next("dictionary")[1]) > 10_000);
        return console;
    }

    @Test
    void ourConsumerHasEveryValueOfAnEmaProvider(World w) {
        EmaProvider provider = w.emaProvider();
        Console consumer = consumerOf(w, provider);
        Message login = provider.logins().next().message();
        assertEquals("user", login.name);
        var attributes = (Message.Tree) login.attrib;
        assertEquals("quoteway", attributes.get("ApplicationName"));
        consumer.tell("open " + World.FEED + " A");
        EmaProvider.Item item = provider.awaitOpen("A");
        assertTrue(item.request().streaming);
        String[] image = consumer.next("refresh", "A", "", "");
        assertTrue(image[4].startsWith("OPEN/OK"), image[4]);
        assertEquals(printed(Quotes.image("A", 0)), fields(image, 5));
        for (long n = 1; n <= 1000; n++) {
            item.update(n);
        }
        for (long n = 1; n <= 1000; n++) {
            assertEquals(printed(Quotes.update("A", n)), fields(consumer.next("update", "A"), 3), "update " + n);
        }
        consumer.tell("close A");
        provider.awaitClose("A");
    }

    @Test
    void whatOurConsumerAsksForIsWhatAnEmaProviderSees(World w) {
        EmaProvider provider = w.emaProvider();
        Console consumer = consumerOf(w, provider);
        consumer.tell("open " + World.FEED + " SNAP snapshot");
        assertTrue(!provider.awaitOpen("SNAP").request().streaming);
        assertTrue(consumer.next("refresh", "SNAP", "final")[4].startsWith("NON_STREAMING/OK"));
        consumer.tell("open " + World.FEED + " MINE private");
        EmaProvider.Item mine = provider.awaitOpen("MINE");
        assertTrue(mine.request().privateStream);
        consumer.next("refresh", "MINE", "", "private");
        consumer.tell("open " + World.FEED + " FEW view=BID,ASK");
        assertTrue(provider.awaitOpen("FEW").request().view);
        consumer.next("refresh", "FEW");
        consumer.tell("open " + World.FEED + " B1,B2,B3");
        for (String name : List.of("B1", "B2", "B3")) {
            provider.awaitOpen(name);
            consumer.next("refresh", name);
        }
        // Nobody recovers a private stream: closed for now is closed.
        mine.status(StreamStates.CLOSED_RECOVER, DataStates.SUSPECT, StateCodes.NONE, "gone");
        assertTrue(consumer.next("status", "MINE", "final")[3].startsWith("CLOSED_RECOVER/SUSPECT/NONE \"gone\""));
        provider.onOpen(item -> item.status(StreamStates.CLOSED, DataStates.SUSPECT, StateCodes.NOT_FOUND, "no such name"));
        consumer.tell("open " + World.FEED + " NONE");
        assertTrue(consumer.next("status", "NONE", "final")[3].contains("no such name"));
    }

    @Test
    void ourConsumersPostsAndGenericMessagesReachAnEmaProvider(World w) {
        EmaProvider provider = w.emaProvider();
        Console consumer = consumerOf(w, provider);
        consumer.tell("open " + World.FEED + " A");
        EmaProvider.Item item = provider.awaitOpen("A");
        consumer.next("refresh", "A");
        consumer.tell("post A BID=1.5");
        EmaProvider.Incoming post = provider.inbox().next(i -> i.message().kind == Kind.POST, "post");
        assertTrue(post.message().postAck && post.message().postComplete);
        assertEquals(Map.of(22, new Values.Real(15, 13)), post.message().fields());
        String id = consumer.next("posted", "A")[2];
        provider.acknowledge(post, 0, "taken");
        assertEquals(List.of("answered", id, "", "taken"), List.of(consumer.next("answered", id)));
        consumer.tell("contribute " + World.FEED + " OTHER BID=2");
        EmaProvider.Incoming offStream = provider.inbox().next(i -> i.message().kind == Kind.POST, "post");
        assertEquals("OTHER", offStream.message().name);
        provider.acknowledge(offStream, NakCodes.ACCESS_DENIED, "not you");
        id = consumer.next("posted", "OTHER")[2];
        assertEquals(List.of("answered", id, Integer.toString(NakCodes.ACCESS_DENIED), "not you"), List.of(consumer.next("answered", id)));
        consumer.tell("generic A BID=3");
        Message generic = provider.inbox().next(i -> i.message().kind == Kind.GENERIC, "generic message").message();
        assertEquals(Map.of(22, new Values.Real(3, 14)), generic.fields());
        item.generic(1, Map.of(25, Values.Real.cents(425)));
        assertEquals("ASK=4.25", consumer.next("generic", "A")[3]);
    }

    @Test
    void ourConsumerComesBackWithAnEmaProvider(World w) {
        EmaProvider provider = w.emaProvider();
        Console consumer = consumerOf(w, provider);
        consumer.tell("open " + World.FEED + " A");
        provider.awaitOpen("A");
        consumer.next("refresh", "A");
        consumer.tell("open " + World.FEED + " MINE private");
        consumer.next("refresh", "MINE");
        provider.close();
        assertTrue(consumer.next("status", "A", "")[3].startsWith("OPEN/SUSPECT"));
        assertTrue(consumer.next("status", "MINE", "final")[3].startsWith("CLOSED_RECOVER"));
        provider.onOpen(item -> item.refresh(Quotes.image(item.name(), 7)));
        provider.start();
        assertEquals(printed(Quotes.image("A", 7)), fields(consumer.next("refresh", "A", "", ""), 5));
        provider.awaitOpen("A").update(8);
        assertEquals(printed(Quotes.update("A", 8)), fields(consumer.next("update", "A"), 3));
    }

    private static EmaConsumer consumerOf(World w, Console provider) {
        var config = EmaFactory.createOmmConsumerConfig().host("localhost:" + provider.port()).username("user");
        return w.emaConsumer(config);
    }

    private static Map<Integer, Object> bid(long cents) {
        return Map.of(22, new Values.Real(cents / 10, 13));
    }

    @Test
    void anEmaConsumerHasImagesUpdatesAndTheEndOfOurProvider(World w) {
        Console provider = w.with(Console.listen(0, World.FEED));
        provider.tell("publish A BID=1.5 DSPLY_NAME=NAME");
        // EMA's constructor has logged in, and has directory and dictionary.
        EmaConsumer consumer = consumerOf(w, provider);
        var stream = consumer.open(World.FEED, "A");
        Message image = stream.next().solicitedImage().openOk();
        assertEquals(new TreeMap<>(Map.of(22, new Values.Real(15, 13), 3, "NAME")), new TreeMap<>(image.fields()));
        provider.next("wanted", "A");
        for (int n = 1; n <= 1000; n++) {
            provider.tell("publish A BID=" + n + ".5");
        }
        for (int n = 1; n <= 1000; n++) {
            stream.next().is(Kind.UPDATE).fields(bid(n * 100L + 50));
        }
        provider.tell("image A BID=7.5");
        stream.next().unsolicitedImage().openOk().fields(bid(750));
        Message snapshot = consumer.open(EmaFactory.createReqMsg().serviceName(World.FEED).name("A").interestAfterRefresh(false)).next();
        snapshot.solicitedImage().state(StreamStates.NON_STREAMING, DataStates.OK).fields(bid(750));
        var mine = consumer.open(EmaFactory.createReqMsg().serviceName(World.FEED).name("A").privateStream(true));
        assertTrue(mine.next().solicitedImage().openOk().fields(bid(750)).privateStream);
        consumer.open(World.FEED, "NONE").next().is(Kind.STATUS).state(StreamStates.CLOSED, DataStates.SUSPECT, StateCodes.NOT_FOUND);
        var refused = consumer.open(EmaFactory.createReqMsg().serviceName(World.FEED).name("NONE").privateStream(true));
        refused.next().is(Kind.STATUS).state(StreamStates.CLOSED, DataStates.SUSPECT, StateCodes.NOT_FOUND);
        provider.tell("end A the end of it");
        assertEquals("the end of it", stream.next().is(Kind.STATUS).state(StreamStates.CLOSED, DataStates.SUSPECT).state.text());
        mine.next().is(Kind.STATUS).state(StreamStates.CLOSED, DataStates.SUSPECT);
    }

    @Test
    void anEmaConsumersPostsAndGenericMessagesReachOurProvider(World w) {
        Console provider = w.with(Console.listen(0, World.FEED, "takes-posts"));
        provider.tell("publish A BID=1.5");
        var stream = consumerOf(w, provider).open(World.FEED, "A");
        stream.next().solicitedImage().openOk();
        stream.post(EmaFactory.createPostMsg()
                .domainType(EmaRdm.MMT_MARKET_PRICE)
                .postId(42)
                .seqNum(1)
                .solicitAck(true)
                .complete(true)
                .payload(Ema.fields(Map.of(22, Values.Real.cents(225)))));
        assertEquals("BID=2.25", provider.next("posted", "A")[2]);
        Message ack = stream.next().is(Kind.ACK);
        assertEquals(42, ack.ackId);
        assertEquals(null, ack.nakCode);
        stream.generic(EmaFactory.createGenericMsg()
                .domainType(EmaRdm.MMT_MARKET_PRICE)
                .complete(true)
                .payload(Ema.fields(Map.of(22, Values.Real.cents(325)))));
        assertEquals("BID=3.25", provider.next("generic", "A")[2]);
        provider.tell("answer BID=4.5");
        assertEquals(bid(450), stream.next().is(Kind.GENERIC).fields());
    }

    @Test
    void aProviderThatTakesNoPostsSaysSoAndRefusesThem(World w) {
        Console provider = w.with(Console.listen(0, World.FEED));
        provider.tell("publish A BID=1.5");
        var stream = consumerOf(w, provider).open(World.FEED, "A");
        stream.next().solicitedImage().openOk();
        // The login says it: EMA does not even send one.
        var refused = assertThrows(OmmException.class, () -> stream.post(EmaFactory.createPostMsg()
                .domainType(EmaRdm.MMT_MARKET_PRICE)
                .postId(42)
                .solicitAck(true)
                .complete(true)
                .payload(Ema.fields(Map.of(22, Values.Real.cents(225))))));
        assertTrue(refused.getMessage().contains("Posting not supported by provider"), refused::getMessage);
        EtaClient client = w.with(EtaClient.loggedIn("eta-client", provider.port()));
        client.request(10, client.awaitService(World.FEED), "A");
        client.next(10).solicitedImage().openOk();
        client.post(10, EmaRdm.MMT_MARKET_PRICE, 43, Body.fields(Map.of(22, Values.Real.cents(225))), p -> {});
        Message nak = client.next(10).is(Kind.ACK);
        assertEquals(43, nak.ackId);
        assertEquals(NakCodes.DENIED_BY_SRC, nak.nakCode);
    }

    @Test
    void anEmaConsumerComesBackWithOurProvider(World w) {
        Console provider = w.with(Console.listen(0, World.FEED));
        provider.tell("publish A BID=1.5");
        var stream = consumerOf(w, provider).open(World.FEED, "A");
        stream.next().solicitedImage().openOk();
        provider.kill();
        stream.next().is(Kind.STATUS).openSuspect();
        Console again = w.with(Console.listen(provider.port(), World.FEED, "waits"));
        again.tell("publish A BID=2.5");
        Message next = stream.next();
        while (next.kind == Kind.STATUS) {
            next = stream.next();
        }
        next.is(Kind.REFRESH).openOk().fields(bid(250));
        again.tell("publish A BID=3.5");
        stream.next().is(Kind.UPDATE).fields(bid(350));
    }

    @Test
    void anEtaConsumersBatchViewAndBookkeepingHoldAtOurProvider(World w) {
        Console provider = w.with(Console.listen(0, World.FEED));
        for (String name : List.of("A", "B")) {
            provider.tell("publish " + name + " BID=1.5 ASK=2.5");
        }
        provider.tell("list ALL A,B");
        EtaClient client = w.with(EtaClient.loggedIn("eta-client", provider.port()));
        int service = client.awaitService(World.FEED);
        client.batch(10, 6, service, List.of("A", "B", "NONE"), r -> {});
        client.next(10).is(Kind.STATUS).state(StreamStates.CLOSED, DataStates.OK);
        client.next(11).solicitedImage().openOk();
        client.next(12).solicitedImage().openOk();
        client.next(13).is(Kind.STATUS).closed(StateCodes.NOT_FOUND);
        client.request(20, 6, service, "A", r -> r.flags(r.flags() | RequestMsgFlags.HAS_VIEW), EtaClient.view(List.of(22)));
        client.next(20).solicitedImage().openOk().fields(bid(150));
        client.request(30, 10, service, "ALL", r -> {}, Body.NONE);
        var names = new LinkedHashMap<Object, Object>();
        client.next(30).solicitedImage().openOk().tree().entries().forEach(entry -> names.put(entry.id(), entry.action()));
        assertEquals(List.of("A", "B"), List.copyOf(names.keySet()));
        // An update without a field of the view is none for it.
        provider.tell("publish A ASK=9.5").tell("publish A BID=3.5 ASK=4.5");
        client.next(11).is(Kind.UPDATE);
        assertEquals(2, client.next(11).is(Kind.UPDATE).fields().size());
        client.next(20).is(Kind.UPDATE).fields(bid(350));
    }

    @Test
    void emaAndOurConsumerHaveWhatOurNonInteractiveProviderPublishesAtAServer(World w) {
        w.serve();
        Console provider = w.with(Console.dial(w.nipPort(), World.FEED));
        provider.tell("publish A BID=1.5");
        w.awaitPublished(World.FEED, "A");
        var stream = w.emaConsumer().open(World.FEED, "A");
        stream.next().solicitedImage().openOk().fields(bid(150));
        Console consumer = w.with(Console.watch(w.port(), "user"));
        consumer.tell("open " + World.FEED + " A");
        assertEquals("BID=1.5", consumer.next("refresh", "A")[5]);
        for (int n = 2; n <= 500; n++) {
            provider.tell("publish A BID=" + n + ".5");
        }
        for (int n = 2; n <= 500; n++) {
            stream.next().is(Kind.UPDATE).fields(bid(n * 100L + 50));
            assertEquals("BID=" + n + ".5", consumer.next("update", "A")[3]);
        }
        provider.kill();
        stream.next().is(Kind.STATUS).openSuspect();
        assertTrue(consumer.next("status", "A", "")[3].startsWith("OPEN/SUSPECT"));
        w.with(Console.dial(w.nipPort(), World.FEED)).tell("publish A BID=7.5");
        Message next = stream.next();
        while (next.kind == Kind.STATUS) {
            next = stream.next();
        }
        next.is(Kind.REFRESH).openOk().fields(bid(750));
        assertEquals("BID=7.5", consumer.next("refresh", "A")[5]);
    }
}
