/* Topic messaging over reliable multicast, reliable unicast, TCP and shared memory.
 *
 * The shape is that of LBM, the names are its own: a context; attributes, which are options by their LBM names; sources, which
 * send; receivers, which call back. Link with -lquoteway_lbm. examples/ has a publisher and a subscriber, and a
 * test of latency.
 *
 * Functions return QW_LBM_OK or QW_LBM_FAILURE; then qw_lbm_errnum() and qw_lbm_errmsg() say what was wrong, for each thread.
 * Null pointers and bad texts are errors. Texts are UTF-8 and end with a NUL.
 *
 * Threads: an embedded context (the default) has a thread of its own, on which it calls back; any thread may call the functions
 * below. That thread has the processors and the priority of the thread that makes the context (taskset, chrt,
 * pthread_setaffinity_np). A sequential context (context attribute operational_mode "sequential") does everything, callbacks too,
 * in qw_lbm_context_process_events().
 *
 * What may be called from a callback (of a source, receiver or request), on the thread that runs it; the rest is refused with the code:
 *
 *   call                                                 on its own context    on another context
 *   qw_lbm_src_send, _src_flush, _hf_src_send,
 *     _hf_src_send_rcv_reset, _send_request,
 *     _request_delete, _send_response                    yes                   yes, or QW_LBM_EDEADLOCK
 *   qw_lbm_src_create, _src_delete, _rcv_create,
 *     _wildcard_rcv_create, _hf_rcv_create, _rcv_delete,
 *     _rcv_ume_ack, _src_send and _src_ume_send on a
 *     source with stores,
 *     _context_fd, _context_stats                        QW_LBM_EINCALLBACK    yes, or QW_LBM_EDEADLOCK
 *   qw_lbm_context_create, _context_delete,
 *     _context_process_events                            QW_LBM_EINCALLBACK    QW_LBM_EINCALLBACK
 *   qw_lbm_context_unblock, attributes, qw_lbm_config,
 *     _src_ume_event,
 *     qw_lbm_log, _errnum, _errmsg, _version,
 *     qw_lbm_observer_...                                yes                   yes
 *
 * QW_LBM_EDEADLOCK: a callback of that context waits for the context whose callback this is; nothing was done. Contexts that relay to
 * each other see it now and then, and keep the message for later, or hand it to a thread of their own. A context and its callbacks
 * never wait for one that only works. From the function for warnings (qw_lbm_log) only the last line may be called, else
 * QW_LBM_EINCALLBACK. A callback that waits for a lock of the application which another thread holds while it calls these functions
 * waits for ever; that the library cannot see.
 *
 * What was deleted must not be used again. Delete sources, receivers and requests before their context. */
#ifndef QUOTEWAY_LBM_H
#define QUOTEWAY_LBM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define QW_LBM_OK 0
#define QW_LBM_FAILURE (-1)

/* Codes of qw_lbm_errnum(). */
#define QW_LBM_EINVAL 1      /* an argument is null, not UTF-8, or not allowed */
#define QW_LBM_EWOULDBLOCK 2 /* the session cannot take a message now: QW_LBM_SRC_EVENT_WAKEUP tells when */
#define QW_LBM_EOPTION 3     /* no such option, or not a value of it; the text names the nearest */
#define QW_LBM_EOS 4         /* the operating system refuses */
#define QW_LBM_ETOOLONG 5    /* the message is too long */
#define QW_LBM_EGONE 6       /* the source was deleted, or the requester cannot be reached */
#define QW_LBM_EINCALLBACK 7 /* not from this callback: see the table above */
#define QW_LBM_EMODE 8       /* not in this operational mode */
#define QW_LBM_EINTERNAL 9   /* a fault of the library; the context is of no use any more */
#define QW_LBM_EDEADLOCK 10  /* a callback of that context waits for the context whose callback this is */

/* The last failure on this thread. The text is valid until the next one. */
int qw_lbm_errnum(void);
const char *qw_lbm_errmsg(void);

/* Name and version of the library. */
const char *qw_lbm_version(void);

