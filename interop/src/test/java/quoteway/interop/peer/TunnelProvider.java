package quoteway.interop.peer;

import com.refinitiv.eta.codec.AckMsg;
import com.refinitiv.eta.codec.Codec;
import com.refinitiv.eta.codec.CodecFactory;
import com.refinitiv.eta.codec.DataStates;
import com.refinitiv.eta.codec.DataTypes;
import com.refinitiv.eta.codec.GenericMsg;
import com.refinitiv.eta.codec.Msg;
import com.refinitiv.eta.codec.MsgClasses;
import com.refinitiv.eta.codec.MsgKey;
import com.refinitiv.eta.codec.PostMsg;
import com.refinitiv.eta.codec.RefreshMsg;
import com.refinitiv.eta.codec.StateCodes;
import com.refinitiv.eta.codec.StreamStates;
import com.refinitiv.eta.transport.BindOptions;
import com.refinitiv.eta.transport.Error;
import com.refinitiv.eta.transport.Server;
import com.refinitiv.eta.transport.Transport;
import com.refinitiv.eta.transport.TransportFactory;
import com.refinitiv.eta.valueadd.domainrep.rdm.MsgBase;
import com.refinitiv.eta.valueadd.domainrep.rdm.directory.DirectoryMsgFactory;
import com.refinitiv.eta.valueadd.domainrep.rdm.directory.DirectoryMsgType;
import com.refinitiv.eta.valueadd.domainrep.rdm.directory.DirectoryRefresh;
import com.refinitiv.eta.valueadd.domainrep.rdm.directory.DirectoryRequest;
import com.refinitiv.eta.valueadd.domainrep.rdm.login.LoginMsgFactory;
import com.refinitiv.eta.valueadd.domainrep.rdm.login.LoginMsgType;
import com.refinitiv.eta.valueadd.domainrep.rdm.login.LoginRefresh;
import com.refinitiv.eta.valueadd.domainrep.rdm.login.LoginRequest;
import com.refinitiv.eta.valueadd.reactor.ProviderRole;
import com.refinitiv.eta.valueadd.reactor.RDMDirectoryMsgEvent;
import com.refinitiv.eta.valueadd.reactor.RDMLoginMsgEvent;
import com.refinitiv.eta.valueadd.reactor.Reactor;
import com.refinitiv.eta.valueadd.reactor.ReactorCallbackReturnCodes;
import com.refinitiv.eta.valueadd.reactor.ReactorChannel;
import com.refinitiv.eta.valueadd.reactor.ReactorChannelEvent;
import com.refinitiv.eta.valueadd.reactor.ReactorChannelEventTypes;
import com.refinitiv.eta.valueadd.reactor.ReactorErrorInfo;
import com.refinitiv.eta.valueadd.reactor.ReactorFactory;
import com.refinitiv.eta.valueadd.reactor.ReactorReturnCodes;
import com.refinitiv.eta.valueadd.reactor.TunnelStream;
import com.refinitiv.eta.valueadd.reactor.TunnelStreamMsgEvent;
import com.refinitiv.eta.valueadd.reactor.TunnelStreamRequestEvent;
import com.refinitiv.eta.valueadd.reactor.TunnelStreamStatusEvent;
import java.io.IOException;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.Queue;
import quoteway.interop.wire.Inbox;

/**
 * An interactive provider on ETA's reactor that takes tunnel streams: a request inside a tunnel is answered with an image of nothing, and
 * each generic message is sent back as it came.
 */
public final class TunnelProvider implements AutoCloseable {
    /** What happened to tunnels: their names and states, and what came through them. */
    private final Inbox<String> inbox = new Inbox<>("tunnels");

    private final int port;
    private final Service service;
    private final ReactorErrorInfo error = ReactorFactory.createReactorErrorInfo();
    private final Queue<Runnable> tasks = new ConcurrentLinkedQueue<>();
    private final Reactor reactor;
    private final Server server;
    private final Selector selector;
    private final Thread thread;
    private volatile boolean stop;
    private volatile TunnelStream last;

