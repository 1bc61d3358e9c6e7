package quoteway.interop.peer;

import com.refinitiv.ema.access.AckMsg;
import com.refinitiv.ema.access.DataType;
import com.refinitiv.ema.access.ElementList;
import com.refinitiv.ema.access.EmaFactory;
import com.refinitiv.ema.access.FieldEntry;
import com.refinitiv.ema.access.GenericMsg;
import com.refinitiv.ema.access.Map;
import com.refinitiv.ema.access.MapEntry;
import com.refinitiv.ema.access.Msg;
import com.refinitiv.ema.access.OmmConsumer;
import com.refinitiv.ema.access.OmmConsumerClient;
import com.refinitiv.ema.access.OmmConsumerEvent;
import com.refinitiv.ema.access.OmmState;
import com.refinitiv.ema.access.Payload;
import com.refinitiv.ema.access.RefreshMsg;
import com.refinitiv.ema.access.ReqMsg;
import com.refinitiv.ema.access.StatusMsg;
import com.refinitiv.ema.access.UpdateMsg;
import com.refinitiv.ema.rdm.EmaRdm;
import java.util.Queue;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentLinkedQueue;

/**
 * An EMA consumer for {@code quoteway scenario}: everything default, items from the command line, of the server that {@code QUOTEWAY_PORT} names,
 * or of it and the one of {@code QUOTEWAY_PORT_2} as a warm-standby pair. It logs in
 * by a token, which it renews as the login says; it writes what it uses of its items, and posts to the first once a second, each time something else.
 */
public final class ScenarioConsumer implements OmmConsumerClient {
    private static final class Image {
        final TreeSet<Integer> fields = new TreeSet<>();
        boolean complete;
        boolean good;
    }

    private static final String LOGIN = "login";

    private final java.util.Map<String, Image> images = new TreeMap<>();
    /** When the login is to be reissued, seconds since 1970; 0 for never. */
    private long renewAt;
    /** Names under which items are to be had that were redirected: the application opens them, not EMA. */
    private final Queue<String> redirected = new ConcurrentLinkedQueue<>();

    private static ReqMsg login(long number) {
        var attributes = EmaFactory.createElementList();
        attributes.add(EmaFactory.createElementEntry().ascii("AuthenticationToken", "token " + number));
        return EmaFactory.createReqMsg().domainType(EmaRdm.MMT_LOGIN).name("\0").nameType(EmaRdm.USER_AUTH_TOKEN).attrib(attributes);
    }

    /** The configuration of a warm-standby pair, by login. */
    private static Map warmStandby(String active, String standby) {
        var consumer = EmaFactory.createElementList();
        consumer.add(EmaFactory.createElementEntry().ascii("WarmStandbyChannelSet", "Pair"));
        var channels = EmaFactory.createMap();
        var servers = EmaFactory.createMap();
        for (String port : new String[] {active, standby}) {
            var channel = EmaFactory.createElementList();
            channel.add(EmaFactory.createElementEntry().enumValue("ChannelType", 0));
            channel.add(EmaFactory.createElementEntry().ascii("Host", "localhost"));
            channel.add(EmaFactory.createElementEntry().ascii("Port", port));
            channels.add(EmaFactory.createMapEntry().keyAscii("Channel" + port, MapEntry.MapAction.ADD, channel));
            var server = EmaFactory.createElementList();
            server.add(EmaFactory.createElementEntry().ascii("Channel", "Channel" + port));
            servers.add(EmaFactory.createMapEntry().keyAscii("Server" + port, MapEntry.MapAction.ADD, server));
        }
        var pair = EmaFactory.createElementList();
        pair.add(EmaFactory.createElementEntry().ascii("StartingActiveServer", "Server" + active));
        pair.add(EmaFactory.createElementEntry().ascii("StandbyServerSet", "Server" + standby));
        pair.add(EmaFactory.createElementEntry().enumValue("WarmStandbyMode", 1));
        var map = EmaFactory.createMap();
        add(map, "ConsumerGroup", "ConsumerList", named("Consumer", consumer));
        add(map, "ChannelGroup", "ChannelList", channels);
        add(map, "WarmStandbyServerInfoGroup", "WarmStandbyServerInfoList", servers);
        add(map, "WarmStandbyGroup", "WarmStandbyList", named("Pair", pair));
        return map;
    }

    private static Map named(String name, ElementList content) {
        var map = EmaFactory.createMap();
        map.add(EmaFactory.createMapEntry().keyAscii(name, MapEntry.MapAction.ADD, content));
        return map;
    }

    private static void add(Map map, String group, String list, Map content) {
        var elements = EmaFactory.createElementList();
        elements.add(EmaFactory.createElementEntry().map(list, content));
        map.add(EmaFactory.createMapEntry().keyAscii(group, MapEntry.MapAction.ADD, elements));
    }

