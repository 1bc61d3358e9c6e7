/* Publishes: publisher TOPIC COUNT [OPTIONS-FILE]
 * Sends COUNT numbered messages, then a request; ends when that is answered. */
#define _POSIX_C_SOURCE 199309L /* nanosleep */
#include <quoteway_lbm.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void check(int status, const char *what) {
    if (status != QW_LBM_OK) {
        fprintf(stderr, "%s: %s (%d)\n", what, qw_lbm_errmsg(), qw_lbm_errnum());
        exit(1);
    }
}

static void sleep_ms(long ms) {
    struct timespec time;
    time.tv_sec = ms / 1000;
    time.tv_nsec = ms % 1000 * 1000000;
    nanosleep(&time, NULL);
}

/* Written by the context's thread, read by ours. */
static volatile int answered = 0;

static int on_response(qw_lbm_request_t *req, const qw_lbm_msg_t *msg, void *clientd) {
    (void)req, (void)clientd;
    if (!answered) {
        printf("answer: %.*s\n", (int)msg->len, (const char *)msg->data);
        answered = 1;
    }
    return 0;
}

int main(int argc, char **argv) {
    qw_lbm_context_t *ctx;
    qw_lbm_src_attr_t *attr;
    qw_lbm_src_t *src;
    qw_lbm_request_t *req = NULL;
    long i, count;

    if (argc < 3) {
        fprintf(stderr, "usage: %s TOPIC COUNT [OPTIONS-FILE]\n", argv[0]);
        return 2;
    }
    count = atol(argv[2]);
    if (argc > 3) {
        check(qw_lbm_config(argv[3]), "options");
    }
    check(qw_lbm_context_create(&ctx, NULL), "context");
    check(qw_lbm_src_attr_create(&attr), "attributes");
    check(qw_lbm_src_attr_str_setopt(attr, "transport", "lbtrm"), "transport");
    check(qw_lbm_src_create(&src, ctx, argv[1], attr, NULL, NULL), "source");
    check(qw_lbm_src_attr_delete(attr), "attributes");

    /* A request that is answered says that somebody listens; nothing that is sent before is repeated to him. */
    while (!answered) {
        if (req != NULL) {
            check(qw_lbm_request_delete(req), "request");
        }
        check(qw_lbm_send_request(&req, src, "ready?", 6, on_response, NULL, QW_LBM_MSG_FLUSH, 1000), "request");
        sleep_ms(50);
    }
    check(qw_lbm_request_delete(req), "request");

    for (i = 0; i < count; i++) {
        char text[32];
        int len = snprintf(text, sizeof text, "message %ld", i);
        check(qw_lbm_src_send(src, text, (size_t)len, 0), "send");
    }
    answered = 0;
    check(qw_lbm_send_request(&req, src, "done?", 5, on_response, NULL, QW_LBM_MSG_FLUSH, 60000), "request");
    while (!answered) {
        sleep_ms(10);
    }
    check(qw_lbm_request_delete(req), "request");
    check(qw_lbm_src_delete(src), "source");
    check(qw_lbm_context_delete(ctx), "context");
    return 0;
}
