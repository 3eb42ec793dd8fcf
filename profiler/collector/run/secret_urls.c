/* SPDX-License-Identifier: Apache-2.0
 *
 * Each rule looks for the '@' behind credentials, and for what must be before it. A URL that is a
 * part of another one has its signs as bytes in hexadecimal digits, once or several times ("%3A",
 * "%253A").
 */
#include "profiler/collector/run/secret_urls.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "profiler/collector/run/secret_names.h"
#include "profiler/collector/run/secret_options.h"

#define BLANK COL_TEXT_BLANK
#define QUOTE COL_TEXT_QUOTE

static int hexadecimal(char letter)
{
    static const char digits[] = "0123456789abcdef";
    const char *found = letter ? strchr(digits, tolower((unsigned char)letter)) : NULL;
    return found ? (int)(found - digits) : -1;
}

/* Bytes of a sign at `at`, as it is or as a URL spells it; 0: it is another one. */
static size_t spelled(const char *at, char sign)
{
    const char *digits = at + 1;
    if (*at == sign)
        return 1;
    if (*at != '%')
        return 0;
    while (strncmp(digits, "25", 2) == 0 && hexadecimal(digits[2]) >= 0)
        digits += 2;
    int high = hexadecimal(*digits), low = high < 0 ? -1 : hexadecimal(digits[1]);
    return low >= 0 && 16 * high + low == sign ? (size_t)(digits + 2 - at) : 0;
}

/* The first or the last place of a sign in a text; NULL: it is not there. */
static const char *find_sign(const char *from, const char *end, char sign, bool last)
{
    const char begins[] = {sign, '%', 0}, *found = NULL;
    for (const char *at = from; at < end && (last || !found); at++) {
        at += strcspn(at, begins);
        if (at < end && spelled(at, sign))
            found = at;
    }
    return found;
}

/* The end of the host of a URL, whose credentials begin at `from`. In one that is part of another
 * one the signs that end it are spelled, too. */
static const char *host_end(const char *from, const char *end, bool is_part)
{
    static const char signs[] = "/?#";
    for (const char *at = from; at < end; at++)
        for (const char *sign = signs; *sign; sign++)
            if (*at == *sign || (is_part && (spelled(at, *sign) || *at == '&')))
                return at;
    return end;
}

/* The '@' that ends the credentials that begin at `from`; NULL: there are none. A password may
 * contain '/', which nothing but a port tells from the path behind a host. */
static const char *credentials_end(const char *from, const char *end, bool is_part)
{
    const char *host = host_end(from, end, is_part);
    const char *sign = find_sign(from, host, '@', true);
    const char *colon = find_sign(from, host, ':', false);
    if (!sign && colon) {
        const char *port = colon + spelled(colon, ':');
        if (port + strspn(port, "0123456789") < host)
            sign = find_sign(host, end, '@', false);
    }
    return sign;
}

/* The end of the scheme before "//"; a ':' between them may be spelled. */
static const char *scheme_end(const struct col_text *in, const char *slashes)
{
    const char *end = slashes;
    if (end > in->text && end[-1] == ':')
        return end - 1;
    if (end - in->text < 3 || end[-2] != '3' || tolower((unsigned char)end[-1]) != 'a')
        return slashes;
    for (end -= 2; end - in->text > 2 && strncmp(end - 2, "25", 2) == 0;)
        end -= 2;
    return end[-1] == '%' ? end - 1 : slashes;
}

/* In a URL all text before the '@' is hidden, but not the name of a user alone where that is
 * no key ("ssh://git@host"). */
static void hide_url_credentials(struct col_text *in)
{
    const char *end = in->text + in->size;
    for (const char *at = in->text; at + 2 < end; at++) {
        size_t first = spelled(at, '/'), second = first ? spelled(at + first, '/') : 0;
        if (!second || col_text_begins_argument(in, at))
            continue;
        const char *from = at + first + second, *scheme = scheme_end(in, at);
        const char *sign =
            credentials_end(from, from + strcspn(from, BLANK "<>"), first + second > 2);
        const char *name = scheme;
        while (name > in->text && isalpha((unsigned char)name[-1]))
            name--;
        bool is_key = sign && (find_sign(from, sign, ':', false) ||
                               !col_list_has(col_user_schemes, name, (size_t)(scheme - name)));
        if (is_key)
            col_text_hide(in, from, sign);
    }
}