/* Warnings, such as a socket buffer that is smaller than an option asks for: one text each, on the thread of any context. proc may
 * call no more than the last line of the table above. With proc NULL, as at first, they go to standard error. */
typedef void (*qw_lbm_log_cb_proc)(const char *text, void *clientd);
int qw_lbm_log(qw_lbm_log_cb_proc proc, void *clientd);

/* Reads a file of options ("context|source|receiver|wildcard_receiver NAME VALUE" a line) as the defaults of all attributes and
 * contexts that are created from now on. */
int qw_lbm_config(const char *file);

/* ---- Attributes ---------------------------------------------------------------------------------------------------------- */

typedef struct qw_lbm_context_attr qw_lbm_context_attr_t;
typedef struct qw_lbm_src_attr qw_lbm_src_attr_t;
typedef struct qw_lbm_rcv_attr qw_lbm_rcv_attr_t;
typedef struct qw_lbm_wildcard_rcv_attr qw_lbm_wildcard_rcv_attr_t;

/* Options of one scope, at first the defaults. They are copied when they are used, and can be deleted then.
 *
 * str_getopt writes the text and its NUL; *size is the room, and is told what is needed (QW_LBM_EINVAL if it is more). */
int qw_lbm_context_attr_create(qw_lbm_context_attr_t **attr);
int qw_lbm_context_attr_delete(qw_lbm_context_attr_t *attr);
int qw_lbm_context_attr_str_setopt(qw_lbm_context_attr_t *attr, const char *name, const char *value);
int qw_lbm_context_attr_str_getopt(const qw_lbm_context_attr_t *attr, const char *name, char *value, size_t *size);

int qw_lbm_src_attr_create(qw_lbm_src_attr_t **attr);
int qw_lbm_src_attr_delete(qw_lbm_src_attr_t *attr);
int qw_lbm_src_attr_str_setopt(qw_lbm_src_attr_t *attr, const char *name, const char *value);
int qw_lbm_src_attr_str_getopt(const qw_lbm_src_attr_t *attr, const char *name, char *value, size_t *size);

int qw_lbm_rcv_attr_create(qw_lbm_rcv_attr_t **attr);
int qw_lbm_rcv_attr_delete(qw_lbm_rcv_attr_t *attr);
int qw_lbm_rcv_attr_str_setopt(qw_lbm_rcv_attr_t *attr, const char *name, const char *value);
int qw_lbm_rcv_attr_str_getopt(const qw_lbm_rcv_attr_t *attr, const char *name, char *value, size_t *size);

int qw_lbm_wildcard_rcv_attr_create(qw_lbm_wildcard_rcv_attr_t **attr);
int qw_lbm_wildcard_rcv_attr_delete(qw_lbm_wildcard_rcv_attr_t *attr);
int qw_lbm_wildcard_rcv_attr_str_setopt(qw_lbm_wildcard_rcv_attr_t *attr, const char *name, const char *value);
int qw_lbm_wildcard_rcv_attr_str_getopt(const qw_lbm_wildcard_rcv_attr_t *attr, const char *name, char *value, size_t *size);

/* ---- Contexts ------------------------------------------------------------------------------------------------------------ */

typedef struct qw_lbm_context qw_lbm_context_t;

/* attr NULL: the defaults. */
int qw_lbm_context_create(qw_lbm_context_t **ctx, const qw_lbm_context_attr_t *attr);

/* Ends its thread: no callback comes after this. */
int qw_lbm_context_delete(qw_lbm_context_t *ctx);

/* Sequential contexts: waits at most so long for something to do, and does it. */
int qw_lbm_context_process_events(qw_lbm_context_t *ctx, uint32_t milliseconds);

/* Ends the wait of qw_lbm_context_process_events() in another thread. */
int qw_lbm_context_unblock(qw_lbm_context_t *ctx);

/* Sequential contexts in a loop of the application's own: process events (with 0 ms) when the descriptor is readable, or after so
 * many milliseconds (-1: never). */
int qw_lbm_context_fd(qw_lbm_context_t *ctx, int *fd, int *milliseconds);

/* Counters as text, one line a thing: kind, name and name=value, parted by tabs. *size as with str_getopt. */
int qw_lbm_context_stats(qw_lbm_context_t *ctx, char *text, size_t *size);

