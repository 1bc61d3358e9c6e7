package quoteway.interop.conformance;

import com.refinitiv.ema.access.AckMsg;
import com.refinitiv.ema.access.ComplexType;
import com.refinitiv.ema.access.ElementList;
import com.refinitiv.ema.access.EmaFactory;
import com.refinitiv.ema.access.FilterList;
import com.refinitiv.ema.access.GenericMsg;
import com.refinitiv.ema.access.Map;
import com.refinitiv.ema.access.MapEntry;
import com.refinitiv.ema.access.Msg;
import com.refinitiv.ema.access.OmmIProviderConfig;
import com.refinitiv.ema.access.OmmInvalidUsageException;
import com.refinitiv.ema.access.OmmProvider;
import com.refinitiv.ema.access.OmmProviderClient;
import com.refinitiv.ema.access.OmmProviderEvent;
import com.refinitiv.ema.access.OmmState;
import com.refinitiv.ema.access.PostMsg;
import com.refinitiv.ema.access.RefreshMsg;
import com.refinitiv.ema.access.ReqMsg;
import com.refinitiv.ema.access.StatusMsg;
import com.refinitiv.ema.access.UpdateMsg;
import com.refinitiv.ema.rdm.EmaRdm;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import quoteway.interop.peer.EmaStart;
import quoteway.interop.wire.Ema;
import quoteway.interop.wire.Message;

/**
 * An interactive provider of a scenario: EMA's, which leaves login and directory to its application. It also has the service {@link #marks},
 * with an item for each consumer, on which marks go down and up ({@link Marks}).
 */
final class Provider extends Actor implements OmmProviderClient, Marks.Source {
    private static final String NAME = "Scripted";

    private final OmmProvider provider;
    private final java.util.Map<Integer, FilterList> offered = new LinkedHashMap<>();
    private final ElementList features;
    /** Streams by the names of the script. */
    private final java.util.Map<String, Long> streams = new HashMap<>();
    /** The requests that opened them. */
    private final java.util.Map<Long, Message> requests = new HashMap<>();
    private Long login;
    private Long directory;
    /** The stream of each consumer's marks, and the last number that came up on it. */
    private final java.util.Map<String, Long> marked = new HashMap<>();
    private final java.util.Map<String, Long> up = new HashMap<>();

    Provider(String name, Chronicle lock, int port, int firstId, String names, Words words) {
        super(name, lock);
        for (String service : names.isEmpty() ? new String[0] : names.split(",")) {
            int next = firstId + 10 * services.size();
            offered.put(next, Directory.offer(service, words));
            services.put(next, service);
        }
        int id = 9_000 + firstId / 100;
        offered.put(id, Directory.offer(marks(), new Words(List.of())));
        services.put(id, marks());
        features = features(!words.flag("no-posts"), words.flag("pauses"));
        words.end();
        provider = start(port);
    }

    @Override
    public String marks() {
        return "~" + name;
    }

    private OmmProvider start(int port) {
        for (int tries = 1; ; tries++) {
            try {
                OmmIProviderConfig config = EmaFactory.createOmmIProviderConfig()
                        .config(config())
                        .port(Integer.toString(port))
                        .adminControlDirectory(OmmIProviderConfig.AdminControl.USER_CONTROL)
                        .adminControlDictionary(OmmIProviderConfig.AdminControl.USER_CONTROL);
                return EmaStart.exclusively(() -> EmaFactory.createOmmProvider(config, this));
            } catch (OmmInvalidUsageException e) {
                if (!e.toString().contains("Transport.bind") || tries > 500) {
                    throw e;
                }
                // The listener of the provider that was there before is not closed at once: see EmaProvider.
                LockSupport.parkNanos(20_000_000);
            }
        }
    }

