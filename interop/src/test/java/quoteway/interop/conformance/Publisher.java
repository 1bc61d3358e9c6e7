package quoteway.interop.conformance;

import com.refinitiv.ema.access.EmaFactory;
import com.refinitiv.ema.access.FilterList;
import com.refinitiv.ema.access.OmmNiProviderConfig;
import com.refinitiv.ema.access.OmmProvider;
import com.refinitiv.ema.access.OmmState;
import com.refinitiv.ema.access.RefreshMsg;
import com.refinitiv.ema.rdm.EmaRdm;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import quoteway.interop.peer.EmaStart;

/** A non-interactive provider of a scenario: EMA's, which logs in by itself and leaves the directory to its application. It is told of nothing else. */
final class Publisher extends Actor implements Marks.Source {
    private static final int FIRST_ID = 7_000;

    private final OmmProvider provider;
    private final java.util.Map<String, Long> handles = new HashMap<>();
    private final String service;

    Publisher(String name, Chronicle lock, int port, String names, int number, List<String> marks) {
        super(name, lock);
        OmmNiProviderConfig config = EmaFactory.createOmmNiProviderConfig()
                .host("localhost:" + port)
                .username(name)
                .adminControlDirectory(OmmNiProviderConfig.AdminControl.USER_CONTROL);
        provider = EmaStart.exclusively(() -> EmaFactory.createOmmProvider(config));
        var offered = new LinkedHashMap<Integer, FilterList>();
        for (String offers : names.split(",")) {
            offered.put(FIRST_ID + 10 * offered.size(), Directory.offer(offers, new Words(List.of())));
        }
        offered.put(9_100 + number, Directory.offer(marks(), new Words(List.of())));
        service = names.split(",")[0];
        provider.submit(
                EmaFactory.createRefreshMsg()
                        .domainType(EmaRdm.MMT_DIRECTORY)
                        .filter(Directory.FILTERS)
                        .state(OmmState.StreamState.OPEN, OmmState.DataState.OK, OmmState.StatusCode.NONE, "")
                        .complete(true)
                        .clearCache(true)
                        .payload(Directory.offered(offered)),
                handle("directory"));
        for (String mark : marks) {
            provider.submit(newImage(marks(), mark).payload(Marks.body(0)), handle(marks() + mark));
        }
    }

    private static RefreshMsg newImage(String service, String item) {
        return EmaFactory.createRefreshMsg()
                .serviceName(service)
                .name(item)
                .state(OmmState.StreamState.OPEN, OmmState.DataState.OK, OmmState.StatusCode.NONE, "published")
                .complete(true);
    }

    private long handle(String stream) {
        return handles.computeIfAbsent(stream, s -> (long) handles.size() + 1);
    }

    @Override
    public String marks() {
        return "~" + name;
    }

    @Override
    public void marksDown(String consumer, int updateType, long number) {
        provider.submit(Marks.update(updateType, number), handle(marks() + consumer));
    }

    @Override
    public boolean takesMarks() {
        return false;
    }

    @Override
    public void awaitMark(String consumer, long number) {
        throw new AssertionError("no mark comes up to what publishes");
    }

    @Override
    void sends(String kind, String item, List<String> said) {
        Words words = new Words(said);
        switch (kind) {
            case "REFRESH" -> {
                RefreshMsg image = newImage(service, item).domainType(words.domain());
                Provider.refresh(image, words);
                words.end();
                provider.submit(image, handle(item));
            }
            case "UPDATE" -> provider.submit(Provider.update(words), handle(item));
            case "STATUS" -> provider.submit(Provider.status(words), handle(item));
            default -> throw new AssertionError("what publishes sends no " + kind);
        }
    }

    @Override
    String line(Told told) {
        return told.toString();
    }

    @Override
    Long stream(String stream) {
        return handles.get(stream);
    }

    @Override
    void goesAway() {
        provider.uninitialize();
    }
}
