/* SPDX-License-Identifier: Apache-2.0
 *
 * A table of the keys that services issue, and measures of randomness for all others.
 */
#include "profiler/collector/run/secret_shapes.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#define ALNUM  "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define WORD   ALNUM "_-"
#define DOTTED WORD "."
#define BASE64 ALNUM "+/="
#define URL    DOTTED "~%/"
#define HEX    "0123456789abcdefABCDEF"

/* How keys begin, the fewest bytes that follow, and which bytes. `mixed`: the bytes that follow
 * have a digit or a capital, since words of English begin in the same way. */
static const struct key_shape {
    const char *prefixes; /* with a blank between them */
    size_t least;
    const char *alphabet;
    bool mixed;
} shapes[] = {
    {"sk- sk_ pypi- nvapi- re_ fo1_ jina_ nfp_ csk- rpa_ napi_ vcp_", 16, WORD, true},
    {"pa-", 32, WORD, true},
    {"pat-na1- pat-eu1- access-sandbox- access-production- access-development- xkeysib- HRKU- "
     "mdb_sa_sk_ pscale_tkn_ pscale_pw_ SWMTKN- CCIPAT_ AVNS_ rdme_ tfp_ bkua_ KGAT_ GR1348941 "
     "pnu_ pnb_ glffct- glwt-",
     10, WORD, false},
    {"ak- as-", 20, ALNUM, true},
    {"AQVN y0_ AQ.Ab APA91b", 20, WORD, true},
    {"LTAI AKID AKLT", 12, ALNUM, true},
    {"sqp_ squ_ sqa_ ls__ fc-", 30, HEX, false},
    {"AKCp cmVmdGtuO IQoJb3JpZ2lu FwoGZXIvYXdz FQoGZXIvYXdz", 10, BASE64, false},
    {"A3-", 26, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ-", true},
    {"sl.", 60, WORD, true},
    {"pk_live_ rk_live_ rk_test_ ghp_ gho_ ghu_ ghs_ ghr_ hf_ api_org_ AKIA ASIA ABIA ACCA "
     "AROA AIDA lin_api_ NRAK- NRJS- NRII- NRAA- dp.pt. dp.ct. CLOJARS_ AGE-SECRET-KEY-1",
     10, ALNUM, false},
    {"whsec_", 16, BASE64, false},
    {"github_pat_ AIza GOCSPX- xoxb- xoxp- xoxa- xoxr- xoxs- xoxo- xapp- xoxc- sq0atp- sq0csp- "
     "dckr_pat_ dckr_oat_ figd_ PMAK- CFPAT- FLWSECK sb_secret_ wandb_v1_ lsv2_pt_ lsv2_sk_ "
     "tgp_v1_ pcsk_ tvly-",
     10, WORD, false},
    {"glpat- gldt- glrt- glcbt- glptt- gloas- glsoat- glagent- glft- glimt- ya29. hvs. hvb. "
     "hvr. dp.st. atlasv1.",
     10, DOTTED, false},
    {"ABSK", 30, BASE64, false},
    {"1//0 dop_v1_ doo_v1_ dor_v1_ shpat_ shpca_ shppa_ shpss_ glsa_ sbp_ sgp_", 16, WORD, false},
    {"eyJ", 10, DOTTED "+/=", false},
    {"xoxe", 10, DOTTED, true},
    {"xoxd- hooks.slack.com/ discord.com/api/webhooks/ discordapp.com/api/webhooks/ "
     "hooks.zapier.com/hooks/",
     10, URL, false},
    {"npm_ pplx- sntryu_", 16, ALNUM, false},
    {"SG. patx", 16, DOTTED, true},
    {"key- EAAC s. EZAK", 24, ALNUM, true},
    {"EAAA", 24, WORD, true},
    {"dapi", 24, HEX "-", true},
    {"rubygems_ r8_ gsk_ xai- fw_ secret_ ntn_ phc_ phx_ comet_ vercel_", 16, ALNUM, true},
    {"ATATT3 ATCTT3", 10, WORD "=", false},
    {"ATBB oauth:", 10, ALNUM, true},
    {"glc_", 16, BASE64, true},
    {"dt0c01.", 16, DOTTED, false},
    {"sntrys_", 16, BASE64 "_-", false},
    {"pul-", 24, HEX, true},
    {"SK AC", 32, HEX, true},
    {"AAE AAF AAG AAH", 31, WORD, true},
    {"tk-", 16, WORD, true},
    {"tskey-", 8, WORD, false},
    {"FlyV1", 8, " ,_" DOTTED "+/=", false},
    {"oy2", 40, ALNUM, false},
    {"local-", 40, WORD, false},
    {"MII", 60, BASE64 "\\", true},
    {"b3BlbnNzaC1rZXktdjE LS0tLS1CRUdJTi", 0, BASE64, false},
    {"xprv", 40, ALNUM, true},
    {"$2a$ $2b$ $2y$", 16, ALNUM "./$", false},
    {"$1$", 10, ALNUM "./$", false},
    {"$5$ $6$", 10, ALNUM "./$=", false},
    {"$argon2", 10, BASE64 "$,", false},
    {"{SSHA}", 10, BASE64, false},
    {"api.telegram.org/bot", 10, URL ":", false},
    {"webhook.office.com/ outlook.office.com/webhook/", 10, URL "@", false},
};

static bool is_mixed(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (isdigit((unsigned char)text[i]) || isupper((unsigned char)text[i]))
            return true;
    return false;
}

/* Bytes of the prefix of a list that the text begins with; 0: none. */
static size_t prefix_length(const char *prefixes, const char *text)
{
    for (const char *at = prefixes; *at; at += strcspn(at, " "), at += *at == ' ')
        if (*at == *text && strncmp(at, text, strcspn(at, " ")) == 0)
            return strcspn(at, " ");
    return 0;
}

size_t col_shape_key(const char *text)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const struct key_shape *shape = &shapes[i];
        size_t begin = prefix_length(shape->prefixes, text);
        size_t rest = begin ? strspn(text + begin, shape->alphabet) : 0;
        if (begin && rest >= shape->least && (!shape->mixed || is_mixed(text + begin, rest)))
            return begin + rest;
    }
    return 0;
}

