package quoteway.codec;

import com.refinitiv.eta.codec.Buffer;
import com.refinitiv.eta.codec.Codec;
import com.refinitiv.eta.codec.CodecFactory;
import com.refinitiv.eta.codec.CodecReturnCodes;
import com.refinitiv.eta.codec.DataDictionary;
import com.refinitiv.eta.codec.DataTypes;
import com.refinitiv.eta.codec.Date;
import com.refinitiv.eta.codec.DecodeIterator;
import com.refinitiv.eta.codec.DictionaryEntry;
import com.refinitiv.eta.codec.EncodeIterator;
import com.refinitiv.eta.codec.FieldEntry;
import com.refinitiv.eta.codec.FieldList;
import com.refinitiv.eta.codec.Msg;
import com.refinitiv.eta.codec.MsgClasses;
import com.refinitiv.eta.codec.Real;
import com.refinitiv.eta.codec.Time;
import com.refinitiv.eta.codec.UInt;
import com.refinitiv.eta.codec.UpdateMsg;
import com.refinitiv.eta.json.converter.ConverterFactory;
import com.refinitiv.eta.json.converter.DecodeJsonMsgOptions;
import com.refinitiv.eta.json.converter.GetJsonMsgOptions;
import com.refinitiv.eta.json.converter.JsonConverter;
import com.refinitiv.eta.json.converter.JsonConverterError;
import com.refinitiv.eta.json.converter.JsonConverterProperties;
import com.refinitiv.eta.json.converter.JsonMsg;
import com.refinitiv.eta.json.converter.JsonProtocol;
import com.refinitiv.eta.json.converter.ParseJsonOptions;
import com.refinitiv.eta.json.converter.RWFToJsonOptions;
import com.refinitiv.eta.json.converter.ServiceNameIdConverter;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;

/**
 * Nanoseconds per message of decoding and encoding updates with ETA Java: header, every field, every value.
 *
 * <p>Arguments: {@code <field dictionary file> <name>=<hex of an update> ...}. Prints one JSON object on a line, with the
 * median of rounds for each {@code decode_<name>} and {@code encode_<name>}. What is encoded is what was decoded, and must
 * come out as the same bytes.
 */
public final class CodecBench {
    private static final int MESSAGES = 64;
    /** Many short rounds: most of them fall between two interruptions, also on a busy machine. */
    private static final int PASSES = 50;
    /** The same with JSON, which takes longer. */
    private static final int JSON_PASSES = 5;
    private static final int ROUNDS = 1001;
    private static final int WARM_UP_ROUNDS = 2000;

    private final DataDictionary dictionary = CodecFactory.createDataDictionary();
    private final JsonConverterError jsonError = ConverterFactory.createJsonConverterError();
    private final DecodeIterator decoder = CodecFactory.createDecodeIterator();
    private final Msg msg = CodecFactory.createMsg();
    private final FieldList list = CodecFactory.createFieldList();
    private final FieldEntry field = CodecFactory.createFieldEntry();
    private final UInt uint = CodecFactory.createUInt();
    private final Real real = CodecFactory.createReal();
    private final Date date = CodecFactory.createDate();
    private final Time time = CodecFactory.createTime();
    private final com.refinitiv.eta.codec.Enum number = CodecFactory.createEnum();
    private final Buffer text = CodecFactory.createBuffer();
    /** Keeps the work from being optimised away. */
    private long sum;

    public static void main(String[] args) {
        new CodecBench().run(args);
    }

    private void run(String[] args) {
        com.refinitiv.eta.transport.Error error = com.refinitiv.eta.transport.TransportFactory.createError();
        check(dictionary.loadFieldDictionary(args[0], error), error.text());
        List<String> members = new ArrayList<>();
        for (String arg : Arrays.asList(args).subList(1, args.length)) {
            String name = arg.substring(0, arg.indexOf('='));
            byte[] bytes = HexFormat.of().parseHex(arg.substring(arg.indexOf('=') + 1));
            if (name.startsWith("json_")) {
                members.add(member("read_" + name, readingJson(bytes)));
                continue;
            }
            members.add(member("decode_" + name, decoding(bytes)));
            members.add(member("encode_" + name, encoding(bytes)));
            members.add(member("write_json_" + name, writingJson(bytes)));
        }
        System.out.println("{\"codec\":\"ETA Java 3.9.1.0\",\"unit\":\"ns\"," + String.join(",", members) + "}");
        if (sum == 42) {
            System.out.println(sum);
        }
    }

    private static String member(String name, double value) {
        return String.format(Locale.ROOT, "\"%s\":%.1f", name, value);
    }

    /** Median nanoseconds per message of {@code work}, which handles {@link #MESSAGES} messages. */
    private static double measure(int passes, Runnable work) {
        double[] rounds = new double[ROUNDS];
        for (int round = -WARM_UP_ROUNDS; round < ROUNDS; round++) {
            long start = System.nanoTime();
            for (int pass = 0; pass < passes; pass++) {
                work.run();
            }
            if (round >= 0) {
                rounds[round] = (double) (System.nanoTime() - start) / ((long) passes * MESSAGES);
            }
        }
        Arrays.sort(rounds);
        return rounds[ROUNDS / 2];
    }

