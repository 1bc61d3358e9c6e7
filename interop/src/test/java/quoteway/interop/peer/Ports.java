package quoteway.interop.peer;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.IntFunction;

/** Port numbers for servers that must be known before they start, or must come back where they were. */
public final class Ports {
    // Above those that tests in Rust reserve (to 27,999), and below those that the OS gives to outgoing connections (32768 up), or one of these might take a port between its choice and its use.
    private static final int FIRST = 28_000;
    private static final int COUNT = 4_700;
    private static final AtomicInteger NEXT = new AtomicInteger((int) (ProcessHandle.current().pid() * 499 % COUNT));

    private Ports() {}

    /** A free port of the loopback interface that no other test of this run gets. */
    public static int free() {
        for (int tries = 0; tries < COUNT; tries++) {
            int port = FIRST + Math.floorMod(NEXT.getAndIncrement(), COUNT);
            try (var socket = new ServerSocket(port, 1, InetAddress.getLoopbackAddress())) {
                return socket.getLocalPort();
            } catch (IOException e) {
                // Somebody else has it.
            }
        }
        throw new IllegalStateException("no free port from " + FIRST + " on");
    }

    /** Starts a server on a free port, on another one if somebody else was quicker. */
    public static <T> T bound(IntFunction<T> start) {
        for (int tries = 1; ; tries++) {
            try {
                return start.apply(free());
            } catch (Taken e) {
                if (tries == 10) {
                    throw e;
                }
            }
        }
    }

    /** The port cannot be bound. */
    public static final class Taken extends RuntimeException {
        private static final long serialVersionUID = 1;

        Taken(String reason) {
            super(reason);
        }
    }
}
