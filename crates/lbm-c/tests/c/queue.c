/* A source with an application set, and two receivers that share its messages, one of which is deleted. Ends with 0 if all is so. */
#include <quoteway_lbm.h>
#include <stdio.h>
#include <string.h>

#define MESSAGES 200

static int failures = 0;

#define EXPECT(what)                                                                                                                \
    do {                                                                                                                           \
        if (!(what)) {                                                                                                             \
            printf("line %d: not so: %s; code %d, \"%s\"\n", __LINE__, #what, qw_lbm_errnum(), qw_lbm_errmsg());                   \
            failures++;                                                                                                            \
        }                                                                                                                          \
    } while (0)

struct told {
    int ready, complete, assigned;
    uint64_t last;
};

struct had {
    int count, again;
    uint32_t last;
};

static int publish(qw_lbm_src_t *src, int event, void *clientd) {
    struct told *told = clientd;
    qw_lbm_src_ulb_event_t about;
    (void)src;
    EXPECT(qw_lbm_src_ulb_event(&about) == QW_LBM_OK);
    switch (event) {
    case QW_LBM_SRC_EVENT_UMQ_ULB_RECEIVER_READY:
        EXPECT(about.receiver != 0 && about.application_set == 0);
        told->ready++;
        break;
    case QW_LBM_SRC_EVENT_UMQ_ULB_MESSAGE_ASSIGNED:
        told->assigned++;
        break;
    case QW_LBM_SRC_EVENT_UMQ_ULB_MESSAGE_COMPLETE:
        told->complete++;
        told->last = about.message;
        break;
    default:
        break;
    }
    return 0;
}

static int receive(qw_lbm_rcv_t *rcv, const qw_lbm_msg_t *msg, void *clientd) {
    struct had *had = clientd;
    (void)rcv;
    if (msg->type != QW_LBM_MSG_DATA) {
        return 0;
    }
    EXPECT(msg->len == sizeof had->last && strcmp(msg->topic_name, "c.queue") == 0);
    memcpy(&had->last, msg->data, sizeof had->last);
    had->count++;
    had->again += (msg->flags & QW_LBM_MSG_FLAG_UMQ_REASSIGNED) != 0;
    return 0;
}

int main(int argc, char **argv) {
    struct told told;
    struct had had[2];
    qw_lbm_umq_index_t index;
    qw_lbm_context_attr_t *attr = NULL;
    qw_lbm_src_attr_t *src_attr = NULL;
    qw_lbm_rcv_attr_t *rcv_attr = NULL;
    qw_lbm_context_t *ctx[3] = {NULL, NULL, NULL};
    qw_lbm_src_t *src = NULL;
    qw_lbm_rcv_t *rcv[2] = {NULL, NULL};
    qw_lbm_src_ulb_event_t about;
    uint64_t number = 0;
    uint32_t i;
    int turns, c;
    memset(&told, 0, sizeof told);
    memset(had, 0, sizeof had);
    memset(&index, 0, sizeof index);
    EXPECT(argc == 2 && qw_lbm_config(argv[1]) == QW_LBM_OK);
    EXPECT(qw_lbm_context_attr_create(&attr) == QW_LBM_OK);
    EXPECT(qw_lbm_context_attr_str_setopt(attr, "operational_mode", "sequential") == QW_LBM_OK);
    for (c = 0; c < 3; c++) {
        EXPECT(qw_lbm_context_create(&ctx[c], attr) == QW_LBM_OK);
    }
    EXPECT(qw_lbm_src_attr_create(&src_attr) == QW_LBM_OK);
    EXPECT(qw_lbm_src_attr_str_setopt(src_attr, "umq_ulb_application_set", "0:10") == QW_LBM_OK);
    EXPECT(qw_lbm_src_attr_str_setopt(src_attr, "umq_ulb_events", "RCV_READY|MSG_COMPLETE|MSG_ASSIGNMENT") == QW_LBM_OK);
    EXPECT(qw_lbm_src_create(&src, ctx[0], "c.queue", src_attr, publish, &told) == QW_LBM_OK);
    EXPECT(qw_lbm_rcv_attr_create(&rcv_attr) == QW_LBM_OK);
    EXPECT(qw_lbm_rcv_attr_str_setopt(rcv_attr, "umq_receiver_type_id", "10") == QW_LBM_OK);
    EXPECT(qw_lbm_rcv_attr_str_setopt(rcv_attr, "umq_index_assignment_eligibility_default", "Ineligible") == QW_LBM_OK);
    for (c = 0; c < 2; c++) {
        EXPECT(qw_lbm_rcv_create(&rcv[c], ctx[c + 1], "c.queue", rcv_attr, receive, &had[c]) == QW_LBM_OK);
    }
    /* Such sources do one thing alone, and events are there while they are told. */
    EXPECT(qw_lbm_hf_src_send(src, 1, "x", 1, QW_LBM_SRC_HF_32) == QW_LBM_FAILURE && qw_lbm_errnum() == QW_LBM_EINVAL);
    EXPECT(qw_lbm_src_ulb_event(&about) == QW_LBM_FAILURE && qw_lbm_errnum() == QW_LBM_EINVAL);
    for (turns = 0; told.ready < 2 && turns < 6000; turns++) {
        for (c = 0; c < 3; c++) {
            qw_lbm_context_process_events(ctx[c], 5);
        }
    }
    EXPECT(told.ready == 2);
    for (i = 0; i < MESSAGES; i++) {
        EXPECT(qw_lbm_src_ulb_send(src, NULL, &i, sizeof i, QW_LBM_MSG_FLUSH, &number) == QW_LBM_OK && number == i);
    }
    for (turns = 0; told.complete < MESSAGES && turns < 6000; turns++) {
        for (c = 0; c < 3; c++) {
            qw_lbm_context_process_events(ctx[c], 5);
        }
    }
    EXPECT(had[0].count + had[1].count == MESSAGES && told.assigned == MESSAGES && told.complete == MESSAGES);
    EXPECT(had[0].count > MESSAGES / 4 && had[1].count > MESSAGES / 4 && had[0].again + had[1].again == 0);

    /* One is deleted; an index waits until the other takes some. */
    EXPECT(qw_lbm_rcv_delete(rcv[0]) == QW_LBM_OK);
    index.text = "IBM.N";
    index.len = 5;
    EXPECT(qw_lbm_src_ulb_send(src, &index, &i, sizeof i, QW_LBM_MSG_FLUSH, &number) == QW_LBM_OK);
    EXPECT(qw_lbm_rcv_umq_index_start_assignment(rcv[1]) == QW_LBM_OK);
    for (turns = 0; told.complete < MESSAGES + 1 && turns < 6000; turns++) {
        for (c = 0; c < 3; c++) {
            qw_lbm_context_process_events(ctx[c], 5);
        }
    }
    EXPECT(told.complete == MESSAGES + 1 && told.last == number && had[1].last == MESSAGES);

    EXPECT(qw_lbm_rcv_delete(rcv[1]) == QW_LBM_OK);
    EXPECT(qw_lbm_src_delete(src) == QW_LBM_OK);
    EXPECT(qw_lbm_rcv_attr_delete(rcv_attr) == QW_LBM_OK);
    EXPECT(qw_lbm_src_attr_delete(src_attr) == QW_LBM_OK);
    EXPECT(qw_lbm_context_attr_delete(attr) == QW_LBM_OK);
    for (c = 0; c < 3; c++) {
        EXPECT(qw_lbm_context_delete(ctx[c]) == QW_LBM_OK);
    }
    return failures != 0;
}