    /** The SDK's converter, with its defaults. */
    private JsonConverter converter() {
        JsonConverter converter = ConverterFactory.createJsonConverterBuilder()
                .setProperty(JsonConverterProperties.JSON_CPC_PROTOCOL_VERSION, JsonProtocol.JSON_JPT_JSON2)
                .setServiceConverter(new NoServices())
                .setDictionary(dictionary)
                .build(jsonError);
        check(jsonError);
        return converter;
    }

    /** Each update as text, as a provider writes it for a JSON consumer: the message is decoded, since the converter takes it so. */
    private double writingJson(byte[] bytes) {
        JsonConverter converter = converter();
        Buffer[] buffers = buffers(bytes);
        RWFToJsonOptions options = ConverterFactory.createRWFToJsonOptions();
        options.setJsonProtocolType(JsonProtocol.JSON_JPT_JSON2);
        GetJsonMsgOptions get = ConverterFactory.createGetJsonMsgOptions();
        Buffer text = CodecFactory.createBuffer();
        text.data(ByteBuffer.allocate(4096));
        return measure(JSON_PASSES, () -> {
            for (Buffer buffer : buffers) {
                decoder.clear();
                check(decoder.setBufferAndRWFVersion(buffer, Codec.majorVersion(), Codec.minorVersion()), "buffer");
                check(msg.decode(decoder), "message");
                converter.convertRWFToJson(msg, options, jsonError);
                check(jsonError);
                get.clear();
                get.jsonProtocolType(JsonProtocol.JSON_JPT_JSON2);
                get.streamId(msg.streamId());
                text.data().clear();
                converter.getJsonBuffer(text, get, jsonError);
                check(jsonError);
                sum += text.length();
            }
        });
    }

    /** Each text as an update. */
    private double readingJson(byte[] bytes) {
        JsonConverter converter = converter();
        Buffer[] buffers = buffers(bytes);
        ParseJsonOptions parse = ConverterFactory.createParseJsonOptions();
        parse.setProtocolType(JsonProtocol.JSON_JPT_JSON2);
        DecodeJsonMsgOptions decode = ConverterFactory.createDecodeJsonMsgOptions();
        decode.setJsonProtocolType(JsonProtocol.JSON_JPT_JSON2);
        JsonMsg read = ConverterFactory.createJsonMsg();
        return measure(JSON_PASSES, () -> {
            for (Buffer buffer : buffers) {
                converter.parseJsonBuffer(buffer, parse, jsonError);
                check(jsonError);
                read.clear();
                int code = converter.decodeJsonMsg(read, decode, jsonError);
                if (code != CodecReturnCodes.SUCCESS || read.rwfMsg().msgClass() != MsgClasses.UPDATE) {
                    throw new IllegalStateException("JSON is not read: " + code + " " + jsonError.getText());
                }
                sum += read.rwfMsg().streamId();
            }
        });
    }

    private static void check(JsonConverterError error) {
        if (error.isFailed()) {
            throw new IllegalStateException("JSON converter: " + error.getText());
        }
    }

    /** Services are numbers. */
    private static final class NoServices implements ServiceNameIdConverter {
        @Override
        public int serviceNameToId(String name, JsonConverterError error) {
            return -1;
        }

        @Override
        public String serviceIdToName(int id, JsonConverterError error) {
            return null;
        }
    }

    private static Buffer[] buffers(byte[] bytes) {
        Buffer[] buffers = new Buffer[MESSAGES];
        for (int i = 0; i < MESSAGES; i++) {
            buffers[i] = CodecFactory.createBuffer();
            buffers[i].data(ByteBuffer.wrap(bytes.clone()));
        }
        return buffers;
    }

    private double decoding(byte[] bytes) {
        Buffer[] buffers = buffers(bytes);
        return measure(PASSES, () -> {
            for (Buffer buffer : buffers) {
                decode(buffer, null);
            }
        });
    }

    private static void check(int code, String what) {
        if (code < CodecReturnCodes.SUCCESS) {
            throw new IllegalStateException(what + ": " + CodecReturnCodes.toString(code));
        }
    }

