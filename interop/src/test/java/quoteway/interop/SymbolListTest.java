package quoteway.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.refinitiv.ema.access.ElementList;
import com.refinitiv.ema.access.EmaFactory;
import com.refinitiv.ema.access.Map;
import com.refinitiv.ema.access.MapEntry;
import com.refinitiv.ema.rdm.EmaRdm;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.parallel.ResourceAccessMode;
import org.junit.jupiter.api.parallel.ResourceLock;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import quoteway.interop.peer.EmaConsumer;
import quoteway.interop.peer.EmaProvider;
import quoteway.interop.peer.EmaWebSocket;
import quoteway.interop.peer.Service;
import quoteway.interop.wire.Message;
import quoteway.interop.wire.Message.Kind;
import quoteway.interop.wire.Quotes;

/**
 * Symbol lists whose items EMA wants as well: its watchlist opens what a list names by itself, and this server would do the same for a client
 * that leaves it to the server. Each item has to arrive once.
 */
@ExtendWith(World.Extension.class)
class SymbolListTest {
    private static final int SYMBOL_LIST = EmaRdm.MMT_SYMBOL_LIST;

    private static Map names(int action, String... names) {
        Map map = EmaFactory.createMap();
        for (String name : names) {
            map.add(EmaFactory.createMapEntry().keyAscii(name, action, EmaFactory.createFieldList()));
        }
        return map;
    }

    private static EmaProvider provider(World w) {
        EmaProvider provider = w.emaProvider(Service.of(World.FEED, 1).withDomains(List.of(EmaRdm.MMT_MARKET_PRICE, SYMBOL_LIST)));
        return provider.onOpen(item -> {
            if (item.request().domain == SYMBOL_LIST) {
                item.refresh(item.newRefresh().payload(names(MapEntry.MapAction.ADD, "A", "B")));
            } else {
                item.refresh(Quotes.image(item.name(), 0));
            }
        });
    }

    private static EmaConsumer.Stream list(EmaConsumer consumer, long dataStreams) {
        ElementList behaviours = EmaFactory.createElementList();
        behaviours.add(EmaFactory.createElementEntry().uintValue(":DataStreams", dataStreams));
        ElementList payload = EmaFactory.createElementList();
        payload.add(EmaFactory.createElementEntry().elementList(":SymbolListBehaviors", behaviours));
        return consumer.open(EmaFactory.createReqMsg().domainType(SYMBOL_LIST).serviceName(World.FEED).name("LIST").payload(payload));
    }

    /** The next image of each of these items, which may come in any order. */
    private static java.util.Map<String, Message> images(EmaConsumer.Stream stream, int count) {
        var images = new TreeMap<String, Message>();
        for (int i = 0; i < count; i++) {
            Message image = stream.next().is(Kind.REFRESH).domain(EmaRdm.MMT_MARKET_PRICE);
            images.put(image.name, image);
        }
        return images;
    }

    private static void eachItemArrivesOnce(EmaProvider provider, EmaConsumer consumer) {
        EmaConsumer.Stream stream = list(consumer, 1);
        stream.next().is(Kind.REFRESH).domain(SYMBOL_LIST).openOk();
        assertEquals(List.of("A", "B"), new ArrayList<>(images(stream, 2).keySet()));
        EmaProvider.Item item = provider.awaitOpen("A");
        EmaProvider.Item names = provider.awaitOpen("LIST");
        for (long s = 1; s <= 50; s++) {
            item.update(s);
            assertEquals(s, stream.next().is(Kind.UPDATE).domain(EmaRdm.MMT_MARKET_PRICE).sequence);
        }
        names.update(51, names(MapEntry.MapAction.ADD, "C"));
        stream.next().is(Kind.UPDATE).domain(SYMBOL_LIST);
        assertEquals(List.of("C"), new ArrayList<>(images(stream, 1).keySet()));
        item.update(52);
        assertEquals(52, stream.next().is(Kind.UPDATE).sequence);
        stream.inbox().assertEmpty();
    }

    @Test
    void theItemsOfAListArriveOverRssl(World w) {
        EmaProvider provider = provider(w);
        w.serve(provider.port());
        eachItemArrivesOnce(provider, w.emaConsumer());
    }

    @ResourceLock(value = EmaWebSocket.CONVERTER, mode = ResourceAccessMode.READ)
    @ParameterizedTest(name = "{0}")
    @ValueSource(strings = {"tr_json2", "rssl.rwf"})
    void theItemsOfAListArriveOverWebSocket(String protocol, World w) {
        EmaProvider provider = provider(w);
        w.serve(provider.port());
        eachItemArrivesOnce(provider, w.emaConsumer(EmaWebSocket.consumer(w.port(), protocol)));
    }

    @Test
    void namesAloneBringNoItems(World w) {
        EmaProvider provider = provider(w);
        w.serve(provider.port());
        EmaConsumer.Stream stream = list(w.emaConsumer(), 0);
        stream.next().is(Kind.REFRESH).domain(SYMBOL_LIST).openOk();
        provider.awaitOpen("LIST").update(1, names(MapEntry.MapAction.ADD, "C"));
        stream.next().is(Kind.UPDATE).domain(SYMBOL_LIST);
        provider.inbox().assertEmpty();
    }
}
