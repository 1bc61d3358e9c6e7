package quoteway.interop.conformance;

import com.refinitiv.ema.access.ElementEntry;
import com.refinitiv.ema.access.ElementList;
import com.refinitiv.ema.access.EmaFactory;
import com.refinitiv.ema.access.FilterEntry;
import com.refinitiv.ema.access.FilterEntry.FilterAction;
import com.refinitiv.ema.access.FilterList;
import com.refinitiv.ema.access.Map;
import com.refinitiv.ema.access.MapEntry;
import com.refinitiv.ema.access.Msg;
import com.refinitiv.ema.access.OmmArray;
import com.refinitiv.ema.access.OmmQos;
import com.refinitiv.ema.rdm.EmaRdm;
import com.refinitiv.eta.codec.DataStates;
import com.refinitiv.eta.codec.StateCodes;
import com.refinitiv.eta.codec.StreamStates;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import quoteway.interop.wire.Ema;
import quoteway.interop.wire.Message;

/** The directory in scripts: the services of a provider, and what a consumer hears of services. */
final class Directory {
    private Directory() {}

    static final int FILTERS = EmaRdm.SERVICE_INFO_FILTER
            | EmaRdm.SERVICE_STATE_FILTER
            | EmaRdm.SERVICE_GROUP_FILTER
            | EmaRdm.SERVICE_LOAD_FILTER;
    /** The domains that a scripted provider has. */
    private static final int[] DOMAINS = {
        EmaRdm.MMT_MARKET_PRICE,
        EmaRdm.MMT_MARKET_BY_ORDER,
        EmaRdm.MMT_MARKET_BY_PRICE,
        EmaRdm.MMT_MARKET_MAKER,
        EmaRdm.MMT_SYMBOL_LIST,
        EmaRdm.MMT_HISTORY,
        EmaRdm.MMT_HEADLINE,
        200
    };

    /** A service as it is first offered. */
    static FilterList offer(String name, Words words) {
        OmmArray capabilities = EmaFactory.createOmmArray();
        for (int domain : DOMAINS) {
            capabilities.add(EmaFactory.createOmmArrayEntry().uintValue(domain));
        }
        OmmArray qualities = EmaFactory.createOmmArray();
        String qos = words.value("qos");
        for (String quality : (qos == null ? "Realtime/TickByTick" : qos).split(",")) {
            int[] parsed = Words.parseQos(quality);
            qualities.add(EmaFactory.createOmmArrayEntry().qos(parsed[0], parsed[1]));
        }
        ElementList info = EmaFactory.createElementList();
        info.add(element().ascii("Name", name));
        info.add(element().array("Capabilities", capabilities));
        info.add(element().array("QoS", qualities));
        String provides = words.value("provides");
        if (provides != null) {
            OmmArray dictionaries = EmaFactory.createOmmArray();
            List.of(provides.split(",")).forEach(dictionary -> dictionaries.add(EmaFactory.createOmmArrayEntry().ascii(dictionary)));
            info.add(element().array("DictionariesProvided", dictionaries));
        }
        if (words.flag("qos-range")) {
            info.add(element().uintValue("SupportsQoSRange", 1));
        }
        boolean up = !words.flag("down");
        FilterList filters = EmaFactory.createFilterList();
        filters.add(filter(EmaRdm.SERVICE_INFO_ID, FilterAction.SET, info));
        filters.add(filter(EmaRdm.SERVICE_STATE_ID, FilterAction.SET, state(up, up && !words.flag("not-accepting"), null)));
        ElementList load = load(words);
        if (load != null) {
            filters.add(filter(EmaRdm.SERVICE_LOAD_ID, FilterAction.SET, load));
        }
        return filters;
    }

    /** Services by their ids, as an answer to a request for the directory. */
    static Map offered(java.util.Map<Integer, FilterList> services) {
        Map map = EmaFactory.createMap();
        services.forEach((id, filters) -> map.add(EmaFactory.createMapEntry().keyUInt(id, MapEntry.MapAction.ADD, filters)));
        return map;
    }

    /** A change that a provider says of a service. */
    static Map change(int id, String name, Words words) {
        Map map = EmaFactory.createMap();
        if (words.flag("deleted")) {
            map.add(EmaFactory.createMapEntry().keyUInt(id, MapEntry.MapAction.DELETE, EmaFactory.createFilterList()));
        } else if (words.flag("added")) {
            map.add(EmaFactory.createMapEntry().keyUInt(id, MapEntry.MapAction.ADD, offer(name, words)));
        } else {
            FilterList filters = EmaFactory.createFilterList();
            filters.add(changed(words));
            map.add(EmaFactory.createMapEntry().keyUInt(id, MapEntry.MapAction.UPDATE, filters));
        }
        words.end();
        return map;
    }

