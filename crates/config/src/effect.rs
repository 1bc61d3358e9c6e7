//! Parameters that are accepted and have no effect here, each with the reason and what to use instead.

/// Parameters that have no effect for one reason.
#[derive(Debug)]
pub(super) struct NoEffect {
    /// Where they stand.
    pub(super) kind: Kind,
    /// Why, as the end of a sentence after "has no effect here: ".
    why: &'static str,
    /// The parameters, as RMDS spells them: `name`, or `name=VALUE` with the value that stands for what happens anyway.
    /// `level*name` is a parameter with a level of its own; the level `N` is any number.
    names: &'static str,
}

/// Where a parameter stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// `*P2PS*` (`*ADS*`).
    P2ps,
    /// `*Src_Dist*` (`*ADH*`).
    SrcDist,
    /// `*Src_Dist*NAME.route*`.
    Route,
    /// `*SERVICE*`.
    Service,
    /// `*RRCP*`.
    Rrcp,
}

impl Kind {
    /// The kind that belongs to a [`Section::RMDS`](super::Section::RMDS).
    pub(super) fn of_component(component: &str) -> Option<Self> {
        Some(match component {
            "P2PS" => Kind::P2ps,
            "Src_Dist" => Kind::SrcDist,
            "route" => Kind::Route,
            "RRCP" => Kind::Rrcp,
            "SERVICE" => Kind::Service,
            _ => return None,
        })
    }

    /// How a key of this kind begins.
    pub(super) fn prefix(self) -> &'static str {
        match self {
            Kind::P2ps => "*P2PS*",
            Kind::SrcDist => "*Src_Dist*",
            Kind::Route => "*Src_Dist*NAME.route*",
            Kind::Service => "*SERVICE*",
            Kind::Rrcp => "*RRCP*",
        }
    }
}

impl NoEffect {
    /// Why it has none.
    pub(super) fn why(&self) -> &'static str {
        self.why
    }

    /// The parameters, and for each the value that stands for what happens anyway.
    pub(super) fn names(&self) -> impl Iterator<Item = (&'static str, Option<&'static str>)> {
        self.names.split_whitespace().map(|n| n.split_once('=').map_or((n, None), |(name, value)| (name, Some(value))))
    }

    /// Whether `value` asks for what happens anyway.
    pub(super) fn is_as_asked(&self, name: &str, value: &str) -> bool {
        self.names().any(|(n, v)| n == name && v.is_some_and(|v| v.eq_ignore_ascii_case(value)))
    }
}

/// The entry for a key of a TOML section, without regard to case and underscores.
pub(super) fn of_key(component: &str, key: &str) -> Option<&'static NoEffect> {
    let kind = Kind::of_component(component)?;
    let key = key.replace('_', "");
    TABLE
        .iter()
        .find(|e| e.kind == kind && e.names().any(|(n, _)| n.replace(['_', '*', '.'], "").eq_ignore_ascii_case(&key)))
}

