package quoteway.interop.conformance;

import com.refinitiv.ema.access.AckMsg;
import com.refinitiv.ema.access.ElementList;
import com.refinitiv.ema.access.EmaFactory;
import com.refinitiv.ema.access.GenericMsg;
import com.refinitiv.ema.access.MapEntry;
import com.refinitiv.ema.access.Msg;
import com.refinitiv.ema.access.OmmArray;
import com.refinitiv.ema.access.OmmConsumer;
import com.refinitiv.ema.access.OmmConsumerClient;
import com.refinitiv.ema.access.OmmConsumerConfig;
import com.refinitiv.ema.access.OmmConsumerEvent;
import com.refinitiv.ema.access.OmmInvalidUsageException;
import com.refinitiv.ema.access.PostMsg;
import com.refinitiv.ema.access.RefreshMsg;
import com.refinitiv.ema.access.ReqMsg;
import com.refinitiv.ema.access.StatusMsg;
import com.refinitiv.ema.access.UpdateMsg;
import com.refinitiv.ema.rdm.EmaRdm;
import com.refinitiv.eta.codec.DataStates;
import com.refinitiv.eta.codec.StreamStates;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import quoteway.interop.peer.Dictionaries;
import quoteway.interop.peer.EmaStart;
import quoteway.interop.wire.Ema;

/** A consumer of a scenario: EMA's, which logs in and asks for the directory by itself, for all of it. */
final class Consumer extends Actor {
    /** Of what comes on the login. */
    private static final long LOGIN = 1;

    private final int port;
    /** The name of its items at the providers of marks, of which one may be there for several scenarios. */
    final String mark;
    private OmmConsumer consumer;
    private Stream login;
    private long directoryHandle;
    /** It has paused its login, or told the server to stand by. */
    private boolean paused;
    /** Streams of items by their numbers in the script. */
    private final Map<Long, Stream> streams = new HashMap<>();
    /** What was heard of services: names with words. */
    private final List<Map.Entry<String, List<String>>> directory = new ArrayList<>();
    /** A type of updates that its login does not leave out. */
    private int markType;

    /** The streams of marks by service, and services that are there. */
    private final Map<String, Mark> marks = new HashMap<>();

    Consumer(String name, Chronicle lock, int port) {
        super(name, lock);
        this.port = port;
        mark = name + "@" + port;
    }

    /** Whether it has come so far that it can have items. */
    boolean isLoggedIn() {
        return consumer != null;
    }

    /** EMA connects, logs in and asks for the directory, all in its constructor. What it says when it is refused is a status of the login. */
    void logsIn(Words words) {
        ElementList attributes = EmaFactory.createElementList();
        for (var attribute : Map.of("single-open", "SingleOpen", "allow-suspect", "AllowSuspectData").entrySet()) {
            Integer value = words.number(attribute.getKey());
            if (value != null) {
                attributes.add(EmaFactory.createElementEntry().uintValue(attribute.getValue(), value));
            }
        }
        ReqMsg request = EmaFactory.createReqMsg()
                .domainType(EmaRdm.MMT_LOGIN)
                .name(user(words))
                .nameType(EmaRdm.USER_NAME)
                .attrib(attributes);
        words.value("directory"); // EMA has all of it.
        Integer types = words.number("update-types");
        Integer noTypes = words.number("no-update-types");
        words.end();
        OmmConsumerConfig config = EmaFactory.createOmmConsumerConfig()
                .host("localhost:" + port)
                .addAdminMsg(request)
                .dataDictionary(Dictionaries.full(), false);
        if (types != null) {
            config.updateTypeFilter(types);
            markType = Integer.numberOfTrailingZeros(types);
        }
        if (noTypes != null) {
            config.negativeUpdateTypeFilter(noTypes);
            markType = Integer.numberOfTrailingZeros(~noTypes);
        }
        var admin = new Stream(LOGIN);
        try {
            consumer = EmaStart.exclusively(() -> EmaFactory.createOmmConsumer(config, admin));
        } catch (OmmInvalidUsageException e) {
            if (!hasNews()) {
                throw e;
            }
            return;
        }
        synchronized (lock) {
            admin.isDone = true;
            inbox.clear();
        }
        login = new Stream(LOGIN);
        login.handle = consumer.registerClient(EmaFactory.createReqMsg().domainType(EmaRdm.MMT_LOGIN), login);
        directoryHandle = consumer.registerClient(EmaFactory.createReqMsg().domainType(EmaRdm.MMT_DIRECTORY), new Stream(0));
    }

