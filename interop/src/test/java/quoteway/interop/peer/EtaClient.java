package quoteway.interop.peer;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.refinitiv.eta.codec.CloseMsg;
import com.refinitiv.eta.codec.CodecFactory;
import com.refinitiv.eta.codec.MsgClasses;
import com.refinitiv.eta.codec.PostMsg;
import com.refinitiv.eta.codec.Qos;
import com.refinitiv.eta.codec.QosRates;
import com.refinitiv.eta.codec.QosTimeliness;
import com.refinitiv.eta.codec.RequestMsg;
import com.refinitiv.eta.codec.RequestMsgFlags;
import com.refinitiv.eta.rdm.Directory;
import com.refinitiv.eta.rdm.DomainTypes;
import com.refinitiv.eta.rdm.InstrumentNameTypes;
import com.refinitiv.eta.rdm.Login;
import com.refinitiv.eta.transport.ConnectOptions;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import quoteway.interop.wire.Body;
import quoteway.interop.wire.Message;
import quoteway.interop.wire.Message.Kind;

/**
 * A consumer on the bare ETA channel, without watchlist: it sees each message that the server sends, and may ask for what the watchlist
 * would never let through.
 */
public final class EtaClient extends EtaSession {
    public static final int LOGIN_STREAM = 1;
    public static final int DIRECTORY_STREAM = 2;
    private static final long ALL_FILTERS = Directory.ServiceFilterFlags.INFO
            | Directory.ServiceFilterFlags.STATE
            | Directory.ServiceFilterFlags.GROUP
            | Directory.ServiceFilterFlags.LOAD
            | Directory.ServiceFilterFlags.DATA
            | Directory.ServiceFilterFlags.LINK;

    /** Service ids by name, as the directory said so far. */
    private final Map<String, Integer> services = new HashMap<>();

    private final Map<Integer, Message.Tree> states = new HashMap<>();

    public EtaClient(String name, ConnectOptions options) {
        super(name, connect(options), null);
    }

    public EtaClient(String name, int port) {
        this(name, options(port));
    }

    /** Connects to {@code port}, logs in and opens the directory; both are answered as they must be. */
    public static EtaClient loggedIn(String name, int port) {
        return loggedIn(name, options(port), Map.of());
    }

    public static EtaClient loggedIn(String name, ConnectOptions options, Map<String, ?> attrib) {
        var client = new EtaClient(name, options);
        client.login(attrib);
        client.next(LOGIN_STREAM).solicitedImage().openOk().domain(DomainTypes.LOGIN);
        client.openDirectory();
        return client;
    }

    /** Sends a login request with these attributes over the usual ones. */
    public void login(Map<String, ?> attrib) {
        awaitReady();
        var attributes = new LinkedHashMap<String, Object>();
        attributes.put("ApplicationId", "256");
        attributes.put("ApplicationName", "interop");
        attributes.put("Position", "127.0.0.1/interop");
        attributes.put("Role", 0L);
        attributes.putAll(attrib);
        login(LOGIN_STREAM, "user", attributes);
    }

    public void login(int streamId, String user, Map<String, ?> attributes) {
        var login = (RequestMsg) message(MsgClasses.REQUEST, streamId, DomainTypes.LOGIN);
        login.applyStreaming();
        login.msgKey().applyHasName();
        login.msgKey().name().data(user);
        login.msgKey().applyHasNameType();
        login.msgKey().nameType(Login.UserIdTypes.NAME);
        send(Body.NONE.encode(login, attributes));
    }

    /** Opens the directory on its usual stream, all filters, and reads the answer. */
    public Message openDirectory() {
        requestDirectory(DIRECTORY_STREAM, ALL_FILTERS, null, true);
        Message refresh = next(DIRECTORY_STREAM).solicitedImage().openOk().domain(DomainTypes.SOURCE);
        note(refresh);
        return refresh;
    }

    public void requestDirectory(int streamId, long filter, Integer serviceId, boolean streaming) {
        var request = (RequestMsg) message(MsgClasses.REQUEST, streamId, DomainTypes.SOURCE);
        if (streaming) {
            request.applyStreaming();
        }
        request.msgKey().applyHasFilter();
        request.msgKey().filter(filter);
        if (serviceId != null) {
            request.msgKey().applyHasServiceId();
            request.msgKey().serviceId(serviceId);
        }
        send(request);
    }

    /** Takes directory messages until the service is up and takes requests; returns its id. */
    public int awaitService(String service) {
        while (!usable(service)) {
            note(next(DIRECTORY_STREAM));
        }
        return services.get(service);
    }

    /** Takes directory messages until the service is not usable. */
    public void awaitServiceDown(String service) {
        while (usable(service)) {
            note(next(DIRECTORY_STREAM));
        }
    }

    private boolean usable(String service) {
        Integer id = services.get(service);
        if (id == null || !states.containsKey(id)) {
            return false;
        }
        Message.Tree state = states.get(id);
        return Long.valueOf(1).equals(state.get("ServiceState")) && !Long.valueOf(0).equals(state.get("AcceptingRequests"));
    }

