package quoteway.interop.wire;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import com.refinitiv.eta.codec.DataStates;
import com.refinitiv.eta.codec.StateCodes;
import com.refinitiv.eta.codec.StreamStates;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * One OMM message as received, by EMA or by raw ETA, in a form that outlives the SDK's buffers. Members are null (or false) when the
 * message does not carry them. A payload is a {@code Map} of field id to value (field list), a {@link Tree}, a {@code Message} (nested),
 * or a hex string (opaque).
 */
public final class Message {
    /** The eight message classes of RWF. */
    public enum Kind {
        REQUEST,
        REFRESH,
        STATUS,
        UPDATE,
        CLOSE,
        ACK,
        GENERIC,
        POST
    }

    /** Stream state, data state and code by their ETA numbers. */
    public record State(int stream, int data, int code, String text) {
        @Override
        public String toString() {
            return StreamStates.toString(stream) + "/" + DataStates.toString(data) + "/" + StateCodes.toString(code) + "/'" + text + "'";
        }
    }

    /** A list, filter list, map, vector or series: its entries by id, name or key, and its summary. */
    public record Tree(List<Entry> entries, Object summary) {
        public Object get(Object id) {
            return entries.stream().filter(e -> e.id().equals(id)).map(Entry::value).findFirst().orElse(null);
        }

        public Tree tree(Object id) {
            return (Tree) get(id);
        }
    }

    /** One entry; {@code action} is 0 where the container has none. */
    public record Entry(int action, Object id, Object value) {}

    public Kind kind;
    public int streamId;
    public int domain;
    public int flags;

    // key
    public Integer serviceId;
    public String serviceName;
    public String name;
    public Integer nameType;
    public Long filter;
    public Integer identifier;
    public boolean hasKey;
    public Object attrib;

    public State state;
    public String group;
    public String qos;
    public Long sequence;
    public Integer part;
    public boolean solicited;
    public boolean complete;
    public boolean clearCache;
    public boolean privateStream;
    public boolean streaming;
    public boolean noRefresh;
    public boolean pause;
    public boolean batch;
    public boolean view;
    public Integer updateType;
    public Long ackId;
    public Integer nakCode;
    public String text;
    public Long postId;
    public boolean postAck;
    public boolean postComplete;
    public String postUser;
    public String permission;
    public int container;
    public Object payload;
    /** The payload's encoded bytes in hex, where the layer gives them. */
    public String body;
    /** The whole message's encoded bytes; null from EMA. */
    public byte[] encoded;

    @SuppressWarnings("unchecked")
    public Map<Integer, Object> fields() {
        if (!(payload instanceof Map)) {
            throw new AssertionError("no field list in " + this);
        }
        return (Map<Integer, Object>) payload;
    }

    public Tree tree() {
        if (!(payload instanceof Tree tree)) {
            throw new AssertionError("no container of entries in " + this);
        }
        return tree;
    }

    public Message nested() {
        if (!(payload instanceof Message message)) {
            throw new AssertionError("no nested message in " + this);
        }
        return message;
    }

    /** Asserts the class; returns this for chaining. */
    public Message is(Kind expected) {
        assertEquals(expected, kind, () -> "class of " + this);
        return this;
    }

    /** Asserts stream and data state. */
    public Message state(int stream, int data) {
        if (state == null) {
            throw new AssertionError("no state in " + this);
        }
        assertEquals(
                StreamStates.toString(stream) + "/" + DataStates.toString(data),
                StreamStates.toString(state.stream) + "/" + DataStates.toString(state.data),
                () -> "state of " + this);
        return this;
    }

    /** Asserts stream state, data state and code. */
    public Message state(int stream, int data, int code) {
        state(stream, data);
        assertEquals(StateCodes.toString(code), StateCodes.toString(state.code), () -> "state code of " + this);
        return this;
    }

    public Message openOk() {
        return state(StreamStates.OPEN, DataStates.OK);
    }

    public Message openSuspect() {
        return state(StreamStates.OPEN, DataStates.SUSPECT);
    }

    public Message closed(int code) {
        return state(StreamStates.CLOSED, DataStates.SUSPECT, code);
    }

    public Message on(int expectedStream) {
        assertEquals(expectedStream, streamId, () -> "stream of " + this);
        return this;
    }

    public Message domain(int expected) {
        assertEquals(expected, domain, () -> "domain of " + this);
        return this;
    }

    /** A whole first image: answers a request, has everything in one message, keeps no old cache. */
    public Message solicitedImage() {
        is(Kind.REFRESH);
        assertEquals(true, solicited, () -> "solicited in " + this);
        assertEquals(true, complete, () -> "complete in " + this);
        return this;
    }

    /** A recovery image to an open stream. */
    public Message unsolicitedImage() {
        is(Kind.REFRESH);
        assertEquals(false, solicited, () -> "solicited in " + this);
        assertEquals(true, complete, () -> "complete in " + this);
        assertEquals(true, clearCache, () -> "ClearCache in " + this);
        return this;
    }

    public Message fields(Map<Integer, Object> expected) {
        assertEquals(new TreeMap<>(expected), new TreeMap<>(fields()), () -> "fields of " + this);
        return this;
    }

    public Message noPart() {
        assertNull(part, () -> "part number of " + this);
        return this;
    }

    @Override
    public String toString() {
        var s = new StringBuilder();
        s.append(kind).append("{stream ").append(streamId).append(" domain ").append(domain);
        if (hasKey) {
            s.append(" key[");
            if (serviceId != null) s.append("service ").append(serviceId).append(' ');
            if (serviceName != null) s.append(serviceName).append(' ');
            if (name != null) s.append('\'').append(name).append("' ");
            if (nameType != null) s.append("type ").append(nameType).append(' ');
            if (filter != null) s.append("filter ").append(filter).append(' ');
            if (identifier != null) s.append("identifier ").append(identifier).append(' ');
            if (attrib != null) s.append("attrib ").append(attrib);
            s.append(']');
        }
        if (state != null) s.append(' ').append(state);
        if (kind == Kind.REFRESH) s.append(solicited ? " solicited" : " unsolicited");
        if (complete) s.append(" complete");
        if (clearCache) s.append(" clear-cache");
        if (streaming) s.append(" streaming");
        if (noRefresh) s.append(" no-refresh");
        if (pause) s.append(" pause");
        if (batch) s.append(" batch");
        if (view) s.append(" view");
        if (privateStream) s.append(" private");
        if (group != null) s.append(" group ").append(group);
        if (qos != null) s.append(" qos ").append(qos);
        if (sequence != null) s.append(" seq ").append(sequence);
        if (part != null) s.append(" part ").append(part);
        if (updateType != null) s.append(" type ").append(updateType);
        if (ackId != null) s.append(" ack ").append(ackId);
        if (nakCode != null) s.append(" nak ").append(nakCode);
        if (postId != null) s.append(" post ").append(postId);
        if (postUser != null) s.append(" user ").append(postUser);
        if (text != null) s.append(" '").append(text).append('\'');
        if (payload != null) {
            String p = payload.toString();
            s.append(' ').append(p.length() > 600 ? p.substring(0, 600) + "..." : p);
        }
        return s.append('}').toString();
    }

    /** An ordered field list. */
    public static Map<Integer, Object> newFields() {
        return new LinkedHashMap<>();
    }
}
