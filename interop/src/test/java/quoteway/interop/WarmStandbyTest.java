package quoteway.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.refinitiv.ema.access.EmaFactory;
import com.refinitiv.ema.access.Map;
import com.refinitiv.ema.access.MapEntry;
import com.refinitiv.ema.access.OmmConsumerConfig;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import quoteway.interop.peer.EmaConsumer;
import quoteway.interop.peer.EmaProvider;
import quoteway.interop.wire.Message.Kind;
import quoteway.interop.wire.Quotes;

/** EMA's warm standby: a consumer with two servers, of which one serves it and the other is warm. */
@ExtendWith(World.Extension.class)
class WarmStandbyTest {
    /** EMA's {@code WarmStandbyMode}. */
    enum Mode {
        LOGIN_BASED(1),
        SERVICE_BASED(2);

        final int number;

        Mode(int number) {
            this.number = number;
        }
    }

    @ParameterizedTest
    @EnumSource(Mode.class)
    void theStandbyTakesOverWithAnImageOfEachItem(Mode mode, World w) {
        EmaProvider first = w.emaProvider();
        EmaProvider second = w.emaProvider();
        String ids = "[p2ps]\nservice_ids = [\"" + World.FEED + "=4711\"]\n";
        Quoteway active = w.serve(ids, first.port());
        int activePort = w.port();
        // By service, EMA takes the server that has the service first, whatever it was told to start with.
        w.awaitService(World.FEED);
        w.serve(ids, second.port());
        w.awaitService(World.FEED);
        EmaConsumer consumer = w.emaConsumer(config(mode, activePort, w.port()));
        List<String> names = List.of("A", "B");
        List<EmaConsumer.Stream> streams = new ArrayList<>();
        List<EmaProvider.Item> served = new ArrayList<>();
        List<EmaProvider.Item> warm = new ArrayList<>();
        for (String name : names) {
            streams.add(consumer.open(World.FEED, name));
            served.add(first.awaitOpen(name));
            warm.add(second.awaitOpen(name));
        }
        for (int i = 0; i < names.size(); i++) {
            streams.get(i).next().solicitedImage().openOk();
            warm.get(i).update(1);
            served.get(i).update(1);
            streams.get(i).next().is(Kind.UPDATE).fields(Quotes.update(names.get(i), 1));
            streams.get(i).inbox().assertEmpty();
        }
        active.kill();
        // What comes first from the other server is an image; updates go on behind it.
        for (int i = 0; i < names.size(); i++) {
            var next = streams.get(i).next();
            while (next.kind == Kind.STATUS) {
                next = streams.get(i).next();
            }
            String name = names.get(i);
            assertEquals(Kind.REFRESH, next.kind, () -> "after the server of " + name + " has gone");
            next.openOk();
            warm.get(i).update(2);
            streams.get(i).next().is(Kind.UPDATE).fields(Quotes.update(name, 2));
            streams.get(i).inbox().assertEmpty();
        }
    }

    private static OmmConsumerConfig config(Mode mode, int first, int second) {
        Map root = EmaFactory.createMap();
        Map channels = EmaFactory.createMap();
        channels.add(channel("First", first));
        channels.add(channel("Second", second));
        Map servers = EmaFactory.createMap();
        for (String name : List.of("First", "Second")) {
            servers.add(entry(name + "Server", list("Channel", name)));
        }
        var group = EmaFactory.createElementList();
        group.add(EmaFactory.createElementEntry().ascii("StartingActiveServer", "FirstServer"));
        group.add(EmaFactory.createElementEntry().ascii("StandbyServerSet", "SecondServer"));
        group.add(EmaFactory.createElementEntry().enumValue("WarmStandbyMode", mode.number));
        Map groups = EmaFactory.createMap();
        groups.add(entry("Group", group));
        Map consumers = EmaFactory.createMap();
        consumers.add(entry("Consumer", list("WarmStandbyChannelSet", "Group")));
        var all = EmaFactory.createElementList();
        all.add(EmaFactory.createElementEntry().ascii("DefaultConsumer", "Consumer"));
        all.add(EmaFactory.createElementEntry().map("ConsumerList", consumers));
        root.add(entry("ConsumerGroup", all));
        root.add(entry("ChannelGroup", map("ChannelList", channels)));
        root.add(entry("WarmStandbyServerInfoGroup", map("WarmStandbyServerInfoList", servers)));
        root.add(entry("WarmStandbyGroup", map("WarmStandbyList", groups)));
        return EmaFactory.createOmmConsumerConfig().config(root).username("user");
    }

    private static MapEntry channel(String name, int port) {
        var settings = EmaFactory.createElementList();
        settings.add(EmaFactory.createElementEntry().enumValue("ChannelType", 0));
        settings.add(EmaFactory.createElementEntry().ascii("Host", "localhost"));
        settings.add(EmaFactory.createElementEntry().ascii("Port", String.valueOf(port)));
        return entry(name, settings);
    }

    private static com.refinitiv.ema.access.ElementList list(String name, String value) {
        var list = EmaFactory.createElementList();
        list.add(EmaFactory.createElementEntry().ascii(name, value));
        return list;
    }

    private static com.refinitiv.ema.access.ElementList map(String name, Map value) {
        var list = EmaFactory.createElementList();
        list.add(EmaFactory.createElementEntry().map(name, value));
        return list;
    }

    private static MapEntry entry(String name, com.refinitiv.ema.access.ElementList value) {
        return EmaFactory.createMapEntry().keyAscii(name, MapEntry.MapAction.ADD, value);
    }
}
