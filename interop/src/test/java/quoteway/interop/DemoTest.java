package quoteway.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.math.BigDecimal;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import quoteway.interop.wire.Message;
import quoteway.interop.wire.Message.Kind;
import quoteway.interop.wire.Values;

/** The demo as someone meets it who runs the SDK's training examples against it. */
@ExtendWith(World.Extension.class)
class DemoTest {
    @Test
    void theNamesOfTheTrainingExamplesStreamLikeAMarket(World w) {
        Quoteway demo = w.demo("--speed", "50");
        var consumer = w.emaConsumer();
        for (String name : List.of("IBM.N", "TRI.N", "ANY.NAME")) {
            var stream = consumer.open("DIRECT_FEED", name);
            Message image = stream.next().solicitedImage().openOk();
            assertEquals(name, image.name);
            Map<Integer, Object> quote = new HashMap<>(image.fields());
            Long last = null;
            for (int n = 0; n < 20; n++) {
                BigDecimal bid = decimal(quote.get(22));
                BigDecimal ask = decimal(quote.get(25));
                assertTrue(bid.signum() > 0 && bid.compareTo(ask) < 0, "bid " + bid + " ask " + ask + " of " + name);
                Message update = stream.next().is(Kind.UPDATE);
                assertTrue(!update.fields().isEmpty());
                if (last != null && update.sequence != null) {
                    assertTrue(update.sequence > last, update.toString());
                }
                last = update.sequence;
                quote.putAll(update.fields());
            }
            stream.close();
        }
        assertTrue(demo.log().contains(".host(\"localhost:" + demo.rsslPort() + "\")"), "the line that connects an EMA consumer:\n" + demo.log());
    }

    /** A price of this many decimals (ETA's hints of 10 to the power of -14 to 0). */
    private static BigDecimal decimal(Object value) {
        var real = assertInstanceOf(Values.Real.class, value);
        return BigDecimal.valueOf(real.mantissa(), 14 - real.hint());
    }
}
