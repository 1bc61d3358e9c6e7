package quoteway.interop.peer;

import com.refinitiv.ema.access.ElementList;
import com.refinitiv.ema.access.EmaFactory;
import com.refinitiv.ema.access.Map;
import com.refinitiv.ema.access.MapEntry;
import com.refinitiv.ema.access.OmmArray;
import com.refinitiv.ema.access.OmmConsumerConfig;
import com.refinitiv.ema.access.OmmIProviderConfig;
import com.refinitiv.ema.access.OmmNiProviderConfig;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** EMA's configuration for WebSocket: what a user writes into EmaConfig.xml, as a map. */
public final class EmaWebSocket {
    /**
     * The lock of tests with a provider that converts its dictionaries to JSON: while another session of the process converts, EMA's thread
     * dies of a {@code ClassCastException} in {@code DictionaryHandler.sendEnumTypeDictionaryResponse} now and then.
     */
    public static final String CONVERTER = "EMA's converter between RWF and JSON";

    private EmaWebSocket() {}

    /** A consumer that speaks {@code protocols} (a list as EMA takes it, such as {@code tr_json2}) and downloads its dictionary. */
    public static OmmConsumerConfig consumer(int port, String protocols) {
        return consumer(channel(port, protocols));
    }

    /** The same; it offers to compress what goes either way. */
    public static OmmConsumerConfig compressing(int port, String protocols) {
        ElementList channel = channel(port, protocols);
        channel.add(EmaFactory.createElementEntry().ascii("CompressionType", "CompressionType::ZLIB"));
        return consumer(channel);
    }

    /** The same; it gives the server up when nothing came for so many milliseconds. */
    public static OmmConsumerConfig impatient(int port, String protocols, int silence) {
        ElementList channel = channel(port, protocols);
        channel.add(EmaFactory.createElementEntry().intValue("ConnectionPingTimeout", silence));
        return consumer(channel);
    }

    /** The same, by a forward proxy on this host. */
    public static OmmConsumerConfig byProxy(int port, String protocols, int proxy) {
        return consumer(through(proxy, channel(port, protocols)));
    }

    /** Over TLS, with the certificates of a PKCS #12 file; by a forward proxy on this host where {@code proxy} is not 0. */
    public static OmmConsumerConfig encrypted(int port, String protocols, int proxy, String store, String password) {
        ElementList channel = named(
                "ChannelType", "ChannelType::RSSL_ENCRYPTED", "EncryptedProtocolType", "EncryptedProtocolType::RSSL_WEBSOCKET",
                "WsProtocols", protocols, "Host", "127.0.0.1", "Port", Integer.toString(port));
        return consumer(proxy == 0 ? channel : through(proxy, channel))
                .tunnelingKeyStoreType("PKCS12")
                .tunnelingKeyStoreFile(store)
                .tunnelingKeyStorePasswd(password);
    }

    /** RSSL over TLS, without WebSocket. */
    public static OmmConsumerConfig encryptedSocket(int port, Certificate certificate) {
        ElementList channel = named(
                "ChannelType", "ChannelType::RSSL_ENCRYPTED", "EncryptedProtocolType", "EncryptedProtocolType::RSSL_SOCKET",
                "Host", "127.0.0.1", "Port", Integer.toString(port));
        return consumer(channel)
                .tunnelingKeyStoreType("PKCS12")
                .tunnelingKeyStoreFile(certificate.store().toString())
                .tunnelingKeyStorePasswd(Certificate.PASSWORD);
    }

    /**
     * A file for an interactive provider that listens for RSSL, or for RSSL in WebSocket, over TLS where that is {@code encrypted}. A file: where the
     * server comes from {@code OmmIProviderConfig.config(map)}, EMA 3.9.1 forgets the keystore ({@code OmmServerBaseImpl} sets it on the server of the
     * defaults, which the map replaces), and has no certificate for anybody.
     */
    public static Path listening(Path folder, int port, boolean webSocket, boolean encrypted) throws IOException {
        String type = encrypted ? "RSSL_ENCRYPTED" : webSocket ? "RSSL_WEBSOCKET" : "RSSL_SOCKET";
        return Files.writeString(folder.resolve("EmaConfig.xml"), """
                <?xml version="1.0" encoding="UTF-8"?>
                <EmaConfig>
                <IProviderGroup><DefaultIProvider value="Provider_1"/><IProviderList><IProvider>
                <Name value="Provider_1"/><Server value="Server_1"/>
                </IProvider></IProviderList></IProviderGroup>
                <ServerGroup><ServerList><Server>
                <Name value="Server_1"/><ServerType value="ServerType::%s"/><WsProtocols value="rssl.rwf"/><Port value="%d"/>
                </Server></ServerList></ServerGroup>
                </EmaConfig>
                """.formatted(type, port));
    }

    private static ElementList through(int proxy, ElementList channel) {
        channel.add(EmaFactory.createElementEntry().ascii("ProxyHost", "127.0.0.1"));
        channel.add(EmaFactory.createElementEntry().ascii("ProxyPort", Integer.toString(proxy)));
        return channel;
    }

    private static OmmConsumerConfig consumer(ElementList channel) {
        Map config = EmaFactory.createMap();
        group(config, "Consumer", "Consumer_1", named("Channel", "Channel_1", "Dictionary", "Dictionary_1"));
        group(config, "Channel", "Channel_1", channel);
        group(config, "Dictionary", "Dictionary_1", named("DictionaryType", "DictionaryType::ChannelDictionary"));
        return EmaFactory.createOmmConsumerConfig().config(config).consumerName("Consumer_1").username("user");
    }

