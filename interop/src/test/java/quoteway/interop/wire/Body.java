package quoteway.interop.wire;

import com.refinitiv.eta.codec.Buffer;
import com.refinitiv.eta.codec.Codec;
import com.refinitiv.eta.codec.CodecFactory;
import com.refinitiv.eta.codec.CodecReturnCodes;
import com.refinitiv.eta.codec.DataTypes;
import com.refinitiv.eta.codec.ElementEntry;
import com.refinitiv.eta.codec.EncodeIterator;
import com.refinitiv.eta.codec.FieldEntry;
import com.refinitiv.eta.codec.MapEntryActions;
import com.refinitiv.eta.codec.Msg;
import com.refinitiv.eta.valueadd.domainrep.rdm.MsgBase;
import java.nio.ByteBuffer;
import java.time.LocalDate;
import java.time.LocalTime;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

/** A payload to send with raw ETA, and the encoding of whole messages around it. */
public record Body(int container, Content content) {
    /** Writes the payload into a message that has been begun. */
    @FunctionalInterface
    public interface Content {
        void encode(EncodeIterator it);
    }

    public static final Body NONE = new Body(DataTypes.NO_DATA, it -> {});

    /** The whole message, with this payload. */
    public byte[] encode(Msg msg) {
        return encode(msg, null);
    }

    /** The whole message, with this payload and, if not null, an element list as the key's attributes. */
    public byte[] encode(Msg msg, Map<String, ?> attrib) {
        msg.containerType(container);
        if (attrib != null) {
            msg.msgKey().applyHasAttrib();
            msg.msgKey().attribContainerType(DataTypes.ELEMENT_LIST);
        }
        for (int size = 4096; ; size *= 8) {
            Buffer buffer = CodecFactory.createBuffer();
            buffer.data(ByteBuffer.allocate(size));
            EncodeIterator it = CodecFactory.createEncodeIterator();
            it.setBufferAndRWFVersion(buffer, Codec.majorVersion(), Codec.minorVersion());
            try {
                if (container == DataTypes.NO_DATA && attrib == null) {
                    check(msg.encode(it), "message");
                } else {
                    check(msg.encodeInit(it, 0), "message header");
                    if (attrib != null) {
                        elementList(it, attrib);
                        check(msg.encodeKeyAttribComplete(it, true), "key attributes");
                    }
                    content.encode(it);
                    check(msg.encodeComplete(it, true), "message");
                }
                return Arrays.copyOf(buffer.data().array(), buffer.length());
            } catch (BufferTooSmall e) {
                if (size > 64 << 20) {
                    throw e;
                }
            }
        }
    }

    /** A message of ValueAdd (login, directory, dictionary). */
    public static byte[] encode(MsgBase msg) {
        for (int size = 8192; ; size *= 8) {
            Buffer buffer = CodecFactory.createBuffer();
            buffer.data(ByteBuffer.allocate(size));
            EncodeIterator it = CodecFactory.createEncodeIterator();
            it.setBufferAndRWFVersion(buffer, Codec.majorVersion(), Codec.minorVersion());
            try {
                check(msg.encode(it), "message");
                return Arrays.copyOf(buffer.data().array(), buffer.length());
            } catch (BufferTooSmall e) {
                if (size > 64 << 20) {
                    throw e;
                }
            }
        }
    }

    public static Body fields(Map<Integer, Object> fields) {
        return new Body(DataTypes.FIELD_LIST, it -> fieldList(it, fields));
    }

    /** One entry of a book by order. */
    public record Order(int action, String id, Map<Integer, Object> fields) {}

    /** A map with text keys of field lists; an order without fields has no data (Delete). */
    public static Body map(Map<Integer, Object> summary, List<Order> orders) {
        return new Body(DataTypes.MAP, it -> {
            var map = CodecFactory.createMap();
            map.keyPrimitiveType(DataTypes.BUFFER);
            map.containerType(DataTypes.FIELD_LIST);
            if (summary != null) {
                map.applyHasSummaryData();
            }
            check(map.encodeInit(it, 0, 0), "map");
            if (summary != null) {
                fieldList(it, summary);
                check(map.encodeSummaryDataComplete(it, true), "summary");
            }
            var entry = CodecFactory.createMapEntry();
            var key = CodecFactory.createBuffer();
            for (Order order : orders) {
                entry.clear();
                entry.action(order.action);
                key.data(order.id);
                if (order.action == MapEntryActions.DELETE) {
                    check(entry.encode(it, key), "map entry");
                } else {
                    check(entry.encodeInit(it, key, 0), "map entry");
                    fieldList(it, order.fields);
                    check(entry.encodeComplete(it, true), "map entry");
                }
            }
            check(map.encodeComplete(it, true), "map");
        });
    }

