package quoteway.interop.peer;

import com.refinitiv.eta.codec.DataStates;
import com.refinitiv.eta.codec.MapEntryActions;
import com.refinitiv.eta.codec.MsgClasses;
import com.refinitiv.eta.codec.MsgKey;
import com.refinitiv.eta.codec.RefreshMsg;
import com.refinitiv.eta.codec.RequestMsg;
import com.refinitiv.eta.codec.StreamStates;
import com.refinitiv.eta.codec.UpdateMsg;
import com.refinitiv.eta.rdm.Directory;
import com.refinitiv.eta.rdm.DomainTypes;
import com.refinitiv.eta.rdm.InstrumentNameTypes;
import com.refinitiv.eta.rdm.Login;
import com.refinitiv.eta.transport.ConnectOptions;
import com.refinitiv.eta.transport.ConnectionTypes;
import com.refinitiv.eta.valueadd.domainrep.rdm.directory.DirectoryMsgFactory;
import com.refinitiv.eta.valueadd.domainrep.rdm.directory.DirectoryMsgType;
import com.refinitiv.eta.valueadd.domainrep.rdm.directory.DirectoryRefresh;
import java.util.LinkedHashMap;
import java.util.Map;
import quoteway.interop.wire.Body;
import quoteway.interop.wire.Quotes;

/** A non-interactive provider on a bare ETA channel, which may publish an item on whatever stream it likes. */
public final class EtaNip extends EtaSession {
    private final int serviceId;

    /** Returns when the login is answered and the directory sent. */
    public EtaNip(String name, int port, String service, int serviceId) {
        this(name, options(port), service, serviceId);
    }

    /** Over WebSocket, as {@code rssl.rwf}. */
    public static EtaNip overWebSocket(String name, int port, String service, int serviceId) {
        ConnectOptions options = options(port);
        options.connectionType(ConnectionTypes.WEBSOCKET);
        options.wSocketOpts().protocols("rssl.rwf");
        return new EtaNip(name, options, service, serviceId);
    }

    private EtaNip(String name, ConnectOptions options, String service, int serviceId) {
        super(name, connect(options), null);
        this.serviceId = serviceId;
        awaitReady();
        var login = (RequestMsg) message(MsgClasses.REQUEST, 1, DomainTypes.LOGIN);
        login.applyStreaming();
        login.msgKey().applyHasName();
        login.msgKey().name().data("publisher");
        login.msgKey().applyHasNameType();
        login.msgKey().nameType(Login.UserIdTypes.NAME);
        var attributes = new LinkedHashMap<String, Object>();
        attributes.put("ApplicationId", "256");
        attributes.put("Position", "127.0.0.1");
        attributes.put("Role", 1L);
        send(Body.NONE.encode(login, attributes));
        next(1).solicitedImage().openOk();

        var directory = (DirectoryRefresh) DirectoryMsgFactory.createMsg();
        directory.rdmMsgType(DirectoryMsgType.REFRESH);
        directory.streamId(-1_000_000);
        directory.applyClearCache();
        directory.filter(Directory.ServiceFilterFlags.INFO | Directory.ServiceFilterFlags.STATE);
        directory.state().streamState(StreamStates.OPEN);
        directory.state().dataState(DataStates.OK);
        directory.serviceList().add(Service.of(service, serviceId).entry(MapEntryActions.ADD));
        send(Body.encode(directory));
    }

    public void refresh(int streamId, String item, Map<Integer, Object> fields) {
        refresh(streamId, DomainTypes.MARKET_PRICE, item, Body.fields(fields));
    }

    public void refresh(int streamId, int domain, String item, Body body) {
        var refresh = (RefreshMsg) message(MsgClasses.REFRESH, streamId, domain);
        refresh.applyRefreshComplete();
        refresh.applyClearCache();
        refresh.state().streamState(StreamStates.OPEN);
        refresh.state().dataState(DataStates.OK);
        refresh.applyHasMsgKey();
        key(refresh.msgKey(), item);
        send(refresh, body);
    }

    public void update(int streamId, String item, long sequence, boolean withKey) {
        var update = (UpdateMsg) message(MsgClasses.UPDATE, streamId, DomainTypes.MARKET_PRICE);
        if (withKey) {
            update.applyHasMsgKey();
            key(update.msgKey(), item);
        }
        send(update, Body.fields(Quotes.update(item, sequence)));
    }

    /** An update of any content, without key. */
    public void update(int streamId, int domain, Body body) {
        send(message(MsgClasses.UPDATE, streamId, domain), body);
    }

    private void key(MsgKey key, String item) {
        key.applyHasServiceId();
        key.serviceId(serviceId);
        key.applyHasName();
        key.name().data(item);
        key.applyHasNameType();
        key.nameType(InstrumentNameTypes.RIC);
    }
}
