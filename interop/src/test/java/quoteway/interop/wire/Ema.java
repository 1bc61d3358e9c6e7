package quoteway.interop.wire;

import com.refinitiv.ema.access.AckMsg;
import com.refinitiv.ema.access.ComplexType;
import com.refinitiv.ema.access.Data;
import com.refinitiv.ema.access.DataType.DataTypes;
import com.refinitiv.ema.access.ElementEntry;
import com.refinitiv.ema.access.ElementList;
import com.refinitiv.ema.access.EmaFactory;
import com.refinitiv.ema.access.FieldEntry;
import com.refinitiv.ema.access.FieldList;
import com.refinitiv.ema.access.FilterEntry;
import com.refinitiv.ema.access.FilterList;
import com.refinitiv.ema.access.GenericMsg;
import com.refinitiv.ema.access.Map;
import com.refinitiv.ema.access.MapEntry;
import com.refinitiv.ema.access.Msg;
import com.refinitiv.ema.access.OmmArray;
import com.refinitiv.ema.access.OmmArrayEntry;
import com.refinitiv.ema.access.OmmAscii;
import com.refinitiv.ema.access.OmmBuffer;
import com.refinitiv.ema.access.OmmDate;
import com.refinitiv.ema.access.OmmEnum;
import com.refinitiv.ema.access.OmmError;
import com.refinitiv.ema.access.OmmInt;
import com.refinitiv.ema.access.OmmReal;
import com.refinitiv.ema.access.OmmRmtes;
import com.refinitiv.ema.access.OmmState;
import com.refinitiv.ema.access.OmmTime;
import com.refinitiv.ema.access.OmmUInt;
import com.refinitiv.ema.access.OmmUtf8;
import com.refinitiv.ema.access.PostMsg;
import com.refinitiv.ema.access.RefreshMsg;
import com.refinitiv.ema.access.ReqMsg;
import com.refinitiv.ema.access.StatusMsg;
import com.refinitiv.ema.access.UpdateMsg;
import com.refinitiv.eta.codec.MapEntryActions;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.LocalDate;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;

/** EMA messages to {@link Message}, decoded with the dictionary that EMA has, and the tests' values to EMA containers. */
public final class Ema {
    private Ema() {}

    public static Message message(Msg msg) {
        var m = new Message();
        m.streamId = msg.streamId();
        m.domain = msg.domainType();
        if (msg.hasMsgKey()) {
            m.hasKey = true;
            m.name = msg.hasName() ? msg.name() : null;
            m.nameType = msg.hasNameType() ? msg.nameType() : null;
            m.filter = msg.hasFilter() ? msg.filter() : null;
            m.identifier = msg.hasId() ? msg.id() : null;
            m.serviceId = msg.hasServiceId() ? msg.serviceId() : null;
        }
        members(msg, m);
        if (msg.attrib().dataType() != DataTypes.NO_DATA) {
            m.attrib = container(msg.attrib().dataType(), msg.attrib().data());
        }
        m.container = msg.payload().dataType();
        if (m.container != DataTypes.NO_DATA) {
            m.payload = container(m.container, msg.payload().data());
        }
        return m;
    }

    private static void members(Msg msg, Message m) {
        if (msg instanceof RefreshMsg r) {
            m.kind = Message.Kind.REFRESH;
            m.serviceName = r.hasServiceName() ? r.serviceName() : null;
            m.state = state(r.state());
            m.solicited = r.solicited();
            m.complete = r.complete();
            m.clearCache = r.clearCache();
            m.privateStream = r.privateStream();
            m.group = hex(r.itemGroup());
            m.qos = r.hasQos() ? r.qos().toString() : null;
            m.sequence = r.hasSeqNum() ? r.seqNum() : null;
            m.part = r.hasPartNum() ? r.partNum() : null;
            m.permission = r.hasPermissionData() ? hex(r.permissionData()) : null;
            m.postUser = r.hasPublisherId() ? user(r.publisherIdUserId(), r.publisherIdUserAddress()) : null;
        } else if (msg instanceof UpdateMsg u) {
            m.kind = Message.Kind.UPDATE;
            m.serviceName = u.hasServiceName() ? u.serviceName() : null;
            m.updateType = u.updateTypeNum();
            m.sequence = u.hasSeqNum() ? u.seqNum() : null;
            m.permission = u.hasPermissionData() ? hex(u.permissionData()) : null;
            m.postUser = u.hasPublisherId() ? user(u.publisherIdUserId(), u.publisherIdUserAddress()) : null;
        } else if (msg instanceof StatusMsg s) {
            m.kind = Message.Kind.STATUS;
            m.serviceName = s.hasServiceName() ? s.serviceName() : null;
            m.state = s.hasState() ? state(s.state()) : null;
            m.clearCache = s.clearCache();
            m.privateStream = s.privateStream();
            m.group = s.hasItemGroup() ? hex(s.itemGroup()) : null;
        } else if (msg instanceof AckMsg a) {
            m.kind = Message.Kind.ACK;
            m.ackId = a.ackId();
            m.nakCode = a.hasNackCode() ? a.nackCode() : null;
            m.text = a.hasText() ? a.text() : null;
            m.sequence = a.hasSeqNum() ? a.seqNum() : null;
        } else if (msg instanceof GenericMsg g) {
            m.kind = Message.Kind.GENERIC;
            m.sequence = g.hasSeqNum() ? g.seqNum() : null;
            m.part = g.hasPartNum() ? g.partNum() : null;
            m.complete = g.complete();
        } else if (msg instanceof PostMsg p) {
            m.kind = Message.Kind.POST;
            m.serviceName = p.hasServiceName() ? p.serviceName() : null;
            m.postId = p.hasPostId() ? p.postId() : null;
            m.postAck = p.solicitAck();
            m.postComplete = p.complete();
            m.sequence = p.hasSeqNum() ? p.seqNum() : null;
            m.postUser = user(p.publisherIdUserId(), p.publisherIdUserAddress());
        } else if (msg instanceof ReqMsg r) {
            m.kind = Message.Kind.REQUEST;
            m.serviceName = r.hasServiceName() ? r.serviceName() : null;
            m.streaming = r.interestAfterRefresh();
            m.noRefresh = !r.initialImage();
            m.pause = r.pause();
            m.view = r.hasView();
            m.batch = r.hasBatch();
            m.privateStream = r.privateStream();
            m.qos = r.hasQos() ? r.qosTimeliness() + "/" + r.qosRate() : null;
        }
    }