    /** EMA refuses by itself a second stream with one key, as two private streams of an item are, unless it is told not to. */
    private static Map config() {
        ElementList one = EmaFactory.createElementList();
        one.add(EmaFactory.createElementEntry().ascii("Server", NAME));
        one.add(EmaFactory.createElementEntry().intValue("AcceptMessageSameKeyButDiffStream", 1));
        ElementList group = EmaFactory.createElementList();
        group.add(EmaFactory.createElementEntry().ascii("DefaultIProvider", NAME));
        group.add(EmaFactory.createElementEntry().map("IProviderList", entry(NAME, one)));
        ElementList server = EmaFactory.createElementList();
        server.add(EmaFactory.createElementEntry().enumValue("ServerType", 0));
        ElementList servers = EmaFactory.createElementList();
        servers.add(EmaFactory.createElementEntry().map("ServerList", entry(NAME, server)));
        Map all = entry("IProviderGroup", group);
        all.add(EmaFactory.createMapEntry().keyAscii("ServerGroup", MapEntry.MapAction.ADD, servers));
        return all;
    }

    private static Map entry(String key, ElementList value) {
        Map map = EmaFactory.createMap();
        map.add(EmaFactory.createMapEntry().keyAscii(key, MapEntry.MapAction.ADD, value));
        return map;
    }

    private static ElementList features(boolean posts, boolean pauses) {
        ElementList list = EmaFactory.createElementList();
        list.add(EmaFactory.createElementEntry().uintValue("SupportOMMPost", posts ? 1 : 0));
        if (pauses) {
            list.add(EmaFactory.createElementEntry().uintValue("SupportOptimizedPauseResume", 1));
        }
        return list;
    }

    /** Waits until the server has dialled it, and has had its directory. */
    void awaitServer() {
        await(() -> directory, () -> "the server did not ask for the directory");
    }

    @Override
    String line(Told told) {
        return streams.entrySet().stream()
                .filter(stream -> stream.getValue() == told.stream)
                .findFirst()
                .map(stream -> told.toString().replaceFirst(" " + told.stream, " " + stream.getKey()))
                .orElse(told.toString());
    }

    @Override
    Long stream(String stream) {
        return stream.equals("login") ? login : stream.equals("directory") ? directory : streams.get(stream);
    }

    @Override
    boolean opens(Told told, String stream, String knownAs) {
        boolean bound = streams.entrySet().stream().anyMatch(s -> s.getValue() == told.stream && s.getKey().equals(knownAs));
        return told.kind.equals("REQUEST") && !bound && stream.equals(told.item);
    }

    @Override
    void taken(Told told, String knownAs) {
        streams.put(knownAs, told.stream);
        if (told.kind.equals("CLOSE")) {
            streams.remove(knownAs);
        }
    }

    @Override
    void sends(String kind, String stream, List<String> said) {
        Words words = new Words(said);
        Long handle = stream(stream);
        if (handle == null) {
            throw new AssertionError(stream + " is not open at " + name);
        }
        Message request;
        synchronized (lock) {
            request = requests.get(handle);
        }
        switch (kind) {
            case "REFRESH" -> provider.submit(refresh(words, request), handle);
            case "UPDATE" -> provider.submit(update(words), handle);
            case "STATUS" -> provider.submit(status(words), handle);
            case "ACK" -> provider.submit(ack(words), handle);
            case "GENERIC" -> provider.submit(generic(words), handle);
            default -> throw new AssertionError("a provider sends no " + kind);
        }
    }

    /** What a provider says of a service. */
    void changes(String service, List<String> said) {
        int id = services.entrySet().stream().filter(s -> s.getValue().equals(service)).findFirst().orElseThrow().getKey();
        provider.submit(
                EmaFactory.createUpdateMsg()
                        .domainType(EmaRdm.MMT_DIRECTORY)
                        .filter(Directory.FILTERS)
                        .payload(Directory.change(id, service, new Words(said))),
                directory);
    }

