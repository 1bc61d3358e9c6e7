package quoteway.interop.peer;

import java.io.DataInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/**
 * A TCP relay in front of a server. It can play a server that knows no newer connection version than some (which closes the socket without an
 * answer, so that the client comes back with the next lower one), stop passing bytes, and cut.
 */
public final class Relay implements AutoCloseable {
    private final ServerSocket listener;
    private final int target;
    private final int newestVersion;
    private final List<Socket> sockets = new CopyOnWriteArrayList<>();
    private final List<Integer> versionsSeen = new CopyOnWriteArrayList<>();
    private final CountDownLatch connected = new CountDownLatch(1);
    private final AtomicLong toClient = new AtomicLong();

    /** Relays to {@code target}; requests for a connection version above {@code newestVersion} (11 to 14) are refused. */
    public Relay(int target, int newestVersion) {
        this.target = target;
        this.newestVersion = newestVersion;
        try {
            listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
        start("relay-accept", this::accept);
    }

    public Relay(int target) {
        this(target, 14);
    }

    public int port() {
        return listener.getLocalPort();
    }

    /** The connection versions that were asked for, in order. */
    public List<Integer> versionsSeen() {
        return versionsSeen;
    }

    /** Bytes passed from the server to clients. */
    public long bytesToClients() {
        return toClient.get();
    }

    /** Waits until a client has sent its first frame. */
    public void awaitConnection() {
        try {
            if (!connected.await(60, TimeUnit.SECONDS)) {
                throw new AssertionError("no one connected");
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private void accept() {
        while (!listener.isClosed()) {
            try {
                Socket client = listener.accept();
                sockets.add(client);
                start("relay-client", () -> serve(client));
            } catch (IOException e) {
                return;
            }
        }
    }

    private void serve(Socket client) {
        try {
            client.setTcpNoDelay(true);
            var in = new DataInputStream(client.getInputStream());
            byte[] request = new byte[in.readUnsignedShort()];
            in.readFully(request, 2, request.length - 2);
            request[0] = (byte) (request.length >> 8);
            request[1] = (byte) request.length;
            // length 2, opcode 1, version 4; the request's number is the connection version plus 9.
            int version = (request[6] & 0xff) - 9;
            versionsSeen.add(version);
            if (version > newestVersion) {
                client.close();
                return;
            }
            var server = new Socket(InetAddress.getLoopbackAddress(), target);
            server.setTcpNoDelay(true);
            sockets.add(server);
            server.getOutputStream().write(request);
            start("relay-server", () -> pump(server, client, toClient));
            connected.countDown();
            pump(client, server, new AtomicLong());
        } catch (IOException e) {
            close(client);
        }
    }

    private static void pump(Socket from, Socket to, AtomicLong count) {
        byte[] buffer = new byte[65536];
        try {
            InputStream in = from.getInputStream();
            OutputStream out = to.getOutputStream();
            for (int n; (n = in.read(buffer)) >= 0; ) {
                count.addAndGet(n);
                out.write(buffer, 0, n);
            }
        } catch (IOException e) {
            // One side is gone; so is the other, below.
        }
        close(from);
        close(to);
    }

    /** Cuts all connections; new ones are still taken. */
    public void cut() {
        sockets.forEach(Relay::close);
        sockets.clear();
    }

    @Override
    public void close() {
        try {
            listener.close();
        } catch (IOException e) {
            // It is closed either way.
        }
        cut();
    }

    private static void close(Socket socket) {
        try {
            socket.close();
        } catch (IOException e) {
            // It is closed either way.
        }
    }

    private static void start(String name, Runnable body) {
        Thread thread = new Thread(body, name);
        thread.setDaemon(true);
        thread.start();
    }
}
