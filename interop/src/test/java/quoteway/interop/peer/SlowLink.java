package quoteway.interop.peer;

import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * A long line between two programs, as TCP shows it to them: each segment of 1,400 bytes takes so long, and of a hundred one is lost, so that
 * it and all behind it come when it has been sent again.
 */
public final class SlowLink implements AutoCloseable {
    private static final int SEGMENT = 1400;
    private static final int ONE_LOST_IN = 100;
    /** The least that a sender waits before it sends again. */
    private static final long SENT_AGAIN_AFTER = TimeUnit.MILLISECONDS.toNanos(200);

    private record Segment(long due, byte[] bytes) {}

    private final ServerSocket listener;
    private final int target;
    private final long delay;
    private final AtomicInteger segments = new AtomicInteger();
    private final List<Socket> sockets = new CopyOnWriteArrayList<>();

    /** A line to {@code target}; a segment takes this many milliseconds, each way. */
    public SlowLink(int target, long milliseconds) {
        this.target = target;
        delay = TimeUnit.MILLISECONDS.toNanos(milliseconds);
        try {
            listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
        start("line-accept", this::accept);
    }

    public int port() {
        return listener.getLocalPort();
    }

    /** Segments that were lost, and came later. */
    public int lost() {
        return segments.get() / ONE_LOST_IN;
    }

    private void accept() {
        while (!listener.isClosed()) {
            try {
                Socket client = listener.accept();
                var server = new Socket(InetAddress.getLoopbackAddress(), target);
                for (Socket socket : List.of(client, server)) {
                    socket.setTcpNoDelay(true);
                    sockets.add(socket);
                }
                join(client, server);
                join(server, client);
            } catch (IOException e) {
                // It is being closed, or nobody is at the other end.
            }
        }
    }

    private void join(Socket from, Socket to) {
        BlockingQueue<Segment> line = new LinkedBlockingQueue<>();
        start("line-in", () -> fill(line, from));
        start("line-out", () -> empty(line, from, to));
    }

    private void fill(BlockingQueue<Segment> line, Socket from) {
        byte[] buffer = new byte[SEGMENT];
        try {
            InputStream in = from.getInputStream();
            for (int n; (n = in.read(buffer)) >= 0; ) {
                boolean isLost = segments.incrementAndGet() % ONE_LOST_IN == 0;
                long due = System.nanoTime() + delay + (isLost ? SENT_AGAIN_AFTER : 0);
                line.add(new Segment(due, Arrays.copyOf(buffer, n)));
            }
        } catch (IOException e) {
            // One side is gone; so is the other when what is on the line has come.
        }
        line.add(new Segment(System.nanoTime() + delay, new byte[0]));
    }

    private static void empty(BlockingQueue<Segment> line, Socket from, Socket to) {
        try {
            for (Segment segment; (segment = line.take()).bytes.length > 0; ) {
                TimeUnit.NANOSECONDS.sleep(segment.due - System.nanoTime());
                to.getOutputStream().write(segment.bytes);
            }
        } catch (IOException e) {
            // The other side is gone.
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        close(from);
        close(to);
    }

    @Override
    public void close() throws IOException {
        listener.close();
        sockets.forEach(SlowLink::close);
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