    private static RefreshMsg refresh(Words words, Message request) {
        RefreshMsg refresh = EmaFactory.createRefreshMsg().domainType(words.domain());
        // As EMA's applications do, it says what it answers.
        if (request != null) {
            refresh.name(request.name).serviceId(request.serviceId);
        }
        refresh(refresh, words);
        words.end();
        return refresh;
    }

    /** The members of an image. EMA's setters of flags set but do not clear. */
    static void refresh(RefreshMsg refresh, Words words) {
        if (words.flag("solicited")) {
            refresh.solicited(true);
        }
        if (words.flag("complete")) {
            refresh.complete(true);
        }
        if (words.flag("clear-cache")) {
            refresh.clearCache(true);
        }
        if (words.flag("private")) {
            refresh.privateStream(true);
        }
        Words.State state = words.state();
        if (state == null) {
            refresh.state(OmmState.StreamState.OPEN, OmmState.DataState.OK, OmmState.StatusCode.NONE, words.text());
        } else {
            refresh.state(state.stream(), state.data(), state.code(), state.text());
        }
        List<Integer> group = words.numbers("group");
        if (group != null) {
            refresh.itemGroup(group(group));
        }
        int[] qos = words.qos("qos");
        if (qos != null) {
            refresh.qos(qos[0], qos[1]);
        }
        Integer seq = words.number("seq");
        if (seq != null) {
            refresh.seqNum(seq);
        }
        Integer part = words.number("part");
        if (part != null) {
            refresh.partNum(part);
        }
        ComplexType body = words.body();
        if (body != null) {
            refresh.payload(body);
        }
    }

    static UpdateMsg update(Words words) {
        UpdateMsg update = EmaFactory.createUpdateMsg().domainType(words.domain());
        String type = words.value("type");
        if (type != null) {
            update.updateTypeNum(Words.number(com.refinitiv.eta.rdm.UpdateEventTypes::toString, type));
        }
        if (words.flag("do-not-conflate")) {
            update.doNotConflate(true);
        }
        Integer seq = words.number("seq");
        if (seq != null) {
            update.seqNum(seq);
        }
        long[] user = words.userInfo();
        if (user != null) {
            update.publisherId(user[1], user[0]);
        }
        ComplexType body = words.body();
        if (body != null) {
            update.payload(body);
        }
        words.end();
        return update;
    }

    static StatusMsg status(Words words) {
        StatusMsg status = EmaFactory.createStatusMsg().domainType(words.domain());
        Words.State state = words.state();
        status.state(state.stream(), state.data(), state.code(), state.text());
        if (words.flag("private")) {
            status.privateStream(true);
        }
        List<Integer> group = words.numbers("group");
        if (group != null) {
            status.itemGroup(group(group));
        }
        String item = words.value("item");
        if (item != null) {
            status.name(item);
        }
        String service = words.value("service");
        if (service != null) {
            status.serviceName(service);
        }
        words.end();
        return status;
    }

    private static AckMsg ack(Words words) {
        AckMsg ack = EmaFactory.createAckMsg().domainType(words.domain()).ackId(words.number("id"));
        Integer seq = words.number("seq");
        if (seq != null) {
            ack.seqNum(seq);
        }
        String nak = words.value("nak");
        if (nak != null) {
            ack.nackCode(Words.number(com.refinitiv.eta.codec.NakCodes::toString, nak));
        }
        String text = words.text();
        if (!text.isEmpty()) {
            ack.text(text);
        }
        words.end();
        return ack;
    }

    static GenericMsg generic(Words words) {
        GenericMsg generic = EmaFactory.createGenericMsg().domainType(words.domain());
        if (words.flag("complete")) {
            generic.complete(true);
        }
        generic.payload(words.body());
        words.end();
        return generic;
    }

    private static ByteBuffer group(List<Integer> numbers) {
        ByteBuffer group = ByteBuffer.allocate(numbers.size());
        numbers.forEach(number -> group.put(number.byteValue()));
        return group.flip();
    }

