/* SPDX-License-Identifier: Apache-2.0
 *
 * The server: texts under a lock, a thread of libmicrohttpd that answers from them, and a list of
 * clients by age.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "monitor/export/export.h"
#include "monitor/serve/private.h"
#include "tacho_clock.h"

#ifdef HAVE_MICROHTTPD
#include <dlfcn.h>

#include <microhttpd.h>

/* The library is opened when a server is started: it brings GnuTLS with it, which costs each start
 * of a program that is linked to it some milliseconds, and most programs serve nothing. */
#define LIBRARY "libmicrohttpd.so.12"
#define CALL_MAP(X) \
    X(start_daemon) \
    X(stop_daemon) \
    X(get_connection_info) \
    X(lookup_connection_value) \
    X(queue_response) \
    X(create_response_from_buffer) \
    X(add_response_header) \
    X(destroy_response)
static struct {
#define CALL_MEMBER(name) __typeof__(&MHD_##name) name;
    CALL_MAP(CALL_MEMBER)
#undef CALL_MEMBER
} mhd;
static bool is_loaded;
static pthread_once_t loading = PTHREAD_ONCE_INIT;

static void load_library(void)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL), *call;
    is_loaded = library != NULL;
#define CALL_LOAD(name) \
    call = library ? dlsym(library, "MHD_" #name) : NULL; \
    memcpy(&mhd.name, &call, sizeof call); \
    is_loaded = is_loaded && call;
    CALL_MAP(CALL_LOAD)
#undef CALL_LOAD
}

#define CLIENT_MEMORY 16384 /* bytes of a request's head, and of the library's own state */

struct client {
    int fd; /* < 0: free */
    double since;
};

struct mon_serve {
    struct MHD_Daemon *daemon;
    bool is_loopback;
    char at[SERVE_ADDRESS], token[MON_TOKEN_MOST];
    pthread_mutex_t lock;                       /* of all that follows */
    struct MHD_Response *text[2], *refusals[6]; /* by enum mon_text; made once */
    struct client client[MON_SERVE_CLIENTS];
};

