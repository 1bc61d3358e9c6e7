package quoteway.interop.peer;

import com.refinitiv.eta.codec.CloseMsg;
import com.refinitiv.eta.codec.Codec;
import com.refinitiv.eta.codec.CodecFactory;
import com.refinitiv.eta.codec.GenericMsg;
import com.refinitiv.eta.codec.Msg;
import com.refinitiv.eta.codec.MsgClasses;
import com.refinitiv.eta.transport.Channel;
import com.refinitiv.eta.transport.ChannelInfo;
import com.refinitiv.eta.transport.ChannelState;
import com.refinitiv.eta.transport.ConnectOptions;
import com.refinitiv.eta.transport.ConnectionTypes;
import com.refinitiv.eta.transport.Error;
import com.refinitiv.eta.transport.InProgFlags;
import com.refinitiv.eta.transport.InProgInfo;
import com.refinitiv.eta.transport.InitArgs;
import com.refinitiv.eta.transport.ReadArgs;
import com.refinitiv.eta.transport.Transport;
import com.refinitiv.eta.transport.TransportBuffer;
import com.refinitiv.eta.transport.TransportFactory;
import com.refinitiv.eta.transport.TransportReturnCodes;
import com.refinitiv.eta.transport.WriteArgs;
import com.refinitiv.eta.transport.WritePriorities;
import java.io.IOException;
import java.net.StandardSocketOptions;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.util.ArrayDeque;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import quoteway.interop.wire.Body;
import quoteway.interop.wire.EtaDecoder;
import quoteway.interop.wire.Inbox;
import quoteway.interop.wire.Message;

/**
 * One ETA channel, client or server side, with a thread of its own that reads, decodes, writes and pings. No reactor and no watchlist: what
 * is sent is what the test says, and every message received reaches the test (or {@code onMessage}).
 */
public class EtaSession implements AutoCloseable {
    static {
        InitArgs args = TransportFactory.createInitArgs();
        args.globalLocking(true);
        if (Transport.initialize(args, TransportFactory.createError()) != TransportReturnCodes.SUCCESS) {
            throw new IllegalStateException("ETA transport does not initialise");
        }
    }

    private final String name;
    private final Channel channel;
    private final Selector selector;
    private final Queue<Runnable> tasks = new ConcurrentLinkedQueue<>();
    private final Inbox<Message> inbox;
    private final Consumer<Message> onMessage;
    private final CountDownLatch ready = new CountDownLatch(1);
    private final CountDownLatch finished = new CountDownLatch(1);
    private final ChannelInfo info = TransportFactory.createChannelInfo();
    private final Error error = TransportFactory.createError();
    private final AtomicInteger pingsReceived = new AtomicInteger();
    private final Queue<byte[]> blocked = new ArrayDeque<>();
    private volatile boolean stop;
    private volatile boolean reading = true;
    private volatile boolean pinging = true;
    private volatile String ended;
    private boolean flushPending;
    private SelectionKey key;
    private long nextPing;

