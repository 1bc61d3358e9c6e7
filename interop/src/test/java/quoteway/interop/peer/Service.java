package quoteway.interop.peer;

import com.refinitiv.eta.codec.CodecFactory;
import com.refinitiv.eta.codec.Qos;
import com.refinitiv.eta.codec.QosRates;
import com.refinitiv.eta.codec.QosTimeliness;
import com.refinitiv.eta.rdm.DomainTypes;
import com.refinitiv.eta.valueadd.domainrep.rdm.directory.DirectoryMsgFactory;
import java.util.List;

/** A service as a provider of the tests advertises it. */
public record Service(
        String name, int id, List<Integer> domains, List<Qos> qos, boolean up, boolean accepting, List<String> dictionaries, Load load) {

    /** The load filter entry; -1 leaves a member out. */
    public record Load(long openLimit, long openWindow) {}

    /** Up, accepting, market data domains, real-time tick by tick, both dictionaries used. */
    public static Service of(String name, int id) {
        return new Service(
                name,
                id,
                List.of(DomainTypes.MARKET_PRICE, DomainTypes.MARKET_BY_ORDER, DomainTypes.MARKET_BY_PRICE, 200),
                List.of(qos(QosTimeliness.REALTIME, QosRates.TICK_BY_TICK)),
                true,
                true,
                List.of("RWFFld", "RWFEnum"),
                null);
    }

    public Service withState(boolean nowUp, boolean nowAccepting) {
        return new Service(name, id, domains, qos, nowUp, nowAccepting, dictionaries, load);
    }

    public Service withDomains(List<Integer> nowDomains) {
        return new Service(name, id, nowDomains, qos, up, accepting, dictionaries, load);
    }

    public Service withoutDictionaries() {
        return new Service(name, id, domains, qos, up, accepting, List.of(), load);
    }

    public Service withQos(List<Qos> nowQos) {
        return new Service(name, id, domains, nowQos, up, accepting, dictionaries, load);
    }

    public Service withLoad(long openLimit, long openWindow) {
        return new Service(name, id, domains, qos, up, accepting, dictionaries, new Load(openLimit, openWindow));
    }

    public static Qos qos(int timeliness, int rate) {
        Qos qos = CodecFactory.createQos();
        qos.timeliness(timeliness);
        qos.rate(rate);
        return qos;
    }

    /** The service with Info, State and (if it has one) Load, as ValueAdd encodes it. */
    com.refinitiv.eta.valueadd.domainrep.rdm.directory.Service entry(int action) {
        var entry = DirectoryMsgFactory.createService();
        entry.action(action);
        entry.serviceId(id);
        entry.applyHasInfo();
        entry.info().serviceName().data(name);
        entry.info().applyHasVendor();
        entry.info().vendor().data("interop");
        domains.forEach(d -> entry.info().capabilitiesList().add((long) d));
        entry.info().capabilitiesList().add((long) DomainTypes.DICTIONARY);
        entry.info().applyHasDictionariesUsed();
        entry.info().dictionariesUsedList().addAll(dictionaries);
        entry.info().applyHasQos();
        entry.info().qosList().addAll(qos);
        stateInto(entry);
        if (load != null) {
            entry.applyHasLoad();
            if (load.openLimit >= 0) {
                entry.load().applyHasOpenLimit();
                entry.load().openLimit(load.openLimit);
            }
            if (load.openWindow >= 0) {
                entry.load().applyHasOpenWindow();
                entry.load().openWindow(load.openWindow);
            }
        }
        return entry;
    }

    void stateInto(com.refinitiv.eta.valueadd.domainrep.rdm.directory.Service entry) {
        entry.applyHasState();
        entry.state().serviceState(up ? 1 : 0);
        entry.state().applyHasAcceptingRequests();
        entry.state().acceptingRequests(accepting ? 1 : 0);
    }
}
