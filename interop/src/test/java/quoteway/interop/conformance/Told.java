package quoteway.interop.conformance;

import com.refinitiv.ema.access.AckMsg;
import com.refinitiv.ema.access.GenericMsg;
import com.refinitiv.ema.access.Msg;
import com.refinitiv.ema.access.PostMsg;
import com.refinitiv.ema.access.RefreshMsg;
import com.refinitiv.ema.access.ReqMsg;
import com.refinitiv.ema.access.StatusMsg;
import com.refinitiv.ema.access.UpdateMsg;
import com.refinitiv.eta.codec.DataStates;
import com.refinitiv.eta.codec.StateCodes;
import com.refinitiv.eta.codec.StreamStates;
import com.refinitiv.eta.rdm.DomainTypes;
import com.refinitiv.eta.rdm.UpdateEventTypes;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import quoteway.interop.wire.Ema;
import quoteway.interop.wire.Message;
import quoteway.interop.wire.Values;

/** A message that EMA gave its application, in the words of the scripts. */
final class Told {
    final String kind;
    /** The number of a consumer's stream, or the handle of a provider's. */
    final long stream;
    final int domain;
    /** The name of its key, or null. */
    final String item;
    final List<String> words = new ArrayList<>();
    private String text = "";

    private Told(String kind, long stream, Msg msg) {
        this.kind = kind;
        this.stream = stream;
        domain = msg.domainType();
        item = msg.hasMsgKey() && msg.hasName() ? msg.name() : null;
    }

    /** {@code services}: names by the ids that services have at this program, for messages that have ids alone. */
    static Told of(Msg msg, long stream, boolean closes, Map<Integer, String> services) {
        String kind = closes ? "CLOSE" : Ema.message(msg).kind.name();
        var told = new Told(kind, stream, msg);
        if (closes) {
            return told;
        }
        boolean admin = told.domain == DomainTypes.LOGIN || told.domain == DomainTypes.SOURCE;
        if (!admin && told.domain != DomainTypes.MARKET_PRICE) {
            told.words.add("domain=" + Words.camel(DomainTypes.toString(told.domain)));
        }
        if (told.item != null) {
            told.words.add((told.domain == DomainTypes.LOGIN ? "user=" : "item=") + told.item);
        }
        told.members(msg);
        if (!told.words.stream().anyMatch(word -> word.startsWith("service=")) && msg.hasMsgKey() && msg.hasServiceId()) {
            told.option("service", services.getOrDefault(msg.serviceId(), "#" + msg.serviceId()));
        }
        Object payload = Ema.message(msg).payload;
        if (told.domain == DomainTypes.LOGIN) {
            told.login(Ema.message(msg).attrib);
        } else if (told.domain == DomainTypes.SOURCE) {
            told.mirroring(payload, services);
        } else if (payload instanceof Message.Tree tree && "REQUEST".equals(kind)) {
            told.view(tree);
        } else if (payload != null && !"REQUEST".equals(kind)) {
            told.body(payload);
        }
        return told;
    }

    private void members(Msg msg) {
        if (msg instanceof ReqMsg m) {
            words.add(m.interestAfterRefresh() ? "streaming" : "snapshot");
            flag(m.pause(), "pause");
            flag(!m.initialImage(), "no-refresh");
            flag(m.privateStream(), "private");
            option("service", m.hasServiceName() ? m.serviceName() : null);
            option("priority", m.hasPriority() ? m.priorityClass() + "/" + m.priorityCount() : null);
            option("qos", m.hasQos() ? Words.qosWord(m.qosTimeliness(), m.qosRate()) : null);
        } else if (msg instanceof RefreshMsg m) {
            state(m.state().streamState(), m.state().dataState(), m.state().statusCode(), m.state().statusText());
            words.add(m.solicited() ? "solicited" : "unsolicited");
            flag(m.complete(), "complete");
            flag(m.clearCache(), "clear-cache");
            flag(m.doNotCache(), "do-not-cache");
            flag(m.privateStream(), "private");
            option("service", m.hasServiceName() ? m.serviceName() : null);
            option("qos", m.hasQos() ? Words.qosWord(m.qos().timeliness(), m.qos().rate()) : null);
            option("seq", m.hasSeqNum() ? m.seqNum() : null);
            option("part", m.hasPartNum() ? m.partNum() : null);
            option("group", bytes(m.itemGroup()));
            option("user-info", m.hasPublisherId() ? user(m.publisherIdUserAddress(), m.publisherIdUserId()) : null);
        } else if (msg instanceof UpdateMsg m) {
            flag(m.hasPermissionData(), "locked");
            flag(m.doNotCache(), "do-not-cache");
            flag(m.doNotConflate(), "do-not-conflate");
            option("type", m.updateTypeNum() == 0 ? null : Words.camel(UpdateEventTypes.toString(m.updateTypeNum())));
            option("service", m.hasServiceName() ? m.serviceName() : null);
            option("seq", m.hasSeqNum() ? m.seqNum() : null);
            option("conf", m.hasConflated() ? m.conflatedCount() + "/" + m.conflatedTime() : null);
            option("user-info", m.hasPublisherId() ? user(m.publisherIdUserAddress(), m.publisherIdUserId()) : null);
        } else if (msg instanceof StatusMsg m) {
            if (m.hasState()) {
                state(m.state().streamState(), m.state().dataState(), m.state().statusCode(), m.state().statusText());
            }
            flag(m.clearCache(), "clear-cache");
            flag(m.privateStream(), "private");
            option("service", m.hasServiceName() ? m.serviceName() : null);
            option("group", m.hasItemGroup() ? bytes(m.itemGroup()) : null);
        } else if (msg instanceof PostMsg m) {
            flag(m.solicitAck(), "ack");
            flag(m.complete(), "complete");
            option("id", m.hasPostId() ? m.postId() : null);
            option("seq", m.hasSeqNum() ? m.seqNum() : null);
            option("part", m.hasPartNum() ? m.partNum() : null);
            option("service", m.hasServiceName() ? m.serviceName() : null);
            option("user-info", user(m.publisherIdUserAddress(), m.publisherIdUserId()));
        } else if (msg instanceof AckMsg m) {
            option("id", m.ackId());
            option("seq", m.hasSeqNum() ? m.seqNum() : null);
            option("nak", m.hasNackCode() ? Words.camel(com.refinitiv.eta.codec.NakCodes.toString(m.nackCode())) : null);
            text = m.hasText() ? m.text() : "";
        } else if (msg instanceof GenericMsg m) {
            flag(m.complete(), "complete");
            option("seq", m.hasSeqNum() ? m.seqNum() : null);
        }
    }

