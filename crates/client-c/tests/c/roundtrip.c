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

int main(void) {
    if (errors() || round_trip() || standby()) return line > 0;
    puts("all as it should be");
    return 0;
}
