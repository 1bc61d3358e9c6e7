package quoteway.bench;

/** Counts of nanoseconds in steps of at most 0.1 %, from 1 ns to centuries. */
final class LatencyHistogram {
    private static final int SUB_BITS = 10;
    private static final int SUB = 1 << SUB_BITS;

    private final long[] counts = new long[(64 - SUB_BITS + 1) * SUB];
    private long total;
    private long max;

    void record(long nanos) {
        long value = Math.max(0, nanos);
        counts[index(value)]++;
        total++;
        max = Math.max(max, value);
    }

    private static int index(long value) {
        if (value < SUB) {
            return (int) value;
        }
        int shift = 63 - Long.numberOfLeadingZeros(value) - (SUB_BITS - 1);
        // The mantissa has SUB_BITS bits, its top one set: half of each row of the table is used.
        return shift * SUB + (int) (value >>> shift);
    }

    private static long value(int index) {
        int shift = index / SUB;
        return shift == 0 ? index : (long) (index % SUB) << shift;
    }

    long total() {
        return total;
    }

    /** The latency that a share of all does not exceed, in microseconds. */
    double quantile(double share) {
        long wanted = (long) Math.ceil(share * total);
        long seen = 0;
        for (int i = 0; i < counts.length; i++) {
            seen += counts[i];
            if (seen >= wanted && seen > 0) {
                return Math.min(value(i), max) / 1e3;
            }
        }
        return 0;
    }

    double maxMicros() {
        return max / 1e3;
    }
}