/* ---- Sources ------------------------------------------------------------------------------------------------------------- */

typedef struct qw_lbm_src qw_lbm_src_t;

#define QW_LBM_SRC_EVENT_WAKEUP 1 /* after QW_LBM_EWOULDBLOCK: the source can send again */
/* Of sources with stores (attribute ume_store); qw_lbm_src_ume_event() says more. */
#define QW_LBM_SRC_EVENT_UME_REGISTRATION_SUCCESS 2  /* a store has taken the source */
#define QW_LBM_SRC_EVENT_UME_REGISTRATION_COMPLETE 3 /* enough stores have: messages can be sent, from number `first` on */
#define QW_LBM_SRC_EVENT_UME_REGISTRATION_ERROR 4    /* a store refuses */
#define QW_LBM_SRC_EVENT_UME_STORE_UNRESPONSIVE 5
#define QW_LBM_SRC_EVENT_UME_MESSAGE_STABLE 6        /* messages `first` to `last`, their fragments counted */
#define QW_LBM_SRC_EVENT_UME_MESSAGE_NOT_STABLE 7    /* message `first` was given up after ume_message_stability_lifetime */
#define QW_LBM_SRC_EVENT_UME_DELIVERY_CONFIRMATION 8 /* the receiver of this registration id has consumed all up to `first` */
#define QW_LBM_SRC_EVENT_FLIGHT_SIZE_NOTIFICATION 9  /* ume_flight_size_behavior notify: over it (`first` 1), or within it again (0) */
#define QW_LBM_SRC_EVENT_UME_SUPERSEDED 10           /* another program has taken up the registration: nothing more can be sent */
/* Of sources with application sets (attribute umq_ulb_application_set), if umq_ulb_events or its like ask for them; qw_lbm_src_ulb_event()
 * says more. */
#define QW_LBM_SRC_EVENT_UMQ_ULB_MESSAGE_ASSIGNED 11
#define QW_LBM_SRC_EVENT_UMQ_ULB_MESSAGE_REASSIGNED 12
#define QW_LBM_SRC_EVENT_UMQ_ULB_MESSAGE_CONSUMED 13
#define QW_LBM_SRC_EVENT_UMQ_ULB_MESSAGE_TIMEOUT 14         /* given up in a set */
#define QW_LBM_SRC_EVENT_UMQ_ULB_MESSAGE_COMPLETE 15        /* consumed or given up in all sets */
#define QW_LBM_SRC_EVENT_UMQ_ULB_RECEIVER_REGISTRATION 16
#define QW_LBM_SRC_EVENT_UMQ_ULB_RECEIVER_READY 17          /* messages are assigned to it from now on */
#define QW_LBM_SRC_EVENT_UMQ_ULB_RECEIVER_DEREGISTRATION 18
#define QW_LBM_SRC_EVENT_UMQ_ULB_RECEIVER_TIMEOUT 19        /* it was silent: others get its messages */

/* The return value has no meaning. */
typedef int (*qw_lbm_src_cb_proc)(qw_lbm_src_t *src, int event, void *clientd);

/* attr NULL: the defaults; proc NULL: no events. */
int qw_lbm_src_create(qw_lbm_src_t **src, qw_lbm_context_t *ctx, const char *topic, const qw_lbm_src_attr_t *attr,
                      qw_lbm_src_cb_proc proc, void *clientd);

/* Sends what waits for a fuller datagram first. */
int qw_lbm_src_delete(qw_lbm_src_t *src);

#define QW_LBM_MSG_FLUSH 1    /* send this, and all that waits in the session, now */
#define QW_LBM_SRC_NONBLOCK 2 /* QW_LBM_EWOULDBLOCK instead of waiting for the session */

/* The message is copied. */
int qw_lbm_src_send(qw_lbm_src_t *src, const void *msg, size_t len, int flags);

/* Sends what waits for a fuller datagram in the source's session. */
int qw_lbm_src_flush(qw_lbm_src_t *src);