/* What is counted in a word to tell a key from a name. */
struct letters {
    size_t digits, upper, lower, other;
    size_t changes; /* neighbours of different kinds: names have few, random text has many */
    double bits;    /* entropy of a character */
};

static int kind_of(unsigned char letter)
{
    if (isdigit(letter))
        return 1;
    if (isupper(letter))
        return 2;
    return islower(letter) ? 3 : 0;
}

static struct letters count_letters(const char *word, size_t length)
{
    size_t count[256] = {0}, kinds[4] = {0};
    struct letters found = {0};
    int before = 0;
    for (size_t i = 0; i < length; i++) {
        int kind = kind_of((unsigned char)word[i]);
        count[(unsigned char)word[i]]++;
        kinds[kind]++;
        found.changes += kind && before && kind != before;
        before = kind;
    }
    for (size_t i = 0; i < 256; i++) {
        double share = (double)count[i] / (double)length;
        found.bits -= count[i] ? share * log2(share) : 0;
    }
    found.other = kinds[0];
    found.digits = kinds[1];
    found.upper = kinds[2];
    found.lower = kinds[3];
    return found;
}

bool col_shape_is_hexadecimal(const char *word, size_t length)
{
    if (length < 32 || strspn(word, HEX) < length)
        return false;
    struct letters found = count_letters(word, length);
    return found.bits > 3.0 && found.digits && found.upper + found.lower;
}

/* Words of 20 characters and more, almost all letters and digits, with the entropy of random text
 * and many changes between capitals, digits and small letters. The names of files and runs have
 * less of one of them; 40 letters and digits in a row, with some digits, are no name either. */
bool col_shape_is_random(const char *word, size_t length)
{
    if (length < 20)
        return false;
    struct letters found = count_letters(word, length);
    if (found.other > length / 10 || found.digits < 2 || found.upper + found.lower == 0)
        return false;
    if (length < 24 && (found.upper < 3 || found.lower < 3))
        return false;
    if (length >= 40 && !found.other && found.digits >= 4 && found.bits > 3.9)
        return true;
    return found.bits > 3.7 && 10 * found.changes >= (length < 24 ? 5 : 3) * length &&
           (found.upper >= 3 || found.digits >= 4);
}

bool col_shape_is_base64(const char *word, size_t length)
{
    bool padded = length >= 16 && length % 4 == 0 && word[length - 1] == '=',
         signs = memchr(word, '/', length) || memchr(word, '+', length);
    if (!padded && !(signs && (length == 40 || (length > 40 && memchr(word, '+', length)))))
        return false;
    struct letters found = count_letters(word, length);
    return found.upper > 1 && found.lower > 1 && 10 * found.changes >= 3 * length && *word != '/';
}
