package quoteway.bench;

import com.refinitiv.eta.codec.Codec;
import com.refinitiv.eta.transport.Channel;
import com.refinitiv.eta.transport.ChannelState;
import com.refinitiv.eta.transport.ConnectOptions;
import com.refinitiv.eta.transport.Error;
import com.refinitiv.eta.transport.InProgInfo;
import com.refinitiv.eta.transport.ReadArgs;
import com.refinitiv.eta.transport.Transport;
import com.refinitiv.eta.transport.TransportBuffer;
import com.refinitiv.eta.transport.TransportFactory;
import com.refinitiv.eta.transport.TransportReturnCodes;
import com.refinitiv.eta.transport.WriteArgs;
import com.refinitiv.eta.transport.WritePriorities;
import java.util.function.Consumer;

/** How consumers connect, write and read: at a port of this machine, with large buffers. */
final class Channels {
    private Channels() {}

    /** A channel that is active. */
    static Channel connect(int port, int inputBuffers, Error error) {
        ConnectOptions connect = TransportFactory.createConnectOptions();
        connect.unifiedNetworkInfo().address("127.0.0.1");
        connect.unifiedNetworkInfo().serviceName(Integer.toString(port));
        connect.majorVersion(Codec.majorVersion());
        connect.minorVersion(Codec.minorVersion());
        connect.protocolType(Codec.protocolType());
        connect.guaranteedOutputBuffers(100);
        connect.numInputBuffers(inputBuffers);
        connect.sysRecvBufSize(256 * 1024);
        connect.sysSendBufSize(256 * 1024);
        connect.tcpOpts().tcpNoDelay(true);
        connect.pingTimeout(120);
        Channel channel = Transport.connect(connect, error);
        if (channel == null) {
            throw new IllegalStateException("cannot connect: " + error.text());
        }
        InProgInfo progress = TransportFactory.createInProgInfo();
        while (channel.state() == ChannelState.INITIALIZING) {
            if (channel.init(progress, error) < TransportReturnCodes.SUCCESS) {
                throw new IllegalStateException("handshake: " + error.text());
            }
            Thread.onSpinWait();
        }
        return channel;
    }

    /** Work of a consumer while it waits. */
    interface Turn {
        void take() throws Exception;
    }

    /** Writes a message; turns until there is a buffer for it. */
    static void write(Channel channel, byte[] message, Turn turn, Error error) throws Exception {
        WriteArgs args = TransportFactory.createWriteArgs();
        args.priority(WritePriorities.HIGH);
        TransportBuffer buffer = channel.getBuffer(message.length, false, error);
        while (buffer == null) {
            channel.flush(error);
            turn.take();
            buffer = channel.getBuffer(message.length, false, error);
        }
        buffer.data().put(message);
        while (channel.write(buffer, args, error) == TransportReturnCodes.WRITE_CALL_AGAIN) {
            channel.flush(error);
        }
    }

    /** Reads what is there. */
    static void read(Channel channel, ReadArgs args, Consumer<TransportBuffer> take, Error error) {
        do {
            TransportBuffer buffer = channel.read(args, error);
            if (buffer != null) {
                take.accept(buffer);
            } else if (args.readRetVal() == TransportReturnCodes.FAILURE) {
                throw new IllegalStateException("the provider is gone: " + error.text());
            }
        } while (args.readRetVal() > 0);
    }
}