/* What requests are refused with. */
static const struct {
    unsigned status;
    const char *text;
} refusals[] = {
    {MHD_HTTP_MISDIRECTED_REQUEST, "this server has another name\n"},
    {MHD_HTTP_UNAUTHORIZED, "a token is needed: Authorization: Bearer TOKEN\n"},
    {MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD\n"},
    {MHD_HTTP_NOT_FOUND, "only /metrics is here\n"},
    {MHD_HTTP_SERVICE_UNAVAILABLE, "nothing has been measured yet\n"},
    {MHD_HTTP_CONTENT_TOO_LARGE, "a request has no body here\n"},
};
enum refusal { FOREIGN, NO_TOKEN, NO_METHOD, NO_PAGE, NOT_YET, HAS_BODY };

/* ---- clients ---------------------------------------------------------------------------------- */

/* Ends the connections that are too old: the library, which owns them, then closes them. With the
 * lock. */
static void cut_off(struct mon_serve *serve)
{
    double oldest = tacho_now_s() - MON_SERVE_SECONDS;
    for (size_t i = 0; i < MON_SERVE_CLIENTS; i++)
        if (serve->client[i].fd >= 0 && serve->client[i].since < oldest)
            shutdown(serve->client[i].fd, SHUT_RDWR);
}

static void watch_client(void *ctx, struct MHD_Connection *connection, void **socket_context,
                         enum MHD_ConnectionNotificationCode code)
{
    struct mon_serve *serve = ctx;
    const union MHD_ConnectionInfo *info =
        mhd.get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct client *client = *socket_context;
    pthread_mutex_lock(&serve->lock);
    if (code == MHD_CONNECTION_NOTIFY_STARTED && info) {
        cut_off(serve);
        for (size_t i = 0; i < MON_SERVE_CLIENTS && !client; i++)
            if (serve->client[i].fd < 0)
                client = &serve->client[i];
        if (client) /* as many as the library lets in */
            *client = (struct client){info->connect_fd, tacho_now_s()};
        *socket_context = client;
    } else if (code == MHD_CONNECTION_NOTIFY_CLOSED && client) {
        client->fd = -1;
    }
    pthread_mutex_unlock(&serve->lock);
}

/* ---- requests --------------------------------------------------------------------------------- */

/* Why a request gets no samples, or -1. */
static int find_refusal(const struct mon_serve *serve, struct MHD_Connection *connection,
                        const char *url, const char *method)
{
    const char *host = mhd.lookup_connection_value(connection, MHD_HEADER_KIND, "Host");
    const char *authorization =
        mhd.lookup_connection_value(connection, MHD_HEADER_KIND, "Authorization");
    if (!serve_host_fits(host, serve->is_loopback))
        return FOREIGN;
    if (!serve_token_fits(serve->token, authorization))
        return NO_TOKEN;
    if (strcmp(method, "GET") && strcmp(method, "HEAD"))
        return NO_METHOD;
    if (strcmp(url, "/metrics"))
        return NO_PAGE;
    if (mhd.lookup_connection_value(connection, MHD_HEADER_KIND, "Content-Length") ||
        mhd.lookup_connection_value(connection, MHD_HEADER_KIND, "Transfer-Encoding"))
        return HAS_BODY;
    return -1;
}

/* Called by the library for a request: first with its head, then at its end. */
static enum MHD_Result answer(void *ctx, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_size, void **context)
{
    struct mon_serve *serve = ctx;
    static char seen;
    (void)version, (void)upload, (void)upload_size;
    int why = find_refusal(serve, connection, url, method);
    if (why < 0 && !*context) {
        *context = &seen; /* the library reads the end of the request first */
        return MHD_YES;
    }
    const char *accept = mhd.lookup_connection_value(connection, MHD_HEADER_KIND, "Accept");
    bool is_open = accept && strstr(accept, "application/openmetrics-text");
    pthread_mutex_lock(&serve->lock);
    struct MHD_Response *text = serve->text[is_open ? MON_OPENMETRICS : MON_PROMETHEUS];
    if (why < 0 && !text)
        why = NOT_YET;
    if (why >= 0)
        text = serve->refusals[why];
    enum MHD_Result done =
        mhd.queue_response(connection, why < 0 ? MHD_HTTP_OK : refusals[why].status, text);
    pthread_mutex_unlock(&serve->lock);
    return done;
}

/* ---- texts ------------------------------------------------------------------------------------ */

/* A response that ends its connection; `text` is copied. NULL without memory. */
static struct MHD_Response *make_response(const char *text, size_t size, const char *type)
{
    struct MHD_Response *response =
        mhd.create_response_from_buffer(size, (void *)(uintptr_t)text, MHD_RESPMEM_MUST_COPY);
    if (response && mhd.add_response_header(response, "Content-Type", type) &&
        mhd.add_response_header(response, "Connection", "close") &&
        mhd.add_response_header(response, "Cache-Control", "no-store") &&
        mhd.add_response_header(response, "X-Content-Type-Options", "nosniff"))
        return response;
    if (response)
        mhd.destroy_response(response);
    return NULL;
}

/* Writes the samples in one of the texts, which replaces the one before. */
static int publish_text(struct mon_serve *serve, const struct mon_metrics *metrics,
                        enum mon_text kind)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return TACHO_ENOMEM;
    int rc = mon_text_write(metrics, kind, out);
    if (fclose(out) || rc) {
        free(text);
        return TACHO_ENOMEM;
    }
    struct MHD_Response *made = make_response(text, size, mon_text_type(kind)), *before;
    free(text);
    if (!made)
        return TACHO_ENOMEM;
    pthread_mutex_lock(&serve->lock);
    before = serve->text[kind];
    serve->text[kind] = made;
    pthread_mutex_unlock(&serve->lock);
    if (before)
        mhd.destroy_response(before); /* clients that are getting it keep it alive */
    return 0;
}

int mon_serve_publish(struct mon_serve *serve, const struct mon_metrics *metrics)
{
    pthread_mutex_lock(&serve->lock);
    cut_off(serve);
    pthread_mutex_unlock(&serve->lock);
    int rc = publish_text(serve, metrics, MON_OPENMETRICS);
    return rc ? rc : publish_text(serve, metrics, MON_PROMETHEUS);
}

/* ---- start and stop --------------------------------------------------------------------------- */

