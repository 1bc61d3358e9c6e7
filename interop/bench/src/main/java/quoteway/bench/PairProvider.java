package quoteway.bench;

import com.refinitiv.eta.codec.Codec;
import com.refinitiv.eta.transport.AcceptOptions;
import com.refinitiv.eta.transport.BindOptions;
import com.refinitiv.eta.transport.Channel;
import com.refinitiv.eta.transport.ChannelInfo;
import com.refinitiv.eta.transport.ChannelState;
import com.refinitiv.eta.transport.Error;
import com.refinitiv.eta.transport.InProgInfo;
import com.refinitiv.eta.transport.InitArgs;
import com.refinitiv.eta.transport.ReadArgs;
import com.refinitiv.eta.transport.Server;
import com.refinitiv.eta.transport.Transport;
import com.refinitiv.eta.transport.TransportBuffer;
import com.refinitiv.eta.transport.TransportFactory;
import com.refinitiv.eta.transport.TransportReturnCodes;
import com.refinitiv.eta.transport.WriteArgs;
import com.refinitiv.eta.transport.WritePriorities;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.locks.LockSupport;

/** The provider process: answers each request with an image, then updates the items in turn, at a rate, packed. */
final class PairProvider {
    private final Options options;
    private final Error error = TransportFactory.createError();
    private final ReadArgs readArgs = TransportFactory.createReadArgs();
    private final WriteArgs writeArgs = TransportFactory.createWriteArgs();
    private final List<Mount> mounts = new ArrayList<>();
    /** The mounts that watch an item; its stream id is its number plus one on all of them. */
    private final Mount[][] watchers;
    private final byte[] image = Wire.image();
    private final byte[] update = Wire.update();
    private final int stampOffset = Wire.stampOffset(update);
    /** What was sent, if that is asked for; updates so far, by item. */
    private final Records records;
    private final int[] numbers;
    /** The order of a round over the items where it is a random one; else empty. */
    private final int[] order;
    private volatile boolean isOver;
    private long opened;

    /** One consumer connection and the packed buffer that is being filled for it. */
    private static final class Mount {
        final Channel channel;
        int room;
        TransportBuffer buffer;
        boolean ready;

        Mount(Channel channel) {
            this.channel = channel;
        }
    }

    PairProvider(Options options) {
        this.options = options;
        watchers = new Mount[options.items()][0];
        boolean observes = options.records("sent") != null;
        records = observes ? Records.sender(options.every(), options.capacity()) : null;
        numbers = observes ? new int[options.items()] : new int[0];
        order = options.shuffle() ? shuffled(options.items()) : new int[0];
    }

    private static int[] shuffled(int count) {
        int[] all = new int[count];
        Random random = new Random(count);
        for (int i = 0; i < count; i++) {
            int with = random.nextInt(i + 1);
            all[i] = all[with];
            all[with] = i;
        }
        return all;
    }

    /** Ends the run from another thread. */
    void end() {
        isOver = true;
    }

    void run() throws Exception {
        InitArgs init = TransportFactory.createInitArgs();
        Transport.initialize(init, error);
        BindOptions bind = TransportFactory.createBindOptions();
        bind.serviceName("0");
        bind.majorVersion(Codec.majorVersion());
        bind.minorVersion(Codec.minorVersion());
        bind.protocolType(Codec.protocolType());
        bind.guaranteedOutputBuffers(options.mounts() > 10 ? 200 : 5_000);
        bind.maxOutputBuffers(options.mounts() > 10 ? 400 : 10_000);
        bind.sysRecvBufSize(256 * 1024);
        bind.tcpOpts().tcpNoDelay(true);
        bind.pingTimeout(120);
        Server server = Transport.bind(bind, error);
        if (server == null) {
            throw new IllegalStateException("cannot bind: " + error.text());
        }
        System.out.println("ready " + server.srvrScktChannel().socket().getLocalPort());
        long expected = options.streams();
        while (mounts.size() < options.mounts() || opened < expected) {
            accept(server);
            if (!serveRequests()) {
                Thread.sleep(1);
            }
        }
        publish();
        if (records != null) {
            records.save(options.records("sent"));
        }
    }

    private void accept(Server server) {
        AcceptOptions accept = TransportFactory.createAcceptOptions();
        accept.sysSendBufSize(256 * 1024);
        Channel channel = server.accept(accept, error);
        if (channel != null) {
            mounts.add(new Mount(channel));
        }
    }

