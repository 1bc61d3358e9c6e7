package quoteway.interop.wire;

import com.refinitiv.eta.codec.AckMsg;
import com.refinitiv.eta.codec.Array;
import com.refinitiv.eta.codec.ArrayEntry;
import com.refinitiv.eta.codec.Buffer;
import com.refinitiv.eta.codec.Codec;
import com.refinitiv.eta.codec.CodecFactory;
import com.refinitiv.eta.codec.CodecReturnCodes;
import com.refinitiv.eta.codec.DataTypes;
import com.refinitiv.eta.codec.DecodeIterator;
import com.refinitiv.eta.codec.FilterEntryActions;
import com.refinitiv.eta.codec.GenericMsg;
import com.refinitiv.eta.codec.MapEntryActions;
import com.refinitiv.eta.codec.Msg;
import com.refinitiv.eta.codec.MsgClasses;
import com.refinitiv.eta.codec.MsgKey;
import com.refinitiv.eta.codec.PostMsg;
import com.refinitiv.eta.codec.PostUserInfo;
import com.refinitiv.eta.codec.RefreshMsg;
import com.refinitiv.eta.codec.RequestMsg;
import com.refinitiv.eta.codec.State;
import com.refinitiv.eta.codec.StatusMsg;
import com.refinitiv.eta.codec.UpdateMsg;
import com.refinitiv.eta.codec.VectorEntryActions;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.LocalDate;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;

/** Decodes whole messages with the ETA codec into {@link Message}. A failure of the codec is a failed test. */
public final class EtaDecoder {
    private EtaDecoder() {}

    public static Message message(byte[] encoded) {
        Buffer buffer = CodecFactory.createBuffer();
        buffer.data(ByteBuffer.wrap(encoded));
        return message(buffer);
    }

    /** The content of an encoded container of the SDK's {@code DataTypes}. */
    public static Object container(int type, byte[] encoded) {
        Buffer buffer = CodecFactory.createBuffer();
        buffer.data(ByteBuffer.wrap(encoded));
        return container(type, buffer);
    }

    private static Message message(Buffer buffer) {
        DecodeIterator it = iterator(buffer);
        Msg msg = CodecFactory.createMsg();
        check(msg.decode(it), "message");
        var m = new Message();
        m.encoded = bytes(buffer);
        m.kind = kind(msg.msgClass());
        m.streamId = msg.streamId();
        m.domain = msg.domainType();
        m.flags = msg.flags();
        members(msg, m);
        key(msg.msgKey(), m, it, msg);
        m.container = msg.containerType();
        m.body = hex(msg.encodedDataBody());
        if (msg.encodedDataBody().length() > 0 && msg.containerType() != DataTypes.NO_DATA) {
            m.payload = container(msg.containerType(), msg.encodedDataBody());
        }
        return m;
    }

    private static Message.Kind kind(int msgClass) {
        return switch (msgClass) {
            case MsgClasses.REQUEST -> Message.Kind.REQUEST;
            case MsgClasses.REFRESH -> Message.Kind.REFRESH;
            case MsgClasses.STATUS -> Message.Kind.STATUS;
            case MsgClasses.UPDATE -> Message.Kind.UPDATE;
            case MsgClasses.CLOSE -> Message.Kind.CLOSE;
            case MsgClasses.ACK -> Message.Kind.ACK;
            case MsgClasses.GENERIC -> Message.Kind.GENERIC;
            case MsgClasses.POST -> Message.Kind.POST;
            default -> throw new AssertionError("message class " + msgClass);
        };
    }