    /** Elements of Long (unsigned), String (ASCII), or List of String or Integer (arrays). */
    public static Body elements(Map<String, ?> elements) {
        return new Body(DataTypes.ELEMENT_LIST, it -> elementList(it, elements));
    }

    /** A whole encoded message inside a post or a generic message. */
    public static Body message(byte[] encoded) {
        return bytes(DataTypes.MSG, encoded);
    }

    /** Encoded bytes of any container. */
    public static Body bytes(int container, byte[] encoded) {
        return new Body(container, it -> {
            Buffer room = CodecFactory.createBuffer();
            check(it.encodeNonRWFInit(room), "room");
            if (room.length() < encoded.length) {
                throw new BufferTooSmall();
            }
            room.data().put(encoded);
            check(it.encodeNonRWFComplete(room, true), "bytes");
        });
    }

    static void elementList(EncodeIterator it, Map<String, ?> elements) {
        var list = CodecFactory.createElementList();
        list.applyHasStandardData();
        check(list.encodeInit(it, null, 0), "element list");
        var entry = CodecFactory.createElementEntry();
        elements.forEach((name, value) -> {
            entry.clear();
            entry.name().data(name);
            if (value instanceof List<?> items) {
                array(it, entry, items);
            } else if (value instanceof Long n) {
                entry.dataType(DataTypes.UINT);
                var v = CodecFactory.createUInt();
                v.value(n);
                check(entry.encode(it, v), "element");
            } else {
                entry.dataType(DataTypes.ASCII_STRING);
                check(entry.encode(it, text((String) value)), "element");
            }
        });
        check(list.encodeComplete(it, true), "element list");
    }

    private static void array(EncodeIterator it, ElementEntry entry, List<?> items) {
        entry.dataType(DataTypes.ARRAY);
        check(entry.encodeInit(it, 0), "array element");
        var array = CodecFactory.createArray();
        boolean numbers = !items.isEmpty() && items.get(0) instanceof Integer;
        array.primitiveType(numbers ? DataTypes.INT : DataTypes.ASCII_STRING);
        array.itemLength(numbers ? 2 : 0);
        check(array.encodeInit(it), "array");
        var item = CodecFactory.createArrayEntry();
        for (Object o : items) {
            if (o instanceof Integer n) {
                var v = CodecFactory.createInt();
                v.value(n);
                check(item.encode(it, v), "array entry");
            } else {
                check(item.encode(it, text((String) o)), "array entry");
            }
        }
        check(array.encodeComplete(it, true), "array");
        check(entry.encodeComplete(it, true), "array element");
    }

    private static void fieldList(EncodeIterator it, Map<Integer, Object> fields) {
        var list = CodecFactory.createFieldList();
        list.applyHasStandardData();
        check(list.encodeInit(it, null, 0), "field list");
        var entry = CodecFactory.createFieldEntry();
        fields.forEach((id, value) -> {
            entry.clear();
            entry.fieldId(id);
            entry.dataType(Values.typeOf(id));
            check(field(it, entry, value), "field " + id);
        });
        check(list.encodeComplete(it, true), "field list");
    }

    private static int field(EncodeIterator it, FieldEntry entry, Object value) {
        if (value == Values.Blank.BLANK) {
            return entry.encodeBlank(it);
        } else if (value instanceof Values.Real r) {
            var v = CodecFactory.createReal();
            v.value(r.mantissa(), r.hint());
            return entry.encode(it, v);
        } else if (value instanceof Long n) {
            var v = CodecFactory.createUInt();
            v.value(n);
            return entry.encode(it, v);
        } else if (value instanceof Values.Enumerated e) {
            var v = CodecFactory.createEnum();
            v.value(e.value());
            return entry.encode(it, v);
        } else if (value instanceof LocalDate d) {
            var v = CodecFactory.createDate();
            v.year(d.getYear());
            v.month(d.getMonthValue());
            v.day(d.getDayOfMonth());
            return entry.encode(it, v);
        } else if (value instanceof LocalTime t) {
            var v = CodecFactory.createTime();
            v.hour(t.getHour());
            v.minute(t.getMinute());
            v.second(t.getSecond());
            v.millisecond(t.getNano() / 1_000_000);
            return entry.encode(it, v);
        }
        return entry.encode(it, text((String) value));
    }

    static Buffer text(String s) {
        Buffer buffer = CodecFactory.createBuffer();
        buffer.data(s);
        return buffer;
    }

    static int check(int ret, String what) {
        if (ret == CodecReturnCodes.BUFFER_TOO_SMALL) {
            throw new BufferTooSmall();
        }
        if (ret < CodecReturnCodes.SUCCESS) {
            throw new AssertionError("ETA cannot encode the " + what + ": " + CodecReturnCodes.toString(ret));
        }
        return ret;
    }

    /** The caller tries again with more room. */
    private static final class BufferTooSmall extends RuntimeException {}
}
