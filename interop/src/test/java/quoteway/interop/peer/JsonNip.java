package quoteway.interop.peer;

import com.refinitiv.eta.codec.Codec;
import com.refinitiv.eta.codec.CodecFactory;
import com.refinitiv.eta.codec.DataDictionary;
import com.refinitiv.eta.codec.DataStates;
import com.refinitiv.eta.codec.Msg;
import com.refinitiv.eta.codec.MsgClasses;
import com.refinitiv.eta.codec.RefreshMsg;
import com.refinitiv.eta.codec.StreamStates;
import com.refinitiv.eta.codec.UpdateMsg;
import com.refinitiv.eta.rdm.DomainTypes;
import com.refinitiv.eta.rdm.InstrumentNameTypes;
import com.refinitiv.eta.transport.ConnectOptions;
import com.refinitiv.eta.transport.ConnectionTypes;
import com.refinitiv.eta.transport.TransportBuffer;
import com.refinitiv.eta.transport.TransportFactory;
import com.refinitiv.eta.valueadd.domainrep.rdm.login.LoginMsgType;
import com.refinitiv.eta.valueadd.reactor.NIProviderRole;
import com.refinitiv.eta.valueadd.reactor.RDMLoginMsgEvent;
import com.refinitiv.eta.valueadd.reactor.Reactor;
import com.refinitiv.eta.valueadd.reactor.ReactorCallbackReturnCodes;
import com.refinitiv.eta.valueadd.reactor.ReactorChannel;
import com.refinitiv.eta.valueadd.reactor.ReactorChannelEvent;
import com.refinitiv.eta.valueadd.reactor.ReactorChannelEventTypes;
import com.refinitiv.eta.valueadd.reactor.ReactorConnectInfo;
import com.refinitiv.eta.valueadd.reactor.ReactorErrorInfo;
import com.refinitiv.eta.valueadd.reactor.ReactorFactory;
import com.refinitiv.eta.valueadd.reactor.ReactorReturnCodes;
import java.io.IOException;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import quoteway.interop.wire.Body;
import quoteway.interop.wire.Inbox;
import quoteway.interop.wire.Quotes;

/**
 * A non-interactive provider over {@code tr_json2} on ETA's reactor: what EMA's is made of, and does not get to, since the reactor's JSON
 * converter has to be set up by {@link Reactor#initJsonConverter}, which EMA does for its other roles alone.
 */
public final class JsonNip implements AutoCloseable {
    private final Inbox<String> inbox = new Inbox<>("json-nip");
    private final ReactorErrorInfo error = ReactorFactory.createReactorErrorInfo();
    private final Queue<Runnable> tasks = new ConcurrentLinkedQueue<>();
    private final int serviceId;
    private final Reactor reactor;
    private final Selector selector;
    private final Thread thread;
    private volatile ReactorChannel channel;
    private volatile boolean stop;

