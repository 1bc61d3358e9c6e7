package quoteway.interop.peer;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;

/** Port numbers for servers that must be known before they start, or must come back where they were. */
public final class Ports {
    private Ports() {}

    /** A port of the loopback interface that the OS says is free. */
    public static int free() {
        try (var socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return socket.getLocalPort();
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
    }
}
