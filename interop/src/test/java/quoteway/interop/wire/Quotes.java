package quoteway.interop.wire;

import com.refinitiv.eta.codec.MapEntryActions;
import java.time.LocalDate;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * What the providers of the tests publish. Every value follows from the item's name and a sequence number, so a consumer can tell which
 * update it has and that no field of it is another's.
 */
public final class Quotes {
    private Quotes() {}

    /** The sequence number that an update carries, in TRDVOL_1. */
    public static final int SEQUENCE_FIELD = 178;

    private static long mix(String name, long sequence) {
        long h = name.hashCode() * 0x9E3779B97F4A7C15L + sequence * 0xC2B2AE3D27D4EB4FL;
        return (h ^ (h >>> 29)) & 0x7fff_ffffL;
    }

    /** A MarketPrice image: every primitive type that such records use, one blank. */
    public static Map<Integer, Object> image(String name, long sequence) {
        long m = mix(name, sequence);
        var f = Message.newFields();
        f.put(1, 62L + m % 100);
        f.put(2, 100L);
        f.put(3, name);
        f.put(15, new Values.Enumerated(840));
        f.put(22, Values.Real.cents(3990 + m % 1000));
        f.put(25, Values.Real.cents(-(3994 + m % 1000)));
        f.put(30, Values.Real.whole(m % 100));
        f.put(31, Values.Real.whole(1_000_000_007L * (m % 7)));
        f.put(6, new Values.Real(m % 100_000, 8));
        f.put(11, Values.Blank.BLANK);
        f.put(16, LocalDate.of(2024, 1 + (int) (m % 12), 1 + (int) (m % 28)));
        f.put(18, LocalTime.of((int) (m % 24), (int) (m % 60), (int) (m % 59)));
        f.put(SEQUENCE_FIELD, Values.Real.whole(sequence));
        return f;
    }

    /** A quote update. */
    public static Map<Integer, Object> update(String name, long sequence) {
        long m = mix(name, sequence);
        var f = Message.newFields();
        f.put(22, Values.Real.cents(3990 + m % 1000));
        f.put(25, Values.Real.cents(3994 + m % 1000));
        f.put(30, Values.Real.whole(m % 100));
        f.put(18, LocalTime.of((int) (m % 24), (int) (m % 60), (int) (m % 59)));
        f.put(SEQUENCE_FIELD, Values.Real.whole(sequence));
        return f;
    }

    /** Part {@code part} of a book of {@code parts}: each with its own orders, a summary in the first. */
    public static List<Body.Order> book(String name, int part, int ordersPerPart) {
        var orders = new ArrayList<Body.Order>();
        for (int i = 0; i < ordersPerPart; i++) {
            String id = name + "-" + part + "-" + i;
            orders.add(new Body.Order(MapEntryActions.ADD, id, order(id, 0)));
        }
        return orders;
    }

    /** One order of a book. */
    public static Map<Integer, Object> order(String id, long sequence) {
        long m = mix(id, sequence);
        var f = Message.newFields();
        f.put(3427, Values.Real.cents(1000 + m % 9000));
        f.put(3428, new Values.Enumerated(1 + (int) (m % 2)));
        f.put(3429, Values.Real.whole(m % 5000));
        f.put(3430, 1 + m % 9);
        return f;
    }

    /** The summary of a book. */
    public static Map<Integer, Object> bookSummary(String name) {
        var f = Message.newFields();
        f.put(15, new Values.Enumerated(840));
        f.put(3, name);
        return f;
    }

    /** The sequence number in the fields of an image or update. */
    public static long sequence(Map<Integer, Object> fields) {
        return ((Values.Real) fields.get(SEQUENCE_FIELD)).mantissa();
    }

    /** What {@link Message#payload} must be for orders that were sent. */
    public static Message.Tree tree(Map<Integer, Object> summary, List<Body.Order> orders) {
        return new Message.Tree(
                orders.stream()
                        .map(o -> new Message.Entry(o.action(), o.id(), o.action() == MapEntryActions.DELETE ? null : (Object) o.fields()))
                        .toList(),
                summary);
    }
}
