/* Null, short and wrong arguments are errors with a code and a text; nothing is touched. Ends with 0 if all are. */
#include <quoteway_lbm.h>
#include <stdio.h>
#include <string.h>

static int failures = 0;

static void expect(int status, int code, const char *part, int line) {
    if (status != QW_LBM_FAILURE || qw_lbm_errnum() != code || strstr(qw_lbm_errmsg(), part) == NULL) {
        printf("line %d: status %d, code %d, text \"%s\"\n", line, status, qw_lbm_errnum(), qw_lbm_errmsg());
        failures++;
    }
}

#define EXPECT(call, code, part) expect((call), (code), (part), __LINE__)
#define GOOD(call)                                                                                                                  \
    do {                                                                                                                           \
        if ((call) != QW_LBM_OK) {                                                                                                 \
            printf("line %d: %s\n", __LINE__, qw_lbm_errmsg());                                                                    \
            failures++;                                                                                                            \
        }                                                                                                                          \
    } while (0)

static int nothing(qw_lbm_rcv_t *rcv, const qw_lbm_msg_t *msg, void *clientd) {
    (void)rcv, (void)msg, (void)clientd;
    return 0;
}

static void count(const char *text, void *clientd) {
    *(int *)clientd += text != NULL;
}

int main(int argc, char **argv) {
    qw_lbm_context_attr_t *attr = NULL;
    qw_lbm_src_attr_t *src_attr = NULL;
    qw_lbm_context_t *ctx = NULL;
    qw_lbm_src_t *src = NULL;
    qw_lbm_observer_t *observer = NULL;
    qw_lbm_rcv_t *rcv = NULL;
    qw_lbm_reply_to_t nobody = {0, 0, 0, 0};
    char text[64], report[100000];
    size_t size;
    int fd, ms, warnings = 0;

    (void)argc;
    EXPECT(qw_lbm_config(NULL), QW_LBM_EINVAL, "null");
    EXPECT(qw_lbm_config("/no/such/file"), QW_LBM_EOS, "/no/such/file");
    GOOD(qw_lbm_config(argv[1]));
    EXPECT(qw_lbm_context_attr_create(NULL), QW_LBM_EINVAL, "null");
    GOOD(qw_lbm_context_attr_create(&attr));
    GOOD(qw_lbm_src_attr_create(&src_attr));
    EXPECT(qw_lbm_context_attr_str_setopt(NULL, "a", "b"), QW_LBM_EINVAL, "null");
    EXPECT(qw_lbm_context_attr_str_setopt(attr, NULL, "b"), QW_LBM_EINVAL, "null");
    EXPECT(qw_lbm_context_attr_str_setopt(attr, "operational_mode", NULL), QW_LBM_EINVAL, "null");
    EXPECT(qw_lbm_context_attr_str_setopt(attr, "operational_mod", "sequential"), QW_LBM_EOPTION, "operational_mode");
    EXPECT(qw_lbm_context_attr_str_setopt(attr, "operational_mode", "sideways"), QW_LBM_EOPTION, "sequential");
    EXPECT(qw_lbm_context_attr_str_setopt(attr, "operational_mode", "\xff\xfe"), QW_LBM_EINVAL, "UTF-8");
    GOOD(qw_lbm_context_attr_str_setopt(attr, "operational_mode", "sequential"));
    size = 4;
    EXPECT(qw_lbm_context_attr_str_getopt(attr, "operational_mode", text, &size), QW_LBM_EINVAL, "11 bytes");
    GOOD(size == 11 ? QW_LBM_OK : QW_LBM_FAILURE);
    size = sizeof text;
    GOOD(qw_lbm_context_attr_str_getopt(attr, "operational_mode", text, &size));
    GOOD(strcmp(text, "sequential") == 0 ? QW_LBM_OK : QW_LBM_FAILURE);
    EXPECT(qw_lbm_context_attr_str_getopt(attr, "no_such_option", text, &size), QW_LBM_EOPTION, "no context option");
    EXPECT(qw_lbm_context_attr_str_getopt(attr, "operational_mode", text, NULL), QW_LBM_EINVAL, "null");

    EXPECT(qw_lbm_context_create(NULL, attr), QW_LBM_EINVAL, "null");
    EXPECT(qw_lbm_context_create(&ctx, (qw_lbm_context_attr_t *)src_attr), QW_LBM_EINVAL, "source attributes");
    /* No kernel grants a buffer of this size. */
    GOOD(qw_lbm_log(count, &warnings));
    GOOD(qw_lbm_context_attr_str_setopt(attr, "resolver_multicast_receiver_socket_buffer", "2000000000"));
    GOOD(qw_lbm_context_create(&ctx, attr));
    EXPECT(qw_lbm_context_process_events(NULL, 0), QW_LBM_EINVAL, "null");
    GOOD(qw_lbm_context_process_events(ctx, 0));
    GOOD(warnings > 0 ? QW_LBM_OK : QW_LBM_FAILURE);
    GOOD(qw_lbm_log(NULL, NULL));
    GOOD(qw_lbm_context_unblock(ctx));
    GOOD(qw_lbm_context_fd(ctx, &fd, &ms));
    EXPECT(qw_lbm_context_fd(ctx, NULL, &ms), QW_LBM_EINVAL, "null");

    EXPECT(qw_lbm_src_create(NULL, ctx, "t", NULL, NULL, NULL), QW_LBM_EINVAL, "null");
    EXPECT(qw_lbm_src_create(&src, NULL, "t", NULL, NULL, NULL), QW_LBM_EINVAL, "null");
    EXPECT(qw_lbm_src_create(&src, ctx, NULL, NULL, NULL, NULL), QW_LBM_EINVAL, "null");
    EXPECT(qw_lbm_src_create(&src, ctx, "", NULL, NULL, NULL), QW_LBM_EINVAL, "");
    GOOD(qw_lbm_src_create(&src, ctx, "t", src_attr, NULL, NULL));
    EXPECT(qw_lbm_src_send(NULL, "x", 1, 0), QW_LBM_EINVAL, "null");
    EXPECT(qw_lbm_src_send(src, NULL, 1, 0), QW_LBM_EINVAL, "null");
    EXPECT(qw_lbm_src_send(src, "x", 1, 64), QW_LBM_EINVAL, "flags");
    EXPECT(qw_lbm_src_send(src, "x", (size_t)-1, 0), QW_LBM_EINVAL, "length");
    GOOD(qw_lbm_src_send(src, "x", 1, 0));
    GOOD(qw_lbm_src_send(src, NULL, 0, QW_LBM_MSG_FLUSH | QW_LBM_SRC_NONBLOCK));
    EXPECT(qw_lbm_src_flush(NULL), QW_LBM_EINVAL, "null");
    GOOD(qw_lbm_src_flush(src));

    EXPECT(qw_lbm_rcv_create(&rcv, ctx, "t", NULL, NULL, NULL), QW_LBM_EINVAL, "callback");
    EXPECT(qw_lbm_wildcard_rcv_create(&rcv, ctx, "(", NULL, NULL, nothing, NULL), QW_LBM_EINVAL, "");
    GOOD(qw_lbm_wildcard_rcv_create(&rcv, ctx, "^t", NULL, NULL, nothing, NULL));
    GOOD(qw_lbm_rcv_delete(rcv));
    EXPECT(qw_lbm_rcv_delete(NULL), QW_LBM_EINVAL, "null");
    EXPECT(qw_lbm_send_request(NULL, src, "x", 1, NULL, NULL, 0, 1), QW_LBM_EINVAL, "null");
    EXPECT(qw_lbm_request_delete(NULL), QW_LBM_EINVAL, "null");
    EXPECT(qw_lbm_send_response(ctx, NULL, "x", 1), QW_LBM_EINVAL, "null");
    EXPECT(qw_lbm_send_response(ctx, &nobody, "x", 1), QW_LBM_EINVAL, "no request");
    size = sizeof report;
    GOOD(qw_lbm_context_stats(ctx, report, &size));
    GOOD(strstr(report, "context\t") == report ? QW_LBM_OK : QW_LBM_FAILURE);

    GOOD(qw_lbm_src_delete(src));
    EXPECT(qw_lbm_src_delete(NULL), QW_LBM_EINVAL, "null");
    GOOD(qw_lbm_context_delete(ctx));
    EXPECT(qw_lbm_context_delete(NULL), QW_LBM_EINVAL, "null");
    GOOD(qw_lbm_context_attr_delete(attr));
    GOOD(qw_lbm_src_attr_delete(src_attr));

    EXPECT(qw_lbm_observer_create(&observer, 3, 10, 1, "/dev/null"), QW_LBM_EINVAL, "end");
    EXPECT(qw_lbm_observer_create(&observer, QW_LBM_OBSERVER_SENDER, 0, 1, "/dev/null"), QW_LBM_EINVAL, "records");
    EXPECT(qw_lbm_observer_create(&observer, QW_LBM_OBSERVER_SENDER, (size_t)-1, 1, "/dev/null"), QW_LBM_EINVAL, "records");
    EXPECT(qw_lbm_observer_create(&observer, QW_LBM_OBSERVER_SENDER, 10, 1, NULL), QW_LBM_EINVAL, "null");
    EXPECT(qw_lbm_observer_create(&observer, QW_LBM_OBSERVER_SENDER, 10, 1, "/no/such/folder/file"), QW_LBM_EOS, "/no/such/folder");
    EXPECT(qw_lbm_observer_create(NULL, QW_LBM_OBSERVER_SENDER, 10, 1, "/dev/null"), QW_LBM_EINVAL, "null");
    EXPECT(qw_lbm_observer_sent(NULL, 1, 1), QW_LBM_EINVAL, "null");
    EXPECT(qw_lbm_observer_refused(NULL, 1), QW_LBM_EINVAL, "null");
    EXPECT(qw_lbm_observer_received(NULL, 1), QW_LBM_EINVAL, "null");
    EXPECT(qw_lbm_observer_finish(NULL), QW_LBM_EINVAL, "null");

    /* An embedded context has a thread of its own. */
    GOOD(qw_lbm_context_create(&ctx, NULL));
    EXPECT(qw_lbm_context_process_events(ctx, 0), QW_LBM_EMODE, "operational_mode");
    GOOD(qw_lbm_context_delete(ctx));
    return failures;
}