    public TunnelProvider(int port, Service service) {
        this.port = port;
        this.service = service;
        BindOptions options = TransportFactory.createBindOptions();
        options.serviceName(Integer.toString(port));
        options.majorVersion(Codec.majorVersion());
        options.minorVersion(Codec.minorVersion());
        options.protocolType(Codec.protocolType());
        options.guaranteedOutputBuffers(500);
        options.maxOutputBuffers(5000);
        reactor = ReactorFactory.createReactor(ReactorFactory.createReactorOptions(), error);
        if (reactor == null) {
            throw new IllegalStateException(error.toString());
        }
        Error bound = TransportFactory.createError();
        server = Transport.bind(options, bound);
        if (server == null) {
            throw new Ports.Taken(bound.text());
        }
        try {
            selector = Selector.open();
            server.selectableChannel().register(selector, SelectionKey.OP_ACCEPT, server);
            reactor.reactorChannel().selectableChannel().register(selector, SelectionKey.OP_READ, reactor.reactorChannel());
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
        thread = new Thread(this::run, "tunnel-provider");
        thread.setDaemon(true);
        thread.start();
    }

    public int port() {
        return port;
    }

    public Inbox<String> inbox() {
        return inbox;
    }

    /** Ends the tunnel that was opened last. */
    public void closeTunnel() {
        tasks.add(() -> check("close", last.close(true, error)));
        selector.wakeup();
    }

    @Override
    public void close() throws Exception {
        stop = true;
        selector.wakeup();
        thread.join(5_000);
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
                var keys = selector.selectedKeys();
                if (keys.removeIf(key -> key.attachment() == server)) {
                    accept();
                }
                while (reactor.dispatchAll(keys, dispatch, error) > ReactorReturnCodes.SUCCESS) {
                    // There is more.
                }
            }
        } catch (IOException e) {
            inbox.end(e.toString());
        } finally {
            reactor.shutdown(error);
            server.close(TransportFactory.createError());
        }
    }

    private void accept() {
        ProviderRole role = ReactorFactory.createProviderRole();
        role.channelEventCallback(this::channel);
        role.loginMsgCallback(this::login);
        role.directoryMsgCallback(this::directory);
        role.dictionaryMsgCallback(event -> ReactorCallbackReturnCodes.SUCCESS);
        role.defaultMsgCallback(event -> ReactorCallbackReturnCodes.SUCCESS);
        role.tunnelStreamListenerCallback(this::tunnel);
        check("accept", reactor.accept(server, ReactorFactory.createReactorAcceptOptions(), role, error));
    }

    private int channel(ReactorChannelEvent event) {
        ReactorChannel channel = event.reactorChannel();
        try {
            if (event.eventType() == ReactorChannelEventTypes.CHANNEL_UP) {
                channel.selectableChannel().register(selector, SelectionKey.OP_READ, channel);
            } else if (event.eventType() == ReactorChannelEventTypes.CHANNEL_DOWN) {
                SelectionKey key = channel.selectableChannel().keyFor(selector);
                if (key != null) {
                    key.cancel();
                }
                channel.close(error);
            }
        } catch (IOException e) {
            inbox.end(e.toString());
        }
        return ReactorCallbackReturnCodes.SUCCESS;
    }

    private int login(RDMLoginMsgEvent event) {
        if (event.rdmLoginMsg() != null && event.rdmLoginMsg().rdmMsgType() == LoginMsgType.REQUEST) {
            var request = (LoginRequest) event.rdmLoginMsg();
            var refresh = (LoginRefresh) LoginMsgFactory.createMsg();
            refresh.rdmMsgType(LoginMsgType.REFRESH);
            refresh.streamId(request.streamId());
            refresh.applySolicited();
            refresh.applyHasUserName();
            refresh.userName().data(request.userName().toString());
            refresh.state().streamState(StreamStates.OPEN);
            refresh.state().dataState(DataStates.OK);
            refresh.state().code(StateCodes.NONE);
            submit(event.reactorChannel(), refresh);
        }
        return ReactorCallbackReturnCodes.SUCCESS;
    }

    private int directory(RDMDirectoryMsgEvent event) {
        if (event.rdmDirectoryMsg() != null && event.rdmDirectoryMsg().rdmMsgType() == DirectoryMsgType.REQUEST) {
            var request = (DirectoryRequest) event.rdmDirectoryMsg();
            var refresh = (DirectoryRefresh) DirectoryMsgFactory.createMsg();
            refresh.rdmMsgType(DirectoryMsgType.REFRESH);
            refresh.streamId(request.streamId());
            refresh.applySolicited();
            refresh.applyClearCache();
            refresh.filter(request.filter());
            refresh.state().streamState(StreamStates.OPEN);
            refresh.state().dataState(DataStates.OK);
            refresh.serviceList().add(service.entry(com.refinitiv.eta.codec.MapEntryActions.ADD));
            submit(event.reactorChannel(), refresh);
        }
        return ReactorCallbackReturnCodes.SUCCESS;
    }

    private void submit(ReactorChannel channel, MsgBase msg) {
        check("submit", channel.submit(msg, ReactorFactory.createReactorSubmitOptions(), error));
    }

    private int tunnel(TunnelStreamRequestEvent event) {
        inbox.put("asked for " + event.name() + " of service " + event.serviceId() + " on domain " + event.domainType());
        var options = ReactorFactory.createTunnelStreamAcceptOptions();
        options.statusEventCallback(this::status);
        options.defaultMsgCallback(this::message);
        options.guaranteedOutputBuffers(50);
        var wanted = event.classOfService();
        options.classOfService().dataIntegrity().type(wanted.dataIntegrity().type());
        options.classOfService().flowControl().type(wanted.flowControl().type());
        options.classOfService().authentication().type(wanted.authentication().type());
        options.classOfService().common().maxMsgSize(wanted.common().maxMsgSize());
        options.classOfService().common().protocolType(wanted.common().protocolType());
        options.classOfService().common().protocolMajorVersion(wanted.common().protocolMajorVersion());
        options.classOfService().common().protocolMinorVersion(wanted.common().protocolMinorVersion());
        check("accept a tunnel", event.reactorChannel().acceptTunnelStream(event, options, error));
        return ReactorCallbackReturnCodes.SUCCESS;
    }

    private int status(TunnelStreamStatusEvent event) {
        last = event.tunnelStream();
        inbox.put(event.tunnelStream().name() + " is " + StreamStates.toString(event.state().streamState()));
        return ReactorCallbackReturnCodes.SUCCESS;
    }

    private int message(TunnelStreamMsgEvent event) {
        Msg msg = event.msg();
        if (msg == null) {
            inbox.put("what is no message: " + event.containerType());
            return ReactorCallbackReturnCodes.SUCCESS;
        }
        inbox.put(MsgClasses.toString(msg.msgClass()) + " on " + msg.streamId());
        Msg answer = CodecFactory.createMsg();
        if (msg.msgClass() == MsgClasses.REQUEST) {
            answer.msgClass(MsgClasses.REFRESH);
            RefreshMsg refresh = (RefreshMsg) answer;
            refresh.applySolicited();
            refresh.applyRefreshComplete();
            refresh.state().streamState(StreamStates.OPEN);
            refresh.state().dataState(DataStates.OK);
            refresh.containerType(DataTypes.NO_DATA);
            if (msg.msgKey() != null) {
                refresh.applyHasMsgKey();
                MsgKey key = refresh.msgKey();
                msg.msgKey().copy(key);
            }
        } else if (msg.msgClass() == MsgClasses.POST) {
            PostMsg post = (PostMsg) msg;
            answer.msgClass(MsgClasses.ACK);
            AckMsg ack = (AckMsg) answer;
            ack.ackId(post.postId());
            ack.applyHasText();
            ack.text().data("taken in the tunnel");
        } else if (msg.msgClass() == MsgClasses.GENERIC) {
            answer.msgClass(MsgClasses.GENERIC);
            GenericMsg generic = (GenericMsg) answer;
            generic.applyMessageComplete();
            generic.containerType(msg.containerType());
            generic.encodedDataBody(msg.encodedDataBody());
        } else {
            return ReactorCallbackReturnCodes.SUCCESS;
        }
        answer.streamId(msg.streamId());
        answer.domainType(msg.domainType());
        check("submit", event.tunnelStream().submit(answer, error));
        return ReactorCallbackReturnCodes.SUCCESS;
    }

    private void check(String what, int code) {
        if (code < ReactorReturnCodes.SUCCESS) {
            inbox.end(what + ": " + error);
        }
    }
}
