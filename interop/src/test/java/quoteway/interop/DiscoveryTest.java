package quoteway.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.refinitiv.eta.codec.Codec;
import com.refinitiv.eta.codec.CodecFactory;
import com.refinitiv.eta.codec.CodecReturnCodes;
import com.refinitiv.eta.codec.DecodeIterator;
import com.refinitiv.eta.codec.Msg;
import com.refinitiv.eta.valueadd.domainrep.rdm.login.LoginMsgFactory;
import com.refinitiv.eta.valueadd.domainrep.rdm.login.LoginMsgType;
import com.refinitiv.eta.valueadd.domainrep.rdm.login.LoginRefresh;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import quoteway.interop.peer.EtaClient;
import quoteway.interop.peer.EtaSession;
import quoteway.interop.wire.Message;

/** Which servers there are, as ETA's own reader of logins finds it in the answer. */
@ExtendWith(World.Extension.class)
class DiscoveryTest {
    /** A server as ETA has read it. */
    private record Server(String host, long port, boolean standby) {}

    @Test
    void whoAsksIsToldOfTheServersAndOthersAreNot(World w) {
        w.serve("[p2ps]\nconnection_list = [\"p2ps1:14002\", \"10.1.0.7:14003\", \"p2ps3:14002\"]\n"
                + "connection_order = \"spread\"\nconnection_standby_servers = 1\n");
        List<Server> servers = List.of(
                new Server("p2ps1", 14002, false), new Server("10.1.0.7", 14003, false), new Server("p2ps3", 14002, false));
        for (int first = 0; first < servers.size(); first++) {
            LoginRefresh told = login(w, Map.of("DownloadConnectionConfig", 1L));
            assertTrue(told.checkHasConnectionConfig());
            assertEquals(1, told.connectionConfig().numStandbyServers());
            var read = told.connectionConfig().serverList().stream()
                    .map(s -> new Server(s.hostName().toString(), s.port(), s.serverType() == 1))
                    .toList();
            Server active = servers.get(first);
            Server next = servers.get((first + 1) % 3);
            Server last = servers.get((first + 2) % 3);
            assertEquals(
                    List.of(active, new Server(next.host, next.port, true), new Server(last.host, last.port, true)), read);
        }
        assertFalse(login(w, Map.of()).checkHasConnectionConfig());
        assertFalse(login(w, Map.of("DownloadConnectionConfig", 0L)).checkHasConnectionConfig());
    }

    @Test
    void aServerThatIsItselfAllThereIsSaysHowFullItIs(World w) {
        w.serve("[p2ps]\nenable_connect_config = true\nconnection_host = \"p2ps.example.com\"\n"
                + "load_factor_interval_s = 1\nmax_mounts = 1\n");
        LoginRefresh told = login(w, Map.of("DownloadConnectionConfig", 1L));
        assertTrue(told.checkHasConnectionConfig());
        var servers = told.connectionConfig().serverList();
        assertEquals(1, servers.size());
        var server = servers.get(0);
        assertEquals("p2ps.example.com", server.hostName().toString());
        assertEquals(w.port(), server.port());
        assertTrue(server.checkHasLoadFactor());
        assertEquals(0, server.loadFactor());
    }

    /** The answer to a login with these attributes, as ETA reads it. */
    private static LoginRefresh login(World w, Map<String, ?> attributes) {
        EtaClient client = w.with(new EtaClient("eta-client", EtaSession.options(w.port())));
        client.login(attributes);
        Message refresh = client.next(EtaClient.LOGIN_STREAM).solicitedImage().openOk();
        var buffer = CodecFactory.createBuffer();
        buffer.data(ByteBuffer.wrap(refresh.encoded));
        DecodeIterator iterator = CodecFactory.createDecodeIterator();
        iterator.setBufferAndRWFVersion(buffer, Codec.majorVersion(), Codec.minorVersion());
        Msg msg = CodecFactory.createMsg();
        assertEquals(CodecReturnCodes.SUCCESS, msg.decode(iterator));
        var login = (LoginRefresh) LoginMsgFactory.createMsg();
        login.rdmMsgType(LoginMsgType.REFRESH);
        assertEquals(CodecReturnCodes.SUCCESS, login.decode(iterator, msg));
        return login;
    }
}
