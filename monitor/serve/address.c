/* SPDX-License-Identifier: Apache-2.0
 *
 * Addresses: where to listen, and by which names a request may call this server.
 */
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "monitor/serve/private.h"

#define HOST_MOST 256

/* The host of "HOST", "HOST:PORT", "[HOST]" or "[HOST]:PORT", without brackets; the rest is in
 * *port: "" or ":PORT". False: it has another form. */
static bool split(const char *text, char host[HOST_MOST], const char **port)
{
    bool has_brackets = *text == '[';
    size_t length = has_brackets ? strcspn(text + 1, "]") : strcspn(text, ":");
    text += has_brackets;
    if (!length || length >= HOST_MOST || (has_brackets && text[length] != ']'))
        return false;
    memcpy(host, text, length);
    host[length] = 0;
    *port = text + length + has_brackets;
    const char *digits = **port == ':' ? *port + 1 : *port;
    return (!**port || **port == ':') && strspn(digits, "0123456789") == strlen(digits);
}

/* Is this an address of loopback? `address` has the size of any. */
static bool is_loopback_address(const struct sockaddr_storage *address)
{
    const void *any = address;
    const struct sockaddr_in *four = any;
    const struct sockaddr_in6 *six = any;
    if (address->ss_family == AF_INET)
        return ntohl(four->sin_addr.s_addr) >> 24 == 127;
    return address->ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
}

/* Is this an address and no name? Then *is_loopback says which. */
static bool is_address(const char *host, bool *is_loopback)
{
    struct sockaddr_storage address = {.ss_family = AF_INET};
    void *any = &address;
    struct sockaddr_in *four = any;
    struct sockaddr_in6 *six = any;
    bool is_there = inet_pton(AF_INET, host, &four->sin_addr) == 1;
    if (!is_there) {
        address.ss_family = AF_INET6;
        is_there = inet_pton(AF_INET6, host, &six->sin6_addr) == 1;
    }
    *is_loopback = is_there && is_loopback_address(&address);
    return is_there;
}

bool serve_host_fits(const char *host, bool is_loopback)
{
    char name[HOST_MOST], own[HOST_MOST] = "";
    const char *port;
    bool names_loopback;
    if (!host || !split(host, name, &port))
        return false;
    if (is_address(name, &names_loopback))
        return names_loopback || !is_loopback;
    if (is_loopback)
        return !strcasecmp(name, "localhost");
    if (gethostname(own, sizeof own - 1))
        return false;
    size_t first = strcspn(own, ".");
    bool is_short = !name[strcspn(name, ".")];
    return !strcasecmp(name, own) || (!strncasecmp(name, own, first) && (is_short || !own[first]) &&
                                      (name[first] == 0 || name[first] == '.'));
}

static int bind_to(const struct addrinfo *to, const char *address, struct tacho_error *err)
{
    int yes = 1, fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) &&
        !bind(fd, to->ai_addr, to->ai_addrlen) && !listen(fd, MON_SERVE_CLIENTS))
        return fd;
    int error = errno;
    if (fd >= 0)
        close(fd);
    return tacho_fail(err, error == EADDRINUSE ? TACHO_EBUSY : tacho_error_of_errno(error),
                      "give another ADDRESS:PORT; port 0 is any free one", "%s: %s", address,
                      strerror(error));
}

/* Writes the address that a socket got, with its port. */
static void name_socket(int fd, char at[SERVE_ADDRESS])
{
    struct sockaddr_storage storage = {0};
    struct sockaddr *got = (struct sockaddr *)(void *)&storage;
    socklen_t size = sizeof storage;
    char host[INET6_ADDRSTRLEN] = "", port[8] = "";
    getsockname(fd, got, &size);
    getnameinfo(got, size, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
    if (got->sa_family == AF_INET6)
        snprintf(at, SERVE_ADDRESS, "[%s]:%s", host, port);
    else
        snprintf(at, SERVE_ADDRESS, "%s:%s", host, port);
}

int serve_listen(const char *address, char at[SERVE_ADDRESS], bool *is_loopback,
                 struct tacho_error *err)
{
    char host[HOST_MOST], whole[HOST_MOST];
    const char *port;
    struct addrinfo *found, hints = {.ai_socktype = SOCK_STREAM,
                                     .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE};
    bool is_port = *address && strspn(address, "0123456789") == strlen(address);
    snprintf(whole, sizeof whole, "%s%s", is_port ? "127.0.0.1:" : "", address);
    if (!strncasecmp(whole, "localhost", 9))
        snprintf(whole, sizeof whole, "127.0.0.1%s", address + 9);
    char default_port[8];
    snprintf(default_port, sizeof default_port, "%d", MON_SERVE_PORT);
    if (!split(whole, host, &port) ||
        getaddrinfo(host, *port ? port + 1 : default_port, &hints, &found))
        return tacho_fail(err, TACHO_EUSAGE, "for example 127.0.0.1:9464, [::1]:9464 or 9464",
                          "'%.60s' is not ADDRESS:PORT", address);
    struct sockaddr_storage listens = {0};
    memcpy(&listens, found->ai_addr, found->ai_addrlen);
    *is_loopback = is_loopback_address(&listens);
    int fd = bind_to(found, address, err);
    freeaddrinfo(found);
    if (fd >= 0)
        name_socket(fd, at);
    return fd;
}
