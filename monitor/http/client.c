/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests over HTTP/1.0, because its answers end with the connection and are never chunked
 * (RFC 1945): sockets that do not block, and one poll() over those that are open.
 */
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "monitor/http/http.h"
#include "tacho_clock.h"

#define AT_ONCE   64
#define HOST_MOST 256
#define HINT      "is it running, and does the address have the form http://HOST:PORT/PATH?"

/* A request under way. */
struct flow {
    struct mon_http *call; /* NULL: free */
    struct addrinfo *addresses, *next;
    int fd;
    bool is_connected;
    double deadline;
    char *request;
    size_t request_size, sent, room;
};

/* ---- address and request ---------------------------------------------------------------------- */

struct place {
    char host[HOST_MOST], port[8], authority[HOST_MOST];
    const char *path;
};

/* Takes a URL apart. False: it has another form. */
static bool split_url(const char *url, struct place *place)
{
    if (strncasecmp(url, "http://", 7))
        return false;
    url += 7;
    size_t length = strcspn(url, "/?#");
    if (!length || length >= sizeof place->authority || memchr(url, '@', length))
        return false;
    for (size_t i = 0; url[i]; i++)
        if ((unsigned char)url[i] <= ' ' || (unsigned char)url[i] >= 0x7f)
            return false;
    snprintf(place->authority, sizeof place->authority, "%.*s", (int)length, url);
    place->path = url[length] == '/' ? url + length : "/";
    snprintf(place->host, sizeof place->host, "%s", place->authority);
    char *bracket = *place->host == '[' ? strchr(place->host, ']') : NULL;
    char *colon = strchr(bracket ? bracket : place->host, ':');
    snprintf(place->port, sizeof place->port, "%.7s", colon ? colon + 1 : "80");
    if (colon)
        *colon = 0;
    if (bracket) {
        *bracket = 0;
        memmove(place->host, place->host + 1, strlen(place->host));
    }
    return *place->host && *place->port &&
           strspn(place->port, "0123456789") == strlen(place->port) && atol(place->port) <= 65535;
}

/* The text that is sent. NULL without memory. */
static char *make_request(const struct mon_http *call, const struct place *place, size_t *size)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, size);
    if (!out)
        return NULL;
    fprintf(out, "%s %s HTTP/1.0\r\nHost: %s\r\nUser-Agent: tacho/" TACHO_VERSION "\r\n",
            call->body ? "POST" : "GET", place->path, place->authority);
    if (call->token)
        fprintf(out, "Authorization: Bearer %s\r\n", call->token);
    if (call->body)
        fprintf(out, "Content-Type: %s\r\nContent-Length: %zu\r\n", call->type, call->size);
    fputs("\r\n", out);
    if (call->body)
        fwrite(call->body, 1, call->size, out);
    bool failed = ferror(out);
    if (!fclose(out) && !failed)
        return text;
    free(text);
    return NULL;
}

/* ---- one request ------------------------------------------------------------------------------ */

static void flow_end(struct flow *flow)
{
    if (flow->fd >= 0)
        close(flow->fd);
    if (flow->addresses)
        freeaddrinfo(flow->addresses);
    free(flow->request);
    *flow = (struct flow){.fd = -1};
}

static void flow_fail(struct flow *flow, int code, const char *what)
{
    flow->call->rc = tacho_fail(&flow->call->err, code, HINT, "%s: %s", flow->call->url, what);
    flow_end(flow);
}

/* Begins to connect to the next address of the host; with none left the request has failed. */
static void flow_connect(struct flow *flow)
{
    int error = 0;
    if (flow->fd >= 0) {
        socklen_t size = sizeof error;
        getsockopt(flow->fd, SOL_SOCKET, SO_ERROR, &error, &size);
        close(flow->fd);
        flow->fd = -1;
    }
    for (; flow->next; error = errno) {
        struct addrinfo *to = flow->next;
        flow->next = to->ai_next;
        flow->fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (flow->fd < 0)
            continue;
        if (!connect(flow->fd, to->ai_addr, to->ai_addrlen) || errno == EINPROGRESS)
            return;
        int why = errno;
        close(flow->fd);
        flow->fd = -1;
        errno = why;
    }
    flow_fail(flow, TACHO_EIO, strerror(error ? error : ECONNREFUSED));
}

static void flow_begin(struct flow *flow, struct mon_http *call, double seconds)
{
    struct place place;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    *flow = (struct flow){.call = call, .fd = -1, .deadline = tacho_now_s() + seconds};
    if (!split_url(call->url, &place)) {
        flow_fail(flow, TACHO_EUSAGE, "not an address of the form http://HOST:PORT/PATH");
        return;
    }
    if (!(flow->request = make_request(call, &place, &flow->request_size))) {
        flow_fail(flow, TACHO_ENOMEM, tacho_error_text(TACHO_ENOMEM));
        return;
    }
    int error = getaddrinfo(place.host, place.port, &hints, &flow->addresses);
    if (error) {
        flow->addresses = NULL;
        flow_fail(flow, TACHO_EIO, gai_strerror(error));
        return;
    }
    flow->next = flow->addresses;
    flow_connect(flow);
}

