package quoteway.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.refinitiv.ema.access.EmaFactory;
import com.refinitiv.ema.access.OmmConsumerConfig;
import com.refinitiv.ema.access.OmmException;
import com.refinitiv.ema.rdm.EmaRdm;
import com.refinitiv.eta.codec.DataStates;
import com.refinitiv.eta.codec.NakCodes;
import com.refinitiv.eta.codec.StateCodes;
import com.refinitiv.eta.codec.StreamStates;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import quoteway.interop.peer.EmaConsumer;
import quoteway.interop.peer.EmaProvider;
import quoteway.interop.peer.EtaClient;
import quoteway.interop.peer.Service;
import quoteway.interop.wire.Ema;
import quoteway.interop.wire.Message;
import quoteway.interop.wire.Message.Kind;
import quoteway.interop.wire.Quotes;

/** Who may see what: EMA shows what it shows at a site with permissions. */
@ExtendWith(World.Extension.class)
class PermissionsTest {
    private static final String SERVICE = "version = \"1\"\n[services." + World.FEED + "]\nid = 1\n";
    private static final String DENIED = "Access Denied: User req to PE(2)";

    /** A rights file and a server that reads it; the audit lies beside it. */
    private static final class Site {
        final Path folder;
        final Path rights;
        final Path audit;
        final Quoteway server;

        Site(World w, String text, String more, int... providers) throws IOException {
            folder = Files.createTempDirectory("rights");
            rights = folder.resolve("rights.toml");
            audit = folder.resolve("audit.jsonl");
            w.with(() -> {
                Files.deleteIfExists(rights);
                Files.deleteIfExists(audit);
                Files.deleteIfExists(folder);
            });
            write(text);
            String config = "[permissions]\nmode = \"on\"\nrights_file = \"" + rights + "\"\naudit_file = \"" + audit + "\"\n" + more;
            server = w.serve(config, java.util.Arrays.stream(providers).boxed().toArray(Integer[]::new));
        }

        /** Replaces the rights as an editor does: at once. */
        void write(String text) throws IOException {
            Path next = folder.resolve("next");
            Files.writeString(next, SERVICE + text);
            Files.move(next, rights, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        }

        /** The first audit line that has all of these parts. */
        String awaitAudit(String... parts) throws IOException {
            for (int tries = 0; tries < 1500; tries++) {
                for (String line : Files.readAllLines(audit)) {
                    if (List.of(parts).stream().allMatch(line::contains)) {
                        return line;
                    }
                }
                LockSupport.parkNanos(10_000_000);
            }
            throw new AssertionError("no audit line with " + List.of(parts) + " in\n" + Files.readString(audit));
        }
    }

    private static OmmConsumerConfig as(World w, String user, String position) {
        return EmaFactory.createOmmConsumerConfig().host("localhost:" + w.port()).username(user).position(position);
    }

    private static EmaConsumer consumer(World w, String user) {
        return w.emaConsumer(as(w, user, "10.0.0.1/" + user));
    }

    private static ByteBuffer lock(int pe) {
        return ByteBuffer.wrap(new byte[] {3, 0, 1, (byte) (pe << 4 | 0xC)});
    }

    /** A provider whose items have the lock that their name ends with: "A2" is of PE 2, "A" has none. */
    private static EmaProvider provider(World w) {
        return w.emaProvider(Service.of(World.FEED, 17)).onOpen(item -> {
            char last = item.name().charAt(item.name().length() - 1);
            var refresh = item.newRefresh().payload(Ema.fields(Quotes.image(item.name(), 0)));
            item.refresh(Character.isDigit(last) ? refresh.permissionData(lock(last - '0')) : refresh);
        });
    }

    private static Message denied(EmaConsumer.Stream stream, String text) {
        Message status = stream.next().is(Kind.STATUS).closed(StateCodes.NOT_ENTITLED);
        assertEquals(text, status.state.text());
        return status;
    }

    private static final String TWO =
            "[users.one.grants]\n" + World.FEED + " = [1]\n[users.both.grants]\n" + World.FEED + " = [1, 2]\n";

