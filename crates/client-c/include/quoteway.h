/*
 * Market data in C: sessions, subscriptions and publishers, at Quoteway and at whatever speaks RSSL.
 *
 *     qw_session_t *session;
 *     qw_subscription_t *quotes;
 *     const char *items[] = {"IBM.N", "MSFT.O"};
 *     qw_message_t message;
 *     double bid;
 *
 *     if (qw_connect("localhost:14002", "user", 10.0, &session) != 0) { puts(qw_errmsg()); return 1; }
 *     if (qw_subscribe(session, "DIRECT_FEED", items, 2, NULL, &quotes) != 0) { puts(qw_errmsg()); return 1; }
 *     while (qw_next(quotes, -1.0, &message) == 1)
 *         if (qw_field_double(quotes, "BID", &bid) == 1) printf("%s %g\n", message.name, bid);
 *
 * Functions that return int return -1 when they fail, with a code and a text for the calling thread (qw_errnum, qw_errmsg). Times that are waited for
 * are seconds; a negative one has no end.
 *
 * A session has a thread that reads. It calls nothing of yours. A handle is used by one thread at a time; different handles by different threads. What
 * was closed must not be used again: that cannot be noticed. Subscriptions may outlive their session, and say then that it has ended.
 */
#ifndef QUOTEWAY_H
#define QUOTEWAY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qw_session qw_session_t;
typedef struct qw_subscription qw_subscription_t;
typedef struct qw_publisher qw_publisher_t;

/* Codes of qw_errnum. */
#define QW_EINVALID 1   /* an argument is null, not UTF-8, or has a value that is not allowed */
#define QW_ESYSTEM 2    /* the operating system refuses */
#define QW_ECONNECT 3   /* nobody has answered in time, or the login is refused */
#define QW_EENDED 4     /* the session, subscription or publisher has ended */
#define QW_EFIELD 5     /* no such field, or its value is of another type */
#define QW_EINTERNAL 6  /* a fault of this library */
#define QW_ENOTOPEN 7   /* the item is not open, nobody is logged in, or too many posts wait */

/* Classes of messages. */
#define QW_REFRESH 2
#define QW_STATUS 3
#define QW_UPDATE 4
#define QW_ACK 6
#define QW_GENERIC 7
/* Likewise, of what is followed (qw_follow): no message, but what has become of its members. */
#define QW_JOINED 101 /* the item is a member from now on */
#define QW_LEFT 102   /* it is none any more, and closed */
#define QW_BROKEN 103 /* a record of the chain, or the list, has ended: its members leave */

/* Types of data. */
#define QW_NO_DATA 128
#define QW_OPAQUE 130
#define QW_XML 131
#define QW_FIELD_LIST 132
#define QW_ELEMENT_LIST 133
#define QW_ANSI_PAGE 134
#define QW_FILTER_LIST 135
#define QW_VECTOR 136
#define QW_MAP 137
#define QW_SERIES 138
#define QW_MESSAGE 141
#define QW_JSON 142

/* Behaviour of a subscription whose program is too slow. */
#define QW_WAIT 0    /* nothing is lost: the session reads no more, and the server sees a slow client */
#define QW_LATEST 1  /* what has no room becomes the item's image */
#define QW_CUT 2     /* the subscription ends */

/* Use of several connections at a time. */
#define QW_ROUTING 0             /* each item is open at one of them */
#define QW_STANDBY_BY_LOGIN 1    /* one serves, the others stand by (warm standby) */
#define QW_STANDBY_BY_SERVICE 2  /* for each service one serves, the others stand by */