    private static String user(long id, long address) {
        return id + "@" + ((address >> 24) & 255) + '.' + ((address >> 16) & 255) + '.' + ((address >> 8) & 255) + '.' + (address & 255);
    }

    private static Message.State state(OmmState s) {
        return new Message.State(s.streamState(), s.dataState(), s.statusCode(), s.statusText());
    }

    private static Object container(int type, Data data) {
        return switch (type) {
            case DataTypes.FIELD_LIST -> fieldList((FieldList) data);
            case DataTypes.ELEMENT_LIST -> elementList((ElementList) data);
            case DataTypes.FILTER_LIST -> filterList((FilterList) data);
            case DataTypes.MAP -> map((Map) data);
            case DataTypes.NO_DATA -> null;
            case DataTypes.ERROR -> throw new AssertionError("EMA cannot decode: " + data);
            case DataTypes.REQ_MSG,
                    DataTypes.REFRESH_MSG,
                    DataTypes.UPDATE_MSG,
                    DataTypes.STATUS_MSG,
                    DataTypes.GENERIC_MSG,
                    DataTypes.POST_MSG,
                    DataTypes.ACK_MSG -> message((Msg) data);
            default -> hex(data.asHex());
        };
    }

    @SuppressWarnings("unchecked")
    private static java.util.Map<Integer, Object> fieldList(FieldList list) {
        var fields = Message.newFields();
        for (FieldEntry e : list) {
            if (e.loadType() == DataTypes.ERROR && e.error().errorCode() == OmmError.ErrorCode.NO_DICTIONARY) {
                // A provider that answers dictionary requests itself has no dictionary in EMA, which then gives field lists as bytes only.
                return (java.util.Map<Integer, Object>) EtaDecoder.container(DataTypes.FIELD_LIST, bytes(list.asHex()));
            }
            Object before = fields.put(e.fieldId(), e.code() == Data.DataCode.BLANK ? Values.Blank.BLANK : primitive(e.loadType(), e.load()));
            if (before != null) {
                throw new AssertionError("field " + e.fieldId() + " twice in one field list");
            }
        }
        return fields;
    }

    private static Message.Tree elementList(ElementList list) {
        var entries = new ArrayList<Message.Entry>();
        for (ElementEntry e : list) {
            Object value = e.code() == Data.DataCode.BLANK
                    ? Values.Blank.BLANK
                    : e.loadType() >= DataTypes.FIELD_LIST - 2 ? container(e.loadType(), e.load()) : primitive(e.loadType(), e.load());
            entries.add(new Message.Entry(0, e.name(), value));
        }
        return new Message.Tree(entries, null);
    }

    private static Message.Tree filterList(FilterList list) {
        var entries = new ArrayList<Message.Entry>();
        for (FilterEntry e : list) {
            Object value = e.action() == FilterEntry.FilterAction.CLEAR ? null : container(e.loadType(), e.load());
            entries.add(new Message.Entry(e.action(), e.filterId(), value));
        }
        return new Message.Tree(entries, null);
    }

