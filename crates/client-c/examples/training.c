/* What EMA's training examples for consumers show, under their numbers: `training NUMBER HOST:PORT SERVICE ITEM...` prints what comes, and ends with 0
   when all that the example is about has come. docs/operating/ema-training.md has the list.

   cc -std=c99 training.c $(pkg-config --cflags --libs quoteway) -o training */
#include <quoteway.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATIENCE 20.0
#define ITEMS_MAX 64

/* What an example is run with. */
typedef struct {
    char *servers;
    const char *service;
    const char *const *items;
    size_t count;
} example_t;

/* What has come of all items. */
typedef struct {
    int images;
    int updates;
    int ends;
} seen_t;

static int fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, qw_errnum() == 0 ? "nothing more comes" : qw_errmsg());
    return 1;
}

static qw_session_t *connect_with(const example_t *example, const qw_session_options_t *options) {
    qw_session_t *session = NULL;
    if (qw_connect_with(example->servers, "training", options, PATIENCE, &session) != 0) fail("connect");
    return session;
}

static qw_subscription_t *open_items(const example_t *example, qw_session_t *session, const qw_options_t *options) {
    qw_subscription_t *items = NULL;
    if (session != NULL && qw_subscribe(session, example->service, example->items, example->count, options, &items) != 0) fail("subscribe");
    return items;
}

/* Takes a message and prints it: 1; none has come in time: 0. */
static int print_next(qw_subscription_t *items, double timeout_s, seen_t *seen) {
    qw_message_t message;
    char *text;
    size_t length = 0;
    int taken = qw_next(items, timeout_s, &message);

    if (taken != 1) return taken;
    seen->images += message.message_class == QW_REFRESH;
    seen->updates += message.message_class == QW_UPDATE;
    seen->ends += message.is_final != 0;
    /* The first call says how long the text is. */
    if (qw_message_text(items, NULL, 0, &length) != 1 || (text = malloc(length + 1)) == NULL) return -1;
    taken = qw_message_text(items, text, length + 1, NULL);
    printf("%s\n%s\n", message.name, text);
    free(text);
    return taken;
}

/* Prints until so much has come. */
static int print_until(qw_subscription_t *items, int images, int updates, int ends) {
    seen_t seen = {0, 0, 0};
    if (items == NULL) return 1;
    while (seen.images < images || seen.updates < updates || seen.ends < ends)
        if (print_next(items, PATIENCE, &seen) != 1) return fail("next");
    return 0;
}

static int close_all(qw_subscription_t *items, qw_session_t *session, int failed) {
    if (items != NULL) failed |= qw_subscription_close(items) != 0;
    if (session != NULL) failed |= qw_session_close(session) != 0;
    return failed;
}

/* Images and an update of items as options say. */
static int watch_with(const example_t *example, const qw_session_options_t *how, const qw_options_t *options, int updates) {
    qw_session_t *session = connect_with(example, how);
    qw_subscription_t *items = open_items(example, session, options);
    return close_all(items, session, print_until(items, 1, updates, 0));
}

static int watch(const example_t *example) {
    return watch_with(example, NULL, NULL, 1);
}

/* 102: images alone; the last message of each item says that it is the last. */
static int snapshots(const example_t *example) {
    qw_options_t options = {0};
    qw_session_t *session = connect_with(example, NULL);
    qw_subscription_t *items;

    options.is_snapshot = 1;
    items = open_items(example, session, &options);
    return close_all(items, session, print_until(items, (int)example->count, 0, (int)example->count));
}

/* 140, 210: another domain. */
static int orders(const example_t *example) {
    qw_options_t options = {0};
    options.domain = 7;
    return watch_with(example, NULL, &options, 0);
}

/* 170: who serves, and how often a connection was lost. */
static int channel(const example_t *example) {
    qw_session_t *session = connect_with(example, NULL);
    char server[300];
    uint64_t lost = 0;

    if (session == NULL) return 1;
    if (qw_session_server(session, server, sizeof server, NULL) != 1 || qw_session_status(session, &lost) != 1) return close_all(NULL, session, fail("status"));
    printf("server\t%s\nlost\t%llu\n", server, (unsigned long long)lost);
    return close_all(NULL, session, 0);
}

/* 180: RWF in WebSocket frames. */
static int over_websocket(const example_t *example) {
    qw_session_options_t how = {0};
    how.is_websocket = 1;
    return watch_with(example, &how, NULL, 0);
}