/* Sources with stores: those whose attributes name one (ume_store "10.1.1.5:14567", once for each). A send waits until stores admit it
 * (ume_flight_size), or is refused with QW_LBM_EWOULDBLOCK: with QW_LBM_SRC_NONBLOCK, and always in a sequential context. They do not send
 * from callbacks of their own context (QW_LBM_EINCALLBACK), nor requests nor hot failover.
 *
 * As qw_lbm_src_send; *number (if not NULL) is told the message's number, that of its last fragment: as events name it. */
int qw_lbm_src_ume_send(qw_lbm_src_t *src, const void *msg, size_t len, int flags, uint32_t *number);

typedef struct qw_lbm_src_ume_event {
    uint32_t first;
    uint32_t last;
    uint32_t store; /* which one of those that were named, from 0 */
    uint32_t registration_id;
} qw_lbm_src_ume_event_t;

/* What the event is about; within the source's callback, on its thread. */
int qw_lbm_src_ume_event(qw_lbm_src_ume_event_t *event);

/* Queuing by load: a source with application sets (attribute umq_ulb_application_set, as "0:10;1:20") assigns each message to one receiver
 * of each set, by their type (attribute umq_receiver_type_id), and keeps it until all sets have consumed it; what a receiver that has gone has not
 * consumed it assigns to another. A send waits while too many are not consumed (umq_ulb_flight_size), or is refused with
 * QW_LBM_EWOULDBLOCK: with QW_LBM_SRC_NONBLOCK, and always in a sequential context. Such sources do not send from callbacks of their own
 * context (QW_LBM_EINCALLBACK), nor requests nor hot failover.
 *
 * Messages of one index go to one receiver of each set, in order. */
typedef struct qw_lbm_umq_index {
    const char *text; /* of len bytes, 200 at most; NULL: the number is the index */
    size_t len;
    uint64_t number;
} qw_lbm_umq_index_t;

/* As qw_lbm_src_send; index NULL: none. *number (if not NULL) is told the message's number, as events name it. */
int qw_lbm_src_ulb_send(qw_lbm_src_t *src, const qw_lbm_umq_index_t *index, const void *msg, size_t len, int flags, uint64_t *number);

typedef struct qw_lbm_src_ulb_event {
    uint64_t message;
    uint32_t receiver; /* its assignment id */
    uint16_t application_set;
    uint16_t is_over; /* QW_LBM_SRC_EVENT_FLIGHT_SIZE_NOTIFICATION: over it (1), or within it again (0) */
} qw_lbm_src_ulb_event_t;

/* What the event is about; within the source's callback, on its thread. */
int qw_lbm_src_ulb_event(qw_lbm_src_ulb_event_t *event);

/* Hot failover: several sources of a topic send the same messages under the same numbers, in ascending order; a receiver made by
 * qw_lbm_hf_rcv_create delivers each number once. Numbers may be left out (at most 1,073,741,824 in sequence). */
#define QW_LBM_SRC_HF_32 4        /* the number has 32 bits; all sources of a topic use one width */
#define QW_LBM_SRC_HF_64 8        /* the number has 64 bits */
#define QW_LBM_SRC_HF_OPTIONAL 16 /* receivers with hf_optional_messages 0 go without it */

/* flags: one width, and those of qw_lbm_src_send. */
int qw_lbm_hf_src_send(qw_lbm_src_t *src, uint64_t number, const void *msg, size_t len, int flags);

/* Receivers expect `next` from now on, whatever came before: before numbers begin anew. All sources of the topic send it. */
int qw_lbm_hf_src_send_rcv_reset(qw_lbm_src_t *src, uint64_t next, int flags);

/* ---- Receivers ----------------------------------------------------------------------------------------------------------- */

typedef struct qw_lbm_rcv qw_lbm_rcv_t;

/* Whom to answer: can be copied and used later. */
typedef struct qw_lbm_reply_to {
    uint32_t address;
    uint32_t number;
    uint16_t port;
    uint16_t reserved;
} qw_lbm_reply_to_t;

