/* SPDX-License-Identifier: Apache-2.0
 *
 * The server of a watch: who gets samples, who is refused, what many and slow clients do.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "monitor/http/http.h"
#include "monitor/serve/serve.h"

#define TOKEN "0123456789abcdef0123456789abcdef"

static void publish(struct mon_serve *serve)
{
    struct mon_metrics metrics;
    mon_metrics_init(&metrics, 10, 0);
    mon_metrics_begin(&metrics, 0);
    mon_metric_add(&metrics, MON_FAMILY_LAST_STEP, 7);
    assert_int_equal(mon_serve_publish(serve, &metrics), 0);
    mon_metrics_free(&metrics);
}

static struct mon_serve *start(const char *address, const char *token_file)
{
    struct mon_serve *serve;
    struct tacho_error err = {0};
    int rc = mon_serve_start(address, token_file, &serve, &err);
    if (rc == TACHO_ENOTSUP)
        skip(); /* built without libmicrohttpd */
    if (rc)
        fail_msg("%s", err.what);
    return serve;
}

static int port_of(const struct mon_serve *serve)
{
    return atoi(strrchr(mon_serve_address(serve), ':') + 1);
}

static int connect_to(int port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(fd >= 0);
    if (connect(fd, (struct sockaddr *)(void *)&to, sizeof to))
        assert_int_equal(errno, EINPROGRESS);
    return fd;
}

/* Sends a request as it is. The whole answer is in `answer`, its status the result; 0: none. */
static int ask(int port, const char *request, char *answer, size_t size)
{
    int fd = connect_to(port), status = 0;
    size_t used = 0;
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    *answer = 0;
    poll(&ready, 1, 5000);
    if (send(fd, request, strlen(request), MSG_NOSIGNAL) != (ssize_t)strlen(request)) {
        close(fd); /* it waits for others */
        return 0;
    }
    ready.events = POLLIN;
    for (ssize_t n = 1; n > 0 && poll(&ready, 1, 20000) > 0; used += n > 0 ? (size_t)n : 0)
        n = recv(fd, answer + used, size - 1 - used, 0);
    answer[used] = 0;
    close(fd);
    sscanf(answer, "HTTP/1.1 %3d", &status);
    return status;
}

