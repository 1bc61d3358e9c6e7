package quoteway.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.refinitiv.ema.access.CosDataIntegrity;
import com.refinitiv.ema.access.CosFlowControl;
import com.refinitiv.ema.access.EmaFactory;
import com.refinitiv.ema.access.TunnelStreamRequest;
import com.refinitiv.ema.rdm.EmaRdm;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import quoteway.interop.peer.EmaConsumer;
import quoteway.interop.peer.Ports;
import quoteway.interop.peer.Service;
import quoteway.interop.peer.TunnelProvider;
import quoteway.interop.wire.Ema;
import quoteway.interop.wire.Message;
import quoteway.interop.wire.Message.Kind;
import quoteway.interop.wire.Quotes;

/** Tunnel streams, which are qualified streams between EMA and a provider on ETA's reactor: all that is in them passes through. */
@ExtendWith(World.Extension.class)
class QualifiedStreamTest {
    private static final int SYSTEM = EmaRdm.MMT_SYSTEM;

    @Test
    void whatGoesThroughATunnelComesOutOfIt(World w) {
        TunnelProvider provider = provider(w);
        w.serve(provider.port());
        EmaConsumer consumer = w.emaConsumer();
        var tunnel = consumer.open(request("T"), "T");
        assertTrue(provider.inbox().next().startsWith("asked for T of service 4 on domain " + SYSTEM));
        open(tunnel.next());
        assertEquals("T is OPEN", provider.inbox().next());

        var inside = consumer.open(EmaFactory.createReqMsg().domainType(SYSTEM).name("INSIDE").serviceId(4), tunnel);
        assertTrue(provider.inbox().next().startsWith("REQUEST on "));
        assertEquals(Kind.REFRESH, inside.next().kind);
        for (int n = 1; n <= 200; n++) {
            inside.generic(EmaFactory.createGenericMsg().domainType(SYSTEM).payload(Ema.fields(Quotes.update("A", n))));
            provider.inbox().next();
            inside.next().is(Kind.GENERIC).fields(Quotes.update("A", n));
        }
        // Another tunnel of another client is its own.
        EmaConsumer other = w.emaConsumer();
        var second = other.open(request("U"), "U");
        provider.inbox().next(line -> line.startsWith("asked for U"), "a second tunnel");
        open(second.next());
        provider.inbox().next(line -> line.equals("U is OPEN"), "the second tunnel");
        provider.closeTunnel();
        // ETA says first that the tunnel is being closed (Open/Suspect).
        second.inbox().next(status -> status.toString().contains("CLOSED"), "the end of the second tunnel");
        tunnel.inbox().assertEmpty();
        inside.inbox().assertEmpty();
        // The consumer ends its own, too, and the provider hears of it.
        tunnel.close();
        provider.inbox().next(line -> line.startsWith("T is CLOSED"), "the end of the first tunnel");
    }

    @Test
    void aTunnelEndsWithItsServer(World w) {
        TunnelProvider provider = provider(w);
        Quoteway server = w.serve(provider.port());
        EmaConsumer consumer = w.emaConsumer();
        var tunnel = consumer.open(request("T"), "T");
        open(tunnel.next());
        server.kill();
        tunnel.inbox().next(status -> status.toString().contains("CLOSED"), "the end of the tunnel");
        provider.inbox().next(line -> line.startsWith("T is CLOSED"), "the end of the tunnel");
    }

    private static TunnelProvider provider(World w) {
        Service service = Service.of(World.FEED, 4).withDomains(List.of(EmaRdm.MMT_MARKET_PRICE, SYSTEM)).withoutDictionaries();
        return w.with(Ports.bound(port -> new TunnelProvider(port, service)));
    }

    private static void open(Message status) {
        assertEquals(Kind.STATUS, status.kind);
        assertTrue(status.toString().toLowerCase().contains("open"), status::toString);
    }

    private static TunnelStreamRequest request(String name) {
        var integrity = EmaFactory.createCosDataIntegrity().type(CosDataIntegrity.CosDataIntegrityType.RELIABLE);
        var flow = EmaFactory.createCosFlowControl().type(CosFlowControl.CosFlowControlType.BIDIRECTIONAL).recvWindowSize(10_000);
        var service = EmaFactory.createClassOfService().dataIntegrity(integrity).flowControl(flow);
        return EmaFactory.createTunnelStreamRequest()
                .classOfService(service)
                .domainType(SYSTEM)
                .name(name)
                .serviceName(World.FEED)
                .responseTimeout(10);
    }
}