    public static void main(String[] arguments) throws InterruptedException {
        var client = new ScenarioConsumer();
        String second = System.getenv("QUOTEWAY_PORT_2");
        var config = EmaFactory.createOmmConsumerConfig();
        if (second == null) {
            config.host("localhost:" + System.getenv("QUOTEWAY_PORT"));
        } else {
            config.config(warmStandby(System.getenv("QUOTEWAY_PORT"), second)).consumerName("Consumer");
        }
        var consumer = EmaFactory.createOmmConsumer(config.addAdminMsg(login(0)));
        long session = consumer.registerClient(EmaFactory.createReqMsg().domainType(EmaRdm.MMT_LOGIN), client, LOGIN);
        long first = 0;
        for (String item : arguments) {
            var request = EmaFactory.createReqMsg().serviceName("DIRECT_FEED").name(item);
            long handle = consumer.registerClient(request, client, item);
            first = first == 0 ? handle : first;
        }
        for (long tick = 1; ; tick++) {
            Thread.sleep(200);
            client.report();
            for (String name; (name = client.redirected.poll()) != null; ) {
                consumer.registerClient(EmaFactory.createReqMsg().serviceName("DIRECT_FEED").name(name), client, name);
            }
            if (client.isToRenew()) {
                consumer.reissue(login(tick), session);
            }
            if (tick % 5 == 0) {
                client.post(consumer, first, tick);
            }
        }
    }

    private void post(OmmConsumer consumer, long handle, long id) {
        var fields = EmaFactory.createFieldList();
        fields.add(EmaFactory.createFieldEntry().real(22, 1000 + id, 12));
        try {
            consumer.submit(EmaFactory.createPostMsg().postId(id).solicitAck(true).complete(true).payload(fields), handle);
        } catch (RuntimeException notOpen) {
            // An item that is not open takes no posts: the next second tries again.
            System.err.println("no post: " + notOpen.getMessage());
        }
    }

    private synchronized boolean isToRenew() {
        boolean due = renewAt != 0 && System.currentTimeMillis() / 1000 + 1 >= renewAt;
        if (due) {
            renewAt = 0;
        }
        return due;
    }

    private synchronized void report() {
        images.forEach((item, image) -> {
            var line = new StringBuilder("uses ").append(item);
            if (image.complete && image.good) {
                image.fields.forEach(field -> line.append(' ').append(field).append("=1"));
            } else {
                line.append(" nothing");
            }
            System.out.println(line);
        });
    }

    @Override
    public synchronized void onRefreshMsg(RefreshMsg refresh, OmmConsumerEvent event) {
        if (event.closure() == LOGIN) {
            var model = EmaFactory.Domain.createLoginRefresh().message(refresh);
            renewAt = model.hasAuthenticationTTReissue() ? model.authenticationTTReissue() : 0;
            return;
        }
        var image = images.computeIfAbsent((String) event.closure(), item -> new Image());
        if (refresh.clearCache()) {
            image.fields.clear();
        }
        image.complete = refresh.complete();
        take(image, refresh.payload());
        take(image, refresh.state());
    }

    @Override
    public synchronized void onUpdateMsg(UpdateMsg update, OmmConsumerEvent event) {
        var image = images.get((String) event.closure());
        if (image != null) {
            take(image, update.payload());
        }
    }

    @Override
    public synchronized void onStatusMsg(StatusMsg status, OmmConsumerEvent event) {
        if (event.closure() == LOGIN) {
            // EMA tells the items of a closed login nothing: an application has to look at its login.
            if (status.hasState() && status.state().streamState() != OmmState.StreamState.OPEN) {
                images.values().forEach(image -> image.good = false);
            }
            return;
        }
        var image = images.get((String) event.closure());
        if (image != null && status.hasState()) {
            take(image, status.state());
        }
        if (status.hasState() && status.state().streamState() == OmmState.StreamState.CLOSED_REDIRECTED && status.hasName()) {
            redirected.add(status.name());
        }
    }

    private static void take(Image image, OmmState state) {
        if (state.dataState() != OmmState.DataState.NO_CHANGE) {
            image.good = state.dataState() == OmmState.DataState.OK && state.streamState() == OmmState.StreamState.OPEN;
        }
    }

    private static void take(Image image, Payload payload) {
        if (payload.dataType() == DataType.DataTypes.FIELD_LIST) {
            for (FieldEntry field : payload.fieldList()) {
                image.fields.add(field.fieldId());
            }
        }
    }

    @Override
    public void onGenericMsg(GenericMsg generic, OmmConsumerEvent event) {}

    @Override
    public void onAckMsg(AckMsg ack, OmmConsumerEvent event) {}

    @Override
    public void onAllMsg(Msg msg, OmmConsumerEvent event) {}
}