/* 280: messages as they wait, without a wait for each. */
static int count(const example_t *example) {
    qw_session_t *session = connect_with(example, NULL);
    qw_subscription_t *items = open_items(example, session, NULL);
    qw_message_t message;
    int messages = 0;

    if (items == NULL) return close_all(items, session, 1);
    while (messages < 100 && qw_next(items, PATIENCE, &message) == 1) messages++;
    printf("messages\t%d\n", messages);
    return close_all(items, session, messages < 100);
}

/* 300: closed, and opened once more. */
static int close_and_open(const example_t *example) {
    qw_session_t *session = connect_with(example, NULL);
    qw_subscription_t *items = open_items(example, session, NULL);
    int failed = print_until(items, 1, 0, 0);

    if (items != NULL) failed |= qw_subscription_close(items) != 0;
    puts("closed");
    items = open_items(example, session, NULL);
    return close_all(items, session, failed | print_until(items, 1, 0, 0));
}

/* 301: another priority, on the stream that is open. */
static int priority(const example_t *example) {
    qw_session_t *session = connect_with(example, NULL);
    qw_subscription_t *items = open_items(example, session, NULL);
    int failed = print_until(items, 1, 0, 0);

    if (!failed && qw_set_priority(items, 0, 5, 1) != 1) failed = fail("priority");
    return close_all(items, session, failed || print_until(items, 0, 1, 0));
}

/* 350: everything rests, and goes on. */
static int pause_all(const example_t *example) {
    qw_session_t *session = connect_with(example, NULL);
    qw_subscription_t *items = open_items(example, session, NULL);
    seen_t seen = {0, 0, 0};
    int failed = print_until(items, 1, 0, 0);

    if (!failed && qw_session_pause(session, 1) != 0) failed = fail("pause");
    /* What was under way still comes. */
    while (!failed && print_next(items, 0.5, &seen) == 1) continue;
    puts("paused");
    if (!failed && qw_session_pause(session, 0) != 0) failed = fail("resume");
    return close_all(items, session, failed || print_until(items, 0, 1, 0));
}

/* 360: some fields, and their values. */
static int view(const example_t *example) {
    static const char *const fields[] = {"BID", "ASK"};
    qw_options_t options = {0};
    qw_session_t *session = connect_with(example, NULL);
    qw_subscription_t *items;
    qw_message_t message;
    double bid = 0;
    int failed = 1;

    options.fields = fields;
    options.field_count = 2;
    items = open_items(example, session, &options);
    while (items != NULL && failed && qw_next(items, PATIENCE, &message) == 1)
        if (qw_field_double(items, "BID", &bid) == 1) {
            printf("%s\tBID\t%g\n", message.name, bid);
            failed = 0;
        }
    return close_all(items, session, failed);
}

/* 370: many items with one request. */
static int batch(const example_t *example) {
    qw_session_t *session = connect_with(example, NULL);
    qw_subscription_t *items = open_items(example, session, NULL);
    return close_all(items, session, print_until(items, (int)example->count, 0, 0));
}

/* 270: the members of a symbol list, opened and closed as it changes. */
static int symbol_list(const example_t *example) {
    qw_session_t *session = connect_with(example, NULL);
    qw_subscription_t *members = NULL;
    qw_message_t message;
    int joined = 0, images = 0;

    if (session == NULL || qw_follow(session, example->service, example->items[0], 1, NULL, &members) != 0) return close_all(NULL, session, fail("follow"));
    while ((joined == 0 || images < joined) && qw_next(members, PATIENCE, &message) == 1) {
        joined += message.message_class == QW_JOINED;
        images += message.message_class == QW_REFRESH;
        printf("%d\t%s\n", (int)message.message_class, message.name);
    }
    return close_all(members, session, joined == 0 || images < joined);
}

/* 320: a generic message, and what the provider says so. */
static int generic(const example_t *example) {
    static const uint8_t text[] = "any data";
    qw_session_t *session = connect_with(example, NULL);
    qw_subscription_t *items = open_items(example, session, NULL);
    qw_message_t message;
    const uint8_t *bytes = NULL;
    uint8_t container = 0;
    size_t length = 0;
    int failed = print_until(items, 1, 0, 0);

    if (!failed && qw_send_generic(items, 0, QW_OPAQUE, text, sizeof text - 1) != 1) failed = fail("generic");
    while (!failed && qw_next(items, PATIENCE, &message) == 1) {
        if (message.message_class != QW_GENERIC) continue;
        if (qw_message_body(items, &container, &bytes, &length) != 1) return close_all(items, session, fail("body"));
        printf("%d\t%.*s\n", (int)container, (int)length, (const char *)bytes);
        return close_all(items, session, 0);
    }
    return close_all(items, session, 1);
}

