package quoteway.interop.peer;

import com.refinitiv.eta.codec.AckMsg;
import com.refinitiv.eta.codec.Buffer;
import com.refinitiv.eta.codec.Codec;
import com.refinitiv.eta.codec.CodecFactory;
import com.refinitiv.eta.codec.DataStates;
import com.refinitiv.eta.codec.FilterEntryActions;
import com.refinitiv.eta.codec.MapEntryActions;
import com.refinitiv.eta.codec.MsgClasses;
import com.refinitiv.eta.codec.QosRates;
import com.refinitiv.eta.codec.QosTimeliness;
import com.refinitiv.eta.codec.RefreshMsg;
import com.refinitiv.eta.codec.RefreshMsgFlags;
import com.refinitiv.eta.codec.State;
import com.refinitiv.eta.codec.StateCodes;
import com.refinitiv.eta.codec.StatusMsg;
import com.refinitiv.eta.codec.StreamStates;
import com.refinitiv.eta.codec.UpdateMsg;
import com.refinitiv.eta.rdm.Directory;
import com.refinitiv.eta.rdm.DomainTypes;
import com.refinitiv.eta.rdm.InstrumentNameTypes;
import com.refinitiv.eta.rdm.Login;
import com.refinitiv.eta.transport.BindOptions;
import com.refinitiv.eta.transport.Channel;
import com.refinitiv.eta.transport.Error;
import com.refinitiv.eta.transport.Server;
import com.refinitiv.eta.transport.Transport;
import com.refinitiv.eta.transport.TransportFactory;
import com.refinitiv.eta.valueadd.domainrep.rdm.directory.DirectoryMsgFactory;
import com.refinitiv.eta.valueadd.domainrep.rdm.directory.DirectoryMsgType;
import com.refinitiv.eta.valueadd.domainrep.rdm.directory.DirectoryRefresh;
import com.refinitiv.eta.valueadd.domainrep.rdm.directory.DirectoryUpdate;
import com.refinitiv.eta.valueadd.domainrep.rdm.directory.Service.ServiceGroup;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import quoteway.interop.wire.Body;
import quoteway.interop.wire.Inbox;
import quoteway.interop.wire.Message;
import quoteway.interop.wire.Message.Kind;
import quoteway.interop.wire.Quotes;

/**
 * An interactive provider on bare ETA channels. Login, directory and dictionary requests are answered by itself; what it does with an item
 * request is the test's choice ({@link #onOpen}), an image of {@link Quotes} by default. All item traffic is kept in {@link #inbox}.
 */
public final class EtaProvider implements AutoCloseable {
    /** A message from a client of the provider. */
    public record Incoming(EtaSession session, Message message) {
        @Override
        public String toString() {
            return message.toString();
        }
    }

    private final String name;
    private final int port;
    private final Consumer<BindOptions> adjust;
    private final Map<Integer, Service> services = new LinkedHashMap<>();
    private final List<EtaSession> sessions = new CopyOnWriteArrayList<>();
    private final Inbox<EtaSession> arrivals;
    private final Inbox<Incoming> inbox;
    private final Inbox<Incoming> logins;
    private final Map<EtaSession, Integer> directoryStreams = new ConcurrentHashMap<>();
    private volatile Consumer<Item> onOpen = item -> item.refresh(Quotes.image(item.name(), 0));
    private volatile long loginSupport = ~0L;
    private Server server;
    private Thread acceptor;
    private volatile boolean stop;
    /** It has run before, so that its port may take a moment to be free again. */
    private boolean again;

    public EtaProvider(String name, int port, Consumer<BindOptions> adjust, Service... offered) {
        this.name = name;
        this.port = port;
        this.adjust = adjust;
        for (Service service : offered) {
            services.put(service.id(), service);
        }
        inbox = new Inbox<>(name);
        logins = new Inbox<>(name + " logins");
        arrivals = new Inbox<>(name + " sessions");
    }

