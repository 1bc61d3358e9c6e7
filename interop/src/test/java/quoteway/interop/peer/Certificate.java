package quoteway.interop.peer;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.util.Base64;
import java.util.Comparator;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/** A key and its certificate for 127.0.0.1, as PEM for our side and as a PKCS #12 file for the SDK. */
public record Certificate(Path folder) {
    public static final String PASSWORD = "interop";

    public Path store() {
        return folder.resolve("store.p12");
    }

    public Path certificate() {
        return folder.resolve("certificate.pem");
    }

    public Path key() {
        return folder.resolve("key.pem");
    }

    /** Makes one; {@code closing} is given what deletes its files at the end of the test. */
    public static Certificate make(Consumer<AutoCloseable> closing) throws IOException, GeneralSecurityException, InterruptedException {
        Path folder = Files.createTempDirectory("interop");
        closing.accept(() -> {
            try (var files = Files.walk(folder)) {
                files.sorted(Comparator.reverseOrder()).forEach(file -> file.toFile().delete());
            }
        });
        var made = new Certificate(folder);
        Path keytool = Path.of(System.getProperty("java.home"), "bin", "keytool");
        Process process = new ProcessBuilder(
                        keytool.toString(), "-genkeypair", "-alias", "server", "-keyalg", "RSA", "-keysize", "2048", "-validity", "2",
                        "-dname", "CN=127.0.0.1", "-ext", "SAN=ip:127.0.0.1", "-storetype", "PKCS12", "-storepass", PASSWORD, "-keystore",
                        made.store().toString())
                .redirectErrorStream(true)
                .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                .start();
        if (!process.waitFor(60, TimeUnit.SECONDS) || process.exitValue() != 0) {
            throw new AssertionError("keytool makes no certificate");
        }
        KeyStore store = KeyStore.getInstance(made.store().toFile(), PASSWORD.toCharArray());
        Files.writeString(made.certificate(), pem("CERTIFICATE", store.getCertificate("server").getEncoded()));
        Files.writeString(made.key(), pem("PRIVATE KEY", store.getKey("server", PASSWORD.toCharArray()).getEncoded()));
        return made;
    }

    private static String pem(String what, byte[] bytes) {
        String lines = Base64.getMimeEncoder(64, new byte[] {'\n'}).encodeToString(bytes);
        return "-----BEGIN " + what + "-----\n" + lines + "\n-----END " + what + "-----\n";
    }
}