static bool make_refusals(struct mon_serve *serve)
{
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        struct MHD_Response *made =
            make_response(refusals[i].text, strlen(refusals[i].text), "text/plain");
        if (!made)
            return false;
        if (i == NO_TOKEN)
            mhd.add_response_header(made, "WWW-Authenticate", "Bearer");
        serve->refusals[i] = made;
    }
    return true;
}

void mon_serve_stop(struct mon_serve *serve)
{
    if (!serve)
        return;
    if (serve->daemon)
        mhd.stop_daemon(serve->daemon); /* closes the socket that listens */
    for (size_t i = 0; i < sizeof serve->refusals / sizeof *serve->refusals; i++)
        if (serve->refusals[i])
            mhd.destroy_response(serve->refusals[i]);
    for (size_t i = 0; i < 2; i++)
        if (serve->text[i])
            mhd.destroy_response(serve->text[i]);
    pthread_mutex_destroy(&serve->lock);
    explicit_bzero(serve->token, sizeof serve->token);
    free(serve);
}

/* The thread takes no signals: they belong to the watch. */
static struct MHD_Daemon *start_daemon(struct mon_serve *serve, int fd)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    struct MHD_Daemon *daemon = mhd.start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD, 0, NULL, NULL, answer, serve, MHD_OPTION_LISTEN_SOCKET, fd,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)MON_SERVE_CLIENTS, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)MON_SERVE_SECONDS, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CLIENT_MEMORY,
        MHD_OPTION_NOTIFY_CONNECTION, watch_client, serve, MHD_OPTION_STRICT_FOR_CLIENT, 1,
        MHD_OPTION_END);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return daemon;
}

int mon_serve_start(const char *address, const char *token_file, struct mon_serve **serve,
                    struct tacho_error *err)
{
    struct mon_serve *made = calloc(1, sizeof *made);
    int rc = 0, fd = -1;
    *serve = NULL;
    if (!made)
        return tacho_fail(err, TACHO_ENOMEM, NULL, "%s", tacho_error_text(TACHO_ENOMEM));
    pthread_once(&loading, load_library);
    if (!is_loaded) {
        free(made);
        return tacho_fail(err, TACHO_ENOTSUP, "install libmicrohttpd12, or write a textfile",
                          "%s: " LIBRARY " cannot be opened", address);
    }
    pthread_mutex_init(&made->lock, NULL);
    for (size_t i = 0; i < MON_SERVE_CLIENTS; i++)
        made->client[i].fd = -1;
    if (token_file)
        rc = mon_token_read(token_file, made->token, err);
    if (!rc)
        rc = fd = serve_listen(address, made->at, &made->is_loopback, err);
    if (rc < 0)
        goto fail;
    if (!made->is_loopback && !token_file) {
        rc = tacho_fail(err, TACHO_EUSAGE, "give a token file, or an address of loopback",
                        "%s: others reach this address, so that a token is needed", address);
        goto fail;
    }
    if (!make_refusals(made) || !(made->daemon = start_daemon(made, fd))) {
        rc = tacho_fail(err, TACHO_EINTERNAL, "try again; or write to files: --textfile",
                        "%s: the HTTP server did not start", address);
        goto fail;
    }
    *serve = made;
    return 0;
fail:
    if (fd >= 0)
        close(fd);
    mon_serve_stop(made);
    return rc;
}

const char *mon_serve_address(const struct mon_serve *serve)
{
    return serve->at;
}

#else

int mon_serve_start(const char *address, const char *token_file, struct mon_serve **serve,
                    struct tacho_error *err)
{
    (void)token_file;
    *serve = NULL;
    return tacho_fail(err, TACHO_ENOTSUP,
                      "install libmicrohttpd-dev and build again, or write a textfile",
                      "%s: this tacho was built without libmicrohttpd", address);
}

void mon_serve_stop(struct mon_serve *serve)
{
    (void)serve;
}

const char *mon_serve_address(const struct mon_serve *serve)
{
    (void)serve;
    return "";
}

int mon_serve_publish(struct mon_serve *serve, const struct mon_metrics *metrics)
{
    (void)serve, (void)metrics;
    return TACHO_ENOTSUP;
}

#endif