    private static void members(Msg msg, Message m) {
        switch (msg.msgClass()) {
            case MsgClasses.REQUEST -> {
                var r = (RequestMsg) msg;
                m.streaming = r.checkStreaming();
                m.noRefresh = r.checkNoRefresh();
                m.pause = r.checkPause();
                m.batch = r.checkHasBatch();
                m.view = r.checkHasView();
                m.privateStream = r.checkPrivateStream();
                m.qos = r.checkHasQos() ? r.qos().toString() : null;
            }
            case MsgClasses.REFRESH -> {
                var r = (RefreshMsg) msg;
                m.state = state(r.state());
                m.solicited = r.checkSolicited();
                m.complete = r.checkRefreshComplete();
                m.clearCache = r.checkClearCache();
                m.privateStream = r.checkPrivateStream();
                m.group = hex(r.groupId());
                m.qos = r.checkHasQos() ? r.qos().toString() : null;
                m.sequence = r.checkHasSeqNum() ? r.seqNum() : null;
                m.part = r.checkHasPartNum() ? r.partNum() : null;
                m.permission = r.checkHasPermData() ? hex(r.permData()) : null;
                m.postUser = r.checkHasPostUserInfo() ? user(r.postUserInfo()) : null;
            }
            case MsgClasses.STATUS -> {
                var s = (StatusMsg) msg;
                m.state = s.checkHasState() ? state(s.state()) : null;
                m.clearCache = s.checkClearCache();
                m.privateStream = s.checkPrivateStream();
                m.group = s.checkHasGroupId() ? hex(s.groupId()) : null;
                m.permission = s.checkHasPermData() ? hex(s.permData()) : null;
            }
            case MsgClasses.UPDATE -> {
                var u = (UpdateMsg) msg;
                m.updateType = u.updateType();
                m.sequence = u.checkHasSeqNum() ? u.seqNum() : null;
                m.permission = u.checkHasPermData() ? hex(u.permData()) : null;
                m.postUser = u.checkHasPostUserInfo() ? user(u.postUserInfo()) : null;
            }
            case MsgClasses.ACK -> {
                var a = (AckMsg) msg;
                m.ackId = a.ackId();
                m.nakCode = a.checkHasNakCode() ? a.nakCode() : null;
                m.text = a.checkHasText() ? text(a.text()) : null;
                m.sequence = a.checkHasSeqNum() ? a.seqNum() : null;
                m.privateStream = a.checkPrivateStream();
            }
            case MsgClasses.GENERIC -> {
                var g = (GenericMsg) msg;
                m.sequence = g.checkHasSeqNum() ? g.seqNum() : null;
                m.part = g.checkHasPartNum() ? g.partNum() : null;
                m.complete = g.checkMessageComplete();
            }
            case MsgClasses.POST -> {
                var p = (PostMsg) msg;
                m.postId = p.checkHasPostId() ? p.postId() : null;
                m.postAck = p.checkAck();
                m.postComplete = p.checkPostComplete();
                m.sequence = p.checkHasSeqNum() ? p.seqNum() : null;
                m.part = p.checkHasPartNum() ? p.partNum() : null;
                m.postUser = user(p.postUserInfo());
            }
            default -> {}
        }
    }

    private static void key(MsgKey key, Message m, DecodeIterator it, Msg msg) {
        if (key == null) {
            return;
        }
        m.hasKey = true;
        m.serviceId = key.checkHasServiceId() ? key.serviceId() : null;
        m.name = key.checkHasName() ? text(key.name()) : null;
        m.nameType = key.checkHasNameType() ? key.nameType() : null;
        m.filter = key.checkHasFilter() ? key.filter() : null;
        m.identifier = key.checkHasIdentifier() ? key.identifier() : null;
        if (key.checkHasAttrib()) {
            m.attrib = container(key.attribContainerType(), key.encodedAttrib());
        }
    }

    private static Object container(int type, Buffer buffer) {
        return switch (type) {
            case DataTypes.FIELD_LIST -> fieldList(buffer);
            case DataTypes.ELEMENT_LIST -> elementList(buffer);
            case DataTypes.FILTER_LIST -> filterList(buffer);
            case DataTypes.MAP -> map(buffer);
            case DataTypes.VECTOR -> vector(buffer);
            case DataTypes.SERIES -> series(buffer);
            case DataTypes.MSG -> message(buffer);
            case DataTypes.NO_DATA -> null;
            default -> hex(buffer);
        };
    }