    private static Message.Tree map(Map map) {
        var entries = new ArrayList<Message.Entry>();
        for (MapEntry e : map) {
            Object key = switch (e.key().dataType()) {
                case DataTypes.UINT -> e.key().uintValue();
                case DataTypes.INT -> e.key().intValue();
                case DataTypes.ASCII -> e.key().ascii().ascii();
                case DataTypes.BUFFER -> text(e.key().buffer().buffer());
                default -> e.key().data().toString();
            };
            Object value = e.action() == MapEntry.MapAction.DELETE ? null : container(e.loadType(), e.load());
            entries.add(new Message.Entry(e.action(), key, value));
        }
        Object summary = map.summaryData().dataType() == DataTypes.NO_DATA
                ? null
                : container(map.summaryData().dataType(), map.summaryData().data());
        return new Message.Tree(entries, summary);
    }

    private static Object primitive(int type, Data data) {
        return switch (type) {
            case DataTypes.INT -> ((OmmInt) data).intValue();
            case DataTypes.UINT -> ((OmmUInt) data).longValue();
            case DataTypes.REAL -> new Values.Real(((OmmReal) data).mantissa(), ((OmmReal) data).magnitudeType());
            case DataTypes.ENUM -> new Values.Enumerated(((OmmEnum) data).enumValue());
            case DataTypes.DATE -> LocalDate.of(((OmmDate) data).year(), ((OmmDate) data).month(), ((OmmDate) data).day());
            case DataTypes.TIME -> {
                var t = (OmmTime) data;
                yield LocalTime.of(
                        t.hour(), t.minute(), t.second() == 255 ? 0 : t.second(), t.millisecond() == 65535 ? 0 : t.millisecond() * 1_000_000);
            }
            case DataTypes.STATE -> state((OmmState) data);
            case DataTypes.ASCII -> ((OmmAscii) data).ascii();
            case DataTypes.RMTES -> ((OmmRmtes) data).rmtes().toString();
            case DataTypes.UTF8 -> text(((OmmUtf8) data).buffer());
            case DataTypes.BUFFER -> hex(((OmmBuffer) data).buffer());
            case DataTypes.ARRAY -> {
                List<Object> items = new ArrayList<>();
                for (OmmArrayEntry e : (OmmArray) data) {
                    items.add(primitive(e.loadType(), e.load()));
                }
                yield items;
            }
            case DataTypes.ERROR -> throw new AssertionError("EMA cannot decode: " + data);
            default -> data.toString();
        };
    }

    private static String text(ByteBuffer bytes) {
        return StandardCharsets.UTF_8.decode(bytes.duplicate()).toString();
    }

    private static String hex(ByteBuffer bytes) {
        return HexFormat.of().formatHex(bytes(bytes));
    }

    private static byte[] bytes(ByteBuffer bytes) {
        var copy = new byte[bytes.remaining()];
        bytes.duplicate().get(copy);
        return copy;
    }

    /** The tests' values as an EMA field list. */
    public static FieldList fields(java.util.Map<Integer, Object> fields) {
        FieldList list = EmaFactory.createFieldList();
        fields.forEach((id, value) -> list.add(field(id, value)));
        return list;
    }

    private static FieldEntry field(int id, Object value) {
        FieldEntry e = EmaFactory.createFieldEntry();
        if (value == Values.Blank.BLANK) {
            return e.codeReal(id);
        } else if (value instanceof Values.Real r) {
            return e.real(id, r.mantissa(), r.hint());
        } else if (value instanceof Long n) {
            return e.uintValue(id, n);
        } else if (value instanceof Values.Enumerated v) {
            return e.enumValue(id, v.value());
        } else if (value instanceof LocalDate d) {
            return e.date(id, d.getYear(), d.getMonthValue(), d.getDayOfMonth());
        } else if (value instanceof LocalTime t) {
            return e.time(id, t.getHour(), t.getMinute(), t.getSecond(), t.getNano() / 1_000_000);
        }
        return e.rmtes(id, ByteBuffer.wrap(((String) value).getBytes(StandardCharsets.US_ASCII)));
    }

    /** Orders as an EMA map with text keys. */
    public static ComplexType book(java.util.Map<Integer, Object> summary, List<Body.Order> orders) {
        Map map = EmaFactory.createMap();
        if (summary != null) {
            map.summaryData(fields(summary));
        }
        for (Body.Order o : orders) {
            var key = ByteBuffer.wrap(o.id().getBytes(StandardCharsets.US_ASCII));
            // EMA wants every entry of a map to have the same kind of payload, though a Delete does not carry it.
            var payload = o.action() == MapEntryActions.DELETE ? EmaFactory.createFieldList() : fields(o.fields());
            map.add(EmaFactory.createMapEntry().keyBuffer(key, o.action(), payload));
        }
        return map;
    }

    /** A view of these fields, as the payload of a request. */
    public static ElementList view(List<Integer> fieldIds) {
        OmmArray array = EmaFactory.createOmmArray();
        array.fixedWidth(2);
        fieldIds.forEach(id -> array.add(EmaFactory.createOmmArrayEntry().intValue(id)));
        ElementList list = EmaFactory.createElementList();
        list.add(EmaFactory.createElementEntry().uintValue(":ViewType", 1));
        list.add(EmaFactory.createElementEntry().array(":ViewData", array));
        return list;
    }
}