/* Types of messages. */
#define QW_LBM_MSG_DATA 0
#define QW_LBM_MSG_BOS 1                      /* the source was heard: before its first message */
#define QW_LBM_MSG_EOS 2                      /* the source has ended; if it comes back, that begins anew */
#define QW_LBM_MSG_UNRECOVERABLE_LOSS 3       /* sequence_number is lost */
#define QW_LBM_MSG_UNRECOVERABLE_LOSS_BURST 4 /* count numbers from sequence_number on are lost */
#define QW_LBM_MSG_REQUEST 5                  /* data; reply_to says whom to answer */
#define QW_LBM_MSG_RESPONSE 6                 /* data; to qw_lbm_request_cb_proc only */

#define QW_LBM_MSG_HF_RESET 7                 /* a source has said that hf_sequence_number comes next */
#define QW_LBM_MSG_HF_DIFFERENCE 8            /* this source has sent something else as hf_sequence_number than the delivered one */

#define QW_LBM_MSG_FLAG_HF_32 2            /* hf_sequence_number has 32 bits */
#define QW_LBM_MSG_FLAG_HF_64 4            /* hf_sequence_number has 64 bits */
#define QW_LBM_MSG_FLAG_HF_DUPLICATE 8     /* a later copy: hf_duplicate_delivery 1 */
#define QW_LBM_MSG_FLAG_HF_OPTIONAL 16     /* receivers may go without it */
#define QW_LBM_MSG_FLAG_HF_PASS_THROUGH 32 /* it has no number: every source's is delivered */
#define QW_LBM_MSG_FLAG_RETRANSMIT 1 /* came by late join or off-transport recovery */
#define QW_LBM_MSG_FLAG_UMQ_REASSIGNED 128 /* assigned to a receiver of the set before: that one may have consumed it */
#define QW_LBM_MSG_FLAG_UME_RETRANSMIT 64  /* sent again by a store: an earlier process of this receiver may have had it */

/* Valid only during the callback. */
typedef struct qw_lbm_msg {
    int type;
    int flags;
    const void *data; /* without message properties, if another product has sent some */
    size_t len;
    uint32_t sequence_number; /* of the last fragment */
    uint32_t count; /* of losses; of data of a receiver with a session at stores: the source's number, for qw_lbm_rcv_ume_ack */
    const char *topic_name;
    const char *source; /* empty for a receiver with a session at stores; else transport session and topic index, as in LBTRM:10.1.1.10:14390:5e551d01:224.10.10.10:14400[7] */
    qw_lbm_reply_to_t reply_to;
    uint64_t hf_sequence_number; /* hot failover: the application's; of losses the first one. sequence_number is the source's own */
} qw_lbm_msg_t;

/* The return value has no meaning. */
typedef int (*qw_lbm_rcv_cb_proc)(qw_lbm_rcv_t *rcv, const qw_lbm_msg_t *msg, void *clientd);

/* Receives a topic from all sources that are found. Of sources with application sets it gets the messages that are assigned to it, each
 * consumed when the callback returns; with umq_queue_participation 0 all of them. With a session (attribute ume_session_id, of receiver or context) it gets from the
 * stores of its sources what it has missed since it was there last, in order; there is no beginning and no end of sources then. */
int qw_lbm_rcv_create(qw_lbm_rcv_t **rcv, qw_lbm_context_t *ctx, const char *topic, const qw_lbm_rcv_attr_t *attr,
                      qw_lbm_rcv_cb_proc proc, void *clientd);

/* Receives a topic of hot failover: each number once, whichever of its sources is alive, in order or, with ordered_delivery 0 or -1, as
 * first copies arrive. Losses are told of numbers that no source has, with an empty source. */
int qw_lbm_hf_rcv_create(qw_lbm_rcv_t **rcv, qw_lbm_context_t *ctx, const char *topic, const qw_lbm_rcv_attr_t *attr,
                         qw_lbm_rcv_cb_proc proc, void *clientd);

/* Receives all topics that match a pattern; by hot failover with the wildcard attribute hf_receiver 1. */
int qw_lbm_wildcard_rcv_create(qw_lbm_rcv_t **rcv, qw_lbm_context_t *ctx, const char *pattern, const qw_lbm_rcv_attr_t *attr,
                               const qw_lbm_wildcard_rcv_attr_t *wildcard_attr, qw_lbm_rcv_cb_proc proc, void *clientd);