    private static FilterEntry changed(Words words) {
        ElementEntry status = status(words.value("status"));
        Integer group = words.number("group");
        if (group != null) {
            ElementList said = EmaFactory.createElementList();
            said.add(element().buffer("Group", ByteBuffer.wrap(new byte[] {group.byteValue()})));
            Integer merged = words.number("merged");
            if (merged != null) {
                said.add(element().buffer("MergedToGroup", ByteBuffer.wrap(new byte[] {merged.byteValue()})));
            }
            if (status != null) {
                said.add(status);
            }
            return filter(EmaRdm.SERVICE_GROUP_ID, FilterAction.UPDATE, said);
        }
        ElementList load = load(words);
        if (load != null) {
            return filter(EmaRdm.SERVICE_LOAD_ID, FilterAction.UPDATE, load);
        }
        boolean up = words.flag("up");
        boolean down = words.flag("down");
        boolean closed = words.flag("not-accepting");
        return filter(EmaRdm.SERVICE_STATE_ID, FilterAction.UPDATE, state(up || !down, !down && !closed, status));
    }

    private static ElementList load(Words words) {
        ElementList load = EmaFactory.createElementList();
        boolean any = false;
        for (var member : java.util.Map.of("open-limit", "OpenLimit", "open-window", "OpenWindow", "load-factor", "LoadFactor").entrySet()) {
            Integer value = words.number(member.getKey());
            if (value != null) {
                load.add(element().uintValue(member.getValue(), value));
                any = true;
            }
        }
        return any ? load : null;
    }

    private static ElementList state(boolean up, boolean accepting, ElementEntry status) {
        ElementList state = EmaFactory.createElementList();
        state.add(element().uintValue("ServiceState", up ? 1 : 0));
        state.add(element().uintValue("AcceptingRequests", accepting ? 1 : 0));
        if (status != null) {
            state.add(status);
        }
        return state;
    }

    private static ElementEntry status(String status) {
        if (status == null) {
            return null;
        }
        int stream = status.equals("ClosedRecover") ? StreamStates.CLOSED_RECOVER : StreamStates.OPEN;
        int data = status.equals("Ok") ? DataStates.OK : DataStates.SUSPECT;
        return element().state("Status", stream, data, StateCodes.NONE, "by the script");
    }

    private static ElementEntry element() {
        return EmaFactory.createElementEntry();
    }

    private static FilterEntry filter(int id, int action, ElementList content) {
        return EmaFactory.createFilterEntry().elementList(id, action, content);
    }

    /** What a message says of services: the words of each by its name. {@code names} learns the names of ids, and is asked for them. */
    static List<java.util.Map.Entry<String, List<String>>> told(Msg msg, java.util.Map<Integer, String> names) {
        var all = new ArrayList<java.util.Map.Entry<String, List<String>>>();
        if (Ema.message(msg).payload instanceof Message.Tree services) {
            for (Message.Entry service : services.entries()) {
                int id = ((Long) service.id()).intValue();
                var filters = new LinkedHashMap<Integer, List<Message.Tree>>();
                if (service.value() instanceof Message.Tree tree) {
                    for (Message.Entry filter : tree.entries()) {
                        if (filter.value() instanceof Message.Tree content) {
                            filters.computeIfAbsent((Integer) filter.id(), i -> new ArrayList<>()).add(content);
                        }
                    }
                }
                for (Message.Tree info : filters.getOrDefault(EmaRdm.SERVICE_INFO_ID, List.of())) {
                    if (info.get("Name") instanceof String name) {
                        names.put(id, name);
                    }
                }
                all.add(java.util.Map.entry(names.getOrDefault(id, "#" + id), words(service.action(), filters)));
            }
        }
        return all;
    }

    private static List<String> words(int action, java.util.Map<Integer, List<Message.Tree>> filters) {
        var words = new ArrayList<String>();
        words.add(action == MapEntry.MapAction.ADD ? "added" : action == MapEntry.MapAction.DELETE ? "deleted" : "changed");
        for (Message.Tree info : filters.getOrDefault(EmaRdm.SERVICE_INFO_ID, List.of())) {
            if (info.get("QoS") instanceof List<?> qualities) {
                qualities.forEach(qos -> words.add("qos=" + quality(qos.toString())));
            }
        }
        for (Message.Tree state : filters.getOrDefault(EmaRdm.SERVICE_STATE_ID, List.of())) {
            words.add(Long.valueOf(1).equals(state.get("ServiceState")) ? "up" : "down");
            words.add(Long.valueOf(0).equals(state.get("AcceptingRequests")) ? "not-accepting" : "accepting");
            status(state, words);
        }
        for (Message.Tree group : filters.getOrDefault(EmaRdm.SERVICE_GROUP_ID, List.of())) {
            var numbers = new ArrayList<String>();
            for (byte b : HexFormat.of().parseHex((String) group.get("Group"))) {
                numbers.add(Integer.toString(b & 255));
            }
            words.add("group=" + String.join(",", numbers));
            status(group, words);
        }
        return words;
    }

    private static void status(Message.Tree of, List<String> words) {
        if (of.get("Status") instanceof Message.State state) {
            words.add("status=" + Words.camel(DataStates.toString(state.data())));
        }
    }

    /** A quality as {@link OmmQos} writes it, in the words of the scripts. */
    private static String quality(String text) {
        String[] parts = text.split("/");
        int timeliness = parts[0].startsWith("Timeliness: ") ? Integer.parseInt(parts[0].substring("Timeliness: ".length())) : 0;
        int rate = parts[1].startsWith("Rate: ") ? Integer.parseInt(parts[1].substring("Rate: ".length())) : 0;
        return Words.qosWord(timeliness, rate);
    }
}
