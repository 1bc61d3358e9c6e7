/* What may be called from callbacks: contexts that relay to each other do not wait for each other for ever, and what would wait is
 * refused. Ends with 0 if all is so. */
#define _POSIX_C_SOURCE 200809L /* sleep */

#include <pthread.h>
#include <quoteway_lbm.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ROUNDS 3000

static int failures = 0;

#define EXPECT(what)                                                                                                                \
    do {                                                                                                                           \
        if (!(what)) {                                                                                                             \
            printf("line %d: not so: %s; code %d, \"%s\"\n", __LINE__, #what, qw_lbm_errnum(), qw_lbm_errmsg());                   \
            failures++;                                                                                                            \
        }                                                                                                                          \
    } while (0)

struct side {
    qw_lbm_context_t *ctx;
    qw_lbm_src_t *out;
    qw_lbm_src_t *to_other; /* of the other context */
    qw_lbm_context_t *other;
    volatile long heard, refused, checked;
};

/* Sends what comes on by the other context, whose callbacks do the same. */
static int relay(qw_lbm_rcv_t *rcv, const qw_lbm_msg_t *msg, void *clientd) {
    struct side *side = clientd;
    (void)rcv;
    if (msg->type != QW_LBM_MSG_DATA) {
        return 0;
    }
    side->heard++;
    if (!side->checked) {
        qw_lbm_context_t *made = NULL;
        qw_lbm_src_t *src = NULL;
        EXPECT(qw_lbm_context_create(&made, NULL) == QW_LBM_FAILURE && qw_lbm_errnum() == QW_LBM_EINCALLBACK);
        EXPECT(qw_lbm_context_delete(side->ctx) == QW_LBM_FAILURE && qw_lbm_errnum() == QW_LBM_EINCALLBACK);
        EXPECT(qw_lbm_context_delete(side->other) == QW_LBM_FAILURE && qw_lbm_errnum() == QW_LBM_EINCALLBACK);
        EXPECT(qw_lbm_context_process_events(side->other, 0) == QW_LBM_FAILURE && qw_lbm_errnum() == QW_LBM_EINCALLBACK);
        EXPECT(qw_lbm_src_create(&src, side->ctx, "x", NULL, NULL, NULL) == QW_LBM_FAILURE);
        EXPECT(qw_lbm_errnum() == QW_LBM_EINCALLBACK);
        EXPECT(qw_lbm_context_unblock(side->other) == QW_LBM_OK);
        side->checked = 1;
    }
    if (qw_lbm_src_send(side->to_other, "relayed", 7, QW_LBM_MSG_FLUSH | QW_LBM_SRC_NONBLOCK) != QW_LBM_OK) {
        EXPECT(qw_lbm_errnum() == QW_LBM_EDEADLOCK || qw_lbm_errnum() == QW_LBM_EWOULDBLOCK);
        side->refused += qw_lbm_errnum() == QW_LBM_EDEADLOCK;
    }
    return 0;
}

static qw_lbm_context_t *of_log = NULL;
static qw_lbm_src_t *src_of_log = NULL;
static volatile int logged = 0;

/* A warning comes while a context works: the function may not use contexts. */
static void log_proc(const char *text, void *clientd) {
    (void)text, (void)clientd;
    if (src_of_log != NULL && !logged) {
        EXPECT(qw_lbm_src_send(src_of_log, "x", 1, 0) == QW_LBM_FAILURE && qw_lbm_errnum() == QW_LBM_EINCALLBACK);
        EXPECT(qw_lbm_context_delete(of_log) == QW_LBM_FAILURE && qw_lbm_errnum() == QW_LBM_EINCALLBACK);
        EXPECT(qw_lbm_context_process_events(of_log, 0) == QW_LBM_FAILURE && qw_lbm_errnum() == QW_LBM_EINCALLBACK);
        logged = 1;
    }
}

static void *watchdog(void *unused) {
    (void)unused;
    sleep(60);
    printf("the contexts wait for each other\n");
    fflush(stdout);
    _exit(9);
}

static void warnings(void) {
    qw_lbm_context_attr_t *attr = NULL;
    int turns;
    EXPECT(qw_lbm_context_attr_create(&attr) == QW_LBM_OK);
    EXPECT(qw_lbm_context_attr_str_setopt(attr, "operational_mode", "sequential") == QW_LBM_OK);
    EXPECT(qw_lbm_context_attr_str_setopt(attr, "resolver_multicast_receiver_socket_buffer", "2000000000") == QW_LBM_OK);
    EXPECT(qw_lbm_log(log_proc, NULL) == QW_LBM_OK);
    EXPECT(qw_lbm_context_create(&of_log, attr) == QW_LBM_OK);
    EXPECT(qw_lbm_src_create(&src_of_log, of_log, "log", NULL, NULL, NULL) == QW_LBM_OK);
    for (turns = 0; turns < 10 && !logged; turns++) {
        EXPECT(qw_lbm_context_process_events(of_log, 1) == QW_LBM_OK);
    }
    EXPECT(logged);
    EXPECT(qw_lbm_log(NULL, NULL) == QW_LBM_OK);
    EXPECT(qw_lbm_src_delete(src_of_log) == QW_LBM_OK);
    EXPECT(qw_lbm_context_delete(of_log) == QW_LBM_OK);
    EXPECT(qw_lbm_context_attr_delete(attr) == QW_LBM_OK);
}

int main(int argc, char **argv) {
    struct side left, right;
    qw_lbm_rcv_t *left_rcv = NULL, *right_rcv = NULL;
    qw_lbm_src_t *left_in = NULL, *right_in = NULL;
    pthread_t dog;
    long rounds = 0;

    (void)argc;
    memset(&left, 0, sizeof left);
    memset(&right, 0, sizeof right);
    EXPECT(pthread_create(&dog, NULL, watchdog, NULL) == 0);
    EXPECT(qw_lbm_config(argv[1]) == QW_LBM_OK);
    warnings();
    EXPECT(qw_lbm_context_create(&left.ctx, NULL) == QW_LBM_OK);
    EXPECT(qw_lbm_context_create(&right.ctx, NULL) == QW_LBM_OK);
    /* What either hears of the topics "to.left" and "to.right", it sends by the other on topics that nobody hears. */
    EXPECT(qw_lbm_src_create(&left.out, left.ctx, "from.left", NULL, NULL, NULL) == QW_LBM_OK);
    EXPECT(qw_lbm_src_create(&right.out, right.ctx, "from.right", NULL, NULL, NULL) == QW_LBM_OK);
    left.to_other = right.out, left.other = right.ctx;
    right.to_other = left.out, right.other = left.ctx;
    EXPECT(qw_lbm_src_create(&left_in, right.ctx, "to.left", NULL, NULL, NULL) == QW_LBM_OK);
    EXPECT(qw_lbm_src_create(&right_in, left.ctx, "to.right", NULL, NULL, NULL) == QW_LBM_OK);
    EXPECT(qw_lbm_rcv_create(&left_rcv, left.ctx, "to.left", NULL, relay, &left) == QW_LBM_OK);
    EXPECT(qw_lbm_rcv_create(&right_rcv, right.ctx, "to.right", NULL, relay, &right) == QW_LBM_OK);
    while ((left.heard < ROUNDS || right.heard < ROUNDS) && rounds < 10000000) {
        EXPECT(qw_lbm_src_send(left_in, "x", 1, QW_LBM_MSG_FLUSH) == QW_LBM_OK);
        EXPECT(qw_lbm_src_send(right_in, "x", 1, QW_LBM_MSG_FLUSH) == QW_LBM_OK);
        rounds++;
    }
    printf("%ld and %ld heard, %ld and %ld refused\n", left.heard, right.heard, left.refused, right.refused);
    EXPECT(left.heard >= ROUNDS && right.heard >= ROUNDS);
    EXPECT(qw_lbm_rcv_delete(left_rcv) == QW_LBM_OK && qw_lbm_rcv_delete(right_rcv) == QW_LBM_OK);
    EXPECT(qw_lbm_src_delete(left_in) == QW_LBM_OK && qw_lbm_src_delete(right_in) == QW_LBM_OK);
    EXPECT(qw_lbm_src_delete(left.out) == QW_LBM_OK && qw_lbm_src_delete(right.out) == QW_LBM_OK);
    EXPECT(qw_lbm_context_delete(left.ctx) == QW_LBM_OK && qw_lbm_context_delete(right.ctx) == QW_LBM_OK);
    return failures;
}
