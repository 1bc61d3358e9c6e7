package quoteway.interop.peer;

import com.refinitiv.ema.access.ComplexType;
import com.refinitiv.ema.access.ElementList;
import com.refinitiv.ema.access.EmaFactory;
import com.refinitiv.ema.access.FilterEntry;
import com.refinitiv.ema.access.FilterList;
import com.refinitiv.ema.access.GenericMsg;
import com.refinitiv.ema.access.Map;
import com.refinitiv.ema.access.MapEntry;
import com.refinitiv.ema.access.Msg;
import com.refinitiv.ema.access.OmmArray;
import com.refinitiv.ema.access.OmmIProviderConfig;
import com.refinitiv.ema.access.OmmInvalidUsageException;
import com.refinitiv.ema.access.OmmProvider;
import com.refinitiv.ema.access.OmmProviderClient;
import com.refinitiv.ema.access.OmmProviderEvent;
import com.refinitiv.ema.access.OmmState;
import com.refinitiv.ema.access.PackedMsg;
import com.refinitiv.ema.access.PostMsg;
import com.refinitiv.ema.access.RefreshMsg;
import com.refinitiv.ema.access.ReqMsg;
import com.refinitiv.ema.access.Series;
import com.refinitiv.ema.access.StatusMsg;
import com.refinitiv.ema.access.UpdateMsg;
import com.refinitiv.ema.rdm.DataDictionary;
import com.refinitiv.ema.rdm.EmaRdm;
import com.refinitiv.eta.codec.Qos;
import com.refinitiv.eta.valueadd.reactor.ReactorReturnCodes;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import quoteway.interop.wire.Body;
import quoteway.interop.wire.Ema;
import quoteway.interop.wire.Inbox;
import quoteway.interop.wire.Message;
import quoteway.interop.wire.Quotes;

/**
 * An EMA interactive provider: a port, and the application answers everything itself. What it does with an item request is the test's choice
 * ({@link #onOpen}), an image of {@link Quotes} by default. All item traffic is kept in {@link #inbox}.
 */
public final class EmaProvider implements OmmProviderClient, AutoCloseable {
    /** A request, close, post or generic message, with the stream's handle at this provider. */
    public record Incoming(long handle, Message message, boolean reissue, boolean close) {
        @Override
        public String toString() {
            return (close ? "CLOSE " : reissue ? "REISSUE " : "") + message;
        }
    }

    private final String name;
    private final int port;
    private final java.util.Map<Integer, Service> services = new LinkedHashMap<>();
    private final List<Long> directories = new CopyOnWriteArrayList<>();
    private final Inbox<Incoming> inbox;
    private final Inbox<Incoming> logins;
    private volatile Consumer<Item> onOpen = item -> item.refresh(Quotes.image(item.name(), 0));
    private volatile OmmProvider provider;
    /** What went wrong last on EMA's thread, in words: EMA uses its exceptions again, with another text. */
    private volatile String failure = "";
    /** The client that logged in last. */
    private volatile long clientHandle;
    /** It has run before, so that its port may take a moment to be free again. */
    private boolean again;
    private Consumer<OmmIProviderConfig> adjust = c -> {};
    private volatile boolean keepsTraffic = true;
    private Path configuration;

    public EmaProvider(String name, int port, Service... offered) {
        this.name = name;
        this.port = port;
        inbox = new Inbox<>(name);
        logins = new Inbox<>(name + " logins");
        for (Service service : offered) {
            services.put(service.id(), service);
        }
    }

    public int port() {
        return port;
    }

    public Inbox<Incoming> inbox() {
        return inbox;
    }

    public Inbox<Incoming> logins() {
        return logins;
    }

    /** What to do when an item is opened or asked for again, on EMA's thread. */
    public EmaProvider onOpen(Consumer<Item> behaviour) {
        onOpen = behaviour;
        return this;
    }

    /** What went wrong last, in words; empty for nothing. */
    public String failure() {
        return failure;
    }

    /** Item requests are answered and not kept: what an application does that is measured. */
    public EmaProvider keepingNothing() {
        keepsTraffic = false;
        return this;
    }

    /** Changes the configuration before the start. */
    public EmaProvider configure(Consumer<OmmIProviderConfig> change) {
        adjust = change;
        return this;
    }

    /** Takes its configuration from a file, such as EmaConfig.xml, before {@link #configure} changes it. */
    public EmaProvider configuredBy(Path file) {
        configuration = file;
        return this;
    }

