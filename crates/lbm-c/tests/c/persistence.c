/* A source with a store, and a receiver that goes and comes back: what it has missed comes, each message once. Ends with 0 if all is so. */
#include <quoteway_lbm.h>
#include <stdio.h>
#include <string.h>

#define MESSAGES 300

static int failures = 0;

#define EXPECT(what)                                                                                                                \
    do {                                                                                                                           \
        if (!(what)) {                                                                                                             \
            printf("line %d: not so: %s; code %d, \"%s\"\n", __LINE__, #what, qw_lbm_errnum(), qw_lbm_errmsg());                   \
            failures++;                                                                                                            \
        }                                                                                                                          \
    } while (0)

struct sent {
    int registered, complete, confirmed;
    uint32_t stable, registration;
};

struct had {
    uint32_t next, last, source;
    int losses, again;
};

static int publish(qw_lbm_src_t *src, int event, void *clientd) {
    struct sent *sent = clientd;
    qw_lbm_src_ume_event_t about;
    (void)src;
    EXPECT(qw_lbm_src_ume_event(&about) == QW_LBM_OK);
    switch (event) {
    case QW_LBM_SRC_EVENT_UME_REGISTRATION_SUCCESS:
        sent->registered++;
        sent->registration = about.registration_id;
        break;
    case QW_LBM_SRC_EVENT_UME_REGISTRATION_COMPLETE:
        sent->complete++;
        break;
    case QW_LBM_SRC_EVENT_UME_MESSAGE_STABLE:
        sent->stable += about.last - about.first + 1;
        break;
    case QW_LBM_SRC_EVENT_UME_DELIVERY_CONFIRMATION:
        sent->confirmed++;
        break;
    default:
        break;
    }
    return 0;
}

static int receive(qw_lbm_rcv_t *rcv, const qw_lbm_msg_t *msg, void *clientd) {
    struct had *had = clientd;
    uint32_t number;
    (void)rcv;
    if (msg->type != QW_LBM_MSG_DATA) {
        had->losses++;
        return 0;
    }
    EXPECT(msg->len == sizeof number && strcmp(msg->topic_name, "c.persistent") == 0);
    memcpy(&number, msg->data, sizeof number);
    EXPECT(number == had->next);
    had->next = number + 1;
    had->again += (msg->flags & QW_LBM_MSG_FLAG_UME_RETRANSMIT) != 0;
    had->last = msg->sequence_number;
    had->source = msg->count;
    return 0;
}

/* Sends so many messages from number `first` on, as fast as the store admits them. */
static void send(qw_lbm_context_t *ctx, qw_lbm_src_t *src, uint32_t first, uint32_t count) {
    uint32_t number, sqn = 0;
    for (number = first; number < first + count; number++) {
        while (qw_lbm_src_ume_send(src, &number, sizeof number, QW_LBM_MSG_FLUSH, &sqn) != QW_LBM_OK) {
            if (qw_lbm_errnum() != QW_LBM_EWOULDBLOCK) {
                EXPECT(!"sent");
                return;
            }
            qw_lbm_context_process_events(ctx, 10);
        }
        EXPECT(sqn >= number);
    }
}

int main(int argc, char **argv) {
    struct sent sent;
    struct had had;
    qw_lbm_context_attr_t *attr = NULL;
    qw_lbm_src_attr_t *src_attr = NULL;
    qw_lbm_rcv_attr_t *rcv_attr = NULL;
    qw_lbm_context_t *ctx = NULL;
    qw_lbm_src_t *src = NULL;
    qw_lbm_rcv_t *rcv = NULL;
    qw_lbm_src_ume_event_t about;
    int turns;
    memset(&sent, 0, sizeof sent);
    memset(&had, 0, sizeof had);
    EXPECT(argc == 3 && qw_lbm_config(argv[1]) == QW_LBM_OK);
    EXPECT(qw_lbm_context_attr_create(&attr) == QW_LBM_OK);
    EXPECT(qw_lbm_context_attr_str_setopt(attr, "operational_mode", "sequential") == QW_LBM_OK);
    EXPECT(qw_lbm_context_create(&ctx, attr) == QW_LBM_OK);
    EXPECT(qw_lbm_src_attr_create(&src_attr) == QW_LBM_OK);
    EXPECT(qw_lbm_src_attr_str_setopt(src_attr, "ume_store", argv[2]) == QW_LBM_OK);
    EXPECT(qw_lbm_src_attr_str_setopt(src_attr, "ume_session_id", "1") == QW_LBM_OK);
    EXPECT(qw_lbm_src_attr_str_setopt(src_attr, "ume_confirmed_delivery_notification", "1") == QW_LBM_OK);
    EXPECT(qw_lbm_src_attr_str_setopt(src_attr, "ume_flight_size", "50") == QW_LBM_OK);
    EXPECT(qw_lbm_src_create(&src, ctx, "c.persistent", src_attr, publish, &sent) == QW_LBM_OK);
    EXPECT(qw_lbm_rcv_attr_create(&rcv_attr) == QW_LBM_OK);
    EXPECT(qw_lbm_rcv_attr_str_setopt(rcv_attr, "ume_session_id", "0x2") == QW_LBM_OK);
    EXPECT(qw_lbm_rcv_attr_str_setopt(rcv_attr, "ume_explicit_ack_only", "1") == QW_LBM_OK);
    EXPECT(qw_lbm_rcv_create(&rcv, ctx, "c.persistent", rcv_attr, receive, &had) == QW_LBM_OK);
    /* Such sources do one thing alone, and events are there while they are told. */
    EXPECT(qw_lbm_hf_src_send(src, 1, "x", 1, QW_LBM_SRC_HF_32) == QW_LBM_FAILURE && qw_lbm_errnum() == QW_LBM_EINVAL);
    EXPECT(qw_lbm_src_ume_event(&about) == QW_LBM_FAILURE && qw_lbm_errnum() == QW_LBM_EINVAL);

    send(ctx, src, 0, MESSAGES);
    for (turns = 0; had.next < MESSAGES && turns < 6000; turns++) {
        qw_lbm_context_process_events(ctx, 20);
    }
    EXPECT(had.next == MESSAGES && had.losses == 0);
    /* It says that it has consumed the first half. */
    EXPECT(qw_lbm_rcv_ume_ack(rcv, had.source, had.last - MESSAGES / 2) == QW_LBM_OK);
    for (turns = 0; sent.confirmed == 0 && turns < 6000; turns++) {
        qw_lbm_context_process_events(ctx, 20);
    }
    EXPECT(qw_lbm_rcv_delete(rcv) == QW_LBM_OK);
    send(ctx, src, MESSAGES, 100);

    /* The same session again: it goes on where it has acknowledged, and knows what it may have had. */
    had.next = MESSAGES / 2;
    had.again = 0;
    EXPECT(qw_lbm_rcv_create(&rcv, ctx, "c.persistent", rcv_attr, receive, &had) == QW_LBM_OK);
    for (turns = 0; (had.next < MESSAGES + 100 || sent.stable < MESSAGES + 100) && turns < 6000; turns++) {
        qw_lbm_context_process_events(ctx, 20);
    }
    EXPECT(had.next == MESSAGES + 100 && had.losses == 0);
    EXPECT(had.again >= MESSAGES / 2);
    EXPECT(sent.registered == 1 && sent.complete == 1 && sent.registration != 0 && sent.stable == MESSAGES + 100);
    EXPECT(sent.confirmed > 0);

    EXPECT(qw_lbm_rcv_delete(rcv) == QW_LBM_OK);
    EXPECT(qw_lbm_src_delete(src) == QW_LBM_OK);
    EXPECT(qw_lbm_rcv_attr_delete(rcv_attr) == QW_LBM_OK);
    EXPECT(qw_lbm_src_attr_delete(src_attr) == QW_LBM_OK);
    EXPECT(qw_lbm_context_attr_delete(attr) == QW_LBM_OK);
    EXPECT(qw_lbm_context_delete(ctx) == QW_LBM_OK);
    return failures != 0;
}