    /** Applies a directory refresh or update to what is known of services. */
    public void note(Message directory) {
        if (directory.payload == null) {
            return;
        }
        for (Message.Entry service : directory.tree().entries()) {
            int id = ((Long) service.id()).intValue();
            if (service.value() == null) {
                services.values().remove(id);
                states.remove(id);
                continue;
            }
            var filters = (Message.Tree) service.value();
            if (filters.get(Directory.ServiceFilterIds.INFO) instanceof Message.Tree info) {
                Integer before = services.put((String) info.get("Name"), id);
                if (before != null) {
                    assertEquals(before, id, "a service keeps its id within a connection");
                }
            }
            if (filters.get(Directory.ServiceFilterIds.STATE) instanceof Message.Tree state) {
                states.put(id, state);
            }
        }
    }

    /** The id of a service that is known, or comes: a client may be logged in before the provider's directory is here. */
    public int serviceId(String service) {
        Integer known = services.get(service);
        return known != null ? known : awaitService(service);
    }

    /** An item request, streaming, with the QoS that EMA asks for; {@code adjust} changes it before it goes. */
    public void request(int streamId, int serviceId, String name, Consumer<RequestMsg> adjust) {
        request(streamId, DomainTypes.MARKET_PRICE, serviceId, name, adjust, Body.NONE);
    }

    public void request(int streamId, int serviceId, String name) {
        request(streamId, serviceId, name, r -> {});
    }

    public void request(int streamId, int domain, int serviceId, String name, Consumer<RequestMsg> adjust, Body body) {
        var request = (RequestMsg) message(MsgClasses.REQUEST, streamId, domain);
        request.applyStreaming();
        request.applyHasPriority();
        request.priority().priorityClass(1);
        request.priority().count(1);
        request.msgKey().applyHasServiceId();
        request.msgKey().serviceId(serviceId);
        if (name != null) {
            request.msgKey().applyHasName();
            request.msgKey().name().data(name);
            request.msgKey().applyHasNameType();
            request.msgKey().nameType(InstrumentNameTypes.RIC);
        }
        adjust.accept(request);
        send(request, body);
    }

    /** Makes a request a snapshot. */
    public static void snapshot(RequestMsg request) {
        request.flags(request.flags() & ~RequestMsgFlags.STREAMING);
    }

    /** Asks for one exact QoS. */
    public static void qos(RequestMsg request, int timeliness, int rate) {
        request.applyHasQos();
        request.qos().timeliness(timeliness);
        request.qos().rate(rate);
        if (timeliness == QosTimeliness.DELAYED) {
            request.qos().timeInfo(900);
        }
        if (rate == QosRates.TIME_CONFLATED) {
            request.qos().rateInfo(1000);
        }
    }

    /** A batch request for names that are all like each other but for the name. */
    public void batch(int streamId, int domain, int serviceId, List<String> names, Consumer<RequestMsg> adjust) {
        request(
                streamId,
                domain,
                serviceId,
                null,
                r -> {
                    r.applyHasBatch();
                    adjust.accept(r);
                },
                Body.elements(Map.of(":ItemList", names)));
    }

    /** Closes all of these streams with one message; ETA C names its flag HAS_BATCH, ETA Java has no name for it. */
    public void batchClose(int streamId, int domain, List<Integer> streams) {
        var close = (CloseMsg) message(MsgClasses.CLOSE, streamId, domain);
        close.flags(0x04);
        send(close, Body.elements(Map.of(":StreamIdList", streams)));
    }

    /** Reissues all of these streams with one message. */
    public void batchReissue(int streamId, int domain, List<Integer> streams, Consumer<RequestMsg> adjust) {
        var request = (RequestMsg) message(MsgClasses.REQUEST, streamId, domain);
        request.applyStreaming();
        request.applyHasBatch();
        adjust.accept(request);
        send(request, Body.elements(Map.of(":StreamIdList", streams)));
    }

    /** The payload that asks for a view of these fields. */
    public static Body view(List<Integer> fields) {
        var elements = new LinkedHashMap<String, Object>();
        elements.put(":ViewType", 1L);
        elements.put(":ViewData", fields);
        return Body.elements(elements);
    }

    /** A post on an item's stream, with a field list, asking for an acknowledgement. */
    public void post(int streamId, int domain, long postId, Body body, Consumer<PostMsg> adjust) {
        var post = (PostMsg) message(MsgClasses.POST, streamId, domain);
        post.applyPostComplete();
        post.applyAck();
        post.applyHasPostId();
        post.postId(postId);
        post.postUserInfo().userId(7);
        post.postUserInfo().userAddr("10.1.2.3");
        adjust.accept(post);
        send(post, body);
    }

    /** A post that names its item, for the login stream. */
    public void postOffStream(int domain, int serviceId, String item, long postId, Body body) {
        post(LOGIN_STREAM, domain, postId, body, p -> {
            p.applyHasMsgKey();
            p.msgKey().applyHasServiceId();
            p.msgKey().serviceId(serviceId);
            p.msgKey().applyHasName();
            p.msgKey().name().data(item);
            p.msgKey().applyHasNameType();
            p.msgKey().nameType(InstrumentNameTypes.RIC);
        });
    }

    /**
     * Asks for something that is always answered at once and waits for the answer: what the server had for this client before is then here.
     * It says nothing about what a provider has sent and the server has not seen.
     */
    public void fence() {
        int stream = 0x7000_0000;
        requestDirectory(stream, Directory.ServiceFilterFlags.STATE, null, false);
        next(stream).is(Kind.REFRESH);
    }

    /** A Qos object of the codec. */
    public static Qos qos(int timeliness, int rate) {
        Qos qos = CodecFactory.createQos();
        qos.timeliness(timeliness);
        qos.rate(rate);
        return qos;
    }
}
