/* SPDX-License-Identifier: Apache-2.0
 *
 * Three tables classify a name: words that say "secret" anywhere in it, words that say
 * so as a whole word, and words that make the latter doubtful ("max" in "max-token").
 */
#include "profiler/collector/run/secret_names.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#define NAME_MOST 256 /* bytes of a name that are looked at: its last ones */

/* These say "secret" anywhere in a name from which everything but letters and digits is removed. */
static const char strong[] =
    "passw passphrase passcode passin passout passkey secret credential apikey accesskey "
    "accountkey sharedkey privatekey signingkey masterkey encryptionkey cryptokey authkey "
    "sshkey sshpass storepass keypass dbpass rootpass userpass adminpass rootpw mypass requirepass "
    "masterauth licensekey licencekey deploykey servicekey storagekey functionskey "
    "subscriptionkey hostkey sessionid sessionkey sessid connectionstring connstr "
    "authorization proxyauth bearer cookie signature hexkey mnemonic seedphrase webhook "
    "kubeconfigdata clientkeydata userpwd apptoken authtoken accesstoken refreshtoken "
    "sessiontoken securitytoken apitoken bottoken usertoken idtoken privatetoken wandbkey "
    "openaikey licensecode recoverycode activationcode parola senha backupcode rediscliauth "
    "wskey wepkey pskkey passwort kennwort motdepasse contrasena usersecret dockerauth "
    "pincode macaroon kerberosticket verificationcode securitycode stringdata ftppass smtppass "
    "ldappass bindpass bindpw mailpass redispass mysqlpass proxypass vncpass sudopass aeskey "
    "hmackey rsakey fernetkey jwtkey awskey azurekey gcpkey s3key hfkey vaultkey";

/* These say so as a whole word. */
static const char weak[] =
    "token key keys pass pwd pw psw auth sig sas jwt otp totp pin dsn private session "
    "cred tok creds pat mfa psk oauth2 sid nonce xauth pem kubeconfig passwd hmac ticket "
    "license licence pgpass apptoken accesscode unlock salt csrf xsrf community 2fa tfa "
    "authentication";

/* Beside one of these a weak word is doubtful. */
static const char harmless[] =
    "count counts dim dims size sizes rate rates type types len length max min num number "
    "limit per batch embed embedding dropout mask mixing shift level pad eos bos unk sep cls "
    "vocab dir index idx ids drop head heads cache proj norm bias public primary foreign sort "
    "group by column field name names map axis label scale loss ratio interval steps step "
    "timeout ttl lifetime method mode format enabled disabled budget window split pattern "
    "padding begin end start stop first last prefix special total forward backward through "
    "two single multi frame frames points missing strict state values query image input output "
    "file path algorithm optimizer fusion warmup epoch epochs memory";

/* With one of these as its last word even a strong name is doubtful: "--password-file". */
static const char about[] =
    "file path dir name store provider length len type policy manager backend mode count min "
    "max env ttl timeout";

static const char switches[] = "true false yes no on off none null auto default";

bool col_list_has(const char *list, const char *word, size_t length)
{
    for (const char *at = list; *at; at += strcspn(at, " "), at += *at == ' ')
        if (strcspn(at, " ") == length && strncasecmp(at, word, length) == 0)
            return true;
    return false;
}

static bool is_weak(const char *word, size_t length)
{
    static const char ends[] = "token auth jwt otp passwd pwd"; /* "GHTOKEN" */
    for (size_t from = 1; from < length; from++)
        if (col_list_has(ends, word + from, length - from))
            return true;
    return col_list_has(weak, word, length);
}

/* Copies the name in lower case, a blank before each of its words; and without blanks. */
static void split_words(const char *name, size_t length, char *words, char *squeezed)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char letter = (unsigned char)name[i];
        bool new_word = i && isupper(letter) && islower((unsigned char)name[i - 1]);
        if (new_word || !isalnum(letter))
            *words++ = ' ';
        if (!isalnum(letter))
            continue;
        *words++ = (char)tolower(letter);
        *squeezed++ = (char)tolower(letter);
    }
    *words = *squeezed = 0;
}

static bool has_strong(const char *squeezed)
{
    for (; *squeezed; squeezed++)
        for (const char *at = strong; *at; at += strcspn(at, " "), at += *at == ' ')
            if (strncmp(squeezed, at, strcspn(at, " ")) == 0)
                return true;
    return false;
}

enum col_name_kind col_name_kind(const char *name, size_t length)
{
    char words[2 * NAME_MOST + 1], squeezed[NAME_MOST + 1];
    bool found = false, doubtful = false, ends_about = false;
    size_t skipped = length > NAME_MOST ? length - NAME_MOST : 0;
    split_words(name + skipped, length - skipped, words, squeezed);
    for (const char *word = words + strspn(words, " "); *word; word += strspn(word, " ")) {
        size_t bytes = strcspn(word, " "), letters = bytes;
        while (letters && isdigit((unsigned char)word[letters - 1])) /* "token2" */
            letters--;
        found = found || is_weak(word, bytes) || is_weak(word, letters);
        doubtful = doubtful || col_list_has(harmless, word, bytes);
        ends_about = col_list_has(about, word, bytes);
        word += bytes;
    }
    if (has_strong(squeezed))
        return ends_about ? COL_NAME_DOUBTFUL : COL_NAME_SECRET;
    if (!found)
        return COL_NAME_HARMLESS;
    return doubtful ? COL_NAME_DOUBTFUL : COL_NAME_WEAK;
}

/* Is it a number: "64", "1e-4", "0.5", "8k", "23:59"? */
static bool is_number(const char *value, size_t length)
{
    size_t digits = 0;
    for (size_t i = 0; i < length; i++) {
        digits += isdigit((unsigned char)value[i]) != 0;
        if (!isdigit((unsigned char)value[i]) && !strchr("+-.:,exkKMGT", value[i]))
            return false;
    }
    return digits > 0;
}

bool col_name_hides(enum col_name_kind kind, const char *value, size_t length)
{
    size_t digits = 0, letters = 0;
    if (kind == COL_NAME_HARMLESS || !length || col_list_has(switches, value, length))
        return false;
    if (kind == COL_NAME_SECRET)
        return true;
    if (kind == COL_NAME_WEAK)
        return length > 3 || !is_number(value, length);
    if (length < 6 || is_number(value, length) || memchr(value, '/', length))
        return false;
    for (size_t i = 0; i < length; i++) {
        digits += isdigit((unsigned char)value[i]) != 0;
        letters += isalpha((unsigned char)value[i]) != 0;
    }
    bool is_one_word = length >= 12 && digits + letters == length;
    return letters > 1 && (digits > 1 || (digits && is_one_word));
}
