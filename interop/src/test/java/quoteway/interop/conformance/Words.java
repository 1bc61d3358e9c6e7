package quoteway.interop.conformance;

import com.refinitiv.ema.access.ComplexType;
import com.refinitiv.ema.access.EmaFactory;
import com.refinitiv.ema.access.FieldList;
import com.refinitiv.ema.access.Map;
import com.refinitiv.ema.access.MapEntry;
import com.refinitiv.eta.codec.DataStates;
import com.refinitiv.eta.codec.StateCodes;
import com.refinitiv.eta.codec.StreamStates;
import com.refinitiv.eta.rdm.DomainTypes;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.function.IntFunction;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import quoteway.interop.wire.Ema;
import quoteway.interop.wire.Message;
import quoteway.interop.wire.Values;

/** The words of a step that says a message: flags, {@code key=value}, a state, fields, rows. Each has to be used ({@link #end}). */
final class Words {
    private static final Pattern FIELD = Pattern.compile("(-?\\d+)=(\\d+)");
    private static final Pattern ROW = Pattern.compile("(add|update|delete):([^{]*)(?:\\{(.*)})?");

    /** Stream state, data state, code and text. */
    record State(int stream, int data, int code, String text) {}

    private final List<String> words;
    private final Set<String> used = new HashSet<>();

    Words(List<String> words) {
        this.words = words;
    }

    boolean flag(String word) {
        return words.contains(word) && (used.add(word) || true);
    }

    /** The value of a key, or null. */
    String value(String key) {
        for (String word : words) {
            if (word.startsWith(key + "=")) {
                used.add(word);
                return word.substring(key.length() + 1);
            }
        }
        return null;
    }

    /** The number of a key, or null. */
    Integer number(String key) {
        String value = value(key);
        return value == null ? null : Integer.valueOf(value);
    }

    /** The numbers of a key, or null. */
    List<Integer> numbers(String key) {
        String value = value(key);
        return value == null ? null : Arrays.stream(value.split(",")).map(Integer::valueOf).toList();
    }

    int domain() {
        String value = value("domain");
        return value == null ? DomainTypes.MARKET_PRICE : domain(value);
    }

    static int domain(String name) {
        return number(DomainTypes::toString, name);
    }

    String text() {
        for (String word : words) {
            if (word.startsWith("\"")) {
                used.add(word);
                return word.substring(1, word.length() - 1);
            }
        }
        return "";
    }

    /** The state that is said, or null. */
    State state() {
        for (String word : words) {
            String[] parts = word.split("/");
            if (parts.length >= 2 && parts[0].matches("Open|Closed|ClosedRecover|NonStreaming|Redirected")) {
                used.add(word);
                int code = parts.length > 2 ? number(StateCodes::toString, parts[2]) : StateCodes.NONE;
                return new State(number(StreamStates::toString, parts[0]), number(DataStates::toString, parts[1]), code, text());
            }
        }
        return null;
    }

    /** The number of an enumeration whose name is written like this. */
    static int number(IntFunction<String> names, String name) {
        for (int i = 0; i < 256; i++) {
            if (camel(names.apply(i)).equals(name)) {
                return i;
            }
        }
        throw new AssertionError(name + " is not known");
    }

    /** {@code NOT_FOUND} as the scripts write it: {@code NotFound}. */
    static String camel(String name) {
        var s = new StringBuilder();
        for (String part : name.split("_")) {
            s.append(part.isEmpty() ? "" : part.substring(0, 1).toUpperCase() + part.substring(1).toLowerCase());
        }
        return s.toString();
    }

    /** Quality as EMA has it: timeliness in seconds behind, rate in milliseconds; 0 is real time, or tick by tick. Null if it is not said. */
    int[] qos(String key) {
        String value = value(key);
        return value == null ? null : parseQos(value);
    }

    static int[] parseQos(String text) {
        String[] parts = text.split("/");
        int timeliness = parts[0].startsWith("Delayed:") ? Integer.parseInt(parts[0].substring("Delayed:".length())) : 0;
        int rate = parts[1].startsWith("TimeConflated:") ? Integer.parseInt(parts[1].substring("TimeConflated:".length())) : 0;
        return new int[] {timeliness, rate};
    }

    static String qosWord(int timeliness, int rate) {
        String late = timeliness == 0 ? "Realtime" : timeliness == -1 ? "DelayedUnknown" : "Delayed:" + timeliness;
        return late + "/" + (rate == 0 ? "TickByTick" : rate == -256 ? "JitConflated" : "TimeConflated:" + rate);
    }

    /** {@code ADDRESS/ID} as address and id; null if it is not said. */
    long[] userInfo() {
        String value = value("user-info");
        if (value == null) {
            return null;
        }
        long address = 0;
        for (String part : value.substring(0, value.indexOf('/')).split("\\.")) {
            address = address << 8 | Long.parseLong(part);
        }
        return new long[] {address, Long.parseLong(value.substring(value.indexOf('/') + 1))};
    }

    /** Fields or rows as EMA's container; null if there are none. */
    ComplexType body() {
        var fields = new ArrayList<String>();
        var rows = EmaFactory.createMap();
        boolean hasRows = false;
        for (String word : words) {
            Matcher row = ROW.matcher(word);
            if (FIELD.matcher(word).matches()) {
                used.add(word);
                fields.add(word);
            } else if (row.matches()) {
                used.add(word);
                hasRows = true;
                row(rows, row);
            }
        }
        return hasRows ? rows : fields.isEmpty() ? null : fields(fields);
    }

    private static void row(Map rows, Matcher row) {
        int action = switch (row.group(1)) {
            case "add" -> MapEntry.MapAction.ADD;
            case "update" -> MapEntry.MapAction.UPDATE;
            default -> MapEntry.MapAction.DELETE;
        };
        List<String> content = row.group(3) == null ? List.of() : Arrays.asList(row.group(3).split(","));
        ByteBuffer key = ByteBuffer.wrap(row.group(2).getBytes(StandardCharsets.US_ASCII));
        // EMA wants every entry of a map to have the same kind of payload, though a Delete does not carry it.
        rows.add(EmaFactory.createMapEntry().keyBuffer(key, action, fields(content)));
    }

    /** In the real dictionary the fields of the scripts are of type REAL; their numbers are whole. */
    private static FieldList fields(List<String> fields) {
        var all = Message.newFields();
        for (String field : fields) {
            Matcher m = FIELD.matcher(field);
            if (!m.matches()) {
                throw new AssertionError(field + " is no field");
            }
            all.put(Integer.valueOf(m.group(1)), Values.Real.whole(Long.parseLong(m.group(2))));
        }
        return Ema.fields(all);
    }

    /** Whether a word that was told is the one expected, in which a star at the end stands for what only one run knows. */
    static boolean fits(String told, String expected) {
        return told.equals(expected) || expected.endsWith("*") && told.startsWith(expected.substring(0, expected.length() - 1));
    }

    /** Whether a word speaks of content, which a step that speaks of it speaks of in full. */
    static boolean isContent(String word) {
        return FIELD.matcher(word).matches() || ROW.matcher(word).matches();
    }

    /** Fails if there is a word that nobody has read. */
    void end() {
        for (String word : words) {
            if (!used.contains(word)) {
                throw new AssertionError("the word " + word + " is not known here");
            }
        }
    }
}
