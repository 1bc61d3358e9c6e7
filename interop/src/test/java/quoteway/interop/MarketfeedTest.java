package quoteway.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.refinitiv.ema.access.EmaFactory;
import com.refinitiv.ema.access.OmmOpaque;
import com.refinitiv.eta.codec.DataTypes;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import quoteway.interop.peer.EmaConsumer;
import quoteway.interop.peer.EmaProvider;
import quoteway.interop.peer.Service;
import quoteway.interop.wire.Ema;
import quoteway.interop.wire.Message;
import quoteway.interop.wire.Message.Kind;
import quoteway.interop.wire.Quotes;

/** Marketfeed records as OPAQUE payloads: what EMA gets of them, and what becomes of those that it publishes. */
@ExtendWith(World.Extension.class)
class MarketfeedTest {
    private static EmaConsumer consumer(World w) {
        return w.emaConsumer(EmaFactory.createOmmConsumerConfig().host("localhost:" + w.port()).username("user"));
    }

    private static String record(Message message) {
        assertEquals(DataTypes.OPAQUE, message.container, message::toString);
        return new String(HexFormat.of().parseHex((String) message.payload), StandardCharsets.ISO_8859_1);
    }

    private static OmmOpaque opaque(String record) {
        return EmaFactory.createOmmOpaque().buffer(ByteBuffer.wrap(record.getBytes(StandardCharsets.ISO_8859_1)));
    }

    @Test
    void emaGetsRecords(World w) throws IOException {
        EmaProvider provider = w.emaProvider(Service.of(World.FEED, 17))
                .onOpen(item -> item.refresh(item.newRefresh().payload(Ema.fields(Quotes.image(item.name(), 0)))));
        w.serve("[p2ps]\nmarketfeed = \"all\"\n", provider.port());
        var stream = consumer(w).open(World.FEED, "IBM.N");
        String image = record(stream.next().solicitedImage().openOk());
        assertTrue(image.startsWith("\u001c340\u001f\u001dIBM.N\u001f") && image.endsWith("\u001c"), image);
        assertTrue(image.contains("\u001e3\u001fIBM.N\u001e"), image);
        assertTrue(image.matches("(?s).*\u001e22\u001f\\d+\\.\\d\\d\u001e.*"), image);
        provider.awaitOpen("IBM.N").update(1);
        String update = record(stream.next().is(Kind.UPDATE));
        assertTrue(update.startsWith("\u001c316\u001f\u001dIBM.N\u001f"), update);
        assertTrue(update.contains("\u001e178\u001f1\u001c"), update);
    }

    @Test
    void recordsOfEmaBecomeFields(World w) throws IOException {
        String image = "\u001c340\u001fXX\u001dGBP=\u001f152\u001f4710\u001e22\u001f1.5510\u001e3\u001fSTERLING\u001c";
        EmaProvider provider = w.emaProvider(Service.of(World.FEED, 17))
                .onOpen(item -> item.refresh(item.newRefresh().payload(opaque(image))));
        w.serve("[source_distributor]\nconvert_mfeed_data_to_rwf = true\n", provider.port());
        var stream = consumer(w).open(World.FEED, "GBP=");
        var fields = stream.next().solicitedImage().openOk().fields();
        assertEquals("STERLING", fields.get(3));
        assertTrue(fields.get(22).toString().contains("15510"), fields::toString);
        String update = "\u001c316\u001fXX\u001dGBP=\u001f4711\u001e22\u001f1.5520\u001c";
        provider.awaitOpen("GBP=").update(1, opaque(update));
        var changed = stream.next().is(Kind.UPDATE).fields();
        assertTrue(changed.size() == 1 && changed.get(22).toString().contains("15520"), changed::toString);
    }
}