const LOGS: &str = "the log goes to standard error, and to a file with [log] file, file_mb and files; level (selector) and QUOTEWAY_LOG choose how much, and syslog (install_system_action) what the system has (docs/operating/seeing.md)";
const SHARED_MEMORY: &str = "statistics lie in no shared memory: GET /sharedmem/print/... and /sharedmem/classes/... of the HTTP port, quoteway ctl print (docs/operating/seeing.md)";
const DUMPS: &str = "quoteway ctl dump FOLDER writes clients, items, services, providers and the rest to files when it is called (docs/operating/seeing.md); quoteway dump shows recorded traffic as text";
const LICENCE: &str = "no licence is needed";
const DACS: &str = "a DACS station's protocol is closed: a rights file says who may see what ([permissions], docs/operating/permissions.md)";
const PERM_TEST: &str = "mode = \"test\" of [permissions] checks and logs without denying";
const AUDIT: &str = "the audit says everything of logins, watches and denials: audit_file of [permissions]";
const LOCK_SERVICE: &str = "the rights file says what service ids in locks mean: override_lock_service_id and translate_lock_service_ids of its [services.NAME]";
const HEADLINES: &str = "an update that has permission data of its own goes to those who satisfy it, as a headline is to; where a headline has its code in a field, headline_permission_field of [source_distributor] or [p2ps] says in which (docs/operating/permissions.md)";
const SSL: &str = "the older SSL protocol is not spoken: its wire format is not public; clients use RSSL (rsslPort), over which they can have Marketfeed (p2ps.marketfeed, marketfeed_port); quoteway marketfeed-lines gives records by lines of text on port 8101";
const MARKETFEED: &str = "records are converted by the dictionary alone (convertMfeedDataToRWF, expandedEnumFields, seqNumFollowsMarketfeedRules, convertToIDNStyle and useTemplateNumber count; docs/wire/marketfeed.md)";
const CONFLATION: &str = "quotes are conflated and trades never; intervals by exchange are aggregation_interval_values of [conflation], at the Source Distributor of [source_conflation] (docs/operating/conflation.md)";
const STANDBY: &str = "hot standby of Source Distributors is p2ps.source_distributor_pairs, of providers source_distributor.provider_choice (docs/operating/standby.md)";
const BACKBONE: &str = "the backbone is not RRCP; see docs/operating/if-you-know-rmds.md";
const NEEDLESS: &str = "memory and tables grow with what is in them";
const BIAS: &str = "a turn reads at most 256 KB of each connection, so that all get their share";
const THREADS: &str = "that thread does not exist here; writerThreadCount with bindWriteThread.N at a P2PS, numSourceThreads (source_thread_count) with bind_source_threads at a Source Distributor place the threads there are";
const CACHE: &str = "what is cached is said by cacheLocation, nonCachingItemList, and enableCache, maxCacheSize and the domains of the P2PS (docs/operating/cache.md)";
const HOT_TIMES: &str = "both providers of a pair are read all the time, so that nothing has to be learnt and no rate bounded; which updates the one has and the other has not is told by their sequence numbers (provides_sequence_numbers), not by time, and a silent one is found by its session's pings (docs/operating/standby.md)";
const HOT_POSTS: &str =
    "a post goes to the provider in use alone, and is the standby's by what that one's own source makes of it";
const PERSISTENCE: &str = "what has changed is written every persistent_interval_ms, and at a stop, to one file that grows as it has to (docs/operating/cache.md)";
const RESILIENCY: &str = "cache_resiliency_hosts names the hub ports of those whose images a Source Distributor copies when it starts (docs/operating/cache.md)";
const P2PS_PERSISTENCE: &str =
    "a P2PS keeps nothing over a restart: images that outlive one are the Source Distributor's";