    private void state(int stream, int data, int code, String why) {
        words.add(Words.camel(StreamStates.toString(stream)) + "/" + Words.camel(DataStates.toString(data)) + "/"
                + Words.camel(StateCodes.toString(code)));
        text = why;
    }

    private void flag(boolean set, String word) {
        if (set) {
            words.add(word);
        }
    }

    private void option(String key, Object value) {
        if (value != null) {
            words.add(key + "=" + value);
        }
    }

    private static String user(long address, long id) {
        return (address >> 24 & 255) + "." + (address >> 16 & 255) + "." + (address >> 8 & 255) + "." + (address & 255) + "/" + id;
    }

    private static String bytes(ByteBuffer group) {
        if (group == null || !group.hasRemaining()) {
            return null;
        }
        var numbers = new ArrayList<String>();
        for (ByteBuffer left = group.duplicate(); left.hasRemaining(); ) {
            numbers.add(Integer.toString(left.get() & 255));
        }
        return String.join(",", numbers);
    }

    /** What a login says that the other side can do. */
    private void login(Object attrib) {
        var names = Map.of(
                "SupportOMMPost", "post",
                "SupportBatchRequests", "batch",
                "SupportViewRequests", "views",
                "SupportOptimizedPauseResume", "pause-resume",
                "SupportEnhancedSymbolList", "symbol-lists",
                "SupportStandby", "standby",
                "SingleOpen", "single-open",
                "AllowSuspectData", "allow-suspect");
        if (attrib instanceof Message.Tree tree) {
            for (Message.Entry entry : tree.entries()) {
                option(names.getOrDefault(entry.id(), "(" + entry.id() + ")"), entry.value());
            }
        }
    }

    /** What a provider is told of its part in mirrored sources. */
    private void mirroring(Object payload, Map<Integer, String> services) {
        if (!"GENERIC".equals(kind) || !(payload instanceof Message.Tree tree)) {
            return;
        }
        var parts = List.of("ActiveNoStandby", "ActiveWithStandby", "Standby");
        for (Message.Entry service : tree.entries()) {
            Object mode = ((Message.Tree) service.value()).get("SourceMirroringMode");
            if (mode instanceof Long number) {
                words.add("mirroring=" + services.get(((Long) service.id()).intValue()) + ":" + parts.get(number.intValue()));
            }
        }
    }

    private void view(Message.Tree tree) {
        if (tree.get(":ViewData") instanceof List<?> fields) {
            words.add("view=" + fields.stream().map(Object::toString).collect(Collectors.joining(",")));
        }
    }

    @SuppressWarnings("unchecked")
    private void body(Object payload) {
        if (payload instanceof Map<?, ?> fields) {
            words.addAll(fields((Map<Integer, Object>) fields));
        } else if (payload instanceof Message.Tree tree) {
            for (Message.Entry row : tree.entries()) {
                var actions = List.of("?", "update", "add", "delete");
                List<String> content = row.value() instanceof Map<?, ?> fields ? fields((Map<Integer, Object>) fields) : List.of();
                words.add(actions.get(row.action()) + ":" + row.id() + (content.isEmpty() ? "" : "{" + String.join(",", content) + "}"));
            }
        } else {
            words.add("payload=" + payload);
        }
    }

    private static List<String> fields(Map<Integer, Object> fields) {
        var words = new ArrayList<String>();
        fields.forEach((id, value) -> {
            boolean whole = value instanceof Values.Real real && real.hint() == Values.Real.whole(0).hint();
            words.add(id + "=" + (whole ? ((Values.Real) value).mantissa() : value));
        });
        return words;
    }

    /** Why this is not the message of these words; null if it is. */
    String differs(List<String> expected) {
        for (String word : expected) {
            boolean there = word.startsWith("\"")
                    ? text.contains(word.substring(1, word.length() - 1))
                    : word.startsWith("!") ? !has(word.substring(1)) : has(word);
            if (!there) {
                return "not " + word;
            }
        }
        if (expected.stream().anyMatch(Words::isContent)) {
            var more = words.stream().filter(Words::isContent).filter(word -> !expected.contains(word)).findFirst();
            return more.map(word -> "there is " + word + ", too").orElse(null);
        }
        return null;
    }

    /** A state may leave its code out. */
    private boolean has(String word) {
        return words.stream().anyMatch(told -> Words.fits(told, word) || word.contains("/") && told.startsWith(word + "/"));
    }

    @Override
    public String toString() {
        return kind + " " + stream + " " + String.join(" ", words) + (text.isEmpty() ? "" : " \"" + text + "\"");
    }
}