    /** The type of the updates that are its marks. */
    int markType() {
        return markType;
    }

    private static String user(Words words) {
        String user = words.value("user");
        return user == null ? "user" : user;
    }

    @Override
    String line(Told told) {
        return told.stream == LOGIN ? told.toString().replaceFirst(" 1", " login") : told.toString();
    }

    @Override
    Long stream(String stream) {
        return stream.equals("login") ? LOGIN : Long.parseLong(stream);
    }

    @Override
    void sends(String kind, String stream, List<String> said) {
        Words words = new Words(said);
        Stream known = stream.equals("login") ? login : stream(Long.parseLong(stream));
        switch (kind) {
            case "REQUEST" -> {
                if (known == login) {
                    consumer.reissue(loginRequest(words), login.handle);
                } else if (known == null) {
                    open(Long.parseLong(stream), words);
                } else {
                    consumer.reissue(request(words), known.handle);
                }
            }
            case "CLOSE" -> {
                List<Integer> several = words.numbers("streams");
                words.end();
                if (several != null) {
                    several.forEach(one -> sends(kind, one.toString(), List.of()));
                } else if (known == login) {
                    goesAway(); // So an application of EMA ends its login.
                } else {
                    consumer.unregister(known.handle);
                    synchronized (lock) {
                        streams.remove(known.number);
                    }
                }
            }
            case "POST" -> consumer.submit(post(words), known.handle);
            case "GENERIC" -> consumer.submit(Provider.generic(words), known.handle);
            default -> throw new AssertionError("a consumer sends no " + kind);
        }
    }

    /** It says what this server is to it, {@code active} or {@code standby}, for all services ({@code login}) or for one. */
    void standby(String of, String part) {
        ElementList mode = EmaFactory.createElementList();
        mode.add(EmaFactory.createElementEntry().uintValue("WarmStandbyMode", part.equals("standby") ? 1 : 0));
        com.refinitiv.ema.access.Map map = EmaFactory.createMap();
        if (of.equals("login")) {
            // A server that stands by sends no updates, marks neither.
            paused = part.equals("standby");
            map.add(EmaFactory.createMapEntry().keyAscii("WarmStandbyInfo", MapEntry.MapAction.ADD, mode));
            GenericMsg generic = EmaFactory.createGenericMsg().domainType(EmaRdm.MMT_LOGIN).name("ConsumerConnectionStatus").payload(map);
            consumer.submit(generic, login.handle);
        } else {
            int id = services.entrySet().stream().filter(s -> s.getValue().equals(of)).findFirst().orElseThrow().getKey();
            map.add(EmaFactory.createMapEntry().keyUInt(id, MapEntry.MapAction.ADD, mode));
            GenericMsg generic = EmaFactory.createGenericMsg().domainType(EmaRdm.MMT_DIRECTORY).name("ConsumerStatus").payload(map);
            consumer.submit(generic, directoryHandle);
        }
    }

    private Stream stream(long number) {
        synchronized (lock) {
            return streams.get(number);
        }
    }

    private void open(long number, Words words) {
        var stream = new Stream(number);
        String batch = words.value("batch");
        stream.names = batch == null ? null : List.of(batch.split(","));
        ReqMsg request = request(words);
        synchronized (lock) {
            streams.put(number, stream);
        }
        stream.handle = consumer.registerClient(request, stream);
    }

    /** It gets no updates now, marks neither. What comes to it is seen when more comes behind that. */
    boolean isPaused() {
        return paused;
    }

    private ReqMsg loginRequest(Words words) {
        ReqMsg request = EmaFactory.createReqMsg().domainType(EmaRdm.MMT_LOGIN).name(user(words)).nameType(EmaRdm.USER_NAME);
        paused = words.flag("pause");
        request.pause(paused);
        request.initialImage(!words.flag("no-refresh"));
        words.end();
        return request;
    }

