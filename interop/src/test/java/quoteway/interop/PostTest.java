package quoteway.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.refinitiv.ema.access.EmaFactory;
import com.refinitiv.ema.rdm.EmaRdm;
import com.refinitiv.eta.codec.DataStates;
import com.refinitiv.eta.codec.MsgClasses;
import com.refinitiv.eta.codec.NakCodes;
import com.refinitiv.eta.codec.RefreshMsg;
import com.refinitiv.eta.codec.StreamStates;
import com.refinitiv.eta.codec.UpdateMsg;
import com.refinitiv.eta.rdm.DomainTypes;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import quoteway.interop.peer.EmaConsumer;
import quoteway.interop.peer.EmaNip;
import quoteway.interop.peer.EmaProvider;
import quoteway.interop.peer.EtaClient;
import quoteway.interop.peer.EtaProvider;
import quoteway.interop.peer.EtaSession;
import quoteway.interop.peer.Service;
import quoteway.interop.wire.Body;
import quoteway.interop.wire.Ema;
import quoteway.interop.wire.Message;
import quoteway.interop.wire.Message.Kind;
import quoteway.interop.wire.Quotes;

/** Posts to the provider of an item, and what becomes of their acknowledgements. */
@ExtendWith(World.Extension.class)
class PostTest {
    private static final int MP = DomainTypes.MARKET_PRICE;

    @Test
    void emaPostsOnAndOffStream(World w) {
        EmaProvider provider = w.emaProvider(Service.of(World.FEED, 17));
        w.serve(provider.port());
        EmaConsumer consumer = w.emaConsumer();
        var login = consumer.login();
        login.next().is(Kind.REFRESH).openOk();
        var stream = consumer.open(World.FEED, "POST");
        Message image = stream.next().solicitedImage().openOk();
        provider.awaitOpen("POST");

        stream.post(EmaFactory.createPostMsg()
                .domainType(EmaRdm.MMT_MARKET_PRICE)
                .postId(1)
                .seqNum(10)
                .solicitAck(true)
                .complete(true)
                .payload(Ema.fields(Quotes.update("POST", 1))));
        EmaProvider.Incoming post = provider.inbox().next();
        post.message().is(Kind.POST).fields(Quotes.update("POST", 1));
        assertEquals(10, post.message().sequence);
        assertTrue(post.message().postAck);
        provider.acknowledge(post, 0, "thanks");
        Message ack = stream.next().is(Kind.ACK);
        assertEquals(1, ack.ackId);
        assertEquals(10, ack.sequence);
        assertEquals("thanks", ack.text);
        assertNull(ack.nakCode);

        // Off-stream: the login stream carries the post, which names its item.
        login.post(EmaFactory.createPostMsg()
                .domainType(EmaRdm.MMT_MARKET_PRICE)
                .serviceName(World.FEED)
                .name("ELSE")
                .postId(2)
                .seqNum(11)
                .solicitAck(true)
                .complete(true)
                .payload(Ema.fields(Quotes.update("ELSE", 2))));
        post = provider.inbox().next();
        post.message().is(Kind.POST).fields(Quotes.update("ELSE", 2));
        assertEquals("ELSE", post.message().name);
        assertEquals(17, post.message().serviceId, "the provider's own service id, ours is " + image.serviceId);
        provider.acknowledge(post, NakCodes.ACCESS_DENIED, "not yours");
        Message nak = login.next().is(Kind.ACK);
        assertEquals(2, nak.ackId);
        assertEquals(NakCodes.ACCESS_DENIED, nak.nakCode);
        assertEquals("not yours", nak.text);
        stream.inbox().assertEmpty();
    }

    @Test
    void emaPostsAMessageInAMessage(World w) {
        EmaProvider provider = w.emaProvider(Service.of(World.FEED, 17));
        w.serve(provider.port());
        EmaConsumer consumer = w.emaConsumer();
        var stream = consumer.open(World.FEED, "POST");
        int service = stream.next().solicitedImage().openOk().serviceId;
        provider.awaitOpen("POST");
        var nested = EmaFactory.createUpdateMsg()
                .domainType(EmaRdm.MMT_MARKET_PRICE)
                .serviceId(service)
                .name("POST")
                .payload(Ema.fields(Quotes.update("POST", 5)));
        stream.post(EmaFactory.createPostMsg()
                .domainType(EmaRdm.MMT_MARKET_PRICE)
                .serviceId(service)
                .name("POST")
                .postId(3)
                .solicitAck(true)
                .complete(true)
                .payload(nested));
        EmaProvider.Incoming post = provider.inbox().next();
        Message inner = post.message().is(Kind.POST).nested().is(Kind.UPDATE).fields(Quotes.update("POST", 5));
        assertEquals(17, inner.serviceId, "the nested key has the provider's id, too");
        assertEquals(17, post.message().serviceId);
        provider.acknowledge(post, 0, null);
        assertEquals(3, stream.next().is(Kind.ACK).ackId);
    }