/* No callback of it comes after this. */
int qw_lbm_rcv_delete(qw_lbm_rcv_t *rcv);

/* Whether sources with application sets may assign indices to the receiver from now on: with
 * umq_index_assignment_eligibility_default ineligible at first not. Not from a callback of the same context. */
int qw_lbm_rcv_umq_index_start_assignment(qw_lbm_rcv_t *rcv);
int qw_lbm_rcv_umq_index_stop_assignment(qw_lbm_rcv_t *rcv);

/* With ume_explicit_ack_only 1: all of this source up to this number was consumed. Not from a callback of the same context. */
int qw_lbm_rcv_ume_ack(qw_lbm_rcv_t *rcv, uint32_t source, uint32_t number);

/* ---- Requests and responses ---------------------------------------------------------------------------------------------- */

typedef struct qw_lbm_request qw_lbm_request_t;

/* The return value has no meaning. */
typedef int (*qw_lbm_request_cb_proc)(qw_lbm_request_t *req, const qw_lbm_msg_t *msg, void *clientd);

/* Sends a message that wants responses; they come until the request is deleted or the time is over. There may be several. */
int qw_lbm_send_request(qw_lbm_request_t **req, qw_lbm_src_t *src, const void *msg, size_t len, qw_lbm_request_cb_proc proc,
                        void *clientd, int flags, uint32_t timeout_ms);
int qw_lbm_request_delete(qw_lbm_request_t *req);

/* Answers a request, by TCP to the requester. It does not wait: QW_LBM_EGONE if the requester is behind. */
int qw_lbm_send_response(qw_lbm_context_t *ctx, const qw_lbm_reply_to_t *reply_to, const void *msg, size_t len);

/* ---- Observing ----------------------------------------------------------------------------------------------------------- */

/* When messages were sent and received, for tests of latency and rate as the one-way report of LBM has them: each end keeps its
 * records in memory and writes them to a file when it is finished. "quoteway-lab observed SENDER RECEIVER..." makes the table of
 * them: lost and out of order messages, rates, and the latency from the call that sends, and from the time at which it should have
 * been made.
 *
 * The application gives each message an id, of which no two are the same, and carries it in the message. The times are of
 * CLOCK_MONOTONIC: both ends have to be on one machine. An observer is used by one thread at a time. A call costs some 40 ns (what
 * it cost here stands in the file). */
typedef struct qw_lbm_observer qw_lbm_observer_t;

#define QW_LBM_OBSERVER_SENDER 1
#define QW_LBM_OBSERVER_RECEIVER 2

/* The id of a message of several streams, each of which counts for itself; with one stream the number alone will do. Both are of 32
 * bits. Messages out of order are found within a stream. */
#define QW_LBM_OBSERVER_ID(stream, number) ((uint64_t)(stream) << 32 | (uint32_t)(number))

/* Takes and touches the memory for so many records (24 bytes each at a sender, 16 at a receiver; later ones are counted as missed),
 * and makes the file. One in `every` messages is recorded, chosen by its id, so that both ends choose the same; 1: each one. */
int qw_lbm_observer_create(qw_lbm_observer_t **observer, int end, size_t records, uint32_t every, const char *file);

/* Nanoseconds of the clock of observers, to make a schedule of. */
uint64_t qw_lbm_observer_now(void);

/* Immediately before the call that sends a message. intended: when it was to be sent. A sender that is late and counts from the late
 * moment hides what kept it. */
int qw_lbm_observer_sent(qw_lbm_observer_t *observer, uint64_t id, uint64_t intended);

/* The message that was recorded last was not sent (QW_LBM_EWOULDBLOCK): it is recorded when it is. */
int qw_lbm_observer_refused(qw_lbm_observer_t *observer, uint64_t id);

/* In the callback, when the id has been read. */
int qw_lbm_observer_received(qw_lbm_observer_t *observer, uint64_t id);

/* Writes the file and deletes the observer; that is deleted also if the file cannot be written. */
int qw_lbm_observer_finish(qw_lbm_observer_t *observer);

#ifdef __cplusplus
}
#endif

#endif