    public EtaProvider(String name, int port, Service... offered) {
        this(name, port, b -> {}, offered);
    }

    public int port() {
        return port;
    }

    /** Item requests, closes, posts and generic messages, in order of arrival. */
    public Inbox<Incoming> inbox() {
        return inbox;
    }

    /** Login requests. */
    public Inbox<Incoming> logins() {
        return logins;
    }

    /** What to do when an item is opened or asked for again, on the session's thread. */
    public EtaProvider onOpen(Consumer<Item> behaviour) {
        onOpen = behaviour;
        return this;
    }

    /** Claims in the login refresh: bit 0 views, bit 1 posts. */
    public EtaProvider loginSupport(long bits) {
        loginSupport = bits;
        return this;
    }

    public EtaProvider start() {
        BindOptions options = TransportFactory.createBindOptions();
        options.serviceName(Integer.toString(port));
        options.majorVersion(Codec.majorVersion());
        options.minorVersion(Codec.minorVersion());
        options.protocolType(Codec.protocolType());
        options.guaranteedOutputBuffers(200);
        options.maxOutputBuffers(5000);
        options.pingTimeout(60);
        options.tcpOpts().tcpNoDelay(true);
        adjust.accept(options);
        // Makes sure that the transport is initialised.
        EtaSession.options(port);
        Error error = TransportFactory.createError();
        for (int tries = 1; (server = Transport.bind(options, error)) == null; tries++) {
            if (!again || tries > 500) {
                throw new Ports.Taken(name + " cannot bind port " + port + ": " + error.text());
            }
            // After a restart the old listener may be there for a moment.
            LockSupport.parkNanos(20_000_000);
        }
        again = true;
        stop = false;
        acceptor = new Thread(this::accept, name + "-accept");
        acceptor.setDaemon(true);
        acceptor.start();
        return this;
    }

    private void accept() {
        Error error = TransportFactory.createError();
        try (Selector selector = Selector.open()) {
            server.selectableChannel().register(selector, SelectionKey.OP_ACCEPT);
            while (!stop) {
                selector.select(50);
                selector.selectedKeys().clear();
                Channel channel = server.accept(TransportFactory.createAcceptOptions(), error);
                if (channel != null) {
                    var holder = new EtaSession[1];
                    var session = new EtaSession(name + "-session", channel, m -> received(holder, m));
                    synchronized (holder) {
                        holder[0] = session;
                        holder.notifyAll();
                    }
                    sessions.add(session);
                    arrivals.put(session);
                }
            }
        } catch (IOException e) {
            throw new IllegalStateException(e);
        } finally {
            server.close(error);
        }
    }

    private void received(EtaSession[] holder, Message m) {
        EtaSession session;
        synchronized (holder) {
            while (holder[0] == null) {
                try {
                    holder.wait();
                } catch (InterruptedException e) {
                    throw new IllegalStateException(e);
                }
            }
            session = holder[0];
        }
        try {
            handle(session, m);
        } catch (RuntimeException | AssertionError e) {
            inbox.end("failed on " + m + ": " + e);
            throw e;
        }
    }

    private void handle(EtaSession session, Message m) {
        switch (m.domain) {
            case DomainTypes.LOGIN -> {
                if (m.kind == Kind.REQUEST) {
                    logins.put(new Incoming(session, m));
                    loginRefresh(session, m);
                } else if (m.kind != Kind.CLOSE) {
                    inbox.put(new Incoming(session, m));
                }
            }
            case DomainTypes.SOURCE -> {
                if (m.kind == Kind.REQUEST) {
                    directoryStreams.put(session, m.streamId);
                    session.send(directoryRefresh(m.streamId, true));
                }
            }
            case DomainTypes.DICTIONARY -> {
                if (m.kind == Kind.REQUEST) {
                    status(session, m.streamId, m.domain, StreamStates.CLOSED, DataStates.SUSPECT, StateCodes.NOT_FOUND, "no dictionary");
                }
            }
            default -> {
                inbox.put(new Incoming(session, m));
                if (m.kind == Kind.REQUEST && !m.noRefresh) {
                    onOpen.accept(new Item(session, m));
                }
            }
        }
    }

