package quoteway.interop.peer;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;

/** A proxy as firms have them at their border: it connects whoever sends {@code CONNECT}, and passes bytes without looking into them. */
public final class ForwardProxy implements AutoCloseable {
    private final ServerSocket listener;
    private final AtomicInteger tunnels = new AtomicInteger();
    private final List<Socket> sockets = new CopyOnWriteArrayList<>();

    public ForwardProxy() {
        try {
            listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
        start("proxy-accept", this::accept);
    }

    public int port() {
        return listener.getLocalPort();
    }

    /** Connections that were made for clients. */
    public int tunnels() {
        return tunnels.get();
    }

    private static void start(String name, Runnable work) {
        Thread thread = new Thread(work, name);
        thread.setDaemon(true);
        thread.start();
    }

    private void accept() {
        while (!listener.isClosed()) {
            try {
                Socket client = listener.accept();
                sockets.add(client);
                start("proxy-client", () -> serve(client));
            } catch (IOException e) {
                // It is being closed.
            }
        }
    }

    private void serve(Socket client) {
        try (client) {
            String[] request = head(client.getInputStream()).split("[ \r\n]");
            if (!request[0].equals("CONNECT")) {
                client.getOutputStream().write("HTTP/1.1 405 Method Not Allowed\r\n\r\n".getBytes(StandardCharsets.US_ASCII));
                return;
            }
            String[] target = request[1].split(":");
            try (Socket server = new Socket(target[0], Integer.parseInt(target[1]))) {
                sockets.add(server);
                tunnels.incrementAndGet();
                client.getOutputStream().write("HTTP/1.1 200 Connection established\r\n\r\n".getBytes(StandardCharsets.US_ASCII));
                start("proxy-server", () -> pass(server, client));
                pass(client, server);
            }
        } catch (IOException e) {
            // One of the two is gone.
        }
    }

    /** A request up to the empty line. */
    private static String head(InputStream in) throws IOException {
        var head = new ByteArrayOutputStream();
        for (int b; (b = in.read()) >= 0; ) {
            head.write(b);
            String text = head.toString(StandardCharsets.ISO_8859_1);
            if (text.endsWith("\r\n\r\n")) {
                return text;
            }
        }
        throw new IOException("the client is gone");
    }

    private static void pass(Socket from, Socket to) {
        try {
            OutputStream out = to.getOutputStream();
            from.getInputStream().transferTo(out);
            to.shutdownOutput();
        } catch (IOException e) {
            // One of the two is gone.
        }
    }

    @Override
    public void close() throws IOException {
        listener.close();
        for (Socket socket : sockets) {
            socket.close();
        }
    }
}