    /** A non-interactive provider with EMA's own directory; it waits so many milliseconds for the answer to its login. */
    public static OmmNiProviderConfig nonInteractive(int port, String protocols, int patience) {
        Map config = EmaFactory.createMap();
        ElementList provider = named("Channel", "Channel_1");
        provider.add(EmaFactory.createElementEntry().intValue("LoginRequestTimeOut", patience));
        group(config, "NiProvider", "Provider_1", provider);
        group(config, "Channel", "Channel_1", channel(port, protocols));
        return EmaFactory.createOmmNiProviderConfig().config(config).providerName("Provider_1").username("user");
    }

    /** The same, with EMA's own patience. */
    public static OmmNiProviderConfig nonInteractive(int port, String protocols) {
        return nonInteractive(port, protocols, 45_000);
    }

    /**
     * Has an interactive provider listen for WebSocket. EMA gives its JSON converter a dictionary only where it answers for directory and
     * dictionary itself ({@code DictionaryHandler.initialize}, {@code DirectoryServiceStore}): under user control each item's image ends in a
     * {@code NullPointerException} of the converter, in {@code submit}.
     */
    public static void interactive(OmmIProviderConfig provider, int port, String protocols) {
        Map config = EmaFactory.createMap();
        group(config, "IProvider", "Provider_1", named("Server", "Server_1", "Directory", "Directory_1"));
        ElementList server = named("ServerType", "ServerType::RSSL_WEBSOCKET", "WsProtocols", protocols, "Port", Integer.toString(port));
        // EMA's converter takes many buffers for each image of JSON until the image is written, and EMA writes when all that it has read is
        // answered: with the default (100) the seventh image of one read fails with NO_BUFFERS, and its request stays without answer.
        server.add(EmaFactory.createElementEntry().intValue("GuaranteedOutputBuffers", 2000));
        group(config, "Server", "Server_1", server);
        group(config, "Dictionary", "Dictionary_1", files());
        ElementList info = EmaFactory.createElementList();
        info.add(EmaFactory.createElementEntry().intValue("ServiceId", 1));
        OmmArray capabilities = EmaFactory.createOmmArray();
        capabilities.add(EmaFactory.createOmmArrayEntry().ascii("MMT_MARKET_PRICE"));
        capabilities.add(EmaFactory.createOmmArrayEntry().ascii("MMT_DICTIONARY"));
        info.add(EmaFactory.createElementEntry().array("Capabilities", capabilities));
        for (String use : new String[] {"DictionariesProvided", "DictionariesUsed"}) {
            OmmArray dictionaries = EmaFactory.createOmmArray();
            dictionaries.add(EmaFactory.createOmmArrayEntry().ascii("Dictionary_1"));
            info.add(EmaFactory.createElementEntry().array(use, dictionaries));
        }
        ElementList service = EmaFactory.createElementList();
        service.add(EmaFactory.createElementEntry().elementList("InfoFilter", info));
        ElementList state = EmaFactory.createElementList();
        state.add(EmaFactory.createElementEntry().intValue("ServiceState", 1));
        state.add(EmaFactory.createElementEntry().intValue("AcceptingRequests", 1));
        service.add(EmaFactory.createElementEntry().elementList("StateFilter", state));
        Map services = EmaFactory.createMap();
        services.add(EmaFactory.createMapEntry().keyAscii("DIRECT_FEED", MapEntry.MapAction.ADD, service));
        Map directories = EmaFactory.createMap();
        directories.add(EmaFactory.createMapEntry().keyAscii("Directory_1", MapEntry.MapAction.ADD, services));
        ElementList directory = named("DefaultDirectory", "Directory_1");
        directory.add(EmaFactory.createElementEntry().map("DirectoryList", directories));
        config.add(EmaFactory.createMapEntry().keyAscii("DirectoryGroup", MapEntry.MapAction.ADD, directory));
        provider.config(config)
                .providerName("Provider_1")
                .adminControlDirectory(OmmIProviderConfig.AdminControl.API_CONTROL)
                .adminControlDictionary(OmmIProviderConfig.AdminControl.API_CONTROL);
    }

    private static ElementList channel(int port, String protocols) {
        return named(
                "ChannelType", "ChannelType::RSSL_WEBSOCKET", "WsProtocols", protocols, "Host", "localhost", "Port", Integer.toString(port));
    }

    private static ElementList files() {
        return named(
                "DictionaryType", "DictionaryType::FileDictionary",
                "RdmFieldDictionaryFileName", Dictionaries.folder().resolve("RDMFieldDictionary").toString(),
                "EnumTypeDefFileName", Dictionaries.folder().resolve("enumtype.def").toString(),
                "RdmFieldDictionaryItemName", "RWFFld",
                "EnumTypeDefItemName", "RWFEnum");
    }

    /** An element list of texts: name, value, name, value and so on. */
    private static ElementList named(String... pairs) {
        ElementList list = EmaFactory.createElementList();
        for (int i = 0; i < pairs.length; i += 2) {
            list.add(EmaFactory.createElementEntry().ascii(pairs[i], pairs[i + 1]));
        }
        return list;
    }

    /** The group of {@code kind} with one entry, as EmaConfig.xml has it. */
    private static void group(Map config, String kind, String name, ElementList entry) {
        Map entries = EmaFactory.createMap();
        entries.add(EmaFactory.createMapEntry().keyAscii(name, MapEntry.MapAction.ADD, entry));
        ElementList group = EmaFactory.createElementList();
        group.add(EmaFactory.createElementEntry().map(kind + "List", entries));
        config.add(EmaFactory.createMapEntry().keyAscii(kind + "Group", MapEntry.MapAction.ADD, group));
    }
}
