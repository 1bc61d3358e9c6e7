package quoteway.interop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.refinitiv.ema.access.ElementList;
import com.refinitiv.ema.access.EmaFactory;
import com.refinitiv.ema.access.OmmConsumerConfig;
import com.refinitiv.ema.access.OmmInvalidUsageException;
import com.refinitiv.ema.rdm.EmaRdm;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.security.Signature;
import java.security.interfaces.RSAPublicKey;
import java.util.Base64;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.parallel.ResourceAccessMode;
import org.junit.jupiter.api.parallel.ResourceLock;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import quoteway.interop.peer.EmaProvider;
import quoteway.interop.peer.EmaWebSocket;
import quoteway.interop.wire.Message;
import quoteway.interop.wire.Message.Kind;

/** Logins of EMA by token, over RSSL and over WebSocket: who gets in is the token's user, who is told when the next is due. */
@ExtendWith(World.Extension.class)
class TokenTest {
    private static String base64(byte[] bytes) {
        return Base64.getUrlEncoder().withoutPadding().encodeToString(bytes);
    }

    /** Without the sign that Java puts before it. */
    private static String base64(BigInteger number) {
        byte[] bytes = number.toByteArray();
        return base64(bytes[0] == 0 ? java.util.Arrays.copyOfRange(bytes, 1, bytes.length) : bytes);
    }

    private static KeyPair key() throws Exception {
        KeyPairGenerator generator = KeyPairGenerator.getInstance("RSA");
        generator.initialize(2048);
        return generator.generateKeyPair();
    }

    private static String token(KeyPair key) throws Exception {
        long expires = System.currentTimeMillis() / 1000 + 600;
        String signed = base64("{\"alg\":\"RS256\",\"kid\":\"k\"}".getBytes(StandardCharsets.UTF_8)) + "."
                + base64(("{\"sub\":\"alice\",\"exp\":" + expires + "}").getBytes(StandardCharsets.UTF_8));
        Signature signature = Signature.getInstance("SHA256withRSA");
        signature.initSign(key.getPrivate());
        signature.update(signed.getBytes(StandardCharsets.US_ASCII));
        return signed + "." + base64(signature.sign());
    }

    private static OmmConsumerConfig withToken(OmmConsumerConfig config, String token) {
        ElementList attributes = EmaFactory.createElementList();
        attributes.add(EmaFactory.createElementEntry().ascii("AuthenticationToken", token));
        attributes.add(EmaFactory.createElementEntry().ascii(EmaRdm.ENAME_APP_ID, "256"));
        attributes.add(EmaFactory.createElementEntry().ascii(EmaRdm.ENAME_POSITION, "127.0.0.1/net"));
        return config.addAdminMsg(EmaFactory.createReqMsg()
                .domainType(EmaRdm.MMT_LOGIN)
                .name("\0")
                .nameType(EmaRdm.USER_AUTH_TOKEN)
                .attrib(attributes));
    }

    /** A file with the public half. */
    private static Path published(KeyPair key, World w) throws Exception {
        RSAPublicKey open = (RSAPublicKey) key.getPublic();
        Path keys = Files.createTempFile("interop", ".jwks");
        w.with(() -> Files.deleteIfExists(keys));
        Files.writeString(
                keys,
                "{\"keys\":[{\"kty\":\"RSA\",\"kid\":\"k\",\"use\":\"sig\",\"alg\":\"RS256\",\"n\":\"" + base64(open.getModulus()) + "\",\"e\":\""
                        + base64(open.getPublicExponent()) + "\"}]}");
        return keys;
    }

    private static OmmConsumerConfig over(String protocol, World w) {
        return protocol.equals("rssl")
                ? EmaFactory.createOmmConsumerConfig().host("localhost:" + w.port())
                : EmaWebSocket.consumer(w.port(), protocol);
    }

    @ResourceLock(value = EmaWebSocket.CONVERTER, mode = ResourceAccessMode.READ)
    @ParameterizedTest(name = "{0}")
    @ValueSource(strings = {"rssl", "tr_json2", "rssl.rwf"})
    void emaLogsInByToken(String protocol, World w) throws Exception {
        KeyPair key = key();
        EmaProvider provider = w.emaProvider();
        w.serve("[p2ps]\ntoken_keys_file = \"" + published(key, w) + "\"\n", provider.port());
        var consumer = w.emaConsumer(withToken(over(protocol, w), token(key)));
        Message login = consumer.login().next().is(Kind.REFRESH).openOk();
        assertEquals("alice", login.name);
        assertTrue(login.toString().contains("AuthenticationTTReissue"), login.toString());
        consumer.open(World.FEED, "T").next().solicitedImage().openOk();
    }

    /** EMA's constructor tells the application what the server said. */
    @ResourceLock(value = EmaWebSocket.CONVERTER, mode = ResourceAccessMode.READ)
    @ParameterizedTest(name = "{0}")
    @ValueSource(strings = {"rssl", "tr_json2", "rssl.rwf"})
    void emaIsRefusedWithAnotherIssuersToken(String protocol, World w) throws Exception {
        EmaProvider provider = w.emaProvider();
        w.serve("[p2ps]\ntoken_keys_file = \"" + published(key(), w) + "\"\n", provider.port());
        String another = token(key());
        var refused = assertThrows(OmmInvalidUsageException.class, () -> w.emaConsumer(withToken(over(protocol, w), another)));
        assertEquals(OmmInvalidUsageException.ErrorCode.LOGIN_REQUEST_REJECTED, refused.errorCode(), refused.toString());
        assertTrue(refused.toString().contains("Closed/Suspect") && refused.toString().contains("signature"), refused.toString());
    }
}