/* How a session connects, for qw_connect_with; zeros are what qw_connect does. */
typedef struct qw_session_options {
    const char *application_id; /* NULL: "256" */
    const char *password;       /* or NULL */
    const char *roots;          /* a PEM file of certificates to trust (connections are encrypted then), or NULL */
    const char *preferred;      /* a server of the list that is tried first after every loss, or NULL */
    const char *fall_back_at;   /* ... at times of day and week, as for cron ("30 6 * * MON-FRI"), in place of fall_back_s; or NULL */
    double fall_back_s;         /* it is gone back to after so many seconds elsewhere; 0: not before the next loss */
    uint8_t arrangement;        /* QW_ROUTING, QW_STANDBY_BY_LOGIN, QW_STANDBY_BY_SERVICE */
    uint8_t is_encrypted;       /* TLS, with the certificates that this machine trusts if roots is NULL */
    uint8_t is_websocket;       /* RWF in WebSocket frames */
    uint8_t reserved[5];        /* zeros */
} qw_session_options_t;

/* A message of an item. Pointers are valid until the next qw_next of the subscription, the name's as long as the subscription. */
typedef struct qw_message {
    const char *name;          /* of the item */
    uint32_t item;             /* its place in the subscription */
    int32_t message_class;     /* QW_REFRESH, ... */
    int32_t is_final;          /* nothing comes of the item behind this */
    int64_t received_ns;       /* monotonic clock */
    const uint8_t *bytes;      /* the message, RWF */
    size_t length;
} qw_message_t;

/* What is asked for beside names; zeros are market prices with all fields, streaming, with QW_WAIT at 64 MB. */
typedef struct qw_options {
    const char *const *fields; /* a view: names of fields, or NULL for all */
    size_t field_count;
    uint8_t domain;            /* 0: market price (6) */
    uint8_t is_snapshot;
    uint8_t overflow;          /* QW_WAIT, QW_LATEST, QW_CUT */
    uint8_t reserved[5];       /* zeros */
    size_t limit_bytes;        /* 0: 64 MB */
} qw_options_t;

/* A value to publish. */
#define QW_BLANK 0
#define QW_INTEGER 1
#define QW_DOUBLE 2
#define QW_TEXT 3
typedef struct qw_value {
    const char *name;  /* of the field */
    int32_t type;      /* QW_BLANK, ... */
    int32_t reserved;  /* 0 */
    int64_t integer;
    double number;
    const char *text;  /* UTF-8 */
} qw_value_t;

/* The answer to a post. */
#define QW_TAKEN 1
#define QW_REFUSED 2
#define QW_UNANSWERED 3 /* not in time, or the connection was lost: whether it was taken is not known */
typedef struct qw_answer {
    uint32_t post_id;
    int32_t kind;     /* QW_TAKEN, ... */
    int32_t nak_code; /* of a refusal */
    int32_t reserved;
} qw_answer_t;

/* How a publisher works, for qw_publisher_listen_with and qw_publisher_dial_with; zeros are what qw_publisher_listen and qw_publisher_dial do. */
typedef struct qw_publisher_options {
    const char *certificate; /* to listen with TLS: PEM files of the certificate and of its key; or NULL */
    const char *key;
    const char *roots;       /* to dial with TLS: a PEM file of certificates to trust; or NULL */
    const uint8_t *domains;  /* of the items; NULL: market price (6) */
    size_t domain_count;
    uint8_t is_encrypted;    /* to dial with TLS, with the certificates that this machine trusts if roots is NULL */
    uint8_t is_websocket;    /* to dial: RWF in WebSocket frames. Who listens takes both */
    uint8_t takes_posts;     /* consumers may post (QW_POSTED); they are refused otherwise */
    uint8_t waits;           /* requests for what is not published are left open until it is (QW_WANTED), and not refused */
    uint8_t reserved[4];     /* zeros */
} qw_publisher_options_t;