    /** Returns when it is logged in; its directory, with this one service, goes out by itself. */
    public JsonNip(int port, String service, int serviceId) {
        this.serviceId = serviceId;
        reactor = ReactorFactory.createReactor(ReactorFactory.createReactorOptions(), error);
        if (reactor == null) {
            throw new IllegalStateException(error.toString());
        }
        try {
            selector = Selector.open();
            reactor.reactorChannel().selectableChannel().register(selector, SelectionKey.OP_READ, reactor.reactorChannel());
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
        var json = ReactorFactory.createReactorJsonConverterOptions();
        json.dataDictionary(dictionary());
        json.defaultServiceId(serviceId);
        // The pools of the converter are static, and EMA's constructors grow them, too.
        EmaStart.until(() -> check("JSON", reactor.initJsonConverter(json, error)));
        check("connect", connect(port, service));
        thread = new Thread(this::run, "json-nip");
        thread.setDaemon(true);
        thread.start();
        inbox.next("logged in"::equals, "the login's answer");
    }

    private static DataDictionary dictionary() {
        DataDictionary dictionary = CodecFactory.createDataDictionary();
        var problem = TransportFactory.createError();
        dictionary.loadFieldDictionary(Dictionaries.folder().resolve("RDMFieldDictionary").toString(), problem);
        dictionary.loadEnumTypeDictionary(Dictionaries.folder().resolve("enumtype.def").toString(), problem);
        return dictionary;
    }

    private int connect(int port, String service) {
        NIProviderRole role = ReactorFactory.createNIProviderRole();
        role.initDefaultRDMLoginRequest();
        role.initDefaultRDMDirectoryRefresh(service, serviceId);
        role.channelEventCallback(this::channel);
        role.loginMsgCallback(this::login);
        role.defaultMsgCallback(event -> ReactorCallbackReturnCodes.SUCCESS);
        ReactorConnectInfo info = ReactorFactory.createReactorConnectInfo();
        ConnectOptions options = info.connectOptions();
        options.connectionType(ConnectionTypes.WEBSOCKET);
        options.wSocketOpts().protocols("tr_json2");
        options.unifiedNetworkInfo().address("127.0.0.1");
        options.unifiedNetworkInfo().serviceName(Integer.toString(port));
        options.majorVersion(Codec.majorVersion());
        options.minorVersion(Codec.minorVersion());
        options.guaranteedOutputBuffers(200);
        var connect = ReactorFactory.createReactorConnectOptions();
        connect.connectionList().add(info);
        return reactor.connect(connect, role, error);
    }

    /** Publishes an item's image for the first time or again. */
    public void image(int streamId, String item, Map<Integer, Object> fields) {
        var refresh = (RefreshMsg) message(MsgClasses.REFRESH, streamId);
        refresh.applyRefreshComplete();
        refresh.applyClearCache();
        refresh.state().streamState(StreamStates.OPEN);
        refresh.state().dataState(DataStates.OK);
        refresh.applyHasMsgKey();
        refresh.msgKey().applyHasServiceId();
        refresh.msgKey().serviceId(serviceId);
        refresh.msgKey().applyHasName();
        refresh.msgKey().name().data(item);
        refresh.msgKey().applyHasNameType();
        refresh.msgKey().nameType(InstrumentNameTypes.RIC);
        submit(Body.fields(fields).encode(refresh));
    }

    public void update(int streamId, String item, long sequence) {
        submit(Body.fields(Quotes.update(item, sequence)).encode((UpdateMsg) message(MsgClasses.UPDATE, streamId)));
    }

    private static Msg message(int msgClass, int streamId) {
        return EtaSession.message(msgClass, streamId, DomainTypes.MARKET_PRICE);
    }

    /** RWF, which the reactor makes JSON of. */
    private void submit(byte[] message) {
        tasks.add(() -> {
            TransportBuffer buffer = channel.getBuffer(message.length, false, error);
            if (buffer == null) {
                inbox.end("no buffer: " + error);
                return;
            }
            buffer.data().put(message);
            check("submit", channel.submit(buffer, ReactorFactory.createReactorSubmitOptions(), error));
        });
        selector.wakeup();
    }

    private void run() {
        var dispatch = ReactorFactory.createReactorDispatchOptions();
        dispatch.maxMessages(1_000);
        try {
            while (!stop) {
                selector.select(100);
                for (Runnable task; (task = tasks.poll()) != null; ) {
                    task.run();
                }
                while (reactor.dispatchAll(selector.selectedKeys(), dispatch, error) > ReactorReturnCodes.SUCCESS) {
                    // There is more.
                }
            }
        } catch (IOException e) {
            inbox.end(e.toString());
        } finally {
            reactor.shutdown(error);
        }
    }

    private int channel(ReactorChannelEvent event) {
        channel = event.reactorChannel();
        try {
            if (event.eventType() == ReactorChannelEventTypes.CHANNEL_UP) {
                channel.selectableChannel().register(selector, SelectionKey.OP_READ, channel);
            } else if (event.eventType() == ReactorChannelEventTypes.CHANNEL_DOWN) {
                inbox.end("the channel is down: " + event.errorInfo().error().text());
                channel.close(error);
            }
        } catch (IOException e) {
            inbox.end(e.toString());
        }
        return ReactorCallbackReturnCodes.SUCCESS;
    }

    private int login(RDMLoginMsgEvent event) {
        boolean isAnswer = event.rdmLoginMsg() != null && event.rdmLoginMsg().rdmMsgType() == LoginMsgType.REFRESH;
        inbox.put(isAnswer ? "logged in" : "instead of a login's answer: " + event.rdmLoginMsg());
        return ReactorCallbackReturnCodes.SUCCESS;
    }

    private void check(String what, int code) {
        if (code < ReactorReturnCodes.SUCCESS) {
            inbox.end(what + ": " + error);
        }
    }

    @Override
    public void close() throws Exception {
        stop = true;
        selector.wakeup();
        thread.join(5_000);
    }
}