    private static Map<Integer, Object> fieldList(Buffer buffer) {
        DecodeIterator it = iterator(buffer);
        var list = CodecFactory.createFieldList();
        var entry = CodecFactory.createFieldEntry();
        Map<Integer, Object> fields = Message.newFields();
        if (check(list.decode(it, null), "field list") == CodecReturnCodes.NO_DATA) {
            return fields;
        }
        while (check(entry.decode(it), "field") != CodecReturnCodes.END_OF_CONTAINER) {
            fields.put(entry.fieldId(), primitive(Values.typeOf(entry.fieldId()), it, entry.encodedData()));
        }
        return fields;
    }

    private static Message.Tree elementList(Buffer buffer) {
        DecodeIterator it = iterator(buffer);
        var list = CodecFactory.createElementList();
        var entry = CodecFactory.createElementEntry();
        var entries = new ArrayList<Message.Entry>();
        if (check(list.decode(it, null), "element list") != CodecReturnCodes.NO_DATA) {
            while (check(entry.decode(it), "element") != CodecReturnCodes.END_OF_CONTAINER) {
                Object value = entry.dataType() == DataTypes.ARRAY
                        ? array(it)
                        : entry.dataType() >= DataTypes.CONTAINER_TYPE_MIN
                                ? container(entry.dataType(), entry.encodedData())
                                : primitive(entry.dataType(), it, entry.encodedData());
                entries.add(new Message.Entry(0, text(entry.name()), value));
            }
        }
        return new Message.Tree(entries, null);
    }

    private static List<Object> array(DecodeIterator it) {
        Array array = CodecFactory.createArray();
        ArrayEntry entry = CodecFactory.createArrayEntry();
        var items = new ArrayList<>();
        if (check(array.decode(it), "array") == CodecReturnCodes.BLANK_DATA) {
            return items;
        }
        while (check(entry.decode(it), "array entry") != CodecReturnCodes.END_OF_CONTAINER) {
            items.add(primitive(array.primitiveType(), it, entry.encodedData()));
        }
        return items;
    }

    private static Message.Tree filterList(Buffer buffer) {
        DecodeIterator it = iterator(buffer);
        var list = CodecFactory.createFilterList();
        var entry = CodecFactory.createFilterEntry();
        var entries = new ArrayList<Message.Entry>();
        if (check(list.decode(it), "filter list") != CodecReturnCodes.NO_DATA) {
            while (check(entry.decode(it), "filter entry") != CodecReturnCodes.END_OF_CONTAINER) {
                Object value = entry.action() == FilterEntryActions.CLEAR ? null : container(entry.containerType(), entry.encodedData());
                entries.add(new Message.Entry(entry.action(), entry.id(), value));
            }
        }
        return new Message.Tree(entries, null);
    }

    private static Message.Tree map(Buffer buffer) {
        DecodeIterator it = iterator(buffer);
        var map = CodecFactory.createMap();
        var entry = CodecFactory.createMapEntry();
        var keyBuffer = CodecFactory.createBuffer();
        var keyInt = CodecFactory.createInt();
        var keyUInt = CodecFactory.createUInt();
        var entries = new ArrayList<Message.Entry>();
        Object summary = null;
        if (check(map.decode(it), "map") != CodecReturnCodes.NO_DATA) {
            if (map.checkHasSummaryData()) {
                summary = container(map.containerType(), map.encodedSummaryData());
            }
            while (true) {
                int ret = switch (map.keyPrimitiveType()) {
                    case DataTypes.INT -> entry.decode(it, keyInt);
                    case DataTypes.UINT -> entry.decode(it, keyUInt);
                    default -> entry.decode(it, keyBuffer);
                };
                if (check(ret, "map entry") == CodecReturnCodes.END_OF_CONTAINER) {
                    break;
                }
                Object key = switch (map.keyPrimitiveType()) {
                    case DataTypes.INT -> keyInt.toLong();
                    case DataTypes.UINT -> keyUInt.toLong();
                    default -> text(keyBuffer);
                };
                Object value = entry.action() == MapEntryActions.DELETE ? null : container(map.containerType(), entry.encodedData());
                entries.add(new Message.Entry(entry.action(), key, value));
            }
        }
        return new Message.Tree(entries, summary);
    }