const DISCOVERY: &str = "P2PSs are told of each other by their Source Distributors (p2ps.enable_connect_config), and clients of those that are less full first; p2ps.connection_list names others";
const BALANCE: &str = "clients go to the P2PS of the lowest LoadFactor, by the larger of its clients and its items, times scalingFactor (docs/operating/discovery.md); what numbers other than 1 mean is not public";
const SERVICES: &str = "every service that a provider offers is served";
const GROUPS: &str = "how the value is written is not public: service groups are source_distributor.service_group_list, those that clients of one P2PS see p2ps.service_group_list, and disableServiceGroupAppIds hides them from applications (docs/operating/standby.md)";
const RECOVERY: &str = "an item is asked for again retryLimit times or for ever, with a pause that grows from 1 s to normalRetryTime, and one that is refused for good is not";
const CONTRIBUTIONS: &str = "posts go straight to the provider of the item, others to that of the lowest cost and load; insertTimeout bounds the answer, contribFieldList, contribMaxUpdateRate, contribMinUpdateRate and the lists of templates what may be posted, contribInsertRTL numbers posts, and insertFlushInterval has them go together (docs/operating/running.md)";
const CONTRIBUTION_FILES: &str = "which files RTDS keeps there, and of what form, is not public (site files that are say \".\"); a post lies in no file here: its poster has an answer, or knows that it has none, and nothing is posted again after a restart";
const DYNAMIC_MOUNT: &str = "a route is dialled when the process starts, and stays, since what its services are is known from its provider alone; what RTDS does for True is not public (site files that are say False). A route that is not to be dialled has route_enabled = false, and a reload (quoteway ctl reload) dials it";
const DELAY: &str = "a delayed service is [delay.NAME], with delay_s, delay_rules_file, fee_fields, delay_journal and delay_journal_megabytes of its own (docs/operating/delay.md); how RTDS writes its rules and texts is not public";
const FILTER: &str = "fields are taken out by remove_fields of [filters], of the items that filter_field and filter_field_values of it select (docs/operating/filters.md)";
const PREEMPTION: &str = "whether items are preempted, and which are not, is source_distributor.preemption and locked_item_list (docs/operating/running.md)";
const OVERLOAD: &str = "queues have fixed bounds: guaranteedOutputBuffers, maxOutputBuffers, minimumOpenWindow";
const PAIR: &str =
    "connections and the hub stream are ordered, so that no update overtakes another and none has to be waited for";
const LBM: &str = "the backbone's reliable multicast has its own ways: NAKs as in LBT-RM (docs/wire/lbm.md)";
const SESSION: &str = "a session lives by RSSL pings: pingTimeout";
const TUNNEL: &str = "posts go in a tunnel stream where enable_tunnel_stream_aggregation of their [[route]] says so; the tunnel streams of clients go to the provider as each has opened it, with its own login (docs/operating/running.md)";
const TUNNEL_LOGIN: &str = "what a tunnel stream has of its own is said in TOML, in the [[route]]: tunnel_stream_user_name, tunnel_stream_password_file (a file, not the password) and tunnel_stream_num_ipc_output_buffers (docs/operating/running.md)";
const OUTAGE: &str = "clients see the service down, and are closed where disconnectSrcDown or disconnectSingleSrcDown of the P2PS says so";

const fn none(kind: Kind, why: &'static str, names: &'static str) -> NoEffect {
    NoEffect { kind, why, names }
}