    private void loginRefresh(EtaSession session, Message request) {
        var refresh = (RefreshMsg) EtaSession.message(MsgClasses.REFRESH, request.streamId, DomainTypes.LOGIN);
        refresh.applySolicited();
        refresh.applyRefreshComplete();
        refresh.state().streamState(StreamStates.OPEN);
        refresh.state().dataState(DataStates.OK);
        refresh.state().text().data("Login accepted");
        refresh.applyHasMsgKey();
        refresh.msgKey().applyHasName();
        refresh.msgKey().name().data(request.name);
        refresh.msgKey().applyHasNameType();
        refresh.msgKey().nameType(Login.UserIdTypes.NAME);
        var attributes = new LinkedHashMap<String, Object>();
        attributes.put("ApplicationId", "256");
        attributes.put("ApplicationName", name);
        attributes.put("Position", "127.0.0.1");
        attributes.put("SingleOpen", 1L);
        attributes.put("AllowSuspectData", 1L);
        if ((loginSupport & 1) != 0) {
            attributes.put("SupportViewRequests", 1L);
        }
        if ((loginSupport & 2) != 0) {
            attributes.put("SupportOMMPost", 1L);
        }
        session.send(Body.NONE.encode(refresh, attributes));
    }

    private byte[] directoryRefresh(int streamId, boolean solicited) {
        var refresh = (DirectoryRefresh) DirectoryMsgFactory.createMsg();
        refresh.rdmMsgType(DirectoryMsgType.REFRESH);
        refresh.streamId(streamId);
        if (solicited) {
            refresh.applySolicited();
        }
        refresh.applyClearCache();
        refresh.filter(Directory.ServiceFilterFlags.INFO
                | Directory.ServiceFilterFlags.STATE
                | Directory.ServiceFilterFlags.GROUP
                | Directory.ServiceFilterFlags.LOAD);
        refresh.state().streamState(StreamStates.OPEN);
        refresh.state().dataState(DataStates.OK);
        synchronized (services) {
            services.values().forEach(s -> refresh.serviceList().add(s.entry(MapEntryActions.ADD)));
        }
        return Body.encode(refresh);
    }

    private void sendDirectoryUpdate(com.refinitiv.eta.valueadd.domainrep.rdm.directory.Service entry) {
        directoryStreams.forEach((session, stream) -> {
            if (!session.ended()) {
                var update = (DirectoryUpdate) DirectoryMsgFactory.createMsg();
                update.rdmMsgType(DirectoryMsgType.UPDATE);
                update.streamId(stream);
                update.serviceList().add(entry);
                session.send(Body.encode(update));
            }
        });
    }

    /** Advertises a service that was not there, or again with other content. */
    public void addService(Service service) {
        synchronized (services) {
            services.put(service.id(), service);
        }
        sendDirectoryUpdate(service.entry(MapEntryActions.ADD));
    }

    public void deleteService(int id) {
        synchronized (services) {
            services.remove(id);
        }
        var entry = DirectoryMsgFactory.createService();
        entry.action(MapEntryActions.DELETE);
        entry.serviceId(id);
        sendDirectoryUpdate(entry);
    }

    /** Updates the State filter; {@code status} (may be null) is the transient one for all streams of the service. */
    public void serviceState(int id, boolean up, boolean accepting, Message.State status) {
        Service service;
        synchronized (services) {
            service = services.get(id).withState(up, accepting);
            services.put(id, service);
        }
        var entry = DirectoryMsgFactory.createService();
        entry.action(MapEntryActions.UPDATE);
        entry.serviceId(id);
        service.stateInto(entry);
        entry.state().action(FilterEntryActions.UPDATE);
        if (status != null) {
            entry.state().applyHasStatus();
            copy(status, entry.state().status());
        }
        sendDirectoryUpdate(entry);
    }

