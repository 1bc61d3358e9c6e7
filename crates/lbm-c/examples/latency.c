/* One-way latency: latency send|receive TOPIC FILE [RATE SECONDS [OPTIONS-FILE]]
 * "send" sends RATE messages of 64 bytes a second for so long, each at its time, and writes down when; "receive" writes down when they
 * came. Start both with the same RATE and SECONDS on one machine, then: quoteway-lab observed SENT RECEIVED */
#include <quoteway_lbm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE 64

static void check(int status, const char *what) {
    if (status != QW_LBM_OK) {
        fprintf(stderr, "%s: %s (%d)\n", what, qw_lbm_errmsg(), qw_lbm_errnum());
        exit(1);
    }
}

struct test {
    qw_lbm_context_t *ctx;
    qw_lbm_observer_t *observer;
    const char *topic;
    uint64_t messages, interval_ns;
    volatile int answered, done;
};

static int on_response(qw_lbm_request_t *req, const qw_lbm_msg_t *msg, void *clientd) {
    struct test *test = clientd;
    (void)req, (void)msg;
    test->answered = 1;
    return 0;
}

/* Asks whoever listens until somebody answers. */
static void ask(struct test *test, qw_lbm_src_t *src, const char *what) {
    qw_lbm_request_t *req;
    uint64_t until;
    for (test->answered = 0; !test->answered;) {
        check(qw_lbm_send_request(&req, src, what, strlen(what), on_response, test, QW_LBM_MSG_FLUSH, 1000), "request");
        until = qw_lbm_observer_now() + 100 * 1000 * 1000;
        while (!test->answered && qw_lbm_observer_now() < until) {
            check(qw_lbm_context_process_events(test->ctx, 10), "events");
        }
        check(qw_lbm_request_delete(req), "request");
    }
}

static void send_all(struct test *test) {
    unsigned char text[SIZE] = {0};
    qw_lbm_src_t *src;
    uint64_t id, begin, intended;
    check(qw_lbm_src_create(&src, test->ctx, test->topic, NULL, NULL, NULL), "source");
    ask(test, src, "ready?");
    begin = qw_lbm_observer_now() + 1000 * 1000;
    for (id = 0; id < test->messages; id++) {
        intended = begin + id * test->interval_ns;
        /* The context's sockets are looked after while there is nothing to send. */
        do {
            check(qw_lbm_context_process_events(test->ctx, 0), "events");
        } while (qw_lbm_observer_now() < intended);
        memcpy(text, &id, sizeof id);
        check(qw_lbm_observer_sent(test->observer, id, intended), "observer");
        check(qw_lbm_src_send(src, text, sizeof text, QW_LBM_MSG_FLUSH), "send");
    }
    ask(test, src, "done?");
    check(qw_lbm_src_delete(src), "source");
}

static int on_message(qw_lbm_rcv_t *rcv, const qw_lbm_msg_t *msg, void *clientd) {
    struct test *test = clientd;
    uint64_t id;
    (void)rcv;
    if (msg->type == QW_LBM_MSG_DATA && msg->len == SIZE) {
        memcpy(&id, msg->data, sizeof id);
        check(qw_lbm_observer_received(test->observer, id), "observer");
    } else if (msg->type == QW_LBM_MSG_REQUEST) {
        test->done = msg->len == 5;
        check(qw_lbm_send_response(test->ctx, &msg->reply_to, "yes", 3), "response");
    }
    return 0;
}

static void receive_all(struct test *test) {
    qw_lbm_rcv_t *rcv;
    int turn;
    check(qw_lbm_rcv_create(&rcv, test->ctx, test->topic, NULL, on_message, test), "receiver");
    while (!test->done) {
        check(qw_lbm_context_process_events(test->ctx, 1), "events");
    }
    /* The response leaves by TCP in the turns that follow. */
    for (turn = 0; turn < 10; turn++) {
        check(qw_lbm_context_process_events(test->ctx, 50), "events");
    }
    check(qw_lbm_rcv_delete(rcv), "receiver");
}

int main(int argc, char **argv) {
    struct test test = {0};
    qw_lbm_context_attr_t *attr;
    long rate = argc > 4 ? atol(argv[4]) : 1000, seconds = argc > 5 ? atol(argv[5]) : 10;
    int is_sender = argc > 1 && strcmp(argv[1], "send") == 0;

    if (argc < 4 || rate <= 0 || seconds <= 0 || !(is_sender || strcmp(argv[1], "receive") == 0)) {
        fprintf(stderr, "usage: %s send|receive TOPIC FILE [RATE SECONDS [OPTIONS-FILE]]\n", argv[0]);
        return 2;
    }
    if (argc > 6) {
        check(qw_lbm_config(argv[6]), "options");
    }
    test.topic = argv[2];
    test.messages = (uint64_t)rate * (uint64_t)seconds;
    test.interval_ns = 1000000000u / (uint64_t)rate;
    check(qw_lbm_observer_create(&test.observer, is_sender ? QW_LBM_OBSERVER_SENDER : QW_LBM_OBSERVER_RECEIVER,
                                 (size_t)test.messages, 1, argv[3]),
          "observer");
    check(qw_lbm_context_attr_create(&attr), "attributes");
    check(qw_lbm_context_attr_str_setopt(attr, "operational_mode", "sequential"), "mode");
    check(qw_lbm_context_create(&test.ctx, attr), "context");
    check(qw_lbm_context_attr_delete(attr), "attributes");
    if (is_sender) {
        send_all(&test);
    } else {
        receive_all(&test);
    }
    check(qw_lbm_observer_finish(test.observer), "observations");
    check(qw_lbm_context_delete(test.ctx), "context");
    return 0;
}