    @Test
    void equalPostIdsOfTwoClientsFindTheirWayHome(World w) {
        EtaProvider provider = w.etaProvider(Service.of(World.FEED, 300));
        w.serve(provider.port());
        EtaClient a = w.etaClientOf(World.FEED);
        EtaClient b = w.etaClientOf(World.FEED);
        int service = a.serviceId(World.FEED);
        a.request(5, service, "SAME");
        a.next(5).solicitedImage();
        b.request(9, service, "SAME");
        b.next(9).solicitedImage();
        provider.inbox().drain();
        a.post(5, MP, 1, Body.fields(Quotes.update("fromA", 1)), p -> {});
        b.post(9, MP, 1, Body.fields(Quotes.update("fromB", 1)), p -> {});
        a.postOffStream(MP, service, "SAME", 2, Body.fields(Quotes.update("fromA", 2)));
        b.postOffStream(MP, service, "SAME", 2, Body.fields(Quotes.update("fromB", 2)));
        Map<String, EtaProvider.Incoming> posts = new HashMap<>();
        List<Long> ids = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            EtaProvider.Incoming post = provider.inbox().next();
            post.message().is(Kind.POST);
            ids.add(post.message().postId);
            for (String from : List.of("fromA", "fromB")) {
                for (long n = 1; n <= 2; n++) {
                    if (post.message().fields().equals(Quotes.update(from, n))) {
                        posts.put(from + n, post);
                    }
                }
            }
            if (post.message().name != null) {
                assertEquals(300, post.message().serviceId);
            }
        }
        assertEquals(4, posts.size(), "each with its own content: " + posts);
        assertEquals(4, Set.copyOf(ids).size(), "each with an id of its own at the provider: " + ids);
        // Answered in another order.
        EtaProvider.Item.acknowledge(posts.get("fromB2"), 0, "b2");
        EtaProvider.Item.acknowledge(posts.get("fromA1"), 0, "a1");
        EtaProvider.Item.acknowledge(posts.get("fromB1"), NakCodes.INVALID_CONTENT, "b1");
        EtaProvider.Item.acknowledge(posts.get("fromA2"), 0, "a2");
        ack(a.next(5), 1, null, "a1");
        ack(a.next(EtaClient.LOGIN_STREAM), 2, null, "a2");
        ack(b.next(EtaClient.LOGIN_STREAM), 2, null, "b2");
        ack(b.next(9), 1, NakCodes.INVALID_CONTENT, "b1");
        a.inbox().assertEmpty();
        b.inbox().assertEmpty();
    }

    private static void ack(Message m, long id, Integer nak, String text) {
        m.is(Kind.ACK);
        assertEquals(id, m.ackId, m.toString());
        assertEquals(nak, m.nakCode, m.toString());
        assertEquals(text, m.text, m.toString());
    }

    @Test
    void theServerFillsInWhoPosted(World w) {
        EtaProvider provider = w.etaProvider();
        w.serve(provider.port());
        EtaClient client = w.etaClientOf(World.FEED);
        client.request(5, client.serviceId(World.FEED), "WHO");
        client.next(5).solicitedImage();
        provider.awaitOpen("WHO");
        client.post(5, MP, 1, Body.fields(Quotes.update("WHO", 1)), p -> {
            p.postUserInfo().userId(0);
            p.postUserInfo().userAddr(0);
        });
        Message post = provider.inbox().next().message().is(Kind.POST);
        assertTrue(post.postUser.endsWith("@127.0.0.1"), "the address it came from: " + post);
        assertFalse(post.postUser.startsWith("0@"), "a number for the user: " + post);
        // Who posts for somebody else says so, and that is kept.
        client.post(5, MP, 2, Body.fields(Quotes.update("WHO", 2)), p -> {});
        assertEquals("7@10.1.2.3", provider.inbox().next().message().is(Kind.POST).postUser);
    }

    @Test
    void aPostWithoutAckWantedIsNotAnswered(World w) {
        EtaProvider provider = w.etaProvider();
        w.serve(provider.port());
        EtaClient client = w.etaClientOf(World.FEED);
        client.request(5, client.serviceId(World.FEED), "QUIET");
        client.next(5).solicitedImage();
        EtaProvider.Item item = provider.awaitOpen("QUIET");
        client.post(5, MP, 1, Body.fields(Quotes.update("QUIET", 1)), p -> p.flags(p.flags() & ~com.refinitiv.eta.codec.PostMsgFlags.ACK));
        assertFalse(provider.inbox().next().message().is(Kind.POST).postAck);
        item.update(1);
        client.next(5).is(Kind.UPDATE);
        client.inbox().assertEmpty();
    }

    @Test
    void aPostThatNobodyCanTakeIsRefused(World w) {
        EtaProvider provider = w.etaProvider();
        w.serve("[p2ps]\npost_timeout_s = 1\n", provider.port());
        EtaClient client = w.etaClientOf(World.FEED);
        int service = client.serviceId(World.FEED);
        client.postOffStream(MP, 200, "X", 1, Body.fields(Quotes.update("X", 1)));
        assertEquals(NakCodes.SOURCE_UNKNOWN, client.next(EtaClient.LOGIN_STREAM).is(Kind.ACK).nakCode);

        // A provider that does not answer.
        client.postOffStream(MP, service, "X", 2, Body.fields(Quotes.update("X", 2)));
        EtaProvider.Incoming late = provider.inbox().next();
        Message nak = client.next(EtaClient.LOGIN_STREAM).is(Kind.ACK);
        assertEquals(2, nak.ackId);
        assertEquals(NakCodes.NO_RESPONSE, nak.nakCode);
        EtaProvider.Item.acknowledge(late, 0, "too late");

        // A post on a stream that is not open.
        client.post(77, MP, 3, Body.fields(Quotes.update("X", 3)), p -> {});
        nak = client.next(77).is(Kind.ACK);
        assertEquals(3, nak.ackId);
        assertEquals(NakCodes.NOT_OPEN, nak.nakCode);

        // A provider that is gone.
        provider.kill();
        client.inbox().next(m -> m.streamId == EtaClient.DIRECTORY_STREAM && m.kind == Kind.UPDATE, "directory update");
        client.postOffStream(MP, service, "X", 4, Body.fields(Quotes.update("X", 4)));
        nak = client.next(EtaClient.LOGIN_STREAM).is(Kind.ACK);
        assertEquals(4, nak.ackId);
        assertEquals(NakCodes.SOURCE_DOWN, nak.nakCode);
        client.fence();
        client.inbox().assertEmpty();
    }

    @Test
    void aPostToANonInteractiveServiceIsPublishedToItsWatchers(World w) {
        w.serve();
        var nip = w.emaNip();
        nip.image("HELD", 0);
        w.awaitPublished(EmaNip.SERVICE, "HELD");
        EtaClient poster = w.etaClientOf(EmaNip.SERVICE);
        EtaClient watcher = w.etaClientOf(EmaNip.SERVICE);
        int service = poster.serviceId(EmaNip.SERVICE);
        watcher.request(5, service, "HELD");
        watcher.next(5).solicitedImage().openOk().fields(Quotes.image("HELD", 0));

        var update = (UpdateMsg) EtaSession.message(MsgClasses.UPDATE, 0, MP);
        poster.postOffStream(MP, service, "HELD", 1, Body.message(Body.fields(Quotes.update("HELD", 8)).encode(update)));
        Message ack = poster.next(EtaClient.LOGIN_STREAM).is(Kind.ACK);
        assertEquals(1, ack.ackId);
        assertNull(ack.nakCode, ack.toString());
        watcher.next(5).is(Kind.UPDATE).fields(Quotes.update("HELD", 8));

        // What was posted is in the image from now on.
        EtaClient late = w.etaClientOf(EmaNip.SERVICE);
        late.request(5, service, "HELD");
        var expected = new HashMap<>(Quotes.image("HELD", 0));
        expected.putAll(Quotes.update("HELD", 8));
        late.next(5).solicitedImage().openOk().fields(expected);

        // A whole image by post.
        var refresh = (RefreshMsg) EtaSession.message(MsgClasses.REFRESH, 0, MP);
        refresh.applyRefreshComplete();
        refresh.state().streamState(StreamStates.OPEN);
        refresh.state().dataState(DataStates.OK);
        poster.postOffStream(MP, service, "HELD", 2, Body.message(Body.fields(Quotes.image("HELD", 9)).encode(refresh)));
        assertNull(poster.next(EtaClient.LOGIN_STREAM).is(Kind.ACK).nakCode);
        watcher.next(5).is(Kind.REFRESH).openOk().fields(Quotes.image("HELD", 9));
    }
}