    private static final String THE_OTHER_WAY =
            "[users.both.grants]\n" + World.FEED + " = [1]\n[users.one.grants]\n" + World.FEED + " = [1, 2]\n";

    @Test
    void deniedAmongGrantedAndLateJoiners(World w) throws IOException {
        EmaProvider provider = provider(w);
        Site site = new Site(w, TWO, "", provider.port());
        EmaConsumer both = consumer(w, "both");
        EmaConsumer one = consumer(w, "one");
        var granted = one.open(World.FEED, "A1");
        granted.next().solicitedImage().openOk();
        var refused = one.open(World.FEED, "A2");
        denied(refused, DENIED);
        var open = one.open(World.FEED, "A");
        open.next().solicitedImage().openOk();
        // The other one has it open, so that the late joiner's image is of an item that streams.
        var seen = both.open(World.FEED, "A2");
        seen.next().solicitedImage().openOk();
        EmaProvider.Item item = provider.awaitOpen("A2");
        denied(one.open(World.FEED, "A2"), DENIED);
        item = provider.awaitOpen("A2");
        item.update(1);
        seen.next().is(Kind.UPDATE);
        refused.inbox().assertEmpty();
        site.awaitAudit("\"event\":\"denied\"", "\"user\":\"one\"", "\"item\":\"A2\"", "\"lock\":\"1: 2\"", "PE [2]");
        site.awaitAudit("\"event\":\"start_watch\"", "\"user\":\"both\"", "\"item\":\"A2\"", "\"verdict\":\"granted\"");
    }

    @Test
    void aLockThatChangesByStatus(World w) throws IOException {
        EmaProvider provider = provider(w);
        new Site(w, TWO, "", provider.port());
        EmaConsumer both = consumer(w, "both");
        EmaConsumer one = consumer(w, "one");
        var stays = both.open(World.FEED, "A1");
        stays.next().solicitedImage();
        EmaProvider.Item item = provider.awaitOpen("A1");
        var goes = one.open(World.FEED, "A1");
        goes.next().solicitedImage();
        item.lock(lock(2));
        denied(goes, DENIED);
        stays.next().is(Kind.STATUS);
        item.update(7);
        stays.next().is(Kind.UPDATE);
        goes.inbox().assertEmpty();
    }

    @Test
    void rightsAreTakenAndGivenWhileStreamsAreOpen(World w) throws IOException {
        EmaProvider provider = provider(w);
        Site site = new Site(w, TWO, "", provider.port());
        EmaConsumer both = consumer(w, "both");
        var first = both.open(World.FEED, "A1");
        first.next().solicitedImage();
        var second = both.open(World.FEED, "A2");
        second.next().solicitedImage();
        EmaProvider.Item item = provider.awaitOpen("A1");
        site.write("[users.both.grants]\n" + World.FEED + " = [1]\n");
        denied(second, DENIED);
        item.update(1);
        first.next().is(Kind.UPDATE);
        site.write(TWO.replace("[1]", "[3]"));
        // New rights open nothing by themselves.
        EmaConsumer.Stream again;
        for (int tries = 0; ; tries++) {
            again = both.open(World.FEED, "A2");
            if (again.next().kind == Kind.REFRESH) {
                break;
            }
            assertTrue(tries < 500, "the right is back");
            LockSupport.parkNanos(10_000_000);
        }
        // A file with a fault changes nothing.
        site.write("[users.both]\ngruops = []\n");
        site.write(TWO);
        second.inbox().assertEmpty();
    }

