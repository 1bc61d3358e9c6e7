package quoteway.bench;

import com.refinitiv.eta.codec.Codec;
import com.refinitiv.eta.codec.CodecFactory;
import com.refinitiv.eta.codec.CodecReturnCodes;
import com.refinitiv.eta.codec.DataTypes;
import com.refinitiv.eta.codec.DecodeIterator;
import com.refinitiv.eta.codec.FieldEntry;
import com.refinitiv.eta.codec.FieldList;
import com.refinitiv.eta.codec.Msg;
import com.refinitiv.eta.codec.MsgClasses;
import com.refinitiv.eta.codec.Real;
import com.refinitiv.eta.codec.UInt;
import com.refinitiv.eta.transport.Channel;
import com.refinitiv.eta.transport.Error;
import com.refinitiv.eta.transport.InitArgs;
import com.refinitiv.eta.transport.ReadArgs;
import com.refinitiv.eta.transport.Transport;
import com.refinitiv.eta.transport.TransportBuffer;
import com.refinitiv.eta.transport.TransportFactory;
import com.refinitiv.eta.transport.TransportReturnCodes;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.util.Locale;

/** All consumer connections in one thread: opens the items, decodes every field of every update, takes each one's latency. */
final class PairConsumer {
    private final Options options;
    private final Error error = TransportFactory.createError();
    private final ReadArgs readArgs = TransportFactory.createReadArgs();
    private final Msg msg = CodecFactory.createMsg();
    private final DecodeIterator it = CodecFactory.createDecodeIterator();
    private final FieldList fields = CodecFactory.createFieldList();
    private final FieldEntry field = CodecFactory.createFieldEntry();
    private final UInt stamp = CodecFactory.createUInt();
    private final Real real = CodecFactory.createReal();
    private final LatencyHistogram latencies = new LatencyHistogram();
    private final Channel[] channels;
    /** What was seen, if that is asked for; updates so far, by mount and item. */
    private final Records records;
    private final int[][] numbers;
    private Selector selector;
    private long images;
    private long received;
    private long measureFrom = Long.MAX_VALUE;
    private long measureUntil = Long.MAX_VALUE;

    PairConsumer(Options options) {
        this.options = options;
        channels = new Channel[options.mounts()];
        boolean observes = options.records("received") != null;
        records = observes ? Records.receiver(options.every(), options.mounts(), options.capacity()) : null;
        numbers = observes ? new int[options.mounts()][options.items()] : new int[0][0];
    }

    /** Connects, runs the load and returns the result as a line of JSON. */
    String run(int port) throws Exception {
        InitArgs init = TransportFactory.createInitArgs();
        Transport.initialize(init, error);
        selector = Selector.open();
        for (int i = 0; i < channels.length; i++) {
            channels[i] = connect(port, i);
        }
        long start = System.nanoTime();
        for (int mount = 0; mount < channels.length; mount++) {
            open(mount);
        }
        long expected = options.streams();
        while (images < expected) {
            turn();
        }
        double imagesMs = (System.nanoTime() - start) / 1e6;
        measureFrom = System.nanoTime() + options.warmup() * 1_000_000_000L;
        measureUntil = measureFrom + options.seconds() * 1_000_000_000L;
        while (System.nanoTime() < measureUntil) {
            turn();
        }
        double rate = received / (double) options.seconds();
        if (records != null) {
            records.save(options.records("received"));
        }
        return String.format(
                Locale.ROOT,
                "{\"name\":\"eta-java-direct\",\"mounts\":%d,\"items\":%d,\"asked_per_s\":%d,\"rate_per_s\":%.0f,\"received\":%d,"
                        + "\"p50_us\":%.1f,\"p90_us\":%.1f,\"p99_us\":%.1f,\"max_us\":%.1f,\"images_ms\":%.1f,\"measured_from_ns\":%d}",
                options.mounts(),
                options.items(),
                options.rate(),
                rate,
                received,
                latencies.quantile(0.5),
                latencies.quantile(0.9),
                latencies.quantile(0.99),
                latencies.maxMicros(),
                imagesMs,
                measureFrom);
    }

    private Channel connect(int port, int mount) throws Exception {
        Channel channel = Channels.connect(port, options.mounts() > 10 ? 20 : 200, error);
        channel.selectableChannel().register(selector, SelectionKey.OP_READ, mount);
        return channel;
    }

    private void open(int mount) throws Exception {
        Channel channel = channels[mount];
        for (int item = 0; item < options.items(); item++) {
            if (!options.watches(mount, item)) {
                continue;
            }
            Channels.write(channel, Wire.request(item + 1, "ITEM" + item, 1), this::turn, error);
        }
        while (channel.flush(error) > TransportReturnCodes.SUCCESS) {
            turn();
        }
    }

    private void turn() throws Exception {
        selector.select(1);
        for (SelectionKey key : selector.selectedKeys()) {
            int mount = (Integer) key.attachment();
            Channels.read(channels[mount], readArgs, buffer -> take(mount, buffer), error);
        }
        selector.selectedKeys().clear();
    }

    private void take(int mount, TransportBuffer buffer) {
        it.clear();
        it.setBufferAndRWFVersion(buffer, Codec.majorVersion(), Codec.minorVersion());
        if (msg.decode(it) < CodecReturnCodes.SUCCESS) {
            throw new IllegalStateException("a message does not decode");
        }
        if (msg.msgClass() == MsgClasses.REFRESH) {
            images++;
            return;
        }
        if (records != null) {
            int item = msg.streamId() - 1;
            records.record(item, ++numbers[mount][item], 0);
        }
        fields.clear();
        fields.decode(it, null);
        while (field.decode(it) != CodecReturnCodes.END_OF_CONTAINER) {
            if (field.fieldId() == Wire.STAMP_FIELD) {
                stamp.decode(it);
            } else {
                field.dataType(DataTypes.REAL);
                real.decode(it);
            }
        }
        long now = System.nanoTime();
        if (now >= measureFrom && now < measureUntil) {
            received++;
            latencies.record(now - stamp.toLong());
        }
    }
}
