package quoteway.bench;

import com.refinitiv.eta.codec.Buffer;
import com.refinitiv.eta.codec.Codec;
import com.refinitiv.eta.codec.CodecFactory;
import com.refinitiv.eta.codec.CodecReturnCodes;
import com.refinitiv.eta.codec.DataDictionary;
import com.refinitiv.eta.codec.DataTypes;
import com.refinitiv.eta.codec.DecodeIterator;
import com.refinitiv.eta.codec.DictionaryEntry;
import com.refinitiv.eta.codec.FieldEntry;
import com.refinitiv.eta.codec.FieldList;
import com.refinitiv.eta.codec.Msg;
import com.refinitiv.eta.codec.MsgClasses;
import com.refinitiv.eta.codec.Real;
import com.refinitiv.eta.codec.Time;
import com.refinitiv.eta.codec.UInt;
import com.refinitiv.eta.rdm.DomainTypes;
import com.refinitiv.eta.transport.Channel;
import com.refinitiv.eta.transport.Error;
import com.refinitiv.eta.transport.InitArgs;
import com.refinitiv.eta.transport.ReadArgs;
import com.refinitiv.eta.transport.Transport;
import com.refinitiv.eta.transport.TransportBuffer;
import com.refinitiv.eta.transport.TransportFactory;
import com.refinitiv.eta.transport.TransportReturnCodes;
import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.util.Locale;

/**
 * A consumer of plain channels at any provider: logs in, opens items by name, decodes every field of every update by the field dictionary, and says how
 * many updates that were in a time, and what the process and its thread took of the processor for them. No reactor and no watchlist: what ETA does with the
 * least. See peers/clients.
 */
final class FieldConsumer {
    private static final int LOGIN_STREAM = 1;
    private static final int FIRST_ITEM_STREAM = 5;

    private final Error error = TransportFactory.createError();
    private final ReadArgs readArgs = TransportFactory.createReadArgs();
    private final Msg msg = CodecFactory.createMsg();
    private final DecodeIterator it = CodecFactory.createDecodeIterator();
    private final FieldList list = CodecFactory.createFieldList();
    private final FieldEntry field = CodecFactory.createFieldEntry();
    private final UInt uint = CodecFactory.createUInt();
    private final Real real = CodecFactory.createReal();
    private final Time time = CodecFactory.createTime();
    private final com.refinitiv.eta.codec.Enum number = CodecFactory.createEnum();
    private final Buffer text = CodecFactory.createBuffer();
    private final DataDictionary dictionary = CodecFactory.createDataDictionary();
    private Channel channel;
    private Selector selector;
    private boolean isLoggedIn;
    private int images;
    private long updates;
    private long decoded;
    /** Keeps the work from being optimised away. */
    private long sum;

    private FieldConsumer() {}

    /** Arguments: port, service id, items, warm-up and measured seconds, the file of the field dictionary. */
    public static void main(String[] args) throws Exception {
        if (args.length != 6) {
            System.err.println("usage: FieldConsumer PORT SERVICE-ID ITEMS WARMUP SECONDS RDMFieldDictionary");
            System.exit(2);
        }
        var consumer = new FieldConsumer();
        check(consumer.dictionary.loadFieldDictionary(args[5], consumer.error), consumer.error.text());
        consumer.run(number(args[0]), number(args[1]), number(args[2]), number(args[3]), number(args[4]));
    }

    private static int number(String text) {
        return Integer.parseInt(text);
    }

    private void run(int port, int service, int items, int warmup, int seconds) throws Exception {
        InitArgs init = TransportFactory.createInitArgs();
        Transport.initialize(init, error);
        selector = Selector.open();
        channel = Channels.connect(port, 200, error);
        channel.selectableChannel().register(selector, SelectionKey.OP_READ);
        write(Wire.login(LOGIN_STREAM, "user"));
        channel.flush(error);
        while (!isLoggedIn) {
            turn();
        }
        for (int item = 0; item < items; item++) {
            write(Wire.request(FIRST_ITEM_STREAM + item, "RDT" + item, service));
        }
        while (channel.flush(error) > TransportReturnCodes.SUCCESS || images < items) {
            turn();
        }
        until(warmup);
        var threads = ManagementFactory.getThreadMXBean();
        var process = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        long updatesBefore = updates;
        long decodedBefore = decoded;
        long threadBefore = threads.getCurrentThreadCpuTime();
        long processBefore = process.getProcessCpuTime();
        double measured = until(seconds);
        double processTook = (process.getProcessCpuTime() - processBefore) / 1e9;
        double threadTook = (threads.getCurrentThreadCpuTime() - threadBefore) / 1e9;
        long taken = updates - updatesBefore;
        System.out.printf(
                Locale.ROOT,
                "%.0f updates a second, of %.1f fields, %.0f for a second of the processor, %.0f for one of the thread%n",
                taken / measured,
                (decoded - decodedBefore) / (double) taken,
                taken / processTook,
                taken / threadTook);
        if (sum == 42) {
            System.out.println(sum);
        }
    }

    /** Takes what comes for so many seconds; how many it were. */
    private double until(int seconds) throws Exception {
        long start = System.nanoTime();
        long end = start + seconds * 1_000_000_000L;
        long now = start;
        while (now < end) {
            turn();
            now = System.nanoTime();
        }
        return (now - start) / 1e9;
    }

    private void write(byte[] message) throws Exception {
        Channels.write(channel, message, this::turn, error);
    }

    private void turn() throws Exception {
        selector.select(1);
        selector.selectedKeys().clear();
        Channels.read(channel, readArgs, this::take, error);
    }

    private void take(TransportBuffer buffer) {
        it.clear();
        it.setBufferAndRWFVersion(buffer, Codec.majorVersion(), Codec.minorVersion());
        check(msg.decode(it), "message");
        if (msg.msgClass() == MsgClasses.UPDATE) {
            updates++;
            fields();
        } else if (msg.msgClass() == MsgClasses.REFRESH) {
            isLoggedIn |= msg.domainType() == DomainTypes.LOGIN;
            images += msg.domainType() == DomainTypes.MARKET_PRICE ? 1 : 0;
        } else {
            throw new IllegalStateException("the provider refuses: a message of class " + msg.msgClass() + " of stream " + msg.streamId());
        }
    }

    private void fields() {
        check(list.decode(it, null), "field list");
        int code;
        while ((code = field.decode(it)) != CodecReturnCodes.END_OF_CONTAINER) {
            check(code, "field");
            decoded++;
            DictionaryEntry entry = dictionary.entry(field.fieldId());
            switch (entry.rwfType()) {
                case DataTypes.UINT -> {
                    check(uint.decode(it), "uint");
                    sum += uint.toLong();
                }
                case DataTypes.REAL -> {
                    check(real.decode(it), "real");
                    sum += real.toLong() + real.hint();
                }
                case DataTypes.TIME -> {
                    check(time.decode(it), "time");
                    sum += time.hour() + time.minute() + time.second() + time.millisecond();
                }
                case DataTypes.ENUM -> {
                    check(number.decode(it), "enum");
                    sum += number.toInt();
                }
                case DataTypes.RMTES_STRING, DataTypes.ASCII_STRING -> {
                    check(text.decode(it), "text");
                    sum += text.length();
                }
                default -> throw new IllegalStateException("type " + entry.rwfType());
            }
        }
    }

    private static void check(int code, String what) {
        if (code < CodecReturnCodes.SUCCESS) {
            throw new IllegalStateException(what + ": " + CodecReturnCodes.toString(code));
        }
    }
}