    /** Sends a status, or a merge into another group, for one group of a service. Groups are hex. */
    public void groupStatus(int serviceId, String group, String mergedTo, Message.State status) {
        var entry = DirectoryMsgFactory.createService();
        entry.action(MapEntryActions.UPDATE);
        entry.serviceId(serviceId);
        var g = new ServiceGroup();
        g.action(FilterEntryActions.UPDATE);
        g.group(buffer(group));
        if (mergedTo != null) {
            g.applyHasMergedToGroup();
            g.mergedToGroup(buffer(mergedTo));
        }
        if (status != null) {
            g.applyHasStatus();
            copy(status, g.status());
        }
        entry.groupStateList().add(g);
        sendDirectoryUpdate(entry);
    }

    private static void copy(Message.State from, State to) {
        to.streamState(from.stream());
        to.dataState(from.data());
        to.code(from.code());
        to.text().data(from.text());
    }

    private static Buffer buffer(String hex) {
        Buffer buffer = CodecFactory.createBuffer();
        buffer.data(ByteBuffer.wrap(HexFormat.of().parseHex(hex)));
        return buffer;
    }

    /** The next session that was accepted. */
    public EtaSession awaitSession() {
        return arrivals.next();
    }

    /** The next message of a class for an item of that name; others stay. */
    public Incoming await(Kind kind, String item) {
        return inbox.next(i -> i.message.kind == kind && item.equals(i.message.name), kind + " for " + item);
    }

    /** Waits for the request that opens an item. */
    public Item awaitOpen(String item) {
        Incoming request = await(Kind.REQUEST, item);
        return new Item(request.session, request.message);
    }

    /**
     * The newest of the requests for an item that are here: the one whose stream goes on. A machine that stands still for as long as a
     * request may take has requests more than a test wants, and answers to all but the last come too late.
     */
    public Item lastOpen(String item) {
        Item last = awaitOpen(item);
        for (Incoming later : inbox.drain()) {
            if (later.message.kind == Kind.REQUEST && item.equals(later.message.name)) {
                last = new Item(later.session, later.message);
            }
        }
        return last;
    }

    /** Cuts every connection with a reset and stops listening. */
    public void kill() {
        stopAccepting();
        sessions.forEach(EtaSession::reset);
        sessions.clear();
        directoryStreams.clear();
    }

    /** Cuts every connection but goes on listening. */
    public void cut() {
        List<EtaSession> now = List.copyOf(sessions);
        sessions.clear();
        now.forEach(s -> {
            directoryStreams.remove(s);
            s.reset();
        });
    }

    @Override
    public void close() {
        stopAccepting();
        sessions.forEach(EtaSession::close);
    }