    private static ReqMsg request(Words words) {
        ReqMsg request = EmaFactory.createReqMsg().domainType(words.domain());
        String item = words.value("item");
        if (item != null) {
            request.name(item);
        }
        String service = words.value("service");
        if (service != null && service.startsWith("#")) {
            request.serviceId(Integer.parseInt(service.substring(1)));
        } else if (service != null) {
            request.serviceName(service);
        }
        request.interestAfterRefresh(!words.flag("snapshot"));
        request.initialImage(!words.flag("no-refresh"));
        request.pause(words.flag("pause"));
        request.privateStream(words.flag("private"));
        String priority = words.value("priority");
        if (priority != null) {
            request.priority(Integer.parseInt(priority.split("/")[0]), Integer.parseInt(priority.split("/")[1]));
        }
        int[] qos = words.qos("qos");
        if (qos != null) {
            request.qos(qos[0], qos[1]);
        }
        ElementList payload = EmaFactory.createElementList();
        boolean has = false;
        String batch = words.value("batch");
        if (batch != null) {
            OmmArray names = EmaFactory.createOmmArray();
            List.of(batch.split(",")).forEach(name -> names.add(EmaFactory.createOmmArrayEntry().ascii(name)));
            payload.add(EmaFactory.createElementEntry().array(":ItemList", names));
            has = true;
        }
        List<Integer> view = words.numbers("view");
        if (view != null) {
            Ema.view(view).forEach(payload::add);
            has = true;
        }
        Integer streams = words.number("data-streams");
        if (streams != null) {
            ElementList behaviours = EmaFactory.createElementList();
            behaviours.add(EmaFactory.createElementEntry().uintValue(":DataStreams", streams));
            payload.add(EmaFactory.createElementEntry().elementList(":SymbolListBehaviors", behaviours));
            has = true;
        }
        words.end();
        return has ? request.payload(payload) : request;
    }

    private static PostMsg post(Words words) {
        PostMsg post = EmaFactory.createPostMsg().domainType(words.domain());
        if (words.flag("ack")) {
            post.solicitAck(true);
        }
        if (words.flag("complete")) {
            post.complete(true);
        }
        Integer id = words.number("id");
        if (id != null) {
            post.postId(id);
        }
        Integer part = words.number("part");
        if (part != null) {
            // EMA wants a sequence number with it.
            post.partNum(part).seqNum(1);
        }
        Integer seq = words.number("seq");
        if (seq != null) {
            post.seqNum(seq);
        }
        String item = words.value("item");
        if (item != null) {
            post.name(item);
        }
        String service = words.value("service");
        if (service != null) {
            post.serviceName(service);
        }
        post.payload(words.body());
        words.end();
        return post;
    }

    /** What the directory has said of a service, with these words. What came before it is past. */
    void getsDirectory(String service, List<String> words) {
        await(() -> {
            for (int i = 0; i < directory.size(); i++) {
                List<String> told = directory.get(i).getValue();
                boolean fits = words.stream()
                        .allMatch(w -> w.startsWith("!") ? !told.contains(w.substring(1)) : told.stream().anyMatch(t -> Words.fits(t, w)));
                if (directory.get(i).getKey().equals(service) && fits) {
                    directory.subList(0, i + 1).clear();
                    return this;
                }
            }
            return null;
        }, () -> "of " + service + ": " + directory.stream().filter(s -> s.getKey().equals(service)).toList());
    }

    /** Opens the stream of a provider's marks, if it is not open, and waits for it. */
    void awaitMarks(Marks.Source provider) {
        Mark of;
        synchronized (lock) {
            of = marks.computeIfAbsent(provider.marks(), service -> new Mark());
        }
        await(() -> of.serviceUp ? of : null, () -> name + " has not heard of the service " + provider.marks());
        while (!of.isOk) {
            boolean open;
            synchronized (lock) {
                open = of.stream != null && of.stream.isOpen;
            }
            if (!open) {
                var stream = new Stream(0);
                synchronized (lock) {
                    of.stream = stream;
                    stream.mark = of;
                }
                stream.handle = consumer.registerClient(EmaFactory.createReqMsg().serviceName(provider.marks()).name(mark), stream);
            }
            // What is not published yet is refused, and asked for again.
            await(() -> of.isOk || !of.stream.isOpen ? of : null, () -> name + " has no stream for the marks of " + provider.marks());
        }
    }

    /** The provider of these marks has gone. */
    void forgets(Marks.Source provider) {
        synchronized (lock) {
            Mark of = marks.get(provider.marks());
            if (of != null) {
                of.serviceUp = false;
                of.isOk = false;
            }
        }
    }

    void marksUp(Marks.Source provider, long number) {
        GenericMsg generic = EmaFactory.createGenericMsg().domainType(EmaRdm.MMT_MARKET_PRICE).payload(Marks.body(number));
        generic.complete(true);
        consumer.submit(generic, marks.get(provider.marks()).stream.handle);
    }

    void awaitMark(Marks.Source provider, long number) {
        Mark of = marks.get(provider.marks());
        await(() -> of.number == number ? of : null, () -> name + " waited for the mark of " + provider.marks());
    }