    /** Takes what has come in; whether there was any. */
    private boolean serveRequests() {
        boolean any = false;
        for (Mount mount : mounts) {
            if (!mount.ready && !initialise(mount)) {
                continue;
            }
            do {
                TransportBuffer in = mount.channel.read(readArgs, error);
                if (in != null) {
                    any = true;
                    open(mount, in.data().getInt(in.data().position() + Wire.STREAM_ID_OFFSET));
                } else if (readArgs.readRetVal() == TransportReturnCodes.FAILURE) {
                    throw new IllegalStateException("a consumer is gone: " + error.text());
                }
            } while (readArgs.readRetVal() > 0);
            send(mount);
        }
        return any;
    }

    private boolean initialise(Mount mount) {
        InProgInfo progress = TransportFactory.createInProgInfo();
        if (mount.channel.state() == ChannelState.INITIALIZING && mount.channel.init(progress, error) < TransportReturnCodes.SUCCESS) {
            throw new IllegalStateException("handshake: " + error.text());
        }
        if (mount.channel.state() == ChannelState.ACTIVE) {
            ChannelInfo info = TransportFactory.createChannelInfo();
            mount.channel.info(info, error);
            mount.room = info.maxFragmentSize();
            mount.ready = true;
        }
        return mount.ready;
    }

    private void open(Mount mount, int streamId) {
        int item = streamId - 1;
        watchers[item] = Arrays.copyOf(watchers[item], watchers[item].length + 1);
        watchers[item][watchers[item].length - 1] = mount;
        append(mount, image, streamId, 0, -1);
        opened++;
    }

    private void publish() {
        long start = System.nanoTime();
        long sent = 0;
        long lastPing = start;
        int next = 0;
        int items = options.items();
        while (!isOver) {
            long now = System.nanoTime();
            // The first one is due at the start.
            long due = options.rate() == 0 ? sent + 1_000 : 1 + (long) ((now - start) * (options.rate() / 1e9));
            // At most a few thousand in a turn, so that they leave early.
            long until = Math.min(due, sent + 5_000);
            for (; sent < until; sent++) {
                long intended = options.rate() == 0 ? now : start + (long) (sent * (1e9 / options.rate()));
                int item = nextItem(next++, items);
                if (records != null) {
                    records.record(item, ++numbers[item], intended);
                }
                for (Mount mount : watchers[item]) {
                    append(mount, update, item + 1, intended, stampOffset);
                }
            }
            for (Mount mount : mounts) {
                send(mount);
            }
            if (now - lastPing > 10_000_000_000L) {
                lastPing = now;
                mounts.forEach(m -> m.channel.ping(error));
            }
            if (options.rate() > 0) {
                long wait = start + (long) (sent * (1e9 / options.rate())) - System.nanoTime();
                if (wait > 120_000) {
                    LockSupport.parkNanos(wait - 60_000);
                }
            }
        }
    }

    /** In turn; with several mounts one shared item and one that a single mount watches alternate. */
    private int nextItem(int n, int items) {
        int turn = n & 0x7fff_ffff;
        if (order.length > 0) {
            return order[turn % items];
        }
        if (options.mounts() == 1) {
            return turn % items;
        }
        int half = items / 2;
        return turn % 2 == 0 ? turn / 2 % half : half + turn / 2 % (items - half);
    }

    private void append(Mount mount, byte[] message, int streamId, long stamp, int offset) {
        if (mount.buffer != null && mount.buffer.data().remaining() < message.length) {
            send(mount);
        }
        while (mount.buffer == null && !isOver) {
            mount.buffer = mount.channel.getBuffer(mount.room, true, error);
            if (mount.buffer == null) {
                flush(mount);
            }
        }
        if (mount.buffer == null) {
            return;
        }
        ByteBuffer data = mount.buffer.data();
        int at = data.position();
        data.put(message);
        data.putInt(at + Wire.STREAM_ID_OFFSET, streamId);
        if (offset >= 0) {
            data.putLong(at + offset, stamp);
        }
        if (mount.channel.packBuffer(mount.buffer, error) < TransportReturnCodes.SUCCESS) {
            throw new IllegalStateException("cannot pack: " + error.text());
        }
    }

    private void send(Mount mount) {
        if (mount.buffer == null) {
            return;
        }
        writeArgs.clear();
        writeArgs.priority(WritePriorities.HIGH);
        int ret = mount.channel.write(mount.buffer, writeArgs, error);
        while (ret == TransportReturnCodes.WRITE_CALL_AGAIN && !isOver) {
            flush(mount);
            ret = mount.channel.write(mount.buffer, writeArgs, error);
        }
        if (ret < TransportReturnCodes.SUCCESS && ret != TransportReturnCodes.WRITE_FLUSH_FAILED && !isOver) {
            throw new IllegalStateException("cannot write: " + error.text());
        }
        mount.buffer = null;
        flush(mount);
    }

    private void flush(Mount mount) {
        if (mount.channel.flush(error) < TransportReturnCodes.SUCCESS && !isOver) {
            throw new IllegalStateException("cannot flush: " + error.text());
        }
    }
}