/* "user:password@host" without a scheme. */
static void hide_user_password(struct col_text *in)
{
    const char *end = in->text + in->size;
    for (const char *at = in->text; at < end; at++) {
        const char *from = at, *equals;
        at += strcspn(at, BLANK QUOTE "<>");
        const char *sign = memchr(from, '@', (size_t)(at - from));
        if (!sign || strncmp(sign, "@sha256:", 8) == 0)
            continue;
        if ((equals = memchr(from, '=', (size_t)(sign - from))))
            from = equals + 1;
        const char *colon = find_sign(from, sign, ':', false);
        if (!colon || spelled(colon + spelled(colon, ':'), '/'))
            continue;
        for (const char *other = sign; other < at && !col_text_is_one_of(*other, "/?#"); other++)
            sign = *other == '@' ? other : sign;
        col_text_hide(in, from, sign);
    }
}

/* ---- Oracle ----------------------------------------------------------------------------------- */

#define ORACLE_USER "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$#.[]\"\\"

/* Does the place of a database stand here: "//host...", "host:1521/service", "(DESCRIPTION="? */
static bool is_place(const char *text, const char *end)
{
    if (text + 2 < end && (*text == '(' || strncmp(text, "//", 2) == 0))
        return true;
    const char *colon = memchr(text, ':', (size_t)(end - text));
    size_t digits = colon ? strspn(colon + 1, "0123456789") : 0;
    return digits && digits < 6 && (colon + 1 + digits >= end || colon[1 + digits] == '/');
}

/* The password of "user/password@place" in a word, also behind "userid=" or "jdbc:oracle:thin:".
 * Where neither the place nor a program of Oracle's says that it is one, it may be a version of a
 * package: "user/package@3". */
static void hide_logon(struct col_text *in, const char *word, const char *end, bool known)
{
    const char *slash = memchr(word, '/', (size_t)(end - word));
    const char *user = slash, *sign = NULL;
    while (user && user > word && !col_text_is_one_of(user[-1], "=:"))
        user--;
    if (!slash || user == slash || strspn(user, ORACLE_USER) < (size_t)(slash - user))
        return;
    bool named = user - word >= 7 && strncasecmp(user - 7, "userid=", 7) == 0;
    const char *password = slash + 1;
    for (const char *at = password; at < end; at++)
        sign = *at == '@' ? at : sign;
    if (named && !sign)
        col_text_hide(in, password, end);
    else if (sign > password && (named || known || is_place(sign + 1, end)))
        col_text_hide(in, password, sign);
}

/* The end of a word of a command. */
static const char *word_end(const char *word)
{
    return word + strcspn(word, BLANK "'`;&|");
}

/* Is there a program of Oracle's in the text, maybe behind what it gets from a pipe? */
static bool has_program(const struct col_text *in)
{
    static const char programs[] = "sqlplus sqlplus64 sqlldr expdp impdp rman sqlcl dgmgrl";
    const char *end = in->text + in->size;
    for (const char *at = in->text; at < end; at++) {
        const char *base = at;
        for (const char *letter = at, *last = word_end(at); letter < last; letter++)
            if (*letter == '/')
                base = letter + 1;
        at = word_end(at);
        if (base < at && col_list_has(programs, base, (size_t)(at - base)))
            return true;
    }
    return false;
}

static void hide_logons(struct col_text *in)
{
    const char *end = in->text + in->size;
    bool known = has_program(in);
    for (const char *at = in->text; at < end; at++) {
        at += strspn(at, BLANK "'`();&|\"\\");
        const char *word = at;
        at = word_end(at);
        hide_logon(in, word, at, known);
    }
}

void col_urls_hide(struct col_text *in)
{
    hide_url_credentials(in);
    hide_user_password(in);
    hide_logons(in);
}
