#!/usr/bin/env bash
# EMA Java 3.9.1: a consumer that takes its dictionaries from the provider (ChannelDictionary), and a provider that closes both streams because it has none.
#
# Guess: the provider's answer ends the wait: `createOmmConsumer` throws at once, with the state and the text that the provider sent; or the dictionaries are
# asked for again, as items are.
# Seen: the answer ends nothing. With Closed each dictionary is asked for once, a warning with the provider's text goes to the log, and the constructor blocks
# for the whole DictionaryRequestTimeOut nevertheless (six seconds here; 45 seconds where it is not set); with ClosedRecover each is asked for again as soon
# as the answer is there, more than a hundred times in the six seconds. Either way the exception in the end tells of a timeout and has no word of the state or
# of the text.
# Consequence: whoever sees "dictionary retrieval failed (timed out ...)" looks into the log and not at the network; a provider that lacks a dictionary
# counts on that wait, and leaves it out of the service's DictionariesProvided; a consumer that starts often has its dictionaries in files.
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
cat > EmaConfig.xml <<'CONFIG'
<?xml version="1.0" encoding="UTF-8"?>
<EmaConfig>
<ConsumerGroup><DefaultConsumer value="C"/><ConsumerList><Consumer><Name value="C"/><Dictionary value="D"/>
<DictionaryRequestTimeOut value="6000"/></Consumer></ConsumerList></ConsumerGroup>
<DictionaryGroup><DictionaryList><Dictionary><Name value="D"/><DictionaryType value="DictionaryType::ChannelDictionary"/></Dictionary></DictionaryList></DictionaryGroup>
</EmaConfig>
CONFIG
cat > Refused.java <<'JAVA'
import com.refinitiv.ema.access.*;
import com.refinitiv.ema.rdm.EmaRdm;
import java.net.ServerSocket;
import java.util.concurrent.ConcurrentLinkedQueue;

public class Refused implements OmmProviderClient {
    static final String TEXT = "no dictionary lives here";
    static final ConcurrentLinkedQueue<String> asked = new ConcurrentLinkedQueue<>();
    final int stream;

    Refused(int stream) {
        this.stream = stream;
    }

    @Override public void onReqMsg(ReqMsg req, OmmProviderEvent event) {
        OmmProvider provider = event.provider();
        if (req.domainType() == EmaRdm.MMT_LOGIN) {
            provider.submit(EmaFactory.createRefreshMsg().domainType(EmaRdm.MMT_LOGIN).name(req.name()).nameType(EmaRdm.USER_NAME).complete(true)
                    .solicited(true).state(OmmState.StreamState.OPEN, OmmState.DataState.OK, OmmState.StatusCode.NONE, "in")
                    .attrib(EmaFactory.createElementList()), event.handle());
        } else if (req.domainType() == EmaRdm.MMT_DIRECTORY) {
            provider.submit(EmaFactory.createRefreshMsg().domainType(EmaRdm.MMT_DIRECTORY).filter(EmaRdm.SERVICE_INFO_FILTER | EmaRdm.SERVICE_STATE_FILTER)
                    .clearCache(true).complete(true).solicited(true)
                    .state(OmmState.StreamState.OPEN, OmmState.DataState.OK, OmmState.StatusCode.NONE, "").payload(services()), event.handle());
        } else if (req.domainType() == EmaRdm.MMT_DICTIONARY) {
            asked.add(req.name());
            provider.submit(EmaFactory.createStatusMsg().domainType(EmaRdm.MMT_DICTIONARY).name(req.name()).serviceName("SERVICE")
                    .state(stream, OmmState.DataState.SUSPECT, OmmState.StatusCode.NOT_FOUND, TEXT), event.handle());
        }
    }