    /** Runs {@code channel}; {@code onMessage} (may be null) sees each message on the session's thread, otherwise it goes to the inbox. */
    EtaSession(String name, Channel channel, Consumer<Message> onMessage) {
        this.name = name;
        this.channel = channel;
        this.onMessage = onMessage;
        this.inbox = new Inbox<>(name);
        try {
            selector = Selector.open();
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
        Thread thread = new Thread(this::run, name);
        thread.setDaemon(true);
        thread.start();
    }

    /** Options for a plain socket to {@code port} on this host. */
    public static ConnectOptions options(int port) {
        ConnectOptions options = TransportFactory.createConnectOptions();
        options.unifiedNetworkInfo().address("127.0.0.1");
        options.unifiedNetworkInfo().serviceName(Integer.toString(port));
        options.majorVersion(Codec.majorVersion());
        options.minorVersion(Codec.minorVersion());
        options.protocolType(Codec.protocolType());
        options.tcpOpts().tcpNoDelay(true);
        // ETA takes all of this memory at once, and some tests have a hundred sessions.
        options.guaranteedOutputBuffers(50);
        options.numInputBuffers(10);
        options.pingTimeout(60);
        return options;
    }

    /** Options for TLS below {@code protocol}, one of {@code ConnectionTypes}. */
    public static ConnectOptions encrypted(int port, int protocol, Certificate certificate) {
        ConnectOptions options = options(port);
        options.connectionType(ConnectionTypes.ENCRYPTED);
        options.encryptionOptions().connectionType(protocol);
        options.encryptionOptions().KeystoreType("PKCS12");
        options.encryptionOptions().KeystoreFile(certificate.store().toString());
        options.encryptionOptions().KeystorePasswd(Certificate.PASSWORD);
        return options;
    }

    static Channel connect(ConnectOptions options) {
        Error error = TransportFactory.createError();
        Channel channel = Transport.connect(options, error);
        if (channel == null) {
            throw new AssertionError("ETA cannot connect: " + error.text());
        }
        return channel;
    }

    /** What has been received and not yet taken. */
    public Inbox<Message> inbox() {
        return inbox;
    }

    public Message next() {
        return inbox.next();
    }

    /** The next message on a stream; messages of others stay. */
    public Message next(int streamId) {
        return inbox.next(m -> m.streamId == streamId, "message on stream " + streamId);
    }

    /** Waits until the session is established. */
    public void awaitReady() {
        try {
            if (!ready.await(60, TimeUnit.SECONDS)) {
                throw new AssertionError(name + ": the session is not established");
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new AssertionError(e);
        }
        if (ended != null && info.maxFragmentSize() == 0) {
            throw new AssertionError(name + ": the session was not established: " + ended);
        }
    }

    /** What was negotiated. */
    public ChannelInfo info() {
        awaitReady();
        return info;
    }

    /** Waits for the end of the session; returns why. */
    public String awaitEnd() {
        return inbox.awaitEnd();
    }

    public boolean ended() {
        return ended != null;
    }

    public int pingsReceived() {
        return pingsReceived.get();
    }

    /** Stops or starts taking bytes from the socket. */
    public void reading(boolean on) {
        perform(() -> {
            reading = on;
            interest();
        });
    }

    /** Stops or starts the pings that the session sends by itself. */
    public void pinging(boolean on) {
        pinging = on;
    }

    /** Sends one encoded message. */
    public void send(byte[] message) {
        perform(() -> write(message));
    }

    /** Sends a message without payload. */
    public void send(Msg msg) {
        send(Body.NONE.encode(msg));
    }

    public void send(Msg msg, Body body) {
        send(body.encode(msg));
    }

    /** Sends messages packed into as few frames as they fit in. */
    public void sendPacked(List<byte[]> messages) {
        perform(() -> writePacked(messages));
    }

    public void sendPing() {
        perform(() -> channel.ping(error));
    }

    /** Closes a stream. */
    public void closeStream(int streamId, int domain) {
        CloseMsg close = (CloseMsg) message(MsgClasses.CLOSE, streamId, domain);
        send(close);
    }

    /** Sends a generic message on an open stream. */
    public void generic(int streamId, int domain, long sequence, Body body) {
        GenericMsg generic = (GenericMsg) message(MsgClasses.GENERIC, streamId, domain);
        generic.applyHasSeqNum();
        generic.seqNum(sequence);
        generic.applyMessageComplete();
        send(generic, body);
    }

    /** A new message of a class. */
    public static Msg message(int msgClass, int streamId, int domain) {
        Msg msg = CodecFactory.createMsg();
        msg.msgClass(msgClass);
        msg.streamId(streamId);
        msg.domainType(domain);
        return msg;
    }

    /** Cuts the TCP connection with a reset, as the death of a host would. */
    public void reset() {
        perform(() -> {
            try {
                channel.scktChannel().setOption(StandardSocketOptions.SO_LINGER, 0);
            } catch (IOException e) {
                throw new IllegalStateException(e);
            }
            stop = true;
        });
        awaitFinished();
    }

    @Override
    public void close() {
        stop = true;
        selector.wakeup();
        awaitFinished();
    }

    private void awaitFinished() {
        try {
            if (!finished.await(60, TimeUnit.SECONDS)) {
                throw new AssertionError(name + ": the thread does not end");
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** Runs on the session's thread, in the order of the calls. */
    void perform(Runnable task) {
        tasks.add(task);
        selector.wakeup();
    }

    private void run() {
        try {
            establish();
            ready.countDown();
            while (!stop) {
                long now = System.nanoTime();
                long wait = Math.max(1, Math.min(200, (nextPing - now) / 1_000_000));
                selector.select(wait);
                selector.selectedKeys().clear();
                if (pinging && System.nanoTime() - nextPing >= 0) {
                    channel.ping(error);
                    schedulePing();
                }
                for (Runnable task; (task = tasks.poll()) != null; ) {
                    task.run();
                }
                if (flushPending) {
                    flush();
                }
                if (reading) {
                    read();
                }
            }
            finish("closed by the test");
        } catch (Ended e) {
            finish(e.getMessage());
        } catch (Throwable e) {
            finish(e.toString());
        } finally {
            channel.close(error);
            try {
                selector.close();
            } catch (IOException e) {
                // The descriptor goes with the process.
            }
            ready.countDown();
            finished.countDown();
        }
    }

    private void finish(String reason) {
        ended = reason;
        inbox.end(reason);
    }

    private void establish() throws IOException {
        InProgInfo progress = TransportFactory.createInProgInfo();
        key = channel.selectableChannel().register(selector, SelectionKey.OP_READ | SelectionKey.OP_CONNECT);
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
        while (channel.state() == ChannelState.INITIALIZING) {
            int ret = channel.init(progress, error);
            if (ret < TransportReturnCodes.SUCCESS) {
                throw new Ended(TransportReturnCodes.toString(ret) + ": " + error.text());
            }
            if (ret == TransportReturnCodes.CHAN_INIT_IN_PROGRESS) {
                if (progress.flags() == InProgFlags.SCKT_CHNL_CHANGE) {
                    key.cancel();
                    selector.selectNow();
                    key = channel.selectableChannel().register(selector, SelectionKey.OP_READ | SelectionKey.OP_CONNECT);
                }
                if (stop || System.nanoTime() > deadline) {
                    throw new Ended("no answer to the handshake");
                }
                selector.select(20);
                selector.selectedKeys().clear();
            }
        }
        if (channel.info(info, error) < TransportReturnCodes.SUCCESS) {
            throw new Ended("no channel info: " + error.text());
        }
        schedulePing();
        interest();
    }

    private void schedulePing() {
        nextPing = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(Math.max(300, channel.pingTimeout() * 300L));
    }

    private void interest() {
        int ops = reading ? SelectionKey.OP_READ : 0;
        key.interestOps(flushPending ? ops | SelectionKey.OP_WRITE : ops);
    }

    private void read() {
        ReadArgs args = TransportFactory.createReadArgs();
        do {
            TransportBuffer buffer = channel.read(args, error);
            if (buffer != null) {
                byte[] bytes = new byte[buffer.length()];
                buffer.data().duplicate().get(bytes);
                Message message = EtaDecoder.message(bytes);
                if (onMessage != null) {
                    onMessage.accept(message);
                } else {
                    inbox.put(message);
                }
            } else if (args.readRetVal() == TransportReturnCodes.READ_PING) {
                pingsReceived.incrementAndGet();
            } else if (args.readRetVal() < TransportReturnCodes.SUCCESS && args.readRetVal() != TransportReturnCodes.READ_WOULD_BLOCK) {
                throw new Ended("read " + TransportReturnCodes.toString(args.readRetVal()) + ": " + error.text());
            }
        } while (args.readRetVal() > 0 && reading && !stop);
        if (args.readRetVal() > 0) {
            selector.wakeup();
        }
    }

    private void write(byte[] message) {
        if (!blocked.isEmpty()) {
            blocked.add(message);
            return;
        }
        TransportBuffer buffer = channel.getBuffer(message.length, false, error);
        if (buffer == null) {
            if (error.errorId() != TransportReturnCodes.NO_BUFFERS) {
                throw new Ended("no buffer: " + error.text());
            }
            blocked.add(message);
            flush();
            return;
        }
        buffer.data().put(message);
        submit(buffer);
    }

    private void writePacked(List<byte[]> messages) {
        int room = info.maxFragmentSize();
        TransportBuffer buffer = null;
        for (byte[] message : messages) {
            if (buffer != null && buffer.data().remaining() < message.length) {
                submit(buffer);
                buffer = null;
            }
            if (buffer == null) {
                buffer = channel.getBuffer(room, true, error);
                while (buffer == null) {
                    flush();
                    buffer = channel.getBuffer(room, true, error);
                }
            }
            buffer.data().put(message);
            if (channel.packBuffer(buffer, error) < TransportReturnCodes.SUCCESS) {
                throw new Ended("cannot pack: " + error.text());
            }
        }
        if (buffer != null) {
            submit(buffer);
        }
    }

    private void submit(TransportBuffer buffer) {
        WriteArgs args = TransportFactory.createWriteArgs();
        args.priority(WritePriorities.HIGH);
        while (true) {
            int ret = channel.write(buffer, args, error);
            if (ret == TransportReturnCodes.WRITE_CALL_AGAIN) {
                flush();
                continue;
            }
            if (ret > TransportReturnCodes.SUCCESS || ret == TransportReturnCodes.WRITE_FLUSH_FAILED) {
                flush();
            } else if (ret < TransportReturnCodes.SUCCESS) {
                throw new Ended("write " + TransportReturnCodes.toString(ret) + ": " + error.text());
            }
            return;
        }
    }

    private void flush() {
        int ret = channel.flush(error);
        if (ret < TransportReturnCodes.SUCCESS) {
            throw new Ended("flush " + TransportReturnCodes.toString(ret) + ": " + error.text());
        }
        flushPending = ret > TransportReturnCodes.SUCCESS;
        interest();
        while (!blocked.isEmpty()) {
            byte[] message = blocked.peek();
            TransportBuffer buffer = channel.getBuffer(message.length, false, error);
            if (buffer == null) {
                flushPending = true;
                interest();
                return;
            }
            blocked.remove();
            buffer.data().put(message);
            submit(buffer);
        }
    }

    @Override
    public String toString() {
        return name;
    }

    private static final class Ended extends RuntimeException {
        private static final long serialVersionUID = 1;

        Ended(String reason) {
            super(reason);
        }
    }
}
