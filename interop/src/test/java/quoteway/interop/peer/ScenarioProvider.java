package quoteway.interop.peer;

import com.refinitiv.ema.access.DataType;
import com.refinitiv.ema.access.ElementEntry;
import com.refinitiv.ema.access.EmaFactory;
import com.refinitiv.ema.access.FieldList;
import com.refinitiv.ema.access.GenericMsg;
import com.refinitiv.ema.access.Msg;
import com.refinitiv.ema.access.OmmArrayEntry;
import com.refinitiv.ema.access.OmmException;
import com.refinitiv.ema.access.OmmIProviderConfig;
import com.refinitiv.ema.access.OmmProvider;
import com.refinitiv.ema.access.OmmProviderClient;
import com.refinitiv.ema.access.OmmProviderEvent;
import com.refinitiv.ema.access.OmmState;
import com.refinitiv.ema.access.PostMsg;
import com.refinitiv.ema.access.RefreshMsg;
import com.refinitiv.ema.access.ReqMsg;
import com.refinitiv.ema.access.StatusMsg;
import com.refinitiv.ema.rdm.EmaRdm;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;

/**
 * An EMA interactive provider for {@code quoteway scenario}: it listens on the port that {@code QUOTEWAY_PORT} names, with EMA's own directory. Each item has
 * an image, of the fields of its view if there is one; what is open is updated ten times a second; posts are acknowledged.
 */
public final class ScenarioProvider implements OmmProviderClient {
    /** Fields that there are: bid, ask and their sizes. */
    private static final List<Integer> FIELDS = List.of(22, 25, 30, 31);

    /** Fields of the items that are open. */
    private final Map<Long, TreeSet<Integer>> open = new ConcurrentHashMap<>();

    public static void main(String[] arguments) throws InterruptedException {
        var client = new ScenarioProvider();
        var config = EmaFactory.createOmmIProviderConfig()
                .port(System.getenv("QUOTEWAY_PORT"))
                .adminControlDictionary(OmmIProviderConfig.AdminControl.USER_CONTROL);
        var provider = EmaFactory.createOmmProvider(config, client);
        for (long tick = 1; ; tick++) {
            Thread.sleep(100);
            client.update(provider, tick);
        }
    }

    private void update(OmmProvider provider, long tick) {
        open.forEach((handle, fields) -> {
            try {
                provider.submit(EmaFactory.createUpdateMsg().payload(content(fields, tick)), handle);
            } catch (OmmException gone) {
                // The consumer is away; EMA has told of the close, or will.
                open.remove(handle);
            }
        });
    }

    private static FieldList content(TreeSet<Integer> fields, long tick) {
        FieldList list = EmaFactory.createFieldList();
        for (int field : fields) {
            list.add(EmaFactory.createFieldEntry().real(field, 1000 + field + tick % 100, 12));
        }
        return list;
    }

    private static TreeSet<Integer> fields(ReqMsg request) {
        var fields = new TreeSet<>(FIELDS);
        if (request.payload().dataType() == DataType.DataTypes.ELEMENT_LIST) {
            for (ElementEntry element : request.payload().elementList()) {
                if (element.name().equals(":ViewData")) {
                    var wanted = new TreeSet<Integer>();
                    for (OmmArrayEntry entry : element.array()) {
                        wanted.add((int) entry.intValue());
                    }
                    fields.retainAll(wanted);
                }
            }
        }
        return fields;
    }

    private void answer(ReqMsg request, OmmProviderEvent event) {
        if (request.domainType() == EmaRdm.MMT_LOGIN) {
            var attributes = EmaFactory.createElementList();
            attributes.add(EmaFactory.createElementEntry().uintValue("SupportViewRequests", 1));
            attributes.add(EmaFactory.createElementEntry().uintValue("SupportOMMPost", 1));
            var refresh = EmaFactory.createRefreshMsg().domainType(EmaRdm.MMT_LOGIN).name(request.name()).nameType(EmaRdm.USER_NAME);
            event.provider().submit(ok(refresh, OmmState.StreamState.OPEN).attrib(attributes), event.handle());
            return;
        }
        if (request.domainType() != EmaRdm.MMT_MARKET_PRICE) {
            event.provider()
                    .submit(
                            EmaFactory.createStatusMsg()
                                    .domainType(request.domainType())
                                    .state(OmmState.StreamState.CLOSED, OmmState.DataState.SUSPECT, OmmState.StatusCode.NOT_FOUND, "not here"),
                            event.handle());
            return;
        }
        boolean streaming = request.interestAfterRefresh();
        var fields = fields(request);
        var refresh = EmaFactory.createRefreshMsg().name(request.name()).serviceId(request.serviceId()).payload(content(fields, 0));
        event.provider()
                .submit(ok(refresh, streaming ? OmmState.StreamState.OPEN : OmmState.StreamState.NON_STREAMING).clearCache(true), event.handle());
        if (streaming) {
            open.put(event.handle(), fields);
        }
    }

    private static RefreshMsg ok(RefreshMsg refresh, int stream) {
        return refresh.solicited(true).complete(true).state(stream, OmmState.DataState.OK, OmmState.StatusCode.NONE, "all is well");
    }

    @Override
    public void onReqMsg(ReqMsg request, OmmProviderEvent event) {
        answer(request, event);
    }

    @Override
    public void onReissue(ReqMsg request, OmmProviderEvent event) {
        // An application is given each reissue; whether it is to be answered, is said by a flag.
        if (request.initialImage()) {
            answer(request, event);
        }
    }

    @Override
    public void onClose(ReqMsg close, OmmProviderEvent event) {
        open.remove(event.handle());
    }

    @Override
    public void onPostMsg(PostMsg post, OmmProviderEvent event) {
        if (post.solicitAck()) {
            var ack = EmaFactory.createAckMsg().domainType(post.domainType()).ackId(post.postId());
            if (post.hasSeqNum()) {
                ack.seqNum(post.seqNum());
            }
            event.provider().submit(ack, event.handle());
        }
    }

    @Override
    public void onRefreshMsg(RefreshMsg refresh, OmmProviderEvent event) {}

    @Override
    public void onStatusMsg(StatusMsg status, OmmProviderEvent event) {}

    @Override
    public void onGenericMsg(GenericMsg generic, OmmProviderEvent event) {}

    @Override
    public void onAllMsg(Msg msg, OmmProviderEvent event) {}
}
