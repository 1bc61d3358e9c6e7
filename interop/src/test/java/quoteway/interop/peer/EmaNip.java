package quoteway.interop.peer;

import com.refinitiv.ema.access.EmaFactory;
import com.refinitiv.ema.access.OmmNiProviderConfig;
import com.refinitiv.ema.access.OmmProvider;
import com.refinitiv.ema.access.OmmState;
import com.refinitiv.ema.access.RefreshMsg;
import com.refinitiv.ema.access.UpdateMsg;
import java.util.HashMap;
import java.util.Map;
import quoteway.interop.wire.Ema;
import quoteway.interop.wire.Quotes;

/** An EMA non-interactive provider with nothing set but host and port: it advertises EMA's own default service. */
public final class EmaNip implements AutoCloseable {
    /** The service of EMA's default directory. */
    public static final String SERVICE = "NI_PUB";

    private final OmmProvider provider;
    private final Map<String, Long> handles = new HashMap<>();

    /** Returns when it is logged in. */
    public EmaNip(int port) {
        this(EmaFactory.createOmmNiProviderConfig().host("localhost:" + port).username("user"));
    }

    public EmaNip(OmmNiProviderConfig config) {
        provider = EmaStart.exclusively(() -> EmaFactory.createOmmProvider(config));
    }

    /** Publishes an item's image for the first time or again. */
    public void image(String item, long sequence) {
        refresh(item, newRefresh(item).payload(Ema.fields(Quotes.image(item, sequence))));
    }

    public RefreshMsg newRefresh(String item) {
        return EmaFactory.createRefreshMsg()
                .serviceName(SERVICE)
                .name(item)
                .state(OmmState.StreamState.OPEN, OmmState.DataState.OK, OmmState.StatusCode.NONE, "published")
                .complete(true);
    }

    public void refresh(String item, RefreshMsg refresh) {
        provider.submit(refresh, handle(item));
    }

    /** Publishes an update, with the item's key in it as EMA does when the application sets it, or without. */
    public void update(String item, long sequence, boolean withKey) {
        UpdateMsg update = EmaFactory.createUpdateMsg().updateTypeNum(1).seqNum(sequence).payload(Ema.fields(Quotes.update(item, sequence)));
        if (withKey) {
            update.serviceName(SERVICE).name(item);
        }
        provider.submit(update, handle(item));
    }

    public void status(String item, int stream, int data, int code, String text) {
        provider.submit(EmaFactory.createStatusMsg().serviceName(SERVICE).name(item).state(stream, data, code, text), handle(item));
    }

    public OmmProvider provider() {
        return provider;
    }

    private long handle(String item) {
        return handles.computeIfAbsent(item, i -> (long) handles.size() + 1);
    }

    @Override
    public void close() {
        provider.uninitialize();
    }
}