/* What has come to a publisher. Pointers are valid until the next qw_publisher_next. */
#define QW_WANTED 1   /* somebody asks for an item that nobody had asked for */
#define QW_UNWANTED 2 /* nobody wants it any more */
#define QW_POSTED 3   /* a consumer has posted; publish it if it is to be seen */
#define QW_ASKED 4    /* a consumer has sent a generic message; qw_publisher_answer answers */
#define QW_READY 5    /* the server that was dialled has everything */
#define QW_LOST 6     /* it is lost */
#define QW_DENIED 7   /* it has refused the login: the text is the data */
typedef struct qw_event {
    int32_t kind;      /* QW_WANTED, ... */
    uint8_t domain;    /* of the item */
    uint8_t container; /* the type of the data: QW_FIELD_LIST, ... */
    uint16_t reserved;
    const char *item;
    const uint8_t *bytes; /* the data */
    size_t length;
} qw_event_t;

/* Counts of a subscription. */
typedef struct qw_counts {
    uint64_t queued;   /* messages given, or about to be */
    uint64_t merged;   /* messages that became images, because there was no room */
    uint64_t dropped;  /* acknowledgements and generic messages without room */
    uint64_t full;     /* times that the bound was reached */
    uint64_t cut;      /* 1: the subscription was cut */
} qw_counts_t;

/* The last failure on this thread; the text is valid until the next one. */
int qw_errnum(void);
const char *qw_errmsg(void);
/* Name and version of the library. */
const char *qw_version(void);

/* Connects to the first server of a list ("HOST:PORT,HOST:PORT", or "srv:_SERVICE._tcp.DOMAIN" for what the DNS says) that answers, logs in, and waits for a service and the dictionary. After a loss the
   session goes through the list by itself, and asks again for what was open. */
int qw_connect(const char *servers, const char *user, double timeout_s, qw_session_t **session);
/* The same with options, which may be NULL. Lists with | between them are connections that are held at the same time, one out of each
   ("a:14002,b:14002 | c:14002"); options say what each is for. */
int qw_connect_with(const char *servers, const char *user, const qw_session_options_t *options, double timeout_s, qw_session_t **session);
/* Leaves servers for the preferred one, where it is another; gives how many were left. */
int qw_session_fall_back(const qw_session_t *session);
/* Pauses all that is open, or goes on (is_paused 0). A server that cannot goes on sending. */
int qw_session_pause(const qw_session_t *session, int is_paused);
/* Host and port of the server that serves, as a text (see qw_field_text): 1; there is no connection: 0, and the text is empty. */
int qw_session_server(const qw_session_t *session, char *text, size_t size, size_t *length);
/* Logs out. */
int qw_session_close(qw_session_t *session);
/* Whether it is logged in now (1, 0), and the connections that were lost so far. */
int qw_session_status(const qw_session_t *session, uint64_t *connections_lost);

/* Watches items of a service. options may be NULL. */
int qw_subscribe(qw_session_t *session, const char *service, const char *const *items, size_t count, const qw_options_t *options, qw_subscription_t **subscription);
/* Follows the members of a chain (is_list 0) or symbol list: they are opened and closed as they change, and told by QW_JOINED and the like. A server that
   can opens by itself what a list names, if options are NULL or zeros. Members cannot be paused or posted to. */
int qw_follow(qw_session_t *session, const char *service, const char *name, int is_list, const qw_options_t *options, qw_subscription_t **subscription);
/* Closes its items. */
int qw_subscription_close(qw_subscription_t *subscription);
/* The next message: 1; the time is over: 0; it has ended: -1. */
int qw_next(qw_subscription_t *subscription, double timeout_s, qw_message_t *message);
/* Pauses an item, by its place, or goes on with it (is_paused 0): its image comes then. Refreshes and states come in a pause, too. */
int qw_pause(const qw_subscription_t *subscription, uint32_t item, int is_paused);
/* Asks for another priority of an item: 1; the item has ended: 0. */
int qw_set_priority(const qw_subscription_t *subscription, uint32_t item, uint8_t priority_class, uint16_t count);
int qw_subscription_counts(const qw_subscription_t *subscription, qw_counts_t *counts);