    /** Starts to listen; may be called again after {@link #close}, with the same port. */
    public EmaProvider start() {
        OmmIProviderConfig config = (configuration == null
                        ? EmaFactory.createOmmIProviderConfig()
                        : EmaFactory.createOmmIProviderConfig(configuration.toString()))
                .port(Integer.toString(port))
                .adminControlDirectory(OmmIProviderConfig.AdminControl.USER_CONTROL)
                .adminControlDictionary(OmmIProviderConfig.AdminControl.USER_CONTROL);
        adjust.accept(config);
        for (int tries = 1; ; tries++) {
            try {
                provider = EmaStart.exclusively(() -> EmaFactory.createOmmProvider(config, this));
                break;
            } catch (OmmInvalidUsageException e) {
                if (!e.toString().contains("Transport.bind")) {
                    throw e;
                }
                if (!again || tries > 500) {
                    throw new Ports.Taken(name + " cannot bind port " + port + ": " + e);
                }
                // EMA's old listener is not closed at once: its channel is registered with a selector that nobody asks any more.
                LockSupport.parkNanos(20_000_000);
            }
        }
        again = true;
        return this;
    }

    /** Replaces what is advertised from the next start on. */
    public EmaProvider offer(Service... offered) {
        services.clear();
        for (Service service : offered) {
            services.put(service.id(), service);
        }
        return this;
    }

    @Override
    public void close() {
        if (provider != null) {
            provider.uninitialize();
            provider = null;
            directories.clear();
        }
    }

    /** The next request that opens an item of that name; others stay. */
    public Item awaitOpen(String item) {
        Incoming request = inbox.next(i -> opens(i, item), "request for " + item);
        if (!failure.isEmpty()) {
            throw new AssertionError(name + " " + failure);
        }
        return new Item(request.handle, request.message);
    }

    private static boolean opens(Incoming i, String item) {
        return i.message.kind == Message.Kind.REQUEST && !i.reissue && !i.close && item.equals(i.message.name);
    }

    public Incoming awaitClose(String item) {
        return inbox.next(i -> i.close && item.equals(i.message.name), "close of " + item);
    }

    public Incoming awaitReissue(String item) {
        return inbox.next(i -> i.reissue && item.equals(i.message.name), "reissue of " + item);
    }

    @Override
    public void onReqMsg(ReqMsg req, OmmProviderEvent event) {
        guarded(() -> request(req, event, false));
    }

    @Override
    public void onReissue(ReqMsg req, OmmProviderEvent event) {
        guarded(() -> request(req, event, true));
    }

    @Override
    public void onClose(ReqMsg req, OmmProviderEvent event) {
        if (req.domainType() != EmaRdm.MMT_LOGIN && req.domainType() != EmaRdm.MMT_DIRECTORY && req.domainType() != EmaRdm.MMT_DICTIONARY) {
            inbox.put(new Incoming(event.handle(), Ema.message(req), false, true));
        }
    }

    @Override
    public void onPostMsg(PostMsg msg, OmmProviderEvent event) {
        guarded(() -> inbox.put(new Incoming(event.handle(), Ema.message(msg), false, false)));
    }

    @Override
    public void onGenericMsg(GenericMsg msg, OmmProviderEvent event) {
        guarded(() -> inbox.put(new Incoming(event.handle(), Ema.message(msg), false, false)));
    }

    @Override
    public void onRefreshMsg(RefreshMsg msg, OmmProviderEvent event) {}

    @Override
    public void onStatusMsg(StatusMsg msg, OmmProviderEvent event) {}

    @Override
    public void onAllMsg(Msg msg, OmmProviderEvent event) {}

    private void guarded(Runnable action) {
        try {
            action.run();
        } catch (RuntimeException | AssertionError e) {
            failure = "failed: " + e;
            inbox.end(failure);
        }
    }

    private void request(ReqMsg req, OmmProviderEvent event, boolean reissue) {
        switch (req.domainType()) {
            case EmaRdm.MMT_LOGIN -> {
                clientHandle = event.clientHandle();
                logins.put(new Incoming(event.handle(), Ema.message(req), reissue, false));
                login(event, req);
            }
            case EmaRdm.MMT_DIRECTORY -> {
                directories.add(event.handle());
                event.provider()
                        .submit(
                                EmaFactory.createRefreshMsg()
                                        .domainType(EmaRdm.MMT_DIRECTORY)
                                        .filter(EmaRdm.SERVICE_INFO_FILTER | EmaRdm.SERVICE_STATE_FILTER | EmaRdm.SERVICE_LOAD_FILTER)
                                        .state(OmmState.StreamState.OPEN, OmmState.DataState.OK, OmmState.StatusCode.NONE, "")
                                        .solicited(true)
                                        .complete(true)
                                        .clearCache(true)
                                        .payload(directory(services.values())),
                                event.handle());
            }
            case EmaRdm.MMT_DICTIONARY -> dictionary(req, event);
            default -> {
                Message m = Ema.message(req);
                if (keepsTraffic) {
                    inbox.put(new Incoming(event.handle(), m, reissue, false));
                }
                if (!m.noRefresh) {
                    onOpen.accept(new Item(event.handle(), m));
                }
            }
        }
    }