    @Test
    void aUserIsForcedOutAndComesBack(World w) throws IOException {
        EmaProvider provider = provider(w);
        Site site = new Site(w, TWO, "", provider.port());
        EmaConsumer one = consumer(w, "one");
        EmaConsumer both = consumer(w, "both");
        var login = one.login();
        login.next().is(Kind.REFRESH).openOk();
        var stream = one.open(World.FEED, "A1");
        stream.next().solicitedImage();
        var other = both.open(World.FEED, "A1");
        other.next().solicitedImage();
        EmaProvider.Item item = provider.awaitOpen("A1");
        site.write("[users.both.grants]\n" + World.FEED + " = [1, 2]\n");
        Message over = login.inbox().next(m -> m.kind == Kind.STATUS, "the end of the login");
        assertEquals("Force Logout from DACS.", over.state.text());
        over.closed(StateCodes.NOT_ENTITLED);
        item.update(3);
        other.next().is(Kind.UPDATE);
        var refused = assertThrows(OmmException.class, () -> consumer(w, "one"));
        assertTrue(refused.getMessage().contains("User unknown to permissioning system"), refused.getMessage());
        site.write(TWO);
        EmaConsumer back = null;
        for (int tries = 0; back == null; tries++) {
            try {
                back = consumer(w, "one");
            } catch (OmmException e) {
                assertTrue(tries < 100, "the user is back: " + e);
                LockSupport.parkNanos(50_000_000);
            }
        }
        back.open(World.FEED, "A1").next().solicitedImage().openOk();
    }

    @Test
    void tooManyPositions(World w) throws IOException {
        EmaProvider provider = provider(w);
        new Site(w, "[users.one]\nmax_positions = 1\n[users.one.grants]\n" + World.FEED + " = [1]\n", "", provider.port());
        EmaConsumer here = w.emaConsumer(as(w, "one", "10.0.0.1/here"));
        w.emaConsumer(as(w, "one", "10.0.0.1/here"));
        var refused = assertThrows(OmmException.class, () -> w.emaConsumer(as(w, "one", "10.0.0.2/there")));
        assertTrue(refused.getMessage().contains("Maximum of 1 simultaneous positions reached"), refused.getMessage());
        here.open(World.FEED, "A1").next().solicitedImage().openOk();
    }

    @Test
    void theSourceOfRightsIsLostAndBack(World w) throws IOException {
        EmaProvider provider = provider(w);
        Site site = new Site(w, TWO, "fail = \"closed\"\n", provider.port());
        EmaConsumer one = consumer(w, "one");
        var stream = one.open(World.FEED, "A1");
        stream.next().solicitedImage();
        EmaProvider.Item item = provider.awaitOpen("A1");
        Files.delete(site.rights);
        // A new login is asked to come back.
        for (int tries = 0; ; tries++) {
            EtaClient raw = w.with(new EtaClient("raw " + tries, w.port()));
            raw.awaitReady();
            raw.login(1, "both", Map.of("Position", "10.0.0.1/raw"));
            Message answer = raw.next(1);
            if (answer.kind == Kind.STATUS) {
                answer.state(StreamStates.CLOSED_RECOVER, DataStates.SUSPECT, StateCodes.DACS_DOWN);
                assertEquals("Permissioning system is not available", answer.state.text());
                break;
            }
            assertTrue(tries < 100, "logins are refused without rights");
            LockSupport.parkNanos(50_000_000);
        }
        // Who is on stays on.
        item.update(5);
        stream.next().is(Kind.UPDATE);
        // With the rights back, the same login is taken.
        site.write(TWO);
        for (int tries = 0; ; tries++) {
            EtaClient raw = w.with(new EtaClient("back " + tries, w.port()));
            raw.awaitReady();
            raw.login(1, "both", Map.of("Position", "10.0.0.1/raw"));
            Message answer = raw.next(1);
            if (answer.kind == Kind.REFRESH) {
                break;
            }
            assertTrue(tries < 100, "logins are taken with rights: " + answer);
            LockSupport.parkNanos(50_000_000);
        }
    }