    static Map services() {
        OmmArray capabilities = EmaFactory.createOmmArray();
        capabilities.add(EmaFactory.createOmmArrayEntry().uintValue(EmaRdm.MMT_DICTIONARY));
        capabilities.add(EmaFactory.createOmmArrayEntry().uintValue(EmaRdm.MMT_MARKET_PRICE));
        ElementList info = EmaFactory.createElementList();
        info.add(EmaFactory.createElementEntry().ascii(EmaRdm.ENAME_NAME, "SERVICE"));
        info.add(EmaFactory.createElementEntry().array(EmaRdm.ENAME_CAPABILITIES, capabilities));
        info.add(EmaFactory.createElementEntry().array(EmaRdm.ENAME_DICTIONARYS_PROVIDED, dictionaries()));
        info.add(EmaFactory.createElementEntry().array(EmaRdm.ENAME_DICTIONARYS_USED, dictionaries()));
        ElementList state = EmaFactory.createElementList();
        state.add(EmaFactory.createElementEntry().uintValue(EmaRdm.ENAME_SVC_STATE, EmaRdm.SERVICE_UP));
        state.add(EmaFactory.createElementEntry().uintValue(EmaRdm.ENAME_ACCEPTING_REQS, 1));
        FilterList filters = EmaFactory.createFilterList();
        filters.add(EmaFactory.createFilterEntry().elementList(EmaRdm.SERVICE_INFO_ID, FilterEntry.FilterAction.SET, info));
        filters.add(EmaFactory.createFilterEntry().elementList(EmaRdm.SERVICE_STATE_ID, FilterEntry.FilterAction.SET, state));
        Map map = EmaFactory.createMap();
        map.add(EmaFactory.createMapEntry().keyUInt(1, MapEntry.MapAction.ADD, filters));
        return map;
    }

    static OmmArray dictionaries() {
        OmmArray names = EmaFactory.createOmmArray();
        names.add(EmaFactory.createOmmArrayEntry().ascii("RWFFld"));
        names.add(EmaFactory.createOmmArrayEntry().ascii("RWFEnum"));
        return names;
    }

    @Override public void onRefreshMsg(RefreshMsg m, OmmProviderEvent e) {}
    @Override public void onStatusMsg(StatusMsg m, OmmProviderEvent e) {}
    @Override public void onGenericMsg(GenericMsg m, OmmProviderEvent e) {}
    @Override public void onPostMsg(PostMsg m, OmmProviderEvent e) {}
    @Override public void onReissue(ReqMsg m, OmmProviderEvent e) {}
    @Override public void onClose(ReqMsg m, OmmProviderEvent e) {}
    @Override public void onAllMsg(Msg m, OmmProviderEvent e) {}

    public static void main(String[] a) throws Exception {
        int port;
        try (ServerSocket free = new ServerSocket(0)) { port = free.getLocalPort(); }
        int stream = a[0].equals("closed") ? OmmState.StreamState.CLOSED : OmmState.StreamState.CLOSED_RECOVER;
        EmaFactory.createOmmProvider(EmaFactory.createOmmIProviderConfig().port("" + port)
                .adminControlDirectory(OmmIProviderConfig.AdminControl.USER_CONTROL)
                .adminControlDictionary(OmmIProviderConfig.AdminControl.USER_CONTROL), new Refused(stream));
        long began = System.nanoTime();
        try {
            EmaFactory.createOmmConsumer(EmaFactory.createOmmConsumerConfig().host("localhost:" + port).username("user"));
            System.out.println("a consumer");
        } catch (OmmException error) {
            System.out.println((System.nanoTime() - began) / 1_000_000_000 + " s");
            System.out.println(error.getMessage().replaceAll("localhost:[0-9]+", "the provider"));
            System.out.println(asked.stream().filter("RWFFld"::equals).count() + " " + asked.stream().filter("RWFEnum"::equals).count());
        }
        System.exit(0);
    }
}
JAVA
for state in closed recover; do
    java -cp "$(cat classpath)" Refused.java $state > "seen-$state" 2> "log-$state" || { cat "log-$state"; exit 1; }
    echo "$state: $(paste -sd '|' "seen-$state")"
done
python3 - <<'PYTHON'
for state in ("closed", "recover"):
    took, message, asked = open(f"seen-{state}").read().splitlines()
    assert 6 <= int(took.removesuffix(" s")) < 30, took
    assert "dictionary retrieval failed (timed out after waiting 6000 milliseconds)" in message, message
    times = [int(count) for count in asked.split()]
    assert times == [1, 1] if state == "closed" else min(times) > 100, times
    assert "no dictionary lives here" not in message, message
    assert 'Closed' in (log := open(f"log-{state}").read()) and log.count("no dictionary lives here") >= 2, log
PYTHON
echo "as it was"
