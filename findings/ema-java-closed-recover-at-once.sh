#!/usr/bin/env bash
# EMA Java 3.9.1: a consumer's item that its provider closes and asks to be opened again (ClosedRecover).
#
# Guess: the consumer asks again after a while, as it does for a connection (reconnectMinDelay, a second), and the application hears so once.
# Seen: a request goes out as soon as the answer is there, and each answer is told to the application as Open/Suspect: on one machine 1,000 to 2,000
# requests a second for a single item, for as long as the provider answers in that way ("No resources" as its code changes nothing).
# What follows: a provider that is out of room says so once for many items, or waits before it answers; a server between the two takes such
# answers for the slow kind and asks again by a timer of its own.
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
cat > Again.java <<'JAVA'
import com.refinitiv.ema.access.*;
import com.refinitiv.ema.rdm.EmaRdm;
import java.net.ServerSocket;
import java.util.concurrent.ConcurrentLinkedQueue;

public class Again {
    static final ConcurrentLinkedQueue<Long> asked = new ConcurrentLinkedQueue<>();

    static class Provider implements OmmProviderClient {
        @Override public void onReqMsg(ReqMsg req, OmmProviderEvent event) {
            OmmProvider provider = event.provider();
            if (req.domainType() == EmaRdm.MMT_LOGIN) {
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
        int port;
        try (ServerSocket free = new ServerSocket(0)) { port = free.getLocalPort(); }
        OmmProvider provider = EmaFactory.createOmmProvider(EmaFactory.createOmmIProviderConfig().port("" + port)
                .adminControlDirectory(OmmIProviderConfig.AdminControl.USER_CONTROL)
                .adminControlDictionary(OmmIProviderConfig.AdminControl.USER_CONTROL), new Provider());
        OmmConsumer consumer = EmaFactory.createOmmConsumer(EmaFactory.createOmmConsumerConfig().host("localhost:" + port).username("user"));
        int[] told = {0};
        consumer.registerClient(EmaFactory.createReqMsg().serviceName("SERVICE").name("ITEM"), new OmmConsumerClient() {
            @Override public void onStatusMsg(StatusMsg m, OmmConsumerEvent e) { told[0]++; if (told[0] == 1) System.out.println("told: " + m.state()); }
            @Override public void onRefreshMsg(RefreshMsg m, OmmConsumerEvent e) {}
            @Override public void onUpdateMsg(UpdateMsg m, OmmConsumerEvent e) {}
            @Override public void onGenericMsg(GenericMsg m, OmmConsumerEvent e) {}
            @Override public void onAckMsg(AckMsg m, OmmConsumerEvent e) {}
            @Override public void onAllMsg(Msg m, OmmConsumerEvent e) {}
        });
        Thread.sleep(5000);
        System.out.println("requests in 5 s: " + asked.size() + ", statuses told: " + told[0]);
        System.exit(0);
    }
}
JAVA
java -cp "$(cat classpath)" Again.java > seen 2> log || { cat log; exit 1; }
cat seen
python3 - <<'PYTHON'
import re
told, count = open("seen").read().splitlines()[:2]
assert told.startswith("told: Open / Suspect"), told
assert int(re.search(r"in 5 s: (\d+)", count)[1]) > 100, count
PYTHON
echo "as it was"
