/* Subscribes: subscriber TOPIC [OPTIONS-FILE]
 * Counts the messages of a publisher until that asks whether it is done. Fails if anything was lost. */
#include <quoteway_lbm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(int status, const char *what) {
    if (status != QW_LBM_OK) {
        fprintf(stderr, "%s: %s (%d)\n", what, qw_lbm_errmsg(), qw_lbm_errnum());
        exit(1);
    }
}

struct state {
    qw_lbm_context_t *ctx;
    unsigned long messages, lost;
    int done;
};

static int on_message(qw_lbm_rcv_t *rcv, const qw_lbm_msg_t *msg, void *clientd) {
    struct state *state = clientd;
    char text[64];
    int len;
    (void)rcv;
    switch (msg->type) {
    case QW_LBM_MSG_DATA:
        state->messages++;
        break;
    case QW_LBM_MSG_BOS:
        printf("begin: %s from %s\n", msg->topic_name, msg->source);
        break;
    case QW_LBM_MSG_EOS:
        printf("end: %s\n", msg->topic_name);
        break;
    case QW_LBM_MSG_UNRECOVERABLE_LOSS:
    case QW_LBM_MSG_UNRECOVERABLE_LOSS_BURST:
        state->lost += msg->count;
        break;
    case QW_LBM_MSG_REQUEST:
        state->done = msg->len == 5 && memcmp(msg->data, "done?", 5) == 0;
        len = snprintf(text, sizeof text, "%lu messages, %lu lost", state->messages, state->lost);
        check(qw_lbm_send_response(state->ctx, &msg->reply_to, text, (size_t)len), "response");
        break;
    }
    return 0;
}

int main(int argc, char **argv) {
    struct state state = {0};
    qw_lbm_context_attr_t *attr;
    qw_lbm_rcv_t *rcv;
    int i;

    if (argc < 2) {
        fprintf(stderr, "usage: %s TOPIC [OPTIONS-FILE]\n", argv[0]);
        return 2;
    }
    if (argc > 2) {
        check(qw_lbm_config(argv[2]), "options");
    }
    /* This one has no thread: everything happens in qw_lbm_context_process_events. */
    check(qw_lbm_context_attr_create(&attr), "attributes");
    check(qw_lbm_context_attr_str_setopt(attr, "operational_mode", "sequential"), "mode");
    check(qw_lbm_context_create(&state.ctx, attr), "context");
    check(qw_lbm_context_attr_delete(attr), "attributes");
    check(qw_lbm_rcv_create(&rcv, state.ctx, argv[1], NULL, on_message, &state), "receiver");
    while (!state.done) {
        check(qw_lbm_context_process_events(state.ctx, 100), "events");
    }
    /* The response leaves by TCP in the turns that follow. */
    for (i = 0; i < 10; i++) {
        check(qw_lbm_context_process_events(state.ctx, 50), "events");
    }
    printf("%lu messages, %lu lost\n", state.messages, state.lost);
    check(qw_lbm_rcv_delete(rcv), "receiver");
    check(qw_lbm_context_delete(state.ctx), "context");
    return state.lost == 0 ? 0 : 1;
}