/* 340 on the item's stream, 341 off it: a post, and its answer. */
static int post(const example_t *example, int on_stream) {
    qw_session_t *session = connect_with(example, NULL);
    qw_subscription_t *items = open_items(example, session, NULL);
    qw_value_t value = {0};
    qw_answer_t answer;
    char text[200];
    uint32_t id = 0;
    int failed = print_until(items, 1, 0, 0);

    value.name = "BID";
    value.type = QW_DOUBLE;
    value.number = 1.25;
    if (failed) return close_all(items, session, failed);
    if (on_stream ? qw_post(items, 0, &value, 1, &id) : qw_post_off_stream(session, example->service, example->items[0], &value, 1, &id))
        return close_all(items, session, fail("post"));
    while (qw_next_answer(session, PATIENCE, &answer, text, sizeof text, NULL) == 1) {
        if (answer.post_id != id) continue;
        printf("%s\t%s\n", answer.kind == QW_TAKEN ? "taken" : answer.kind == QW_REFUSED ? "refused" : "unanswered", text);
        return close_all(items, session, 0);
    }
    return close_all(items, session, fail("answer"));
}

static int post_on_stream(const example_t *example) {
    return post(example, 1);
}

static int post_off_stream(const example_t *example) {
    return post(example, 0);
}

/* 410: two sessions in one program. */
static int two_sessions(const example_t *example) {
    qw_session_t *sessions[2];
    qw_subscription_t *items[2];
    int n, failed = 0;

    for (n = 0; n < 2; n++) {
        sessions[n] = connect_with(example, NULL);
        items[n] = open_items(example, sessions[n], NULL);
    }
    for (n = 0; n < 2; n++) failed |= print_until(items[n], 1, 1, 0);
    for (n = 0; n < 2; n++) failed |= close_all(items[n], sessions[n], 0);
    return failed;
}

/* 470: one server serves, and the others stand by; 510: each item where it can be had. Servers with a bar between them. */
static int standby(const example_t *example) {
    qw_session_options_t how = {0};
    how.arrangement = QW_STANDBY_BY_LOGIN;
    return watch_with(example, &how, NULL, 1);
}

/* 500: the last server of the list is preferred, and gone back to at 6:30 on working days, or when that is asked for. */
static int preferred(const example_t *example) {
    qw_session_options_t how = {0};
    const char *last = strrchr(example->servers, ',');
    qw_session_t *session;
    int left;

    how.preferred = last == NULL ? example->servers : last + 1;
    how.fall_back_at = "30 6 * * MON-FRI";
    session = connect_with(example, &how);
    if (session == NULL) return 1;
    left = qw_session_fall_back(session);
    printf("left\t%d\n", left);
    return close_all(NULL, session, left < 0);
}

static const struct {
    const char *number;
    int (*run)(const example_t *);
} EXAMPLES[] = {
    {"100", watch},        {"102", snapshots},    {"140", orders},    {"170", channel},  {"180", over_websocket}, {"200", watch},
    {"210", orders},       {"280", count},        {"300", close_and_open}, {"301", priority}, {"350", pause_all},   {"360", view},
    {"370", batch},        {"410", two_sessions}, {"470", standby},   {"500", preferred}, {"510", watch},
    {"270", symbol_list},  {"320", generic},      {"340", post_on_stream}, {"341", post_off_stream},
};

int main(int argc, char **argv) {
    example_t example;
    size_t n;

    if (argc == 2 && strcmp(argv[1], "list") == 0) {
        for (n = 0; n < sizeof EXAMPLES / sizeof *EXAMPLES; n++) puts(EXAMPLES[n].number);
        return 0;
    }
    if (argc < 5 || argc > 4 + ITEMS_MAX) {
        fprintf(stderr, "training NUMBER HOST:PORT SERVICE ITEM...\n");
        return 2;
    }
    example.servers = argv[2];
    example.service = argv[3];
    example.items = (const char *const *)argv + 4;
    example.count = (size_t)argc - 4;
    for (n = 0; n < sizeof EXAMPLES / sizeof *EXAMPLES; n++)
        if (strcmp(EXAMPLES[n].number, argv[1]) == 0) return EXAMPLES[n].run(&example);
    fprintf(stderr, "no example %s\n", argv[1]);
    return 2;
}