/// Every parameter of tables 2a to 2c and of the sites' files that has no counterpart.
pub(super) const TABLE: &[NoEffect] = &[
    // P2PS, ADS
    none(Kind::P2ps, "RSSL is the only way in, so its port is always open", "allowRSSLConnections=True"),
    none(
        Kind::P2ps,
        SSL,
        "allowSSLConnections=False portList sslMsgPacking pingInterval pingKillInterval tcpService sslMountVersion",
    ),
    none(Kind::P2ps, "addresses of clients are never looked up", "disableHostLookup=True"),
    none(Kind::P2ps, NEEDLESS, "hashTableSize"),
    none(
        Kind::P2ps,
        BACKBONE,
        "rrmpProtocols rmds6rrmpProtocols transmissionBus*driverName transmissionBus*inputBias transmissionBus*numBuffers usePostTransport=False restartOnTransportError=False",
    ),
    none(
        Kind::P2ps,
        SHARED_MEMORY,
        "sessionStatsWindow semaphoreKey sharedMemoryKey sharedMemorySize softwareStatsReportTime",
    ),
    none(Kind::P2ps, CACHE, "cascadedMode=False"),
    none(Kind::P2ps, DACS, "agentList marketDataAgentList hrmDisabledList hrmHost hrmTimer hrmTrace=False hrmUserName"),
    none(
        Kind::P2ps,
        "who has logged in by a token is that token's user everywhere, in the log too",
        "useAuthNameForLog=True",
    ),
    none(Kind::P2ps, PERM_TEST, "enableDacsPermTest"),
    none(Kind::P2ps, AUDIT, "accessLockDumpFile"),
    none(Kind::P2ps, HEADLINES, "headlinePermissioningLogging=False"),
    none(Kind::P2ps, CONFLATION, "aggregationIntervalFieldValues aggregationStyle pauseTradeSafeUpdates=True"),
    none(Kind::P2ps, DUMPS, "auditDumpFile consumerDbDumpFile databaseDumpFile producerDbDumpFile viewDbDumpFile"),
    none(
        Kind::P2ps,
        LOGS,
        "debugLogger*fileSize debugLogger*numFiles file install_file_action install_stderr_action=True max_bytes max_swapfiles timeStampFormat logDtMsgTogether=False",
    ),
    none(Kind::P2ps, LICENCE, "licenseFile licenseValidatingTime"),
    none(Kind::P2ps, "a P2PS is known by hub.instance, or by its address", "serverId"),
    none(Kind::P2ps, GROUPS, "serviceGroupList"),
    none(
        Kind::P2ps,
        DISCOVERY,
        "discoveryHeartbeat discoveryNetwork ndistDiscoveryInterval ndsHostList ndsNetwork ndsNetworkTimeout ndsPort ndsSyncCallTimeout disableLocalRedirect",
    ),
    none(Kind::P2ps, BALANCE, "loadBalanceAlgorithm=1"),
    none(Kind::P2ps, SESSION, "keepAlive*keepAliveTimeout keepAlive*networkDelay keepAliveTimeout enableFirewall"),
    none(
        Kind::P2ps,
        THREADS,
        "bindRRCPReadThread numItemThreads=0 enableTransportFilterThread=False filterThreadCpu sourceThreadCpu*N itemThreadCpu*N",
    ),
    none(Kind::P2ps, PAIR, "enableItemLevelReorderProtection maxAllowableUpdateDelay"),
    none(Kind::P2ps, RECOVERY, "immediatePollAfterRecoverableClose=False"),
    none(Kind::P2ps, "maxMounts bounds the connections, whoever makes them", "maxClients"),
    none(
        Kind::P2ps,
        OVERLOAD,
        "rrcpBurdenedThreshold rrcpHeavilyBurdenedThreshold rrcpHysteresis trafficManagement=False",
    ),
    none(
        Kind::P2ps,
        "dictionaries go out in parts of maxFragmentSize to every client",
        "enableMultipartDictionary=True",
    ),
    none(Kind::P2ps, P2PS_PERSISTENCE, "persistentRestoreAsStale"),
    none(Kind::P2ps, "a TLS connection takes TLS 1.2 or 1.3, whichever the client can", "encryptionProtocol"),
    // Src_Dist, ADH
    none(
        Kind::SrcDist,
        "an output queue grows with what a slow publisher leaves in it; nothing is reserved",
        "server*ipc*transmissionBus*guaranteedOutputBuffers server*ipc*transmissionBus*numInputBuffers server*ipc*transmissionBus*poolSize server*ipc*transmissionBus*maxOutputBuffers transmissionBus*guaranteedOutputBuffers transmissionBus*numInputBuffers transmissionBus*poolSize transmissionBus*maxOutputBuffers",
    ),
    none(
        Kind::SrcDist,
        BIAS,
        "server*ipc*transmissionBus*inputBias server*ipc*transmissionBus*readBias transmissionBus*inputBias transmissionBus*readBias readBias",
    ),
    none(
        Kind::SrcDist,
        "what a turn has brought is written at its end",
        "server*ipc*transmissionBus*flushInterval=0 server*ipc*transmissionBus*timedWrites=False transmissionBus*flushInterval=0 transmissionBus*timedWrites=False",
    ),
    none(
        Kind::SrcDist,
        BACKBONE,
        "transmissionBus*driverName transmissionBus*numBuffers transmissionBus*serverName usePostTransport=False",
    ),
    none(Kind::SrcDist, CONFLATION, "aggregationIntervalFieldValues aggregationStyle enableAggStats"),
    none(Kind::SrcDist, DUMPS, "auditTimeStampUpdateInterval entireDumpFile"),
    none(Kind::SrcDist, THREADS, "bindRRCPReadThread vdSymbolForSourceThreads vdSymbolForSourceThreadh"),
    none(
        Kind::SrcDist,
        DELAY,
        "blockedSubjectText delayConfigFile delayEnabled=False delayFileLimit delayPrimaryDir delayReplayCutoff delaySecondaryDir delaySpaceThreshold delayTrace delayUpdateAfterAggregation disableDelayItemFile disableDelayItemList feeliableFieldList remapDelayServiceId remapDelayServiceName vendorDelayedSubjectText",
    ),
    none(Kind::SrcDist, FILTER, "contains filterField filterFieldValues remove featureEnabled=False"),
    none(Kind::SrcDist, RESILIENCY, "supportCacheResiliency=False"),
    none(Kind::SrcDist, PERSISTENCE, "enablePersistentOnShutdown=False"),
    none(
        Kind::SrcDist,
        LOGS,
        "debugLogger*fileSize debugLogger*numFiles file install_file_action install_stderr_action=True logDtMsgTogether max_bytes max_swapfiles timeStampFormat",
    ),
    none(
        Kind::SrcDist,
        "opens are paced by initialOpenLimit and the provider's OpenWindow",
        "downloadPaceTime sinkCleanupPace",
    ),
    none(Kind::SrcDist, STANDBY, "enableHotStandby=False hotStandbyFailoverPace"),
    none(Kind::SrcDist, HOT_POSTS, "enableHotStandbyInserts=False insertHSTimeout"),
    none(Kind::SrcDist, NEEDLESS, "hashTableSize"),
    none(Kind::SrcDist, SESSION, "keepAlive*keepAliveTimeout keepAlive*networkDelay ssl3SrcAppPingRequestInterval"),
    none(Kind::SrcDist, LICENCE, "licenseFile licenseValidatingTime"),
    none(Kind::SrcDist, "enableNIPServer opens the port of non-interactive providers", "listenOnSourcePort"),
    none(Kind::SrcDist, "server*ipc*transmissionBus*maxMounts bounds the providers that dial in", "maxClients"),
    none(
        Kind::SrcDist,
        OVERLOAD,
        "openQueueBurdenedThreshold openQueueHeavilyBurdenedThreshold openQueueHysteresis rrcpBurdenedThreshold rrcpHeavilyBurdenedThreshold rrcpHysteresis",
    ),
    none(Kind::SrcDist, SHARED_MEMORY, "semaphoreKey sharedMemoryKey sharedMemorySize softwareStatsReportTime"),
    none(Kind::SrcDist, SERVICES, "serviceList"),
    none(Kind::SrcDist, "every Source Distributor is found by its announcement", "primeTopology"),
    none(Kind::SrcDist, TUNNEL, "enableTunnelStreamAggregation"),
    // Routes
    none(
        Kind::Route,
        "a route speaks RSSL",
        "protocol=rssl sslMountVersion recoveryBySSLLib disableDataConversion=True",
    ),
    none(Kind::Route, BIAS, "numIpcInputBuffers"),
    none(
        Kind::Route,
        "an output queue grows with what a slow provider leaves in it; nothing is reserved",
        "numIpcOutputBuffers",
    ),
    none(
        Kind::Route,
        "the login asks for AllowSuspectData and SingleOpen, so that states are made here",
        "allowSuspectData singleOpen=False",
    ),
    none(
        Kind::Route,
        "the state of the connection is the state of its services",
        "groupList Interactive*groupList Broadcast*groupList statusTextIntroducer",
    ),
    none(Kind::Route, DACS, "dacsAttributes"),
    none(Kind::Route, DYNAMIC_MOUNT, "dynamicMount=False"),
    none(Kind::Route, DUMPS, "lockedDumpFile"),
    none(Kind::Route, "what a provider may send is bounded by maxIncomingMessagesPerSecond", "updateRateThreshold=0"),
    none(Kind::Route, "a route has one way to be a server", "serverMode"),
    none(Kind::Route, "the provider's own threshold for compression counts", "minCompressionThreshold"),
    none(Kind::Route, "TLS 1.2 or 1.3 is used, whichever the provider can", "encryptionProtocol"),
    none(Kind::Route, "there is one way to run a session", "useReactor primaryProvider downloadCriteriaName"),
    none(Kind::Route, "item names go as they are", "hashIDs"),
    none(Kind::Route, TUNNEL_LOGIN, "tunnelStream*numIpcOutputBuffers tunnelStream*userName tunnelStream*userPassword"),
    // Services
    none(
        Kind::Service,
        STANDBY,
        "HSAutoFailback*network activeStandbyPairs useP2PForHotStandbyHeartbeat=False maxOperDuringFailover",
    ),
    none(
        Kind::Service,
        HOT_TIMES,
        "hotStandby*handleOutOfOrderUpdates=False hotStandby*heartbeat hotStandby*learnTime hotStandby*maxUpdateRate hotStandby*retryTime hotStandby*temporalDifference hotStandby*timeout",
    ),
    none(Kind::Service, HOT_POSTS, "hotStandby*standbyForwardInsertToSrcApp"),
    none(Kind::Service, "items are asked for when a client wants them", "cacheType=sinkDriven"),
    none(Kind::Service, CACHE, "domainsCached=ALL domainsNotCached nonCachingItemFile pollCache broadcastThreshold"),
    none(Kind::Service, "the domain is what each client asks for", "dataType=6"),
    none(Kind::Service, "what a turn has brought goes out at its end", "rrmpFlushInterval=0"),
    none(Kind::Service, CONTRIBUTIONS, "insertAction=lowest"),
    none(Kind::Service, CONTRIBUTION_FILES, "contribDataFileDirectory"),
    none(Kind::Service, MARKETFEED, "priorityAwareMarketfeed providesSequenceNumbers updateMatching=False"),
    none(Kind::Service, OUTAGE, "disconnectServiceDown=False"),
    none(Kind::Service, FILTER, "featureEnabled=False"),
    none(Kind::Service, PERSISTENCE, "fileDirectory fileSize logFlushInterval"),
    none(Kind::Service, RESILIENCY, "CacheResiliency*hostList CacheResiliency*port"),
    none(
        Kind::Service,
        "load is what the provider's directory says",
        "forwardServerMode normalizedLoadLevelThresholdForConcurrentRequests",
    ),
    none(Kind::Service, HEADLINES, "headlinePermissioning=True"),
    none(Kind::Service, LOCK_SERVICE, "overrideLockServiceId"),
    none(Kind::Service, PREEMPTION, "lockedItemThreshold preemption preemptionRecoveryThreshold"),
    none(Kind::Service, BIAS, "readBias serviceQueueTimerMilliseconds"),
    none(Kind::Service, NEEDLESS, "maxOutputBuffers maxSemaphores"),
    none(
        Kind::Service,
        "a request has its place in the open window until it is answered, or retryTimer is over",
        "openWindowTimeWindow",
    ),
    none(Kind::Service, "ageUnwatchedItemTime says how long they stay; 0 removes them at once", "removeUnwatchedItems"),
    none(Kind::Service, DUMPS, "serviceCacheDumpFile serviceDumpFile"),
    // RRCP
    none(
        Kind::Rrcp,
        LBM,
        "bitmapFilter clockTick congestionControlEnabled disablePktFiltering fromidFilter level maxPktPoolSize maxUsers ndata nmissing nrreq pktPoolLimitHigh pktPoolLimitLow shuffleTolerance switchReorderFixEnabled tbchold tdata toidFilter tpphold trreq twait userQLimit DisconnectOnGap tcpControlPort UnicastPort HsmInterface HsmMultAddress HsmPort HsmInterval useIpMulticast=True aliases broadcastAddress network nodeId ports recvMultAddress",
    ),
    none(Kind::Rrcp, LOGS, "file"),
];
