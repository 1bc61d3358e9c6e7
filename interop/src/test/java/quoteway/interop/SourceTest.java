package quoteway.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.refinitiv.ema.access.EmaFactory;
import com.refinitiv.ema.rdm.EmaRdm;
import com.refinitiv.eta.codec.DataStates;
import com.refinitiv.eta.codec.StreamStates;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import quoteway.interop.peer.EmaConsumer;
import quoteway.interop.wire.Ema;
import quoteway.interop.wire.Message;
import quoteway.interop.wire.Message.Kind;
import quoteway.interop.wire.Quotes;
import quoteway.interop.wire.Values;

/** The simulated source behind the server: what it publishes, takes, and does on command, as EMA sees it. */
@ExtendWith(World.Extension.class)
class SourceTest {
    @Test
    void aPostReachesEverybodyAndLaterImages(World w) {
        Source source = w.with(new Source("-U", "0"));
        w.serve(source.port());
        var poster = w.emaConsumer().open(World.FEED, "POST");
        var watcher = w.emaConsumer().open(World.FEED, "POST");
        poster.next().solicitedImage().openOk();
        watcher.next().solicitedImage().openOk();
        poster.post(EmaFactory.createPostMsg()
                .domainType(EmaRdm.MMT_MARKET_PRICE)
                .postId(1)
                .solicitAck(true)
                .complete(true)
                .payload(Ema.fields(Quotes.update("POST", 7))));
        Message first = poster.next();
        Message second = poster.next();
        assertEquals(1, first.kind == Kind.ACK ? first.ackId : second.ackId, "the acknowledgement");
        (first.kind == Kind.ACK ? second : first).is(Kind.UPDATE).fields(Quotes.update("POST", 7));
        Message update = watcher.next().is(Kind.UPDATE).fields(Quotes.update("POST", 7));
        assertNotNull(update.postUser, "who posted is visible");
        var later = w.emaConsumer().open(World.FEED, "POST");
        Message image = later.next().solicitedImage().openOk();
        assertEquals(Quotes.update("POST", 7).get(22), image.fields().get(22), "the posted bid is in the image");
    }

    @Test
    void whatGoesWrongOnCommandIsSeen(World w) {
        Source source = w.with(new Source("-U", "0"));
        w.serve(source.port());
        EmaConsumer consumer = w.emaConsumer();
        var a = consumer.open(World.FEED, "A");
        var b = consumer.open(World.FEED, "B");
        a.next().solicitedImage().openOk();
        b.next().solicitedImage().openOk();
        source.tell("suspect A");
        a.next().is(Kind.STATUS).openSuspect();
        source.tell("ok A");
        a.next().is(Kind.STATUS).openOk();
        source.tell("image B");
        b.next().unsolicitedImage().openOk();
        source.tell("close B");
        b.next().is(Kind.STATUS).state(StreamStates.CLOSED, DataStates.SUSPECT);
        source.tell("down");
        a.next().is(Kind.STATUS).openSuspect();
        source.tell("up");
        a.next().is(Kind.STATUS).openOk();
        source.tell("ur 50");
        a.next().is(Kind.UPDATE);
        a.next().is(Kind.UPDATE);
    }

    @Test
    void theReferenceBooksAreBooks(World w) {
        Source source = w.with(new Source("-U", "50"));
        w.serve(source.port());
        EmaConsumer consumer = w.emaConsumer();
        for (int domain : List.of(EmaRdm.MMT_MARKET_BY_ORDER, EmaRdm.MMT_MARKET_BY_PRICE)) {
            var book = consumer.open(EmaFactory.createReqMsg().domainType(domain).serviceName(World.FEED).name("BOOK"));
            Message first = book.next().is(Kind.REFRESH).openOk();
            assertFalse(first.complete, "the image comes in parts");
            assertEquals(10, first.tree().entries().size());
            Message last = book.next().is(Kind.REFRESH);
            assertTrue(last.complete);
            assertEquals(10, last.tree().entries().size());
            for (int n = 0; n < 20; n++) {
                assertFalse(book.next().is(Kind.UPDATE).tree().entries().isEmpty());
            }
        }
    }

    @Test
    void aFileOfMessagesIsPublishedAsItIsWritten(World w) throws IOException {
        Path file = Files.createTempFile("messages", ".xml");
        try {
            Files.writeString(
                    file,
                    """
                    <marketPriceMsgList>
                      <refreshMsg><dataBody><fieldList>
                        <fieldEntry fieldId="22" dataType="RSSL_DT_REAL" data="1.25"/>
                        <fieldEntry fieldId="30" dataType="RSSL_DT_REAL" data="3"/>
                      </fieldList></dataBody></refreshMsg>
                      <updateMsg><dataBody><fieldList>
                        <fieldEntry fieldId="22" dataType="RSSL_DT_REAL" data="1.50"/>
                      </fieldList></dataBody></updateMsg>
                    </marketPriceMsgList>
                    """);
            Source source = w.with(new Source("-Q", file.toString(), "-U", "20", "-c"));
            w.serve(source.port());
            var stream = w.emaConsumer().open(World.FEED, "ANY");
            Message image = stream.next().solicitedImage().openOk();
            assertEquals(Values.Real.whole(3), image.fields().get(30));
            Map<Integer, Object> changed = Map.of(22, Values.Real.cents(150));
            stream.next().is(Kind.UPDATE).fields(changed);
            stream.next().is(Kind.UPDATE).fields(changed);
        } finally {
            Files.deleteIfExists(file);
        }
    }
}
