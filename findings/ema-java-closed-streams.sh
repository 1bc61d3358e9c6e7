#!/usr/bin/env bash
# EMA Java 3.9.1: what items of a consumer hear of streams that the provider closes.
#
# Guess: an item closed to be opened again (ClosedRecover) is asked for after a while, as a connection is dialled (reconnectMinDelay, a second); and when
# the provider closes the login, each open item is told Closed or Suspect, since nothing can come on it any more.
# Seen: a request goes out as soon as the answer is there, and each answer is told to the application as Open/Suspect: on one machine 1,500 to 2,300
# requests a second for a single item, for as long as the provider answers in that way ("No resources" as its code changes nothing). Of a closed login
# the login's own client hears Closed/Suspect, if the application has registered one; items' clients hear nothing (looked at for 8 s).
# What follows: a provider that is out of room waits before it answers; a server between the two asks again by a timer of its own. An application
# that does not watch its login takes the last prices for current ones, for as long as the connection stays.
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
# A dictionary of one field, so that the consumer asks nobody for one.
cat > RDMFieldDictionary <<'FIELDS'
!tag Type          1
!tag Version       4.20.9
!ACRONYM    DDE ACRONYM          FID  RIPPLES TO  FIELD TYPE     LENGTH  RWF TYPE   RWF LEN
BID        "BID"                  22  NULL        PRICE              17  REAL64           7
FIELDS
cat > enumtype.def <<'ENUMERATIONS'
!tag Type       2
!tag Version    4.20.9
!tag DT_Version 15.41
!ACRONYM    FID
RDN_EXCHID      4
!VALUE      DISPLAY   MEANING
      0    "   "   undefined
ENUMERATIONS
cat > EmaConfig.xml <<'CONFIG'
<?xml version="1.0" encoding="UTF-8"?>
<EmaConfig>
<ConsumerGroup><DefaultConsumer value="C"/><ConsumerList><Consumer><Name value="C"/><Dictionary value="D"/></Consumer></ConsumerList></ConsumerGroup>
<DictionaryGroup><DictionaryList><Dictionary><Name value="D"/><DictionaryType value="DictionaryType::FileDictionary"/>
<RdmFieldDictionaryFileName value="./RDMFieldDictionary"/><EnumTypeDefFileName value="./enumtype.def"/></Dictionary></DictionaryList></DictionaryGroup>
</EmaConfig>
CONFIG
cat > Closed.java <<'JAVA'
import com.refinitiv.ema.access.*;
import com.refinitiv.ema.rdm.EmaRdm;
import java.net.ServerSocket;
import java.util.concurrent.ConcurrentLinkedQueue;

public class Closed {
    static final ConcurrentLinkedQueue<Long> asked = new ConcurrentLinkedQueue<>();

    static class Provider implements OmmProviderClient {
        volatile long login;
        volatile OmmProvider provider;

        @Override public void onReqMsg(ReqMsg req, OmmProviderEvent event) {
            OmmProvider provider = event.provider();
            if (req.domainType() == EmaRdm.MMT_LOGIN) {
                login = event.handle();
                this.provider = provider;
                provider.submit(EmaFactory.createRefreshMsg().domainType(EmaRdm.MMT_LOGIN).name(req.name()).nameType(EmaRdm.USER_NAME).complete(true)
                        .solicited(true).state(OmmState.StreamState.OPEN, OmmState.DataState.OK, OmmState.StatusCode.NONE, "in")
                        .attrib(EmaFactory.createElementList()), event.handle());
            } else if (req.domainType() == EmaRdm.MMT_DIRECTORY) {
                OmmArray capabilities = EmaFactory.createOmmArray();
                capabilities.add(EmaFactory.createOmmArrayEntry().uintValue(EmaRdm.MMT_MARKET_PRICE));
                ElementList info = EmaFactory.createElementList();
                info.add(EmaFactory.createElementEntry().ascii(EmaRdm.ENAME_NAME, "SERVICE"));
                info.add(EmaFactory.createElementEntry().array(EmaRdm.ENAME_CAPABILITIES, capabilities));
                ElementList state = EmaFactory.createElementList();
                state.add(EmaFactory.createElementEntry().uintValue(EmaRdm.ENAME_SVC_STATE, EmaRdm.SERVICE_UP));
                state.add(EmaFactory.createElementEntry().uintValue(EmaRdm.ENAME_ACCEPTING_REQS, 1));
                FilterList filters = EmaFactory.createFilterList();
                filters.add(EmaFactory.createFilterEntry().elementList(EmaRdm.SERVICE_INFO_ID, FilterEntry.FilterAction.SET, info));
                filters.add(EmaFactory.createFilterEntry().elementList(EmaRdm.SERVICE_STATE_ID, FilterEntry.FilterAction.SET, state));
                Map map = EmaFactory.createMap();
                map.add(EmaFactory.createMapEntry().keyUInt(1, MapEntry.MapAction.ADD, filters));
                provider.submit(EmaFactory.createRefreshMsg().domainType(EmaRdm.MMT_DIRECTORY).filter(EmaRdm.SERVICE_INFO_FILTER | EmaRdm.SERVICE_STATE_FILTER)
                        .clearCache(true).complete(true).solicited(true)
                        .state(OmmState.StreamState.OPEN, OmmState.DataState.OK, OmmState.StatusCode.NONE, "").payload(map), event.handle());
            } else if (req.name().equals("GOOD")) {
                FieldList fields = EmaFactory.createFieldList();
                fields.add(EmaFactory.createFieldEntry().real(22, 100, OmmReal.MagnitudeType.EXPONENT_0));
                provider.submit(EmaFactory.createRefreshMsg().serviceName("SERVICE").name(req.name()).complete(true).solicited(true)
                        .state(OmmState.StreamState.OPEN, OmmState.DataState.OK, OmmState.StatusCode.NONE, "").payload(fields), event.handle());
            } else if (req.domainType() == EmaRdm.MMT_MARKET_PRICE) {
                asked.add(System.nanoTime());
                provider.submit(EmaFactory.createStatusMsg().serviceName("SERVICE").name(req.name())
                        .state(OmmState.StreamState.CLOSED_RECOVER, OmmState.DataState.SUSPECT, OmmState.StatusCode.NO_RESOURCES, "later"), event.handle());
            }
        }
        @Override public void onRefreshMsg(RefreshMsg m, OmmProviderEvent e) {}
        @Override public void onStatusMsg(StatusMsg m, OmmProviderEvent e) {}
        @Override public void onGenericMsg(GenericMsg m, OmmProviderEvent e) {}
        @Override public void onPostMsg(PostMsg m, OmmProviderEvent e) {}
        @Override public void onReissue(ReqMsg m, OmmProviderEvent e) {}
        @Override public void onClose(ReqMsg m, OmmProviderEvent e) {}
        @Override public void onAllMsg(Msg m, OmmProviderEvent e) {}
    }