    private void stopAccepting() {
        stop = true;
        if (acceptor != null) {
            try {
                acceptor.join(5000);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }
    }

    static void status(EtaSession session, int streamId, int domain, int stream, int data, int code, String text) {
        var status = (StatusMsg) EtaSession.message(MsgClasses.STATUS, streamId, domain);
        status.applyHasState();
        status.state().streamState(stream);
        status.state().dataState(data);
        status.state().code(code);
        status.state().text().data(text);
        session.send(status);
    }

    /** An open item stream, with the request that opened it or asked again. */
    public static final class Item {
        private final EtaSession session;
        private final Message request;

        public Item(EtaSession session, Message request) {
            this.session = session;
            this.request = request;
        }

        public EtaSession session() {
            return session;
        }

        public Message request() {
            return request;
        }

        public String name() {
            return request.name;
        }

        public int streamId() {
            return request.streamId;
        }

        /** A refresh as providers usually answer a request: solicited, complete, key, QoS real-time, ClearCache. */
        public RefreshMsg newRefresh() {
            var refresh = (RefreshMsg) EtaSession.message(MsgClasses.REFRESH, request.streamId, request.domain);
            refresh.applySolicited();
            refresh.applyRefreshComplete();
            refresh.applyClearCache();
            refresh.state().streamState(request.streaming ? StreamStates.OPEN : StreamStates.NON_STREAMING);
            refresh.state().dataState(DataStates.OK);
            refresh.state().text().data("All is well");
            refresh.applyHasQos();
            refresh.qos().timeliness(QosTimeliness.REALTIME);
            refresh.qos().rate(QosRates.TICK_BY_TICK);
            refresh.applyHasMsgKey();
            refresh.msgKey().applyHasServiceId();
            refresh.msgKey().serviceId(request.serviceId);
            refresh.msgKey().applyHasName();
            refresh.msgKey().name().data(request.name);
            refresh.msgKey().applyHasNameType();
            refresh.msgKey().nameType(InstrumentNameTypes.RIC);
            if (request.privateStream) {
                refresh.applyPrivateStream();
            }
            refresh.groupId(buffer("0000"));
            return refresh;
        }

        public void refresh(Map<Integer, Object> fields) {
            refresh(r -> {}, Body.fields(fields));
        }

        public void refresh(Consumer<RefreshMsg> adjust, Body body) {
            RefreshMsg refresh = newRefresh();
            adjust.accept(refresh);
            session.send(refresh, body);
        }

        /** Part {@code part} of an image in several messages. */
        public void part(int part, boolean last, Body body) {
            RefreshMsg refresh = newRefresh();
            refresh.applyHasPartNum();
            refresh.partNum(part);
            if (!last) {
                refresh.flags(refresh.flags() & ~RefreshMsgFlags.REFRESH_COMPLETE);
            }
            if (part > 0) {
                refresh.flags(refresh.flags() & ~RefreshMsgFlags.CLEAR_CACHE);
            }
            session.send(refresh, body);
        }

        /** A quote update with its sequence number as a field and as the message's. */
        public void update(long sequence) {
            session.send(encodeUpdate(sequence));
        }

        public byte[] encodeUpdate(long sequence) {
            return encodeUpdate(sequence, u -> {}, Body.fields(Quotes.update(request.name, sequence)));
        }

        public byte[] encodeUpdate(long sequence, Consumer<UpdateMsg> adjust, Body body) {
            var update = (UpdateMsg) EtaSession.message(MsgClasses.UPDATE, request.streamId, request.domain);
            update.updateType(1);
            update.applyHasSeqNum();
            update.seqNum(sequence);
            adjust.accept(update);
            return body.encode(update);
        }

        /** The key that this item has at the provider, in an update. */
        public void withKey(UpdateMsg update) {
            update.applyHasMsgKey();
            update.msgKey().applyHasServiceId();
            update.msgKey().serviceId(request.serviceId);
            update.msgKey().applyHasName();
            update.msgKey().name().data(request.name);
            update.msgKey().applyHasNameType();
            update.msgKey().nameType(InstrumentNameTypes.RIC);
        }

        public void status(int stream, int data, int code, String text) {
            EtaProvider.status(session, request.streamId, request.domain, stream, data, code, text);
        }

        /** Answers a post on this stream, or on the stream that {@code post} came on. */
        public static void acknowledge(Incoming post, int nakCode, String text) {
            var ack = (AckMsg) EtaSession.message(MsgClasses.ACK, post.message.streamId, post.message.domain);
            ack.ackId(post.message.postId);
            if (nakCode != 0) {
                ack.applyHasNakCode();
                ack.nakCode(nakCode);
            }
            if (text != null) {
                ack.applyHasText();
                ack.text().data(text);
            }
            if (post.message.sequence != null) {
                ack.applyHasSeqNum();
                ack.seqNum(post.message.sequence);
            }
            post.session.send(ack);
        }
    }
}