    /** Decodes a message to its last value; adds the fields to {@code fields} if there is one. */
    private void decode(Buffer buffer, List<Field> fields) {
        decoder.clear();
        check(decoder.setBufferAndRWFVersion(buffer, Codec.majorVersion(), Codec.minorVersion()), "buffer");
        check(msg.decode(decoder), "message");
        check(list.decode(decoder, null), "field list");
        sum += msg.streamId();
        int code;
        while ((code = field.decode(decoder)) != CodecReturnCodes.END_OF_CONTAINER) {
            check(code, "field");
            DictionaryEntry entry = dictionary.entry(field.fieldId());
            int type = entry.rwfType();
            switch (type) {
                case DataTypes.UINT -> {
                    check(uint.decode(decoder), "uint");
                    sum += uint.toLong();
                }
                case DataTypes.REAL -> {
                    check(real.decode(decoder), "real");
                    sum += real.toLong() + real.hint();
                }
                case DataTypes.DATE -> {
                    check(date.decode(decoder), "date");
                    sum += date.year() + date.month() + date.day();
                }
                case DataTypes.TIME -> {
                    check(time.decode(decoder), "time");
                    sum += time.hour() + time.minute() + time.second() + time.millisecond();
                }
                case DataTypes.ENUM -> {
                    check(number.decode(decoder), "enum");
                    sum += number.toInt();
                }
                case DataTypes.RMTES_STRING -> {
                    check(text.decode(decoder), "text");
                    sum += text.length();
                }
                default -> throw new IllegalStateException("type " + type);
            }
            if (fields != null) {
                fields.add(new Field(field.fieldId(), type, valueOf(type)));
            }
        }
    }

    /** A field to encode. */
    private record Field(int id, int type, Object value) {
    }

    private Object valueOf(int type) {
        switch (type) {
            case DataTypes.UINT: {
                UInt copy = CodecFactory.createUInt();
                copy.value(uint.toLong());
                return copy;
            }
            case DataTypes.REAL: {
                Real copy = CodecFactory.createReal();
                copy.value(real.toLong(), real.hint());
                return copy;
            }
            case DataTypes.DATE: {
                Date copy = CodecFactory.createDate();
                copy.day(date.day());
                copy.month(date.month());
                copy.year(date.year());
                return copy;
            }
            case DataTypes.TIME: {
                Time copy = CodecFactory.createTime();
                copy.hour(time.hour());
                copy.minute(time.minute());
                copy.second(time.second());
                return copy;
            }
            case DataTypes.ENUM: {
                com.refinitiv.eta.codec.Enum copy = CodecFactory.createEnum();
                copy.value(number.toInt());
                return copy;
            }
            default: {
                Buffer copy = CodecFactory.createBuffer();
                copy.data(text.toString());
                return copy;
            }
        }
    }

    private double encoding(byte[] bytes) {
        Buffer source = CodecFactory.createBuffer();
        source.data(ByteBuffer.wrap(bytes.clone()));
        List<Field> decoded = new ArrayList<>();
        decode(source, decoded);
        Field[] fields = decoded.toArray(new Field[0]);
        int updateType = ((UpdateMsg) msg).updateType();
        int domain = msg.domainType();
        int streamId = msg.streamId();

        Buffer target = CodecFactory.createBuffer();
        target.data(ByteBuffer.allocate(bytes.length + 64));
        EncodeIterator encoder = CodecFactory.createEncodeIterator();
        UpdateMsg update = (UpdateMsg) CodecFactory.createMsg();
        FieldList out = CodecFactory.createFieldList();
        FieldEntry entry = CodecFactory.createFieldEntry();
        Runnable one = () -> {
            encoder.clear();
            check(encoder.setBufferAndRWFVersion(target, Codec.majorVersion(), Codec.minorVersion()), "buffer");
            update.clear();
            update.msgClass(MsgClasses.UPDATE);
            update.domainType(domain);
            update.streamId(streamId);
            update.containerType(DataTypes.FIELD_LIST);
            update.updateType(updateType);
            check(update.encodeInit(encoder, 0), "message");
            out.clear();
            out.applyHasStandardData();
            check(out.encodeInit(encoder, null, 0), "field list");
            for (Field f : fields) {
                entry.clear();
                entry.fieldId(f.id());
                entry.dataType(f.type());
                check(encodeEntry(encoder, entry, f), "field");
            }
            check(out.encodeComplete(encoder, true), "field list");
            check(update.encodeComplete(encoder, true), "message");
            sum += target.length();
        };
        one.run();
        byte[] written = new byte[target.length()];
        for (int i = 0; i < written.length; i++) {
            written[i] = target.data().get(i);
        }
        if (!Arrays.equals(written, bytes)) {
            throw new IllegalStateException("encoded " + HexFormat.of().formatHex(written));
        }
        return measure(PASSES, () -> {
            for (int i = 0; i < MESSAGES; i++) {
                one.run();
            }
        });
    }

    private static int encodeEntry(EncodeIterator encoder, FieldEntry entry, Field f) {
        return switch (f.type()) {
            case DataTypes.UINT -> entry.encode(encoder, (UInt) f.value());
            case DataTypes.REAL -> entry.encode(encoder, (Real) f.value());
            case DataTypes.DATE -> entry.encode(encoder, (Date) f.value());
            case DataTypes.TIME -> entry.encode(encoder, (Time) f.value());
            case DataTypes.ENUM -> entry.encode(encoder, (com.refinitiv.eta.codec.Enum) f.value());
            default -> entry.encode(encoder, (Buffer) f.value());
        };
    }
}
