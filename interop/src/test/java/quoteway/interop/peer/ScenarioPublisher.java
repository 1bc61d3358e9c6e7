package quoteway.interop.peer;

import com.refinitiv.ema.access.EmaFactory;
import com.refinitiv.ema.access.GenericMsg;
import com.refinitiv.ema.access.Msg;
import com.refinitiv.ema.access.OmmException;
import com.refinitiv.ema.access.OmmProvider;
import com.refinitiv.ema.access.OmmProviderClient;
import com.refinitiv.ema.access.OmmProviderEvent;
import com.refinitiv.ema.access.OmmState;
import com.refinitiv.ema.access.PostMsg;
import com.refinitiv.ema.access.RefreshMsg;
import com.refinitiv.ema.access.ReqMsg;
import com.refinitiv.ema.access.StatusMsg;
import com.refinitiv.ema.rdm.EmaRdm;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import quoteway.interop.wire.Ema;
import quoteway.interop.wire.Quotes;

/**
 * An EMA non-interactive provider for {@code quoteway scenario}: everything default, of the server that {@code QUOTEWAY_PORT} names. It publishes the items
 * of the command line in the service of EMA's own directory: an image when the login is good, updates behind it, and an image again after each loss.
 */
public final class ScenarioPublisher implements OmmProviderClient {
    // EMA calls back under a lock of its own, which submitting takes too: no lock is held here while something is submitted.
    /** The login under which each item was published last. */
    private final Map<String, Integer> published = new ConcurrentHashMap<>();
    /** Items that the server has closed under the present login. */
    private final Set<Long> unwanted = ConcurrentHashMap.newKeySet();
    private final AtomicInteger logins = new AtomicInteger();
    /** The number of the present login; 0 for none. */
    private volatile int login;

    public static void main(String[] items) throws InterruptedException {
        var client = new ScenarioPublisher();
        var config = EmaFactory.createOmmNiProviderConfig().host("localhost:" + System.getenv("QUOTEWAY_PORT")).username("user");
        var provider = EmaFactory.createOmmProvider(config, client);
        // The state of the login comes to those who ask for it.
        provider.registerClient(EmaFactory.createReqMsg().domainType(EmaRdm.MMT_LOGIN), client);
        for (long tick = 1; ; tick++) {
            Thread.sleep(100);
            for (int item = 0; item < items.length; item++) {
                client.publish(provider, items[item], item + 1, tick);
            }
        }
    }

    private void publish(OmmProvider provider, String item, long handle, long tick) {
        int now = login;
        if (now == 0 || unwanted.contains(handle)) {
            return;
        }
        try {
            if (published.getOrDefault(item, 0) == now) {
                provider.submit(EmaFactory.createUpdateMsg().updateTypeNum(1).payload(Ema.fields(Quotes.update(item, tick))), handle);
            } else {
                provider.submit(
                        EmaFactory.createRefreshMsg()
                                .serviceName(EmaNip.SERVICE)
                                .name(item)
                                .state(OmmState.StreamState.OPEN, OmmState.DataState.OK, OmmState.StatusCode.NONE, "published")
                                .complete(true)
                                .payload(Ema.fields(Quotes.image(item, tick))),
                        handle);
                published.put(item, now);
            }
        } catch (OmmException notNow) {
            System.err.println("not published: " + notNow.getMessage());
        }
    }

    private void take(OmmState state) {
        boolean good = state.streamState() == OmmState.StreamState.OPEN && state.dataState() == OmmState.DataState.OK;
        if (!good) {
            login = 0;
        } else if (login == 0) {
            unwanted.clear();
            login = logins.incrementAndGet();
        }
    }

    @Override
    public void onRefreshMsg(RefreshMsg refresh, OmmProviderEvent event) {
        if (refresh.domainType() == EmaRdm.MMT_LOGIN) {
            take(refresh.state());
        }
    }

    @Override
    public void onStatusMsg(StatusMsg status, OmmProviderEvent event) {
        if (status.domainType() == EmaRdm.MMT_LOGIN && status.hasState()) {
            take(status.state());
        }
    }

    @Override
    public void onReqMsg(ReqMsg request, OmmProviderEvent event) {}

    @Override
    public void onReissue(ReqMsg request, OmmProviderEvent event) {}

    @Override
    public void onClose(ReqMsg close, OmmProviderEvent event) {
        unwanted.add(event.handle());
    }

    @Override
    public void onPostMsg(PostMsg post, OmmProviderEvent event) {}

    @Override
    public void onGenericMsg(GenericMsg generic, OmmProviderEvent event) {}

    @Override
    public void onAllMsg(Msg msg, OmmProviderEvent event) {}
}