    @Test
    void postsWithoutRight(World w) throws IOException {
        EmaProvider provider = provider(w);
        Site site = new Site(w, TWO + "[users.both.post]\n" + World.FEED + " = [\"A1\"]\n", "", provider.port());
        for (String user : List.of("one", "both")) {
            var stream = consumer(w, user).open(World.FEED, "A1");
            stream.next().solicitedImage();
            stream.post(EmaFactory.createPostMsg()
                    .domainType(EmaRdm.MMT_MARKET_PRICE)
                    .postId(1)
                    .solicitAck(true)
                    .complete(true)
                    .payload(Ema.fields(Quotes.update("A1", 1))));
            if (user.equals("one")) {
                Message nak = stream.next().is(Kind.ACK);
                assertEquals(NakCodes.ACCESS_DENIED, nak.nakCode);
                assertEquals("Access Denied: User not permissioned to post to this item", nak.text);
            } else {
                EmaProvider.Incoming post = provider.inbox().next(in -> in.message().kind == Kind.POST, "post");
                provider.acknowledge(post, 0, "thanks");
                assertEquals("thanks", stream.next().is(Kind.ACK).text);
            }
        }
        site.awaitAudit("\"event\":\"post_denied\"", "\"user\":\"one\"");
        site.awaitAudit("\"event\":\"post\"", "\"user\":\"both\"");
    }

    /** Each thread of the server is a P2PS of its own, and the kernel spreads the connections. */
    @Test
    void severalP2psOfOneServer(World w) throws IOException {
        EmaProvider provider = provider(w);
        new Site(w, TWO + "[users.few]\nmax_positions = 2\n", "[p2ps]\nwriter_thread_count = 3\n", provider.port());
        for (int i = 0; i < 4; i++) {
            EtaClient one = w.with(new EtaClient("one " + i, w.port()));
            one.awaitReady();
            one.login(1, "one", Map.of("Position", "10.0.0." + i + "/net"));
            one.next(1).solicitedImage().openOk();
            one.openDirectory();
            int service = one.awaitService(World.FEED);
            one.request(5, service, "A1");
            one.next(5).solicitedImage().openOk();
            one.request(6, service, "A2");
            Message status = one.next(6).is(Kind.STATUS);
            status.state(StreamStates.CLOSED, DataStates.SUSPECT, StateCodes.NOT_ENTITLED);
            assertEquals(DENIED, status.state.text());
        }
    }

    /** Two processes, each with rights of its own; both hold images, and who comes late is checked against the lock of now. */
    @Test
    void twoP2psAndLateJoinersFromTheirCaches(World w) throws IOException {
        EmaProvider provider = provider(w);
        Quoteway distributor = w.sourceDistributor(provider.port());
        List<String> users = List.of("one", "both");
        EmaConsumer[][] at = new EmaConsumer[2][2];
        for (int site = 0; site < 2; site++) {
            Path folder = Files.createTempDirectory("site");
            Path rights = folder.resolve("rights.toml");
            Path config = folder.resolve("site.toml");
            w.with(() -> {
                for (Path file : List.of(rights, config, folder)) {
                    Files.deleteIfExists(file);
                }
            });
            // The second grants the same the other way round.
            Files.writeString(rights, SERVICE + (site == 0 ? TWO : THE_OTHER_WAY));
            Files.writeString(config, "[permissions]\nmode = \"on\"\nrights_file = \"" + rights + "\"\n[p2ps]\nenable_cache = true\n");
            w.p2ps(distributor, "--config", config.toString());
            for (int user = 0; user < 2; user++) {
                at[site][user] = consumer(w, users.get(user));
            }
        }
        var kept = new EmaConsumer.Stream[2];
        for (int site = 0; site < 2; site++) {
            EmaConsumer granted = at[site][1 - site];
            EmaConsumer refused = at[site][site];
            var seen = granted.open(World.FEED, "A2");
            seen.next().solicitedImage().openOk();
            // From the cache of this P2PS, which the one before has filled.
            denied(refused.open(World.FEED, "A2"), DENIED);
            granted.open(World.FEED, "A2").next().solicitedImage().openOk();
            // Another one watches it, so that it stays open when the one is denied.
            granted.open(World.FEED, "A1").next().solicitedImage().openOk();
            kept[site] = refused.open(World.FEED, "A1");
            kept[site].next().solicitedImage().openOk();
        }
        // Both P2PSs have one stream at the provider: its lock changes for both.
        EmaProvider.Item item = provider.awaitOpen("A1");
        item.lock(lock(2));
        for (int site = 0; site < 2; site++) {
            denied(kept[site], DENIED);
            denied(at[site][site].open(World.FEED, "A1"), DENIED);
            at[site][1 - site].open(World.FEED, "A1").next().solicitedImage().openOk();
        }
    }

