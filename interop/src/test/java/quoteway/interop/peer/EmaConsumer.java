package quoteway.interop.peer;

import com.refinitiv.ema.access.AckMsg;
import com.refinitiv.ema.access.EmaFactory;
import com.refinitiv.ema.access.GenericMsg;
import com.refinitiv.ema.access.Msg;
import com.refinitiv.ema.access.OmmConsumer;
import com.refinitiv.ema.access.OmmConsumerClient;
import com.refinitiv.ema.access.OmmConsumerConfig;
import com.refinitiv.ema.access.OmmConsumerEvent;
import com.refinitiv.ema.access.PostMsg;
import com.refinitiv.ema.access.RefreshMsg;
import com.refinitiv.ema.access.ReqMsg;
import com.refinitiv.ema.access.StatusMsg;
import com.refinitiv.ema.access.TunnelStreamRequest;
import com.refinitiv.ema.access.UpdateMsg;
import com.refinitiv.ema.rdm.EmaRdm;
import quoteway.interop.wire.Ema;
import quoteway.interop.wire.Inbox;
import quoteway.interop.wire.Message;

/** An EMA consumer as applications have it: host, port and user name, everything else default. Each stream keeps all its events in order. */
public final class EmaConsumer implements AutoCloseable {
    private final String name;
    private final OmmConsumer consumer;

    /** Returns when EMA has logged in and has directory and dictionary, as its constructor does; throws what that throws. */
    public EmaConsumer(String name, int port) {
        this(name, EmaFactory.createOmmConsumerConfig().host("localhost:" + port).username("user"));
    }

    public EmaConsumer(String name, OmmConsumerConfig config) {
        this(name, EmaStart.exclusively(() -> EmaFactory.createOmmConsumer(config)));
    }

    private EmaConsumer(String name, OmmConsumer consumer) {
        this.name = name;
        this.consumer = consumer;
    }

    /** As the constructor, for a start that waits for long; the caller keeps to {@link EmaStart#until}. */
    public static EmaConsumer unguarded(String name, int port) {
        return new EmaConsumer(
                name, EmaFactory.createOmmConsumer(EmaFactory.createOmmConsumerConfig().host("localhost:" + port).username("user")));
    }

    /** Opens a MarketPrice stream by service name. */
    public Stream open(String service, String item) {
        return open(EmaFactory.createReqMsg().serviceName(service).name(item));
    }

    public Stream open(ReqMsg request) {
        var stream = new Stream(name + " " + (request.hasName() ? request.name() : request.domainType()));
        stream.handle = consumer.registerClient(request, stream);
        return stream;
    }

    /** Opens a tunnel stream. */
    public Stream open(TunnelStreamRequest request, String tunnel) {
        var stream = new Stream(name + " tunnel " + tunnel);
        stream.handle = consumer.registerClient(request, stream);
        return stream;
    }

    /** Opens a stream inside a tunnel. */
    public Stream open(ReqMsg request, Stream tunnel) {
        var stream = new Stream(name + " in a tunnel");
        stream.handle = consumer.registerClient(request, stream, null, tunnel.handle);
        return stream;
    }

    /** Registers a client of the test's own. */
    public long register(ReqMsg request, OmmConsumerClient client) {
        return consumer.registerClient(request, client);
    }

    /** The login stream, which EMA has opened already. */
    public Stream login() {
        return open(EmaFactory.createReqMsg().domainType(EmaRdm.MMT_LOGIN));
    }

    /** All services, all filters. */
    public Stream directory() {
        return open(EmaFactory.createReqMsg().domainType(EmaRdm.MMT_DIRECTORY));
    }


    @Override
    public void close() {
        consumer.uninitialize();
    }

    /** An open stream: its events in order. */
    public final class Stream implements OmmConsumerClient {
        private final Inbox<Message> inbox;
        private long handle;

        private Stream(String name) {
            inbox = new Inbox<>(name);
        }

        public Inbox<Message> inbox() {
            return inbox;
        }

        public Message next() {
            return inbox.next();
        }

        public void reissue(ReqMsg request) {
            consumer.reissue(request, handle);
        }

        public void close() {
            consumer.unregister(handle);
        }

        public void post(PostMsg post) {
            consumer.submit(post, handle);
        }

        public void generic(GenericMsg message) {
            consumer.submit(message, handle);
        }

        public long handle() {
            return handle;
        }

        @Override
        public void onRefreshMsg(RefreshMsg msg, OmmConsumerEvent event) {
            put(msg);
        }

        @Override
        public void onUpdateMsg(UpdateMsg msg, OmmConsumerEvent event) {
            put(msg);
        }

        @Override
        public void onStatusMsg(StatusMsg msg, OmmConsumerEvent event) {
            put(msg);
        }

        @Override
        public void onGenericMsg(GenericMsg msg, OmmConsumerEvent event) {
            put(msg);
        }

        @Override
        public void onAckMsg(AckMsg msg, OmmConsumerEvent event) {
            put(msg);
        }

        @Override
        public void onAllMsg(Msg msg, OmmConsumerEvent event) {
            // Each message comes here, too, before its own method.
        }

        private void put(Msg msg) {
            try {
                inbox.put(Ema.message(msg));
            } catch (RuntimeException | AssertionError e) {
                inbox.end("EMA gave a message that does not decode: " + e);
            }
        }
    }
}