    private static Message.Tree vector(Buffer buffer) {
        DecodeIterator it = iterator(buffer);
        var vector = CodecFactory.createVector();
        var entry = CodecFactory.createVectorEntry();
        var entries = new ArrayList<Message.Entry>();
        if (check(vector.decode(it), "vector") != CodecReturnCodes.NO_DATA) {
            while (check(entry.decode(it), "vector entry") != CodecReturnCodes.END_OF_CONTAINER) {
                boolean bare = entry.action() == VectorEntryActions.CLEAR || entry.action() == VectorEntryActions.DELETE;
                entries.add(new Message.Entry(
                        entry.action(), entry.index(), bare ? null : container(vector.containerType(), entry.encodedData())));
            }
        }
        return new Message.Tree(entries, null);
    }

    private static Object series(Buffer buffer) {
        // Only dictionaries are series here, and they are loaded by the SDK's own dictionary class.
        return hex(buffer);
    }

    private static Object primitive(int type, DecodeIterator it, Buffer data) {
        switch (type) {
            case DataTypes.INT -> {
                var v = CodecFactory.createInt();
                return blank(v.decode(it)) ? Values.Blank.BLANK : (Object) v.toLong();
            }
            case DataTypes.UINT -> {
                var v = CodecFactory.createUInt();
                return blank(v.decode(it)) ? Values.Blank.BLANK : (Object) v.toLong();
            }
            case DataTypes.REAL -> {
                var v = CodecFactory.createReal();
                return blank(v.decode(it)) || v.isBlank() ? Values.Blank.BLANK : new Values.Real(v.toLong(), v.hint());
            }
            case DataTypes.ENUM -> {
                var v = CodecFactory.createEnum();
                return blank(v.decode(it)) ? Values.Blank.BLANK : new Values.Enumerated(v.toInt());
            }
            case DataTypes.DATE -> {
                var v = CodecFactory.createDate();
                return blank(v.decode(it)) ? Values.Blank.BLANK : LocalDate.of(v.year(), v.month(), v.day());
            }
            case DataTypes.TIME -> {
                var v = CodecFactory.createTime();
                return blank(v.decode(it)) || v.isBlank()
                        ? Values.Blank.BLANK
                        : LocalTime.of(
                                v.hour(),
                                v.minute(),
                                v.second() == 255 ? 0 : v.second(),
                                v.millisecond() == 65535 ? 0 : v.millisecond() * 1_000_000);
            }
            case DataTypes.QOS -> {
                var v = CodecFactory.createQos();
                return blank(v.decode(it)) ? Values.Blank.BLANK : v.toString();
            }
            case DataTypes.STATE -> {
                var v = CodecFactory.createState();
                return blank(v.decode(it)) ? Values.Blank.BLANK : state(v);
            }
            case DataTypes.BUFFER -> {
                return hex(data);
            }
            default -> {
                return data.length() == 0 ? Values.Blank.BLANK : text(data);
            }
        }
    }

    private static boolean blank(int ret) {
        return check(ret, "primitive") == CodecReturnCodes.BLANK_DATA;
    }

    private static Message.State state(State s) {
        return new Message.State(s.streamState(), s.dataState(), s.code(), text(s.text()));
    }

    private static String user(PostUserInfo info) {
        return info.userId() + "@" + info.userAddrToString(info.userAddr());
    }

    private static DecodeIterator iterator(Buffer buffer) {
        DecodeIterator it = CodecFactory.createDecodeIterator();
        check(it.setBufferAndRWFVersion(buffer, Codec.majorVersion(), Codec.minorVersion()), "iterator");
        return it;
    }

    private static String text(Buffer buffer) {
        return new String(bytes(buffer), StandardCharsets.UTF_8);
    }

    private static String hex(Buffer buffer) {
        return HexFormat.of().formatHex(bytes(buffer));
    }

    static byte[] bytes(Buffer buffer) {
        var bytes = new byte[buffer.length()];
        if (bytes.length > 0) {
            ByteBuffer view = buffer.data().duplicate();
            view.position(buffer.position());
            view.get(bytes);
        }
        return bytes;
    }

    private static int check(int ret, String what) {
        if (ret < CodecReturnCodes.SUCCESS) {
            throw new AssertionError("ETA cannot decode the " + what + ": " + CodecReturnCodes.toString(ret));
        }
        return ret;
    }
}