/* Posts fields of a market price to an item, by its place, on its stream, which has to be open. With post_id the answer is wanted, and qw_next_answer gives it
   under this number; NULL: it is not. */
int qw_post(const qw_subscription_t *subscription, uint32_t item, const qw_value_t *values, size_t count, uint32_t *post_id);
/* The same for an item that need not be open here. */
int qw_post_off_stream(const qw_session_t *session, const char *service, const char *item, const qw_value_t *values, size_t count, uint32_t *post_id);
/* The next answer to a post of the session, and its text (see qw_field_text): 1; the time is over: 0; the session has ended: -1. */
int qw_next_answer(const qw_session_t *session, double timeout_s, qw_answer_t *answer, char *text, size_t size, size_t *length);
/* Sends the provider of an item, by its place, a generic message: 1; the item is not open: 0. What the provider says so comes by qw_next (QW_GENERIC). */
int qw_send_generic(const qw_subscription_t *subscription, uint32_t item, uint8_t container, const uint8_t *bytes, size_t length);

/* The data of the message that qw_next has given last, which is valid as long as that, and its type: 1; it has none: 0. */
int qw_message_body(const qw_subscription_t *subscription, uint8_t *container, const uint8_t **bytes, size_t *length);
/* A field of the message that qw_next has given last: 1; it is not in it or blank: 0; no such field, or of another type: -1. */
int qw_field_double(const qw_subscription_t *subscription, const char *name, double *value);
int qw_field_integer(const qw_subscription_t *subscription, const char *name, int64_t *value);
/* A value of any type as text, ended by a NUL; length is that of the whole text, which is cut off if it does not fit into size bytes. */
int qw_field_text(const qw_subscription_t *subscription, const char *name, char *text, size_t size, size_t *length);
/* The whole message as text, likewise: 1. */
int qw_message_text(const qw_subscription_t *subscription, char *text, size_t size, size_t *length);

/* A service of your own: listens ("HOST:PORT") for consumers and servers that dial it (by RSSL or WebSocket), or dials a server and publishes there. */
int qw_publisher_listen(const char *service, const char *address, qw_publisher_t **publisher);
int qw_publisher_dial(const char *service, const char *servers, const char *user, qw_publisher_t **publisher);
/* The same with TLS: PEM files of the certificate and its key. */
int qw_publisher_listen_encrypted(const char *service, const char *address, const char *certificate, const char *key, qw_publisher_t **publisher);
/* The same with options, which may be NULL. */
int qw_publisher_listen_with(const char *service, const char *address, const qw_publisher_options_t *options, qw_publisher_t **publisher);
int qw_publisher_dial_with(const char *service, const char *servers, const char *user, const qw_publisher_options_t *options, qw_publisher_t **publisher);
/* The port on which it listens; 0: it dials. */
int qw_publisher_port(const qw_publisher_t *publisher);
/* Publishes fields of an item: the first time they are its image, then an update. */
int qw_publish(qw_publisher_t *publisher, const char *item, const qw_value_t *values, size_t count);
/* The same with data of any type, and of any domain. */
int qw_publish_data(qw_publisher_t *publisher, uint8_t domain, const char *item, uint8_t container, const uint8_t *bytes, size_t length);
/* What has come to it: 1; the time is over: 0; it has ended: -1. */
int qw_publisher_next(qw_publisher_t *publisher, double timeout_s, qw_event_t *event);
/* Answers the generic message that qw_publisher_next has given last. Who has left meanwhile hears nothing. */
int qw_publisher_answer(const qw_publisher_t *publisher, uint8_t container, const uint8_t *bytes, size_t length);
/* Ends an item. */
int qw_publish_end(qw_publisher_t *publisher, const char *item, const char *text);
/* Waits until all is on its way. */
int qw_publisher_flush(qw_publisher_t *publisher);
/* Ends the service. */
int qw_publisher_close(qw_publisher_t *publisher);

#ifdef __cplusplus
}
#endif
#endif
