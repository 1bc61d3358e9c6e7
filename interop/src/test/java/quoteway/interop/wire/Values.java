package quoteway.interop.wire;

import com.refinitiv.eta.codec.DataTypes;
import java.util.Map;

/**
 * Primitive values in one form for both SDK layers, so that what a provider wrote and what a consumer read compare with
 * {@code equals}. Integers are {@code Long}, text is {@code String}, dates and times are {@code java.time}.
 */
public final class Values {
    private Values() {}

    /** A decimal as on the wire: mantissa and hint (ETA {@code RealHints}). Not normalised: 1.50 and 1.5 differ. */
    public record Real(long mantissa, int hint) {
        /** {@code cents} hundredths. */
        public static Real cents(long cents) {
            return new Real(cents, 12);
        }

        /** A whole number. */
        public static Real whole(long n) {
            return new Real(n, 14);
        }
    }

    /** An enumerated value; what it displays as is the dictionary's business. */
    public record Enumerated(int value) {}

    /** A field that is present without a value. */
    public enum Blank {
        BLANK
    }

    /** The fields that the tests use, with their types, so that a raw ETA program can decode without a dictionary. */
    private static final Map<Integer, Integer> TYPES = Map.ofEntries(
            Map.entry(1, DataTypes.UINT), // PROD_PERM
            Map.entry(2, DataTypes.UINT), // RDNDISPLAY
            Map.entry(3, DataTypes.RMTES_STRING), // DSPLY_NAME
            Map.entry(6, DataTypes.REAL), // TRDPRC_1
            Map.entry(11, DataTypes.REAL), // NETCHNG_1
            Map.entry(15, DataTypes.ENUM), // CURRENCY
            Map.entry(16, DataTypes.DATE), // TRADE_DATE
            Map.entry(18, DataTypes.TIME), // TRDTIM_1
            Map.entry(22, DataTypes.REAL), // BID
            Map.entry(25, DataTypes.REAL), // ASK
            Map.entry(30, DataTypes.REAL), // BIDSIZE
            Map.entry(31, DataTypes.REAL), // ASKSIZE
            Map.entry(32, DataTypes.REAL), // ACVOL_1
            Map.entry(178, DataTypes.REAL), // TRDVOL_1
            Map.entry(215, DataTypes.RMTES_STRING), // ROW64_1
            Map.entry(3427, DataTypes.REAL), // ORDER_PRC
            Map.entry(3428, DataTypes.ENUM), // ORDER_SIDE
            Map.entry(3429, DataTypes.REAL), // ORDER_SIZE
            Map.entry(3430, DataTypes.UINT)); // NO_ORD

    /** The ETA {@code DataTypes} of a field that the tests use. */
    public static int typeOf(int fieldId) {
        Integer type = TYPES.get(fieldId);
        if (type == null) {
            throw new IllegalArgumentException("field " + fieldId + " has no type here; add it to Values.TYPES");
        }
        return type;
    }
}
