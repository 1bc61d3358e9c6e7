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

/* Classes of messages. */
#define QW_REFRESH 2
#define QW_STATUS 3
#define QW_UPDATE 4
#define QW_ACK 6
#define QW_GENERIC 7

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

/* Connects to the first server of a list ("HOST:PORT,HOST:PORT") that answers, logs in, and waits for a service and the dictionary. After a loss the
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
/* Closes its items. */
int qw_subscription_close(qw_subscription_t *subscription);
/* The next message: 1; the time is over: 0; it has ended: -1. */
int qw_next(qw_subscription_t *subscription, double timeout_s, qw_message_t *message);
/* Pauses an item, by its place, or goes on with it (is_paused 0): its image comes then. Refreshes and states come in a pause, too. */
int qw_pause(const qw_subscription_t *subscription, uint32_t item, int is_paused);
/* Asks for another priority of an item: 1; the item has ended: 0. */
int qw_set_priority(const qw_subscription_t *subscription, uint32_t item, uint8_t priority_class, uint16_t count);
int qw_subscription_counts(const qw_subscription_t *subscription, qw_counts_t *counts);

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
/* The port on which it listens; 0: it dials. */
int qw_publisher_port(const qw_publisher_t *publisher);
/* Publishes fields of an item: the first time they are its image, then an update. */
int qw_publish(qw_publisher_t *publisher, const char *item, const qw_value_t *values, size_t count);
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