    /** A server of rights that ends and comes back, with other rights; EMA's users stay, go and come as these say. */
    @Test
    void aServerOfRightsIsLostAndBack(World w) throws IOException {
        EmaProvider provider = provider(w);
        var text = new AtomicReference<>(SERVICE + TWO);
        HttpServer first = rightsServer(0, text);
        int port = first.getAddress().getPort();
        w.serve("[permissions]\nmode = \"on\"\nfail = \"closed\"\nrights_poll_s = 1\nrights_grace_s = 0\nrights_url = \"http://127.0.0.1:"
                + port + "/rights\"\n", provider.port());
        EmaConsumer both = consumer(w, "both");
        var stream = both.open(World.FEED, "A2");
        stream.next().solicitedImage().openOk();
        EmaProvider.Item item = provider.awaitOpen("A2");
        first.stop(0);
        for (int tries = 0; ; tries++) {
            Message answer = answerToLogin(w, "down " + tries);
            if (answer.kind == Kind.STATUS) {
                answer.state(StreamStates.CLOSED_RECOVER, DataStates.SUSPECT, StateCodes.DACS_DOWN);
                break;
            }
            assertTrue(tries < 200, "logins are refused without rights");
            LockSupport.parkNanos(50_000_000);
        }
        item.update(1);
        stream.next().is(Kind.UPDATE);
        text.set(SERVICE + "[users.both.grants]\n" + World.FEED + " = [1]\n");
        HttpServer second = rightsServer(port, text);
        w.with(() -> second.stop(0));
        denied(stream, DENIED);
        both.open(World.FEED, "A1").next().solicitedImage().openOk();
        assertEquals(Kind.REFRESH, answerToLogin(w, "up").kind);
    }

    private static Message answerToLogin(World w, String name) {
        EtaClient raw = w.with(new EtaClient(name, w.port()));
        raw.awaitReady();
        raw.login(1, "both", Map.of("Position", "10.0.0.1/raw"));
        return raw.next(1);
    }

    /** Holds no request: answers at once, 304 while the text is what was given. */
    private static HttpServer rightsServer(int port, AtomicReference<String> text) throws IOException {
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 0);
        server.createContext("/rights", exchange -> {
            byte[] body = text.get().getBytes(StandardCharsets.UTF_8);
            String tag = "\"" + Integer.toHexString(text.get().hashCode()) + "\"";
            exchange.getResponseHeaders().set("ETag", tag);
            if (tag.equals(exchange.getRequestHeaders().getFirst("If-None-Match"))) {
                exchange.sendResponseHeaders(304, -1);
            } else {
                exchange.sendResponseHeaders(200, body.length);
                exchange.getResponseBody().write(body);
            }
            exchange.close();
        });
        server.start();
        return server;
    }

    @Test
    void whoHasNoRightToAServiceDoesNotSeeIt(World w) throws IOException {
        EmaProvider provider = provider(w);
        new Site(w, TWO + "[users.none]\n", "", provider.port());
        EtaClient one = w.with(new EtaClient("one", w.port()));
        one.awaitReady();
        one.login(1, "one", Map.of("Position", "10.0.0.9/net"));
        one.next(1).solicitedImage().openOk();
        one.openDirectory();
        int service = one.awaitService(World.FEED);
        EtaClient none = w.with(new EtaClient("none", w.port()));
        none.awaitReady();
        none.login(1, "none", Map.of("Position", "10.0.0.9/net"));
        none.next(1).solicitedImage().openOk();
        Message directory = none.openDirectory();
        assertTrue(directory.payload == null || directory.tree().entries().isEmpty(), directory::toString);
        none.request(5, service, "A1");
        Message status = none.next(5).is(Kind.STATUS).closed(StateCodes.NOT_ENTITLED);
        assertEquals("Access Denied: User not permissioned for service " + World.FEED, status.state.text());
    }
}