    public static void main(String[] a) throws Exception {
        Provider client = new Provider();
        int port;
        try (ServerSocket free = new ServerSocket(0)) { port = free.getLocalPort(); }
        OmmProvider provider = EmaFactory.createOmmProvider(EmaFactory.createOmmIProviderConfig().port("" + port)
                .adminControlDirectory(OmmIProviderConfig.AdminControl.USER_CONTROL)
                .adminControlDictionary(OmmIProviderConfig.AdminControl.USER_CONTROL), client);
        OmmConsumer consumer = EmaFactory.createOmmConsumer(EmaFactory.createOmmConsumerConfig().host("localhost:" + port).username("user"));
        OmmConsumerClient printer = new OmmConsumerClient() {
            private boolean isTold;
            @Override public void onStatusMsg(StatusMsg m, OmmConsumerEvent e) {
                if (!e.closure().equals("again") || !isTold) System.out.println(e.closure() + " status " + m.state());
                isTold |= e.closure().equals("again");
            }
            @Override public void onRefreshMsg(RefreshMsg m, OmmConsumerEvent e) { System.out.println(e.closure() + " refresh " + m.state()); }
            @Override public void onUpdateMsg(UpdateMsg m, OmmConsumerEvent e) {}
            @Override public void onGenericMsg(GenericMsg m, OmmConsumerEvent e) {}
            @Override public void onAckMsg(AckMsg m, OmmConsumerEvent e) {}
            @Override public void onAllMsg(Msg m, OmmConsumerEvent e) {}
        };
        consumer.registerClient(EmaFactory.createReqMsg().domainType(EmaRdm.MMT_LOGIN), printer, "login");
        boolean isAgain = a[0].equals("again");
        consumer.registerClient(EmaFactory.createReqMsg().serviceName("SERVICE").name(isAgain ? "AGAIN" : "GOOD"), printer, a[0]);
        Thread.sleep(5000);
        if (isAgain) {
            System.out.println("requests in 5 s: " + asked.size());
            System.exit(0);
        }
        System.out.println("-- the provider closes the login");
        client.provider.submit(EmaFactory.createStatusMsg().domainType(EmaRdm.MMT_LOGIN).name("user").nameType(EmaRdm.USER_NAME)
                .state(OmmState.StreamState.CLOSED, OmmState.DataState.SUSPECT, OmmState.StatusCode.NONE, "out"), client.login);
        Thread.sleep(8000);
        System.exit(0);
    }
}
JAVA
for part in again good; do
    java -cp "$(cat classpath)" Closed.java $part > "seen-$part" 2> log || { cat log; exit 1; }
    cat "seen-$part"
done
python3 - <<'PYTHON'
login, status, count = open("seen-again").read().splitlines()[:3]
assert status == "again status Open / Suspect / No resources / 'later'", status
assert int(count.removeprefix("requests in 5 s: ")) > 100, count
assert open("seen-good").read().splitlines() == [
    "login refresh Open / Ok / None / 'in'",
    "good refresh Open / Ok / None / ''",
    "-- the provider closes the login",
    "login status Closed / Suspect / None / 'out'",
]
PYTHON
echo "as it was"