    @Override
    void goesAway() {
        if (consumer == null) {
            return;
        }
        synchronized (lock) {
            // EMA says of each stream that it ends.
            streams.values().forEach(stream -> stream.isDone = true);
            login.isDone = true;
        }
        consumer.uninitialize();
        consumer = null;
    }

    /** The stream on which a provider's marks come. */
    private static final class Mark {
        private boolean serviceUp;
        private boolean isOk;
        private Stream stream;
        private long number;
    }

    /** A stream: EMA tells it what comes. */
    private final class Stream implements OmmConsumerClient {
        private final long number;
        private long handle;
        /** What it hears is for nobody any more. */
        private boolean isDone;
        private boolean isOpen = true;
        /** What a batch asks for. */
        private List<String> names;
        /** The streams that came of it: of a batch by EMA's handles, of a list by their numbers. */
        private final Map<Long, Stream> children = new HashMap<>();
        private Mark mark;

        private Stream(long number) {
            this.number = number;
        }

        private void hears(Msg msg, OmmConsumerEvent event, int streamState) {
            heard(() -> {
                if (isDone) {
                    return;
                } else if (mark != null) {
                    marked(msg);
                } else if (msg.domainType() == EmaRdm.MMT_DIRECTORY) {
                    learn(msg);
                } else {
                    Stream of = child(msg, event);
                    comes(Told.of(msg, of.number, false, services));
                    if (streamState != StreamStates.OPEN && streams.get(of.number) == of) {
                        streams.remove(of.number);
                    }
                }
                isOpen &= streamState == StreamStates.OPEN;
            });
        }

        /** The stream that a message is for: this one, or one that came of it. */
        private Stream child(Msg msg, OmmConsumerEvent event) {
            // What a list opens has streams below zero, and the handle of the list. A watchlist that was another consumer's before does not begin
            // at -1: here they are numbered as they come.
            if (msg.streamId() < 0) {
                return children.computeIfAbsent((long) msg.streamId(), id -> new Stream(-1 - children.size()));
            }
            if (names == null || !msg.hasMsgKey() || !msg.hasName() || !names.contains(msg.name())) {
                return this;
            }
            return children.computeIfAbsent(event.handle(), id -> {
                var child = new Stream(number + 1 + names.indexOf(msg.name()));
                child.handle = id;
                streams.put(child.number, child);
                return child;
            });
        }

        private void marked(Msg msg) {
            if (msg instanceof RefreshMsg refresh) {
                mark.isOk = refresh.state().dataState() == DataStates.OK;
                lock.note(name, "REFRESH of marks " + refresh.state());
            } else if (msg instanceof StatusMsg status && status.hasState()) {
                mark.isOk = status.state().streamState() == StreamStates.OPEN && status.state().dataState() == DataStates.OK;
                lock.note(name, "STATUS of marks " + status.state());
            } else if (msg instanceof UpdateMsg) {
                mark.number = Marks.number(Ema.message(msg));
            }
        }

        private void learn(Msg msg) {
            for (var told : Directory.told(msg, services)) {
                directory.add(told);
                lock.note(name, "DIRECTORY " + told.getKey() + " " + String.join(" ", told.getValue()));
                if (told.getKey().startsWith("~")) {
                    Mark of = marks.computeIfAbsent(told.getKey(), service -> new Mark());
                    of.serviceUp = told.getValue().contains("up") || of.serviceUp && !told.getValue().contains("down");
                    of.serviceUp &= !told.getValue().contains("deleted");
                }
            }
        }

        @Override
        public void onRefreshMsg(RefreshMsg msg, OmmConsumerEvent event) {
            hears(msg, event, msg.state().streamState());
        }

        @Override
        public void onUpdateMsg(UpdateMsg msg, OmmConsumerEvent event) {
            hears(msg, event, StreamStates.OPEN);
        }

        @Override
        public void onStatusMsg(StatusMsg msg, OmmConsumerEvent event) {
            hears(msg, event, msg.hasState() ? msg.state().streamState() : StreamStates.OPEN);
        }

        @Override
        public void onGenericMsg(GenericMsg msg, OmmConsumerEvent event) {
            hears(msg, event, StreamStates.OPEN);
        }

        @Override
        public void onAckMsg(AckMsg msg, OmmConsumerEvent event) {
            hears(msg, event, StreamStates.OPEN);
        }

        @Override
        public void onAllMsg(Msg msg, OmmConsumerEvent event) {
            // Each message comes here, too, before its own method.
        }
    }
}
