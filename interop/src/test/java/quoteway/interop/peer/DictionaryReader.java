package quoteway.interop.peer;

import com.refinitiv.ema.access.AckMsg;
import com.refinitiv.ema.access.EmaFactory;
import com.refinitiv.ema.access.GenericMsg;
import com.refinitiv.ema.access.Msg;
import com.refinitiv.ema.access.OmmConsumerClient;
import com.refinitiv.ema.access.OmmConsumerEvent;
import com.refinitiv.ema.access.RefreshMsg;
import com.refinitiv.ema.access.StatusMsg;
import com.refinitiv.ema.access.UpdateMsg;
import com.refinitiv.ema.rdm.DataDictionary;
import com.refinitiv.ema.rdm.EmaRdm;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** Reads a dictionary as an EMA application does that wants it for itself: all parts, decoded by EMA. */
public final class DictionaryReader implements OmmConsumerClient {
    private final String name;
    private final DataDictionary into;
    private final CompletableFuture<Void> done = new CompletableFuture<>();

    private DictionaryReader(String name, DataDictionary into) {
        this.name = name;
        this.into = into;
    }

    public static void read(EmaConsumer consumer, String service, String name, DataDictionary into)
            throws InterruptedException, ExecutionException, TimeoutException {
        var reader = new DictionaryReader(name, into);
        consumer.register(
                EmaFactory.createReqMsg()
                        .domainType(EmaRdm.MMT_DICTIONARY)
                        .serviceName(service)
                        .name(name)
                        .filter(EmaRdm.DICTIONARY_VERBOSE),
                reader);
        reader.done.get(60, TimeUnit.SECONDS);
    }

    @Override
    public void onRefreshMsg(RefreshMsg msg, OmmConsumerEvent event) {
        try {
            if (name.equals("RWFFld")) {
                into.decodeFieldDictionary(msg.payload().series(), EmaRdm.DICTIONARY_VERBOSE);
            } else {
                into.decodeEnumTypeDictionary(msg.payload().series(), EmaRdm.DICTIONARY_VERBOSE);
            }
            if (msg.complete()) {
                done.complete(null);
            }
        } catch (RuntimeException e) {
            done.completeExceptionally(e);
        }
    }

    @Override
    public void onStatusMsg(StatusMsg msg, OmmConsumerEvent event) {
        done.completeExceptionally(new AssertionError("no dictionary: " + msg));
    }

    @Override
    public void onUpdateMsg(UpdateMsg msg, OmmConsumerEvent event) {}

    @Override
    public void onGenericMsg(GenericMsg msg, OmmConsumerEvent event) {}

    @Override
    public void onAckMsg(AckMsg msg, OmmConsumerEvent event) {}

    @Override
    public void onAllMsg(Msg msg, OmmConsumerEvent event) {}
}