static void test_requests(void **state)
{
    (void)state;
    char answer[20000];
    struct mon_serve *serve = start("127.0.0.1:0", NULL);
    int port = port_of(serve);
    assert_int_equal(
        ask(port, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", answer, sizeof answer), 503);
    publish(serve);
    static const struct {
        int status;
        const char *request;
    } cases[] = {
        {200, "GET /metrics HTTP/1.1\r\nHost: localhost:9464\r\n\r\n"},
        {200, "GET /metrics HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n"},
        {200, "GET /metrics HTTP/1.1\r\nHost: [::1]:9464\r\n\r\n"},
        {200, "HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"},
        {421, "GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n"},
        {421, "GET /metrics HTTP/1.1\r\nHost: localhost.evil.example\r\n\r\n"},
        {421, "GET /metrics HTTP/1.1\r\nHost: 10.0.0.1\r\n\r\n"},
        {421, "GET /metrics HTTP/1.0\r\n\r\n"},
        {404, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"},
        {404, "GET /metrics/../x HTTP/1.1\r\nHost: localhost\r\n\r\n"},
        {405, "POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc"},
        {405, "DELETE /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"},
        {413, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int status = ask(port, cases[i].request, answer, sizeof answer);
        if (status != cases[i].status)
            fail_msg("%s: %d instead of %d: %s", cases[i].request, status, cases[i].status, answer);
        bool has_samples = strstr(answer, "tacho_last_step_index 7\n") != NULL;
        assert_int_equal(has_samples, status == 200 && *cases[i].request == 'G');
    }
    ask(port,
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: "
        "application/openmetrics-text;version=1.0.0\r\n\r\n",
        answer, sizeof answer);
    assert_non_null(strstr(answer, "Content-Type: application/openmetrics-text"));
    assert_non_null(strstr(answer, "# EOF\n"));
    /* no HTTP at all: an error or no answer, and the next client is served */
    char junk[12000];
    memset(junk, 'A', sizeof junk - 1);
    junk[sizeof junk - 1] = 0;
    ask(port, "\x16\x03\x01\x02\r\n\r\n", answer, sizeof answer);
    memcpy(junk, "GET /metrics HTTP/1.1\r\nHost: ", 29);
    memcpy(junk + sizeof junk - 5, "\r\n\r\n", 5);
    assert_int_not_equal(ask(port, junk, answer, sizeof answer), 200);
    assert_int_equal(ask(port, cases[0].request, answer, sizeof answer), 200);
    mon_serve_stop(serve);
}

static void make_token(char *path, const char *text, mode_t mode)
{
    int fd = mkstemp(path);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    fchmod(fd, mode);
    close(fd);
}

static void test_tokens(void **state)
{
    (void)state;
    struct mon_serve *serve;
    struct tacho_error err = {0};
    char path[] = "/tmp/tacho-token-XXXXXX", open[] = "/tmp/tacho-token-XXXXXX",
         shorter[] = "/tmp/tacho-token-XXXXXX", answer[4000], token[MON_TOKEN_MOST];
    make_token(path, TOKEN "\n", 0600);
    make_token(open, TOKEN "\n", 0640);
    make_token(shorter, "0123456789\n", 0600);
    assert_int_equal(mon_token_read(open, token, &err), TACHO_EDENIED);
    assert_null(strstr(err.what, TOKEN));
    assert_int_equal(mon_token_read(shorter, token, &err), TACHO_EFORMAT);
    assert_null(strstr(err.what, "0123456789"));
    assert_int_equal(mon_token_read("/nonexistent/token", token, &err), TACHO_ENOTFOUND);
    serve = start("127.0.0.1:0", path);
    publish(serve);
    static const struct {
        int status;
        const char *line;
    } cases[] = {
        {401, ""},
        {401, "Authorization: Bearer 0123456789abcdef0123456789abcdeX\r\n"},
        {401, "Authorization: Bearer " TOKEN "0\r\n"},
        {401, "Authorization: Bearer \r\n"},
        {401, "Authorization: Basic " TOKEN "\r\n"},
        {200, "Authorization: Bearer " TOKEN "\r\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char request[300];
        snprintf(request, sizeof request, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n%s\r\n",
                 cases[i].line);
        assert_int_equal(ask(port_of(serve), request, answer, sizeof answer), cases[i].status);
        assert_null(strstr(answer, "0123456789abcdef"));
    }
    /* the client of this program sends it too */
    char url[64];
    snprintf(url, sizeof url, "http://%s/metrics", mon_serve_address(serve));
    struct mon_http calls[] = {{.url = url, .token = TOKEN}, {.url = url}};
    mon_http_all(calls, 2, 10);
    assert_int_equal(calls[0].rc, 0);
    assert_int_equal(calls[1].rc, TACHO_EDENIED);
    mon_http_free(calls, 2);
    mon_serve_stop(serve);
    assert_int_equal(mon_serve_start("0.0.0.0:0", NULL, &serve, &err), TACHO_EUSAGE);
    assert_null(serve);
    assert_int_equal(mon_serve_start("nonsense:x", NULL, &serve, &err), TACHO_EUSAGE);
    serve = start("0.0.0.0:0", path); /* any address of this host, but no foreign name */
    publish(serve);
    static const char request[] =
        "GET /metrics HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer " TOKEN "\r\n\r\n";
    char host[200] = "", text[600];
    gethostname(host, sizeof host - 1);
    const char *const hosts[] = {"10.1.2.3:9464", host, "evil.example"};
    for (size_t i = 0; i < 3; i++) {
        snprintf(text, sizeof text, request, hosts[i]);
        assert_int_equal(ask(port_of(serve), text, answer, sizeof answer), i < 2 ? 200 : 421);
    }
    mon_serve_stop(serve);
    unlink(path), unlink(open), unlink(shorter);
}

/* A thousand clients that never end their request: a scrape comes through, and the descriptors of
 * this process stay bounded. */
static void test_slow_clients(void **state)
{
    (void)state;
    struct rlimit limit;
    enum { CLIENTS = 1000 };
    static int client[CLIENTS];
    char answer[4000];
    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_max < CLIENTS + 200)
        skip();
    limit.rlim_cur = CLIENTS + 200;
    setrlimit(RLIMIT_NOFILE, &limit);
    struct mon_serve *serve = start("127.0.0.1:0", NULL);
    int port = port_of(serve), status = 0;
    publish(serve);
    for (size_t i = 0; i < CLIENTS; i++) {
        client[i] = connect_to(port);
        send(client[i], "GET /met", 8, MSG_NOSIGNAL); /* those that wait fail: so be it */
    }
    int probe = open("/dev/null", O_RDONLY); /* the number of descriptors in use, at least */
    assert_true(probe < CLIENTS + 150);
    close(probe);
    for (int i = 0; i < 40 && status != 200; i++) {
        publish(serve); /* as the watch does each second; cuts off */
        for (size_t j = 0; j < CLIENTS; j++)
            send(client[j], "x", 1, MSG_NOSIGNAL); /* a byte now and then: not idle */
        status =
            ask(port, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", answer, sizeof answer);
    }
    assert_int_equal(status, 200);
    for (size_t i = 0; i < CLIENTS; i++)
        close(client[i]);
    mon_serve_stop(serve);
}

/* What a client says of servers that are not there or are none. */
static void test_client(void **state)
{
    (void)state;
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t size = sizeof at;
    char mute[64], url[64];
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); /* accepts nothing, answers nothing */
    bind(fd, (struct sockaddr *)(void *)&at, sizeof at);
    listen(fd, 5);
    getsockname(fd, (struct sockaddr *)(void *)&at, &size);
    snprintf(mute, sizeof mute, "http://127.0.0.1:%d/", ntohs(at.sin_port));
    snprintf(url, sizeof url, "http://user:secret@127.0.0.1:%d/", ntohs(at.sin_port));
    struct mon_http calls[] = {{.url = mute},
                               {.url = "http://127.0.0.1:1/metrics"},
                               {.url = "https://localhost/"},
                               {.url = url},
                               {.url = "http:///x"},
                               {.url = "http://localhost:99999999/"},
                               {.url = "http://127.0.0.1:1/a b"}};
    mon_http_all(calls, sizeof calls / sizeof *calls, 0.5);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        assert_int_equal(calls[i].rc, i < 2 ? TACHO_EIO : TACHO_EUSAGE);
        assert_true(*calls[i].err.what);
    }
    mon_http_free(calls, sizeof calls / sizeof *calls);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests), cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_slow_clients), cmocka_unit_test(test_client)};
    return cmocka_run_group_tests_name("mon_serve", tests, NULL, NULL);
}