    private void login(OmmProviderEvent event, ReqMsg req) {
        ElementList attributes = EmaFactory.createElementList();
        attributes.add(EmaFactory.createElementEntry().ascii("ApplicationName", name));
        attributes.add(EmaFactory.createElementEntry().uintValue("SingleOpen", 1));
        attributes.add(EmaFactory.createElementEntry().uintValue("AllowSuspectData", 1));
        attributes.add(EmaFactory.createElementEntry().uintValue("SupportViewRequests", 1));
        attributes.add(EmaFactory.createElementEntry().uintValue("SupportOMMPost", 1));
        event.provider()
                .submit(
                        EmaFactory.createRefreshMsg()
                                .domainType(EmaRdm.MMT_LOGIN)
                                .name(req.name())
                                .nameType(EmaRdm.USER_NAME)
                                .solicited(true)
                                .complete(true)
                                .state(OmmState.StreamState.OPEN, OmmState.DataState.OK, OmmState.StatusCode.NONE, "Login accepted")
                                .attrib(attributes),
                        event.handle());
    }

    private static Map directory(Iterable<Service> offered) {
        Map map = EmaFactory.createMap();
        for (Service service : offered) {
            map.add(EmaFactory.createMapEntry().keyUInt(service.id(), MapEntry.MapAction.ADD, filters(service)));
        }
        return map;
    }

    private static FilterList filters(Service service) {
        OmmArray capabilities = EmaFactory.createOmmArray();
        service.domains().forEach(d -> capabilities.add(EmaFactory.createOmmArrayEntry().uintValue(d)));
        capabilities.add(EmaFactory.createOmmArrayEntry().uintValue(EmaRdm.MMT_DICTIONARY));
        OmmArray dictionaries = EmaFactory.createOmmArray();
        service.dictionaries().forEach(d -> dictionaries.add(EmaFactory.createOmmArrayEntry().ascii(d)));
        OmmArray qos = EmaFactory.createOmmArray();
        for (Qos q : service.qos()) {
            int rate = q.rate() == 1 ? 0 : 0xFFFF_FFFF;
            qos.add(EmaFactory.createOmmArrayEntry().qos(q.timeliness() == 1 ? 0 : q.timeInfo(), rate));
        }
        ElementList info = EmaFactory.createElementList();
        info.add(EmaFactory.createElementEntry().ascii("Name", service.name()));
        info.add(EmaFactory.createElementEntry().ascii("Vendor", "interop"));
        info.add(EmaFactory.createElementEntry().array("Capabilities", capabilities));
        // EMA does not encode an array without entries.
        if (!service.dictionaries().isEmpty()) {
            info.add(EmaFactory.createElementEntry().array("DictionariesProvided", dictionaries));
            info.add(EmaFactory.createElementEntry().array("DictionariesUsed", dictionaries));
        }
        info.add(EmaFactory.createElementEntry().array("QoS", qos));
        FilterList list = EmaFactory.createFilterList();
        list.add(EmaFactory.createFilterEntry().elementList(EmaRdm.SERVICE_INFO_ID, FilterEntry.FilterAction.SET, info));
        list.add(EmaFactory.createFilterEntry()
                .elementList(EmaRdm.SERVICE_STATE_ID, FilterEntry.FilterAction.SET, state(service.up(), service.accepting())));
        return list;
    }

    private static ElementList state(boolean up, boolean accepting) {
        ElementList state = EmaFactory.createElementList();
        state.add(EmaFactory.createElementEntry().uintValue("ServiceState", up ? 1 : 0));
        state.add(EmaFactory.createElementEntry().uintValue("AcceptingRequests", accepting ? 1 : 0));
        return state;
    }

    private void dictionary(ReqMsg req, OmmProviderEvent event) {
        DataDictionary dictionary = Dictionaries.full();
        boolean fields = req.name().equals("RWFFld");
        int fragment = 60_000;
        int at = fields ? dictionary.minFid() : 0;
        int end = fields ? dictionary.maxFid() : dictionary.enumTables().size();
        while (true) {
            Series series = EmaFactory.createSeries();
            at = fields
                    ? dictionary.encodeFieldDictionary(series, at, req.filter(), fragment)
                    : dictionary.encodeEnumTypeDictionary(series, at, req.filter(), fragment);
            boolean last = at >= end;
            event.provider()
                    .submit(
                            EmaFactory.createRefreshMsg()
                                    .domainType(EmaRdm.MMT_DICTIONARY)
                                    .name(req.name())
                                    .serviceId(req.serviceId())
                                    .filter(req.filter())
                                    .payload(series)
                                    .complete(last)
                                    .solicited(true)
                                    .state(OmmState.StreamState.OPEN, OmmState.DataState.OK, OmmState.StatusCode.NONE, ""),
                            event.handle());
            if (last) {
                return;
            }
        }
    }