/* Separates the head of an answer from its body. False: it is not HTTP, or was cut off. */
static bool take_apart(struct mon_http *call)
{
    char *body = call->answer ? strstr(call->answer, "\r\n\r\n") : NULL;
    if (!body || sscanf(call->answer, "HTTP/1.%*1[01] %3d", &call->status) != 1)
        return false;
    *body = 0;
    body += 4;
    size_t size = call->answered - (size_t)(body - call->answer);
    char *length = strcasestr(call->answer, "\r\nContent-Length:");
    bool is_whole = !length || strtoull(length + 17, NULL, 10) == size;
    memmove(call->answer, body, size);
    call->answer[size] = 0;
    call->answered = size;
    return is_whole;
}

static void flow_answered(struct flow *flow)
{
    struct mon_http *call = flow->call;
    char what[64];
    if (!take_apart(call)) {
        flow_fail(flow, TACHO_EFORMAT, "the answer is not HTTP, or was cut off");
    } else if (call->status < 200 || call->status > 299) {
        bool is_denied = call->status == 401 || call->status == 403;
        snprintf(what, sizeof what, "answered with status %d", call->status);
        flow_fail(flow, is_denied ? TACHO_EDENIED : TACHO_EIO, what);
    } else {
        call->rc = 0;
        flow_end(flow);
    }
}

static void flow_send(struct flow *flow)
{
    ssize_t n =
        send(flow->fd, flow->request + flow->sent, flow->request_size - flow->sent, MSG_NOSIGNAL);
    if (n >= 0) {
        flow->is_connected = true;
        flow->sent += (size_t)n;
    } else if (errno != EAGAIN && errno != EINTR) {
        /* an answer may have come before the end of a request that was refused */
        flow->sent = flow->request_size;
    }
}

static void flow_receive(struct flow *flow)
{
    struct mon_http *call = flow->call;
    if (flow->room - call->answered < 4096) {
        size_t room = flow->room ? 2 * flow->room : 16384;
        char *grown = room > 2 * MON_HTTP_ANSWER_MOST ? NULL : realloc(call->answer, room + 1);
        if (!grown) {
            flow_fail(flow, TACHO_ENOMEM, "the answer is too long");
            return;
        }
        call->answer = grown;
        flow->room = room;
    }
    ssize_t n = recv(flow->fd, call->answer + call->answered, flow->room - call->answered, 0);
    if (n > 0)
        call->answered += (size_t)n;
    call->answer[call->answered] = 0;
    if (!n || (n < 0 && call->answered && errno == ECONNRESET))
        flow_answered(flow);
    else if (n < 0 && errno != EAGAIN && errno != EINTR)
        flow_fail(flow, TACHO_EIO, strerror(errno));
}

/* What poll() said of the socket of a request. */
static void flow_go_on(struct flow *flow, short events)
{
    if (tacho_now_s() > flow->deadline)
        flow_fail(flow, TACHO_EIO, "no answer in time");
    else if (!flow->is_connected && events & (POLLERR | POLLHUP))
        flow_connect(flow);
    else if (events & POLLOUT && flow->sent < flow->request_size)
        flow_send(flow);
    else if (events & (POLLIN | POLLERR | POLLHUP))
        flow_receive(flow);
}

/* ---- all of them ------------------------------------------------------------------------------ */

void mon_http_all(struct mon_http *list, size_t count, double seconds)
{
    struct flow flow[AT_ONCE];
    struct pollfd ask[AT_ONCE];
    size_t begun = 0, open;
    for (size_t i = 0; i < AT_ONCE; i++)
        flow[i] = (struct flow){.fd = -1};
    do {
        open = 0;
        for (size_t i = 0; i < AT_ONCE; i++) {
            while (!flow[i].call && begun < count)
                flow_begin(&flow[i], &list[begun++], seconds);
            bool sends = flow[i].call && flow[i].sent < flow[i].request_size;
            ask[i] = (struct pollfd){.fd = flow[i].fd, .events = sends ? POLLOUT : POLLIN};
            open += flow[i].call != NULL;
        }
        if (!open || poll(ask, AT_ONCE, 100) < 0)
            continue;
        for (size_t i = 0; i < AT_ONCE; i++)
            if (flow[i].call)
                flow_go_on(&flow[i], ask[i].revents);
    } while (open);
}

void mon_http_free(struct mon_http *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(list[i].answer);
        list[i].answer = NULL;
        list[i].answered = 0;
    }
}
