package quoteway.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.refinitiv.ema.access.EmaFactory;
import com.refinitiv.ema.access.Map;
import com.refinitiv.ema.access.MapEntry;
import com.refinitiv.ema.access.OmmConsumerConfig;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import quoteway.interop.peer.EmaConsumer;
import quoteway.interop.peer.EmaProvider;
import quoteway.interop.peer.Ports;
import quoteway.interop.wire.Message;
import quoteway.interop.wire.Message.Kind;
import quoteway.interop.wire.Quotes;

/** EMA's channel set: a consumer that goes to the next server when one is gone, and back to the one that it prefers. */
@ExtendWith(World.Extension.class)
class ChannelSetTest {
    @Test
    void theNextServerTakesOverAndThePreferredOneHasItsClientBack(World w) {
        EmaProvider first = w.emaProvider();
        EmaProvider second = w.emaProvider();
        int preferred = Ports.free();
        Quoteway server = w.serve(List.of(first.port()), "--rssl-port", String.valueOf(preferred));
        w.serve(second.port());
        EmaConsumer consumer = w.emaConsumer(config(preferred, w.port()));
        var stream = consumer.open(World.FEED, "A");
        first.awaitOpen("A").update(1);
        stream.next().solicitedImage().openOk();
        stream.next().is(Kind.UPDATE).fields(Quotes.update("A", 1));

        server.kill();
        var standing = second.awaitOpen("A");
        image(stream);
        standing.update(2);
        stream.next().is(Kind.UPDATE).fields(Quotes.update("A", 2));

        w.serve(List.of(first.port()), "--rssl-port", String.valueOf(preferred));
        var back = first.awaitOpen("A");
        image(stream);
        back.update(3);
        stream.next().is(Kind.UPDATE).fields(Quotes.update("A", 3));
        // No close is awaited at the second server: ETA's worker notes the connection that is to be closed after it has told the
        // reactor to switch (Worker.run, PREFERRED_HOST_SWITCH_CHANNEL), so that on a busy machine the old connection stays open.
    }

    /** What follows is an image, after any number of states. */
    private static void image(EmaConsumer.Stream stream) {
        Message next = stream.next();
        while (next.kind == Kind.STATUS) {
            next = stream.next();
        }
        assertEquals(Kind.REFRESH, next.kind);
        next.openOk();
    }

    private static OmmConsumerConfig config(int first, int second) {
        Map channels = EmaFactory.createMap();
        channels.add(channel("First", first));
        channels.add(channel("Second", second));
        var consumer = EmaFactory.createElementList();
        consumer.add(EmaFactory.createElementEntry().ascii("ChannelSet", "First, Second"));
        consumer.add(EmaFactory.createElementEntry().intValue("ReconnectAttemptLimit", -1));
        consumer.add(EmaFactory.createElementEntry().intValue("ReconnectMinDelay", 100));
        consumer.add(EmaFactory.createElementEntry().intValue("ReconnectMaxDelay", 200));
        consumer.add(EmaFactory.createElementEntry().uintValue("EnablePreferredHostOptions", 1));
        consumer.add(EmaFactory.createElementEntry().uintValue("PHDetectionTimeInterval", 1));
        consumer.add(EmaFactory.createElementEntry().ascii("PreferredChannelName", "First"));
        Map consumers = EmaFactory.createMap();
        consumers.add(entry("Consumer", consumer));
        var group = EmaFactory.createElementList();
        group.add(EmaFactory.createElementEntry().ascii("DefaultConsumer", "Consumer"));
        group.add(EmaFactory.createElementEntry().map("ConsumerList", consumers));
        var list = EmaFactory.createElementList();
        list.add(EmaFactory.createElementEntry().map("ChannelList", channels));
        Map root = EmaFactory.createMap();
        root.add(entry("ConsumerGroup", group));
        root.add(entry("ChannelGroup", list));
        return EmaFactory.createOmmConsumerConfig().config(root).username("user");
    }

    private static MapEntry channel(String name, int port) {
        var settings = EmaFactory.createElementList();
        settings.add(EmaFactory.createElementEntry().enumValue("ChannelType", 0));
        settings.add(EmaFactory.createElementEntry().ascii("Host", "localhost"));
        settings.add(EmaFactory.createElementEntry().ascii("Port", String.valueOf(port)));
        return entry(name, settings);
    }

    private static MapEntry entry(String name, com.refinitiv.ema.access.ElementList value) {
        return EmaFactory.createMapEntry().keyAscii(name, MapEntry.MapAction.ADD, value);
    }
}