    /** An open item stream of this provider. */
    public final class Item {
        private final long handle;
        private final Message request;

        private Item(long handle, Message request) {
            this.handle = handle;
            this.request = request;
        }

        public Message request() {
            return request;
        }

        public String name() {
            return request.name;
        }

        public RefreshMsg newRefresh() {
            return newRefresh(true, true);
        }

        private RefreshMsg newRefresh(boolean complete, boolean clearCache) {
            int stream = request.streaming ? OmmState.StreamState.OPEN : OmmState.StreamState.NON_STREAMING;
            RefreshMsg refresh = EmaFactory.createRefreshMsg()
                    .domainType(request.domain)
                    .serviceId(request.serviceId)
                    .name(request.name)
                    .solicited(true)
                    .state(stream, OmmState.DataState.OK, OmmState.StatusCode.NONE, "All is well");
            // EMA's setters of flags set but do not clear.
            if (complete) {
                refresh.complete(true);
            }
            if (clearCache) {
                refresh.clearCache(true);
            }
            return request.privateStream ? refresh.privateStream(true) : refresh;
        }

        public void refresh(java.util.Map<Integer, Object> fields) {
            RefreshMsg refresh = newRefresh().payload(Ema.fields(fields));
            untilSubmitted(() -> provider.submit(refresh, handle));
        }

        public void refresh(RefreshMsg refresh) {
            provider.submit(refresh, handle);
        }

        /** A part of a book. */
        public void part(int part, boolean last, java.util.Map<Integer, Object> summary, List<Body.Order> orders) {
            provider.submit(newRefresh(last, part == 0).partNum(part).payload(Ema.book(summary, orders)), handle);
        }

        /** A quote update, its sequence number as a field and as the message's. */
        public void update(long sequence) {
            update(sequence, Ema.fields(Quotes.update(request.name, sequence)));
        }

        public void update(long sequence, ComplexType payload) {
            UpdateMsg update = EmaFactory.createUpdateMsg().domainType(request.domain).updateTypeNum(1).seqNum(sequence).payload(payload);
            untilSubmitted(() -> provider.submit(update, handle));
        }

        private void untilSubmitted(Runnable submit) {
            while (!submitted(submit)) {
                // The connection is full: the other side has to take something first.
                LockSupport.parkNanos(200_000);
            }
        }

        private boolean submitted(Runnable submit) {
            try {
                submit.run();
                return true;
            } catch (OmmInvalidUsageException e) {
                if (e.errorCode() != ReactorReturnCodes.NO_BUFFERS) {
                    throw new AssertionError(EmaProvider.this.name + " cannot send " + name() + ": " + e + "; before that it " + failure, e);
                }
                return false;
            }
        }

        public void status(int stream, int data, int code, String text) {
            provider.submit(EmaFactory.createStatusMsg().domainType(request.domain).state(stream, data, code, text), handle);
        }

        /** A new lock for the whole item, in a status. */
        public void lock(java.nio.ByteBuffer permissionData) {
            // EMA does not send a status without a state.
            provider.submit(
                    EmaFactory.createStatusMsg()
                            .domainType(request.domain)
                            .state(OmmState.StreamState.OPEN, OmmState.DataState.OK, OmmState.StatusCode.NONE, "")
                            .permissionData(permissionData),
                    handle);
        }

        public void generic(long sequence, java.util.Map<Integer, Object> fields) {
            provider.submit(
                    EmaFactory.createGenericMsg().domainType(request.domain).seqNum(sequence).complete(true).payload(Ema.fields(fields)), handle);
        }
    }

    /** An update of each of these items of one client, all in one packed message. */
    public void packedUpdates(List<Item> items, long sequence) {
        PackedMsg packed = EmaFactory.createPackedMsg(provider).initBuffer(clientHandle);
        for (Item item : items) {
            UpdateMsg update = EmaFactory.createUpdateMsg()
                    .domainType(item.request.domain)
                    .updateTypeNum(1)
                    .seqNum(sequence)
                    .payload(Ema.fields(Quotes.update(item.request.name, sequence)));
            packed.addMsg(update, item.handle);
        }
        provider.submit(packed);
    }

    /** Acknowledges a post. */
    public void acknowledge(Incoming post, int nakCode, String text) {
        var ack = EmaFactory.createAckMsg().domainType(post.message.domain).ackId(post.message.postId);
        if (nakCode != 0) {
            ack.nackCode(nakCode);
        }
        if (text != null) {
            ack.text(text);
        }
        if (post.message.sequence != null) {
            ack.seqNum(post.message.sequence);
        }
        provider.submit(ack, post.handle);
    }
}
