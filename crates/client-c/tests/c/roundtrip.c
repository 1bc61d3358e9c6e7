/* A publisher and a subscription in one program; ends with 0 when all is as it should be. */
#include <quoteway.h>

#include <stdio.h>
#include <string.h>

static int line;

#define CHECK(condition)                                                                       \
    do {                                                                                       \
        if (!(condition)) {                                                                    \
            fprintf(stderr, "line %d: %s (%d: %s)\n", __LINE__, #condition, qw_errnum(), qw_errmsg()); \
            line = __LINE__;                                                                   \
            return 1;                                                                          \
        }                                                                                      \
    } while (0)

static qw_value_t number(const char *name, double value) {
    qw_value_t v;
    memset(&v, 0, sizeof v);
    v.name = name;
    v.type = QW_DOUBLE;
    v.number = value;
    return v;
}

static int errors(void) {
    qw_session_t *session = NULL;
    CHECK(qw_connect(NULL, "me", 1, &session) == -1 && qw_errnum() == QW_EINVALID);
    CHECK(strcmp(qw_errmsg(), "servers is null") == 0);
    CHECK(qw_connect("a:b", "me", 1, &session) == -1 && qw_errnum() == QW_EINVALID && strstr(qw_errmsg(), "HOST:PORT"));
    CHECK(qw_connect("127.0.0.1:1", "me", 0.2, &session) == -1 && qw_errnum() == QW_ECONNECT);
    CHECK(session == NULL && qw_session_close(NULL) == -1);
    CHECK(strncmp(qw_version(), "quoteway ", 9) == 0);
    return 0;
}

static int round_trip(void) {
    qw_publisher_t *publisher = NULL;
    qw_session_t *session = NULL;
    qw_subscription_t *quotes = NULL;
    const char *items[] = {"A", "NONE"}, *fields[] = {"BID", "DSPLY_NAME"};
    char address[64], text[8];
    qw_value_t values[3];
    qw_options_t options;
    qw_message_t message;
    qw_counts_t counts;
    double bid = 0;
    int64_t integer = 0;
    size_t length = 0;
    int n, refreshes = 0, ends = 0;

    CHECK(qw_publisher_listen("FEED", "127.0.0.1:0", &publisher) == 0);
    values[0] = number("BID", 1.25);
    values[1] = number("ASK", 1.5);
    memset(&values[2], 0, sizeof values[2]);
    values[2].name = "DSPLY_NAME";
    values[2].type = QW_TEXT;
    values[2].text = "A long name";
    CHECK(qw_publish(publisher, "A", values, 3) == 0);
    values[2].name = "DSPLY_NAMES";
    CHECK(qw_publish(publisher, "A", values, 3) == -1 && qw_errnum() == QW_EFIELD);
    CHECK(qw_publisher_flush(publisher) == 0);
    snprintf(address, sizeof address, "127.0.0.1:%d", qw_publisher_port(publisher));

    CHECK(qw_connect(address, "me", 30, &session) == 0);
    CHECK(qw_session_status(session, NULL) == 1);
    memset(&options, 0, sizeof options);
    options.fields = fields;
    options.field_count = 2;
    CHECK(qw_subscribe(session, "FEED", items, 2, &options, &quotes) == 0);
    CHECK(qw_message_text(quotes, text, sizeof text, NULL) == -1);
    while (refreshes + ends < 2) {
        CHECK(qw_next(quotes, 30, &message) == 1);
        CHECK(strcmp(message.name, items[message.item]) == 0 && message.length > 8);
        if (message.message_class == QW_REFRESH) {
            refreshes++;
            CHECK(message.item == 0 && !message.is_final);
            CHECK(qw_field_double(quotes, "BID", &bid) == 1 && bid == 1.25);
            CHECK(qw_field_text(quotes, "DSPLY_NAME", text, sizeof text, &length) == 1);
            CHECK(strcmp(text, "A long ") == 0 && length == 11);
            CHECK(qw_field_integer(quotes, "BID", &integer) == -1 && qw_errnum() == QW_EFIELD);
            CHECK(qw_field_double(quotes, "OPEN_PRC", &bid) == 0);
            CHECK(qw_field_double(quotes, "OPEN_PRICE", &bid) == -1 && qw_errnum() == QW_EFIELD);
        } else {
            ends++;
            CHECK(message.message_class == QW_STATUS && message.item == 1 && message.is_final);
        }
    }
    for (n = 0; n < 1000; n++) {
        values[0] = number("BID", n);
        CHECK(qw_publish(publisher, "A", values, 1) == 0);
    }
    for (n = 0; n < 1000; n++) {
        CHECK(qw_next(quotes, 30, &message) == 1 && message.message_class == QW_UPDATE);
        CHECK(qw_field_double(quotes, "BID", &bid) == 1 && bid == n);
    }
    CHECK(qw_next(quotes, 0, &message) == 0);
    CHECK(qw_subscription_counts(quotes, &counts) == 0 && counts.queued == 1002 && counts.merged == 0);
    CHECK(qw_pause(quotes, 2, 1) == -1 && strstr(qw_errmsg(), "item 2"));
    CHECK(qw_pause(quotes, 0, 1) == 0);
    values[0] = number("BID", -1);
    CHECK(qw_publish(publisher, "A", values, 1) == 0 && qw_publisher_flush(publisher) == 0);
    CHECK(qw_pause(quotes, 0, 0) == 0);
    CHECK(qw_next(quotes, 30, &message) == 1 && message.message_class == QW_REFRESH);
    CHECK(qw_field_double(quotes, "BID", &bid) == 1 && bid == -1);
    CHECK(qw_set_priority(quotes, 0, 3, 1) == 1 && qw_set_priority(quotes, 1, 3, 1) == 0);
    CHECK(qw_session_pause(session, 0) == 0);
    CHECK(qw_publish_end(publisher, "A", "over") == 0);
    CHECK(qw_next(quotes, 30, &message) == 1 && message.message_class == QW_STATUS && message.is_final);
    CHECK(qw_session_close(session) == 0);
    CHECK(qw_next(quotes, -1, &message) == -1 && qw_errnum() == QW_EENDED);
    CHECK(qw_subscription_close(quotes) == 0);
    CHECK(qw_publisher_close(publisher) == 0);
    return 0;
}

/* Two servers, of which the standby takes over. */
static int standby(void) {
    qw_publisher_t *publishers[2];
    qw_session_t *session = NULL;
    qw_subscription_t *quotes = NULL;
    qw_session_options_t options;
    qw_message_t message;
    qw_value_t value = number("BID", 1.25);
    const char *items[] = {"A"};
    char servers[80], first[32], other[32], text[32];
    double bid = 0;
    int n;

    for (n = 0; n < 2; n++) {
        CHECK(qw_publisher_listen("FEED", "127.0.0.1:0", &publishers[n]) == 0);
        CHECK(qw_publish(publishers[n], "A", &value, 1) == 0 && qw_publisher_flush(publishers[n]) == 0);
    }
    snprintf(first, sizeof first, "127.0.0.1:%d", qw_publisher_port(publishers[0]));
    snprintf(other, sizeof other, "127.0.0.1:%d", qw_publisher_port(publishers[1]));
    snprintf(servers, sizeof servers, "%s | %s", first, other);
    memset(&options, 0, sizeof options);
    options.arrangement = 9;
    CHECK(qw_connect_with(servers, "me", &options, 30, &session) == -1 && strstr(qw_errmsg(), "QW_STANDBY_BY_LOGIN"));
    options.arrangement = QW_STANDBY_BY_LOGIN;
    options.fall_back_s = 1;
    CHECK(qw_connect_with(servers, "me", &options, 30, &session) == -1 && strstr(qw_errmsg(), "preferred"));
    options.fall_back_s = 0;
    options.preferred = first;
    options.fall_back_at = "at noon";
    CHECK(qw_connect_with(servers, "me", &options, 30, &session) == -1 && strstr(qw_errmsg(), "cron"));
    options.fall_back_at = "0 12 * * *";
    CHECK(qw_connect_with(servers, "me", &options, 30, &session) == 0);
    CHECK(qw_session_server(session, text, sizeof text, NULL) == 1 && strcmp(text, first) == 0);
    CHECK(qw_session_fall_back(session) == 0);
    CHECK(qw_subscribe(session, "FEED", items, 1, NULL, &quotes) == 0);
    CHECK(qw_next(quotes, 30, &message) == 1 && message.message_class == QW_REFRESH);
    CHECK(qw_publisher_close(publishers[0]) == 0);
    value = number("BID", 2.5);
    CHECK(qw_publish(publishers[1], "A", &value, 1) == 0);
    while (bid != 2.5) {
        CHECK(qw_next(quotes, 30, &message) == 1);
        if (message.message_class != QW_STATUS) CHECK(qw_field_double(quotes, "BID", &bid) == 1);
    }
    CHECK(qw_session_server(session, text, sizeof text, NULL) == 1 && strcmp(text, other) == 0);
    CHECK(qw_subscription_close(quotes) == 0 && qw_session_close(session) == 0 && qw_publisher_close(publishers[1]) == 0);
    return 0;
}

/* A publisher of the item A, and a session that watches it. */
struct pair {
    qw_publisher_t *publisher;
    qw_session_t *session;
    qw_subscription_t *quotes;
    qw_publisher_options_t options;
    qw_message_t message;
    qw_event_t event;
    qw_value_t value;
    const char *items[1];
    char address[64];
};

static struct pair pair_of_item(void) {
    struct pair p;

    memset(&p, 0, sizeof p);
    p.value = number("BID", 1.25);
    p.items[0] = "A";
    return p;
}

/* Posts and their answers, and generic messages both ways. */
static int posts(void) {
    struct pair p = pair_of_item();
    static const uint8_t question[] = {1, 2, 3}, reply[] = {4, 5};
    qw_answer_t answer;
    const uint8_t *bytes = NULL;
    char text[80];
    uint32_t first = 0, second = 0;
    uint8_t container = 0;
    size_t length = 0;

    memset(&p.options, 0, sizeof p.options);
    p.options.certificate = "a.pem";
    CHECK(qw_publisher_listen_with("FEED", "127.0.0.1:0", &p.options, &p.publisher) == -1 && strstr(qw_errmsg(), "options.key"));
    p.options.certificate = NULL;
    p.options.reserved[3] = 1;
    CHECK(qw_publisher_listen_with("FEED", "127.0.0.1:0", &p.options, &p.publisher) == -1 && strstr(qw_errmsg(), "reserved"));
    p.options.reserved[3] = 0;
    p.options.takes_posts = p.options.waits = 1;
    CHECK(qw_publisher_listen_with("FEED", "127.0.0.1:0", &p.options, &p.publisher) == 0);
    snprintf(p.address, sizeof p.address, "127.0.0.1:%d", qw_publisher_port(p.publisher));
    CHECK(qw_connect(p.address, "me", 30, &p.session) == 0);
    CHECK(qw_subscribe(p.session, "FEED", p.items, 1, NULL, &p.quotes) == 0);
    CHECK(qw_publisher_next(p.publisher, 30, &p.event) == 1 && p.event.kind == QW_WANTED);
    CHECK(strcmp(p.event.item, "A") == 0 && p.event.domain == 6 && p.event.length == 0);
    CHECK(qw_publisher_answer(p.publisher, QW_OPAQUE, reply, sizeof reply) == -1 && qw_errnum() == QW_EINVALID);
    CHECK(qw_next(p.quotes, 0, &p.message) == 0 && qw_message_body(p.quotes, &container, &bytes, &length) == -1);
    CHECK(qw_publish(p.publisher, "A", &p.value, 1) == 0);
    CHECK(qw_next(p.quotes, 30, &p.message) == 1 && p.message.message_class == QW_REFRESH);
    CHECK(qw_message_body(p.quotes, &container, &bytes, &length) == 1 && container == QW_FIELD_LIST && length > 4);

    CHECK(qw_post(p.quotes, 1, &p.value, 1, &first) == -1 && strstr(qw_errmsg(), "item 1"));
    CHECK(qw_post_off_stream(p.session, "NONE", "A", &p.value, 1, &first) == -1 && qw_errnum() == QW_ENOTOPEN);
    CHECK(qw_post(p.quotes, 0, &p.value, 1, NULL) == 0);
    CHECK(qw_post(p.quotes, 0, &p.value, 1, &first) == 0 && qw_post_off_stream(p.session, "FEED", "B", &p.value, 1, &second) == 0);
    CHECK(first != second);
    CHECK(qw_publisher_next(p.publisher, 30, &p.event) == 1 && p.event.kind == QW_POSTED && strcmp(p.event.item, "A") == 0);
    CHECK(p.event.container == QW_FIELD_LIST && p.event.length == length && memcmp(p.event.bytes, bytes, length) == 0);
    CHECK(qw_publisher_next(p.publisher, 30, &p.event) == 1 && p.event.kind == QW_POSTED && strcmp(p.event.item, "A") == 0);
    CHECK(qw_publisher_next(p.publisher, 30, &p.event) == 1 && p.event.kind == QW_POSTED && strcmp(p.event.item, "B") == 0);
    CHECK(qw_next_answer(p.session, 30, &answer, text, sizeof text, NULL) == 1 && answer.post_id == first && answer.kind == QW_TAKEN);
    CHECK(qw_next_answer(p.session, 30, &answer, NULL, 0, NULL) == 1 && answer.post_id == second && answer.nak_code == 0);
    CHECK(qw_next_answer(p.session, 0, &answer, NULL, 0, NULL) == 0);

    CHECK(qw_send_generic(p.quotes, 0, 3, question, sizeof question) == -1 && strstr(qw_errmsg(), "container: 3"));
    CHECK(qw_send_generic(p.quotes, 0, QW_OPAQUE, question, sizeof question) == 1);
    CHECK(qw_publisher_next(p.publisher, 30, &p.event) == 1 && p.event.kind == QW_ASKED && p.event.container == QW_OPAQUE);
    CHECK(p.event.length == sizeof question && memcmp(p.event.bytes, question, sizeof question) == 0);
    CHECK(qw_publisher_answer(p.publisher, QW_OPAQUE, reply, sizeof reply) == 0);
    /* The answer to the post on its stream is among its messages, too. */
    CHECK(qw_next(p.quotes, 30, &p.message) == 1 && p.message.message_class == QW_ACK);
    CHECK(qw_next(p.quotes, 30, &p.message) == 1 && p.message.message_class == QW_GENERIC);
    CHECK(qw_message_body(p.quotes, &container, &bytes, &length) == 1 && container == QW_OPAQUE);
    CHECK(length == sizeof reply && memcmp(bytes, reply, length) == 0);
    /* Nobody is there to be posted to. */
    CHECK(qw_publisher_close(p.publisher) == 0);
    CHECK(qw_next(p.quotes, 30, &p.message) == 1 && p.message.message_class == QW_STATUS);
    CHECK(qw_post(p.quotes, 0, &p.value, 1, &first) == -1 && qw_errnum() == QW_ENOTOPEN);
    CHECK(qw_subscription_close(p.quotes) == 0 && qw_session_close(p.session) == 0);
    return 0;
}

/* The members of a chain as they come and go. */
static int chain(void) {
    qw_publisher_t *publisher = NULL;
    qw_session_t *session = NULL;
    qw_subscription_t *members = NULL;
    qw_options_t options;
    qw_message_t message;
    qw_counts_t counts;
    qw_value_t value = number("BID", 1.25), links[3];
    const char *names[] = {"LINK_1", "LINK_2", "REF_COUNT"};
    char address[64];
    double bid = 0;
    uint32_t b = 0;
    int n, joined = 0, images = 0;

    CHECK(qw_publisher_listen("FEED", "127.0.0.1:0", &publisher) == 0);
    CHECK(qw_publish(publisher, "A", &value, 1) == 0 && qw_publish(publisher, "B", &value, 1) == 0);
    memset(links, 0, sizeof links);
    for (n = 0; n < 3; n++) {
        links[n].name = names[n];
        links[n].type = n == 2 ? QW_INTEGER : QW_TEXT;
    }
    links[0].text = "A";
    links[1].text = "B";
    links[2].integer = 2;
    CHECK(qw_publish(publisher, "0#LIST", links, 3) == 0 && qw_publisher_flush(publisher) == 0);
    snprintf(address, sizeof address, "127.0.0.1:%d", qw_publisher_port(publisher));
    CHECK(qw_connect(address, "me", 30, &session) == 0);
    memset(&options, 0, sizeof options);
    options.is_snapshot = 1;
    CHECK(qw_follow(session, "FEED", "0#LIST", 0, &options, &members) == -1 && strstr(qw_errmsg(), "is_snapshot"));
    CHECK(qw_follow(session, "FEED", "0#LIST", 0, NULL, &members) == 0);
    while (joined < 2 || images < 2) {
        CHECK(qw_next(members, 30, &message) == 1);
        CHECK(strcmp(message.name, "A") == 0 || strcmp(message.name, "B") == 0);
        if (message.message_class == QW_JOINED) {
            joined++;
            CHECK(message.length == 0 && message.bytes == NULL && qw_message_text(members, NULL, 0, NULL) == -1);
            if (strcmp(message.name, "B") == 0) b = message.item;
        } else {
            images++;
            CHECK(message.message_class == QW_REFRESH && qw_field_double(members, "BID", &bid) == 1 && bid == 1.25);
        }
    }
    CHECK(qw_pause(members, b, 1) == -1 && strstr(qw_errmsg(), "members"));
    links[1].text = "";
    links[2].integer = 1;
    CHECK(qw_publish(publisher, "0#LIST", links, 3) == 0);
    CHECK(qw_next(members, 30, &message) == 1 && message.message_class == QW_LEFT && message.item == b);
    CHECK(strcmp(message.name, "B") == 0);
    CHECK(qw_publish_end(publisher, "0#LIST", "over") == 0);
    CHECK(qw_next(members, 30, &message) == 1 && message.message_class == QW_BROKEN && strcmp(message.name, "0#LIST") == 0);
    CHECK(qw_next(members, 30, &message) == 1 && message.message_class == QW_LEFT && strcmp(message.name, "A") == 0);
    CHECK(qw_subscription_counts(members, &counts) == 0 && counts.queued > 3);
    CHECK(qw_subscription_close(members) == 0 && qw_session_close(session) == 0 && qw_publisher_close(publisher) == 0);
    return 0;
}

/* Consumers and publishers by TLS, in both transports. */
static int encrypted(const char *certificate, const char *key) {
    struct pair p = pair_of_item();
    qw_publisher_t *dialling = NULL;
    qw_session_options_t how;
    int n;

    memset(&p.options, 0, sizeof p.options);
    p.options.certificate = certificate;
    p.options.key = key;
    CHECK(qw_publisher_listen_with("FEED", "127.0.0.1:0", &p.options, &p.publisher) == 0);
    CHECK(qw_publish(p.publisher, "A", &p.value, 1) == 0 && qw_publisher_flush(p.publisher) == 0);
    snprintf(p.address, sizeof p.address, "127.0.0.1:%d", qw_publisher_port(p.publisher));
    for (n = 0; n < 2; n++) {
        memset(&how, 0, sizeof how);
        how.roots = certificate;
        how.is_websocket = (uint8_t)n;
        CHECK(qw_connect_with(p.address, "me", &how, 30, &p.session) == 0);
        CHECK(qw_subscribe(p.session, "FEED", p.items, 1, NULL, &p.quotes) == 0);
        CHECK(qw_next(p.quotes, 30, &p.message) == 1 && p.message.message_class == QW_REFRESH);
        CHECK(qw_subscription_close(p.quotes) == 0 && qw_session_close(p.session) == 0);
        memset(&p.options, 0, sizeof p.options);
        p.options.roots = certificate;
        p.options.is_websocket = (uint8_t)n;
        /* Who dials logs in wherever a login is taken. */
        CHECK(qw_publisher_dial_with("OTHER", p.address, "me", &p.options, &dialling) == 0);
        CHECK(qw_publisher_next(dialling, 30, &p.event) == 1 && p.event.kind == QW_READY);
        CHECK(qw_publisher_close(dialling) == 0);
    }
    /* Nobody is served who does not encrypt, or does not trust. */
    CHECK(qw_connect(p.address, "me", 0.5, &p.session) == -1 && qw_errnum() == QW_ECONNECT);
    p.options.roots = key;
    CHECK(qw_publisher_dial_with("OTHER", p.address, "me", &p.options, &dialling) == -1 && qw_errnum() == QW_EINVALID);
    CHECK(qw_publisher_close(p.publisher) == 0);
    return 0;
}

int main(int argc, char **argv) {
    if (argc != 1 && argc != 3) return 2;
    if (errors() || round_trip() || standby() || posts() || chain() || (argc == 3 && encrypted(argv[1], argv[2]))) return line > 0;
    puts("all as it should be");
    return 0;
}
