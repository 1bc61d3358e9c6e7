package quoteway.interop;

import java.nio.file.Path;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;
import quoteway.interop.peer.EmaConsumer;
import quoteway.interop.peer.EmaProvider;
import quoteway.interop.wire.Message;
import quoteway.interop.wire.Message.Kind;
import quoteway.interop.wire.Quotes;

/** An unmodified EMA consumer of a service that the server delays itself, item by item as it is asked for. */
@ExtendWith(World.Extension.class)
class DelayTest {
    private static final String ITEM = "DELAYED.N";

    @Test
    void emaIsToldThatDataIsToComeAndHasItWhenItIsDue(World w, @TempDir Path journal) {
        EmaProvider provider = w.emaProvider().onOpen(item -> item.refresh(Quotes.image(item.name(), 0)));
        w.serve(
                """
                [delay.LATE]
                delayed_service = "%s"
                delay_s = 3
                delay_journal = "%s"
                fee_fields = ["22", "25", "30", "31", "6", "178"]
                """.formatted(World.FEED, journal),
                provider.port());
        EmaConsumer.Stream stream = w.with(new EmaConsumer("late", w.port())).open("LATE", ITEM);
        EmaProvider.Item item = provider.awaitOpen(ITEM);
        Message first = stream.next();
        // EMA tells of a service that is not there yet.
        while (first.kind == Kind.STATUS) {
            first = stream.next();
        }
        first.is(Kind.REFRESH).openSuspect();
        var free = Message.newFields();
        free.putAll(Quotes.image(ITEM, 0));
        free.keySet().removeAll(Set.of(22, 25, 30, 31, 6, 178));
        first.fields(free);
        for (long s = 1; s <= 10; s++) {
            item.update(s);
        }
        stream.next().is(Kind.REFRESH).openOk().fields(Quotes.image(ITEM, 0));
        for (long s = 1; s <= 10; s++) {
            stream.next().is(Kind.UPDATE).fields(Quotes.update(ITEM, s));
        }
        // Who asks later finds what is due.
        stream.close();
        Message late = w.with(new EmaConsumer("later", w.port())).open("LATE", ITEM).next();
        var image = Message.newFields();
        image.putAll(Quotes.image(ITEM, 0));
        image.putAll(Quotes.update(ITEM, 10));
        late.is(Kind.REFRESH).openOk().fields(image);
    }
}