    @Override
    public void marksDown(String consumer, int updateType, long number) {
        Long handle;
        synchronized (lock) {
            handle = marked.get(consumer);
        }
        provider.submit(Marks.update(updateType, number), handle);
    }

    @Override
    public void awaitMark(String consumer, long number) {
        await(() -> number == up.getOrDefault(consumer, 0L) ? this : null, () -> name + " waited for the mark of " + consumer);
    }

    @Override
    void goesAway() {
        provider.uninitialize();
    }

    @Override
    public void onReqMsg(ReqMsg req, OmmProviderEvent event) {
        heard(() -> request(req, event));
    }

    @Override
    public void onReissue(ReqMsg req, OmmProviderEvent event) {
        heard(() -> request(req, event));
    }

    private void request(ReqMsg req, OmmProviderEvent event) {
        long handle = event.handle();
        switch (req.domainType()) {
            case EmaRdm.MMT_LOGIN -> {
                login = handle;
                provider(event).submit(granted(req), handle);
            }
            case EmaRdm.MMT_DIRECTORY -> {
                provider(event).submit(answer(), handle);
                directory = handle;
            }
            default -> {
                Message message = Ema.message(req);
                requests.put(handle, message);
                if (marks().equals(services.get(message.serviceId))) {
                    marked.put(message.name, handle);
                    provider(event).submit(refresh(new Words(List.of("solicited", "complete", "clear-cache")), message), handle);
                    return;
                }
                comes(Told.of(req, handle, false, services));
            }
        }
    }

    /** Until its constructor has returned, EMA's object is known by its events alone. */
    private static OmmProvider provider(OmmProviderEvent event) {
        return event.provider();
    }

    private RefreshMsg granted(ReqMsg req) {
        return EmaFactory.createRefreshMsg()
                .domainType(EmaRdm.MMT_LOGIN)
                .name(req.name())
                .nameType(EmaRdm.USER_NAME)
                .solicited(true)
                .complete(true)
                .state(OmmState.StreamState.OPEN, OmmState.DataState.OK, OmmState.StatusCode.NONE, "granted")
                .attrib(features);
    }

    private RefreshMsg answer() {
        return EmaFactory.createRefreshMsg()
                .domainType(EmaRdm.MMT_DIRECTORY)
                .filter(Directory.FILTERS)
                .state(OmmState.StreamState.OPEN, OmmState.DataState.OK, OmmState.StatusCode.NONE, "")
                .solicited(true)
                .complete(true)
                .clearCache(true)
                .payload(Directory.offered(offered));
    }

    @Override
    public void onClose(ReqMsg req, OmmProviderEvent event) {
        heard(() -> {
            Message request = requests.remove(event.handle());
            if (marked.values().remove(event.handle()) || request == null) {
                return;
            }
            comes(Told.of(req, event.handle(), true, services));
        });
    }

    @Override
    public void onPostMsg(PostMsg msg, OmmProviderEvent event) {
        heard(() -> comes(Told.of(msg, event.handle(), false, services)));
    }

    @Override
    public void onGenericMsg(GenericMsg msg, OmmProviderEvent event) {
        heard(() -> {
            for (var mark : marked.entrySet()) {
                if (mark.getValue() == event.handle()) {
                    up.put(mark.getKey(), Marks.number(Ema.message(msg)));
                    return;
                }
            }
            Told told = Told.of(msg, event.handle(), false, services);
            (msg.domainType() == EmaRdm.MMT_DIRECTORY ? aside : inbox).add(told);
        });
    }

    @Override
    public void onRefreshMsg(RefreshMsg msg, OmmProviderEvent event) {}

    @Override
    public void onStatusMsg(StatusMsg msg, OmmProviderEvent event) {}

    @Override
    public void onAllMsg(Msg msg, OmmProviderEvent event) {}
}
