package quoteway.bench;

import java.util.ArrayList;
import java.util.List;

/**
 * The load of one run.
 *
 * @param rate updates a second that the provider produces; 0 as many as go
 * @param seconds measured time
 * @param warmup seconds before it that do not count
 * @param items items of the watchlist; with more than one mount the first half is watched by all mounts, each of the others by one
 *     (Producer 50/50)
 * @param mounts consumer connections
 * @param observe folder for the records of both ends ({@code sent}, {@code received}); empty for none
 * @param every one of so many messages is recorded
 * @param capacity messages for which each end has memory
 * @param shuffle the provider goes round over the items in a random order, the same in each run, and not in that in which they were opened
 */
record Options(
        long rate, int seconds, int warmup, int items, int mounts, String observe, int every, int capacity, boolean shuffle) {
    static final String USAGE = "usage: EtaPair [--rate N] [--seconds N] [--warmup N] [--items N] [--mounts N] [--shuffle 0|1]"
            + " [--observe FOLDER] [--observe-every N] [--observe-capacity N]";

    static Options parse(List<String> arguments) {
        long rate = 100_000;
        int seconds = 10;
        int warmup = 5;
        int items = 100_000;
        int mounts = 1;
        String observe = "";
        int every = 1;
        int capacity = 4_000_000;
        boolean shuffle = false;
        if (arguments.size() % 2 != 0) {
            throw new IllegalArgumentException(USAGE);
        }
        for (int i = 0; i < arguments.size(); i += 2) {
            if (arguments.get(i).equals("--observe")) {
                observe = arguments.get(i + 1);
                continue;
            }
            long value = Long.parseLong(arguments.get(i + 1));
            switch (arguments.get(i)) {
                case "--rate" -> rate = value;
                case "--seconds" -> seconds = (int) value;
                case "--warmup" -> warmup = (int) value;
                case "--items" -> items = (int) value;
                case "--mounts" -> mounts = (int) value;
                case "--shuffle" -> shuffle = value != 0;
                case "--observe-every" -> every = (int) value;
                case "--observe-capacity" -> capacity = (int) value;
                default -> throw new IllegalArgumentException("no option " + arguments.get(i) + "; " + USAGE);
            }
        }
        if (rate < 0 || seconds < 1 || warmup < 0 || items < mounts || mounts < 1 || every < 1 || capacity < 1) {
            throw new IllegalArgumentException("out of range; " + USAGE);
        }
        return new Options(rate, seconds, warmup, items, mounts, observe, every, capacity, shuffle);
    }

    List<String> arguments() {
        var list = new ArrayList<String>();
        list.addAll(List.of("--rate", Long.toString(rate), "--seconds", Integer.toString(seconds)));
        list.addAll(List.of("--warmup", Integer.toString(warmup), "--items", Integer.toString(items), "--mounts", Integer.toString(mounts)));
        list.addAll(List.of("--shuffle", shuffle ? "1" : "0"));
        if (!observe.isEmpty()) {
            list.addAll(List.of("--observe", observe, "--observe-every", Integer.toString(every)));
            list.addAll(List.of("--observe-capacity", Integer.toString(capacity)));
        }
        return list;
    }

    /** Where an end puts its records; null if nothing is recorded. */
    java.nio.file.Path records(String end) {
        return observe.isEmpty() ? null : java.nio.file.Path.of(observe, end);
    }

    /** Whether every mount watches this item. */
    boolean shared(int item) {
        return mounts > 1 && item < items / 2;
    }

    /** Whether a mount watches an item. */
    boolean watches(int mount, int item) {
        return mounts == 1 || shared(item) || item % mounts == mount;
    }

    /** Streams over all mounts. */
    long streams() {
        long streams = 0;
        for (int item = 0; item < items; item++) {
            streams += shared(item) ? mounts : 1;
        }
        return streams;
    }
}
