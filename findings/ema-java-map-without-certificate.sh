#!/usr/bin/env bash
# EMA Java 3.9.1: the certificate of an interactive provider that listens for TLS, by where its server is described.
#
# Guess: keystoreFile, keystorePasswd and keystoreType of OmmIProviderConfig hold for the provider's server, whether that is described in EmaConfig.xml
# or by config(map), as the calls of a consumer's configuration hold for its channel.
# Seen: by the file they do. By the map the provider starts without a word, listens for TLS and has no certificate: it ends each handshake ("No available
# authentication scheme" in its log). Entries of these names in the map's server (KeystoreFile, KeystorePasswd, KeystoreType), alone or beside the calls,
# change nothing.
# What follows: a provider with TLS has its server in EmaConfig.xml. Whoever tests a client against EMA sees a server that takes connections and fails
# each handshake: the fault is not the client's roots.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat > pom.xml <<'POM'
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>finding</groupId><artifactId>finding</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>com.refinitiv.ema</groupId><artifactId>ema</artifactId><version>3.9.1.0</version></dependency>
  </dependencies>
</project>
POM
mvn -q -B dependency:build-classpath -Dmdep.outputFile=classpath
keytool -genkeypair -alias provider -keyalg RSA -keysize 2048 -dname CN=127.0.0.1 -storetype PKCS12 -storepass changeit -keystore store.p12 2>/dev/null
cat > EmaConfig.xml <<'CONFIG'
<?xml version="1.0" encoding="UTF-8"?>
<EmaConfig>
<IProviderGroup><DefaultIProvider value="P"/><IProviderList><IProvider><Name value="P"/><Server value="S"/></IProvider></IProviderList></IProviderGroup>
<ServerGroup><ServerList><Server><Name value="S"/><ServerType value="ServerType::RSSL_ENCRYPTED"/></Server></ServerList></ServerGroup>
</EmaConfig>
CONFIG
cat > Keys.java <<'JAVA'
import com.refinitiv.ema.access.*;
import java.net.ServerSocket;
import java.security.cert.X509Certificate;
import javax.net.ssl.*;

public class Keys {
    static class Silent implements OmmProviderClient {
        @Override public void onAllMsg(Msg m, OmmProviderEvent e) {}
        @Override public void onReqMsg(ReqMsg m, OmmProviderEvent e) {}
        @Override public void onReissue(ReqMsg m, OmmProviderEvent e) {}
        @Override public void onClose(ReqMsg m, OmmProviderEvent e) {}
        @Override public void onRefreshMsg(RefreshMsg m, OmmProviderEvent e) {}
        @Override public void onStatusMsg(StatusMsg m, OmmProviderEvent e) {}
        @Override public void onGenericMsg(GenericMsg m, OmmProviderEvent e) {}
        @Override public void onPostMsg(PostMsg m, OmmProviderEvent e) {}
    }

    static ElementList of(String... pairs) {
        ElementList list = EmaFactory.createElementList();
        for (int i = 0; i < pairs.length; i += 2) list.add(EmaFactory.createElementEntry().ascii(pairs[i], pairs[i + 1]));
        return list;
    }

    static void group(Map config, String kind, String name, ElementList what) {
        Map all = EmaFactory.createMap();
        all.add(EmaFactory.createMapEntry().keyAscii(name, MapEntry.MapAction.ADD, what));
        ElementList group = of("Default" + kind, name);
        group.add(EmaFactory.createElementEntry().map(kind + "List", all));
        config.add(EmaFactory.createMapEntry().keyAscii(kind + "Group", MapEntry.MapAction.ADD, group));
    }

    static String handshake(int port) throws Exception {
        TrustManager anybody = new X509TrustManager() {
            @Override public void checkClientTrusted(X509Certificate[] chain, String type) {}
            @Override public void checkServerTrusted(X509Certificate[] chain, String type) {}
            @Override public X509Certificate[] getAcceptedIssuers() { return new X509Certificate[0]; }
        };
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, new TrustManager[] {anybody}, null);
        try (SSLSocket socket = (SSLSocket) context.getSocketFactory().createSocket("127.0.0.1", port)) {
            socket.setSoTimeout(10_000);
            socket.startHandshake();
            return "handshake done, " + ((X509Certificate) socket.getSession().getPeerCertificates()[0]).getSubjectX500Principal();
        } catch (SSLException e) {
            return "no handshake: " + e.getMessage();
        }
    }

    public static void main(String[] how) throws Exception {
        int port;
        try (ServerSocket free = new ServerSocket(0)) { port = free.getLocalPort(); }
        OmmIProviderConfig config = EmaFactory.createOmmIProviderConfig().providerName("P").port("" + port)
                .adminControlDirectory(OmmIProviderConfig.AdminControl.USER_CONTROL)
                .adminControlDictionary(OmmIProviderConfig.AdminControl.USER_CONTROL);
        if (!how[0].equals("entries")) config.keystoreFile("store.p12").keystorePasswd("changeit").keystoreType("PKCS12");
        if (!how[0].equals("file")) {
            Map map = EmaFactory.createMap();
            group(map, "IProvider", "P", of("Server", "S"));
            group(map, "Server", "S", how[0].equals("entries") || how[0].equals("both")
                    ? of("ServerType", "ServerType::RSSL_ENCRYPTED", "KeystoreFile", "store.p12", "KeystorePasswd", "changeit", "KeystoreType", "PKCS12")
                    : of("ServerType", "ServerType::RSSL_ENCRYPTED"));
            config.config(map);
        }
        OmmProvider provider = EmaFactory.createOmmProvider(config, new Silent());
        System.out.println(how[0] + ": " + handshake(port));
        provider.uninitialize();
        System.exit(0);
    }
}
JAVA
javac -cp "$(cat classpath)" Keys.java
for how in file calls entries both; do
    # With the map there is no file: who reads both could take the server from either.
    [ "$how" = file ] || rm -f EmaConfig.xml
    timeout 60 java -cp "$(cat classpath):." Keys "$how" 2>"$how.log" || { tail -20 "$how.log" >&2; exit 1; }
done | tee seen
[ "$(head -1 seen)" = "file: handshake done, CN=127.0.0.1" ]
[ "$(grep -c "no handshake" seen)" = 3 ]
for how in calls entries both; do grep -q "No available authentication scheme" "$how.log"; done
echo "as it was"
