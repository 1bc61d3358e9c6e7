/* Hot failover: two sources of two transports, one of them deleted in the middle; each number comes once. Ends with 0 if all is so. */
#include <quoteway_lbm.h>
#include <stdio.h>
#include <string.h>

#define NUMBERS 400

static int failures = 0;

#define EXPECT(what)                                                                                                                \
    do {                                                                                                                           \
        if (!(what)) {                                                                                                             \
            printf("line %d: not so: %s; code %d, \"%s\"\n", __LINE__, #what, qw_lbm_errnum(), qw_lbm_errmsg());                   \
            failures++;                                                                                                            \
        }                                                                                                                          \
    } while (0)

struct heard {
    uint64_t next;
    int begun, passed, optional, resets, differences, losses;
};

static int receive(qw_lbm_rcv_t *rcv, const qw_lbm_msg_t *msg, void *clientd) {
    struct heard *heard = clientd;
    (void)rcv;
    switch (msg->type) {
    case QW_LBM_MSG_BOS:
        heard->begun++;
        break;
    case QW_LBM_MSG_DATA:
        if (msg->flags & QW_LBM_MSG_FLAG_HF_PASS_THROUGH) {
            heard->passed++;
            break;
        }
        EXPECT(msg->flags & QW_LBM_MSG_FLAG_HF_64 && !(msg->flags & QW_LBM_MSG_FLAG_HF_DUPLICATE));
        EXPECT(heard->next == 0 || msg->hf_sequence_number == heard->next);
        EXPECT(msg->len == 6 && memcmp(msg->data, "number", 6) == 0);
        heard->optional += (msg->flags & QW_LBM_MSG_FLAG_HF_OPTIONAL) != 0;
        heard->next = msg->hf_sequence_number + 1;
        break;
    case QW_LBM_MSG_HF_RESET:
        heard->resets++;
        heard->next = msg->hf_sequence_number;
        break;
    case QW_LBM_MSG_HF_DIFFERENCE:
        heard->differences++;
        break;
    case QW_LBM_MSG_UNRECOVERABLE_LOSS:
    case QW_LBM_MSG_UNRECOVERABLE_LOSS_BURST:
        heard->losses++;
        break;
    default:
        break;
    }
    return 0;
}

int main(int argc, char **argv) {
    struct heard heard;
    qw_lbm_context_attr_t *attr = NULL;
    qw_lbm_src_attr_t *src_attr = NULL;
    qw_lbm_context_t *ctx = NULL;
    qw_lbm_src_t *sources[2] = {NULL, NULL};
    qw_lbm_rcv_t *rcv = NULL;
    const char *transports[2] = {"lbtrm", "tcp"};
    const int flags = QW_LBM_MSG_FLUSH | QW_LBM_SRC_HF_64;
    uint64_t number = UINT64_C(1) << 40;
    int i, turn;
    memset(&heard, 0, sizeof heard);
    if (argc != 2 || qw_lbm_config(argv[1]) != QW_LBM_OK) {
        return 2;
    }
    EXPECT(qw_lbm_context_attr_create(&attr) == QW_LBM_OK);
    EXPECT(qw_lbm_context_attr_str_setopt(attr, "operational_mode", "sequential") == QW_LBM_OK);
    EXPECT(qw_lbm_context_create(&ctx, attr) == QW_LBM_OK);
    for (i = 0; i < 2; i++) {
        EXPECT(qw_lbm_src_attr_create(&src_attr) == QW_LBM_OK);
        EXPECT(qw_lbm_src_attr_str_setopt(src_attr, "transport", transports[i]) == QW_LBM_OK);
        EXPECT(qw_lbm_src_create(&sources[i], ctx, "c.failover", src_attr, NULL, NULL) == QW_LBM_OK);
        EXPECT(qw_lbm_src_attr_delete(src_attr) == QW_LBM_OK);
    }
    EXPECT(qw_lbm_hf_rcv_create(&rcv, ctx, "c.failover", NULL, receive, &heard) == QW_LBM_OK);
    /* The width has to be named, and 32 bits have to be enough. */
    EXPECT(qw_lbm_hf_src_send(sources[0], 1, "x", 1, 0) == QW_LBM_FAILURE && qw_lbm_errnum() == QW_LBM_EINVAL);
    EXPECT(qw_lbm_hf_src_send(sources[0], number, "x", 1, QW_LBM_SRC_HF_32) == QW_LBM_FAILURE);
    EXPECT(qw_lbm_errnum() == QW_LBM_EINVAL);
    /* A multicast source is heard when it says something. */
    for (turn = 0; heard.begun < 2 && turn < 30000; turn++) {
        for (i = 0; i < 2; i++) {
            EXPECT(qw_lbm_hf_src_send(sources[i], number, "number", 6, flags) == QW_LBM_OK);
        }
        number++;
        qw_lbm_context_process_events(ctx, 2);
    }
    for (turn = 0; turn < NUMBERS; turn++, number++) {
        const int optional = turn % 10 == 0 ? QW_LBM_SRC_HF_OPTIONAL : 0;
        for (i = turn < NUMBERS / 2 ? 0 : 1; i < 2; i++) {
            EXPECT(qw_lbm_hf_src_send(sources[i], number, "number", 6, flags | optional) == QW_LBM_OK);
        }
        if (turn == NUMBERS / 2) {
            EXPECT(qw_lbm_src_delete(sources[0]) == QW_LBM_OK);
        }
        qw_lbm_context_process_events(ctx, 0);
    }
    for (turn = 0; heard.next != number && turn < 30000; turn++) {
        qw_lbm_context_process_events(ctx, 2);
    }
    EXPECT(heard.next == number && heard.optional == NUMBERS / 10 && heard.losses == 0 && heard.differences == 0);
    EXPECT(qw_lbm_src_send(sources[1], "hello", 5, QW_LBM_MSG_FLUSH) == QW_LBM_OK);
    EXPECT(qw_lbm_hf_src_send_rcv_reset(sources[1], 7, flags) == QW_LBM_OK);
    EXPECT(qw_lbm_hf_src_send(sources[1], 7, "number", 6, flags) == QW_LBM_OK);
    for (turn = 0; heard.next != 8 && turn < 30000; turn++) {
        qw_lbm_context_process_events(ctx, 2);
    }
    EXPECT(heard.next == 8 && heard.resets == 1 && heard.passed == 1);
    EXPECT(qw_lbm_rcv_delete(rcv) == QW_LBM_OK && qw_lbm_src_delete(sources[1]) == QW_LBM_OK);
    EXPECT(qw_lbm_context_delete(ctx) == QW_LBM_OK && qw_lbm_context_attr_delete(attr) == QW_LBM_OK);
    return failures != 0;
}
