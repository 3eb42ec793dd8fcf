/* SPDX-License-Identifier: Apache-2.0
 *
 * Three tables classify a name: words that say "secret" anywhere in it, words that say
 * so as a whole word, and words that make the latter doubtful ("max" in "max-token").
 */
#include "profiler/collector/run/secret_names.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "tacho_utf8.h"

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
    "hmackey rsakey fernetkey jwtkey awskey azurekey gcpkey s3key hfkey vaultkey "
    "losenord wachtwoord adgangskode salasana jelszo palavrapasse lozinka geheimnis geheim "
    "slaptazodis";

/* These say so as a whole word. */
static const char weak[] =
    "token key keys pass pwd pw psw auth sig sas jwt otp totp pin dsn private session "
    "cred tok creds pat mfa psk oauth2 sid nonce xauth pem kubeconfig passwd hmac ticket "
    "license licence pgpass apptoken accesscode unlock salt csrf xsrf community 2fa tfa "
    "authentication clave cle chave schlussel klucz nyckel anahtar kulcs haslo heslo geslo sifre "
    "jeton";

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

/* Words for passwords, tokens, secrets and keys, in small letters where there are such. They say
 * "secret" anywhere in a name. */
static const char foreign[] =
    "парол токен секрет ключ лозинка 密码 密碼 口令 令牌 密钥 密鑰 秘钥 凭证 憑證 暗証 パスワード "
    "トークン シークレット 秘密 鍵 비밀번호 암호 토큰 비밀 κωδικός κωδικος μυστικό κλειδί סיסמה "
    "סיסמא "
    "كلمة_المرور كلمة-المرور مفتاح รหัสผ่าน पासवर्ड गुप्त";

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

/* ---- letters that are not ASCII's ------------------------------------------------------------ */

/* The letters U+00C0 to U+017F without what is above or below them. */
static const char plain_letters[] =
    "AAAAAAACEEEEIIIIDNOOOOO*OUUUUYTsaaaaaaaceeeeiiiidnooooo*ouuuuyty"
    "AaAaAaCcCcCcCcDdDdEeEeEeEeEeGgGgGgGgHhHhIiIiIiIiIiIiJjKkkLlLlLlL"
    "lLlNnNnNnnNnOoOoOoOoRrRrRrSsSsSsSsTtTtTtUuUuUuUuUuUuWwYyYZzZzZzs";

/* A name whose letters with accents and of full width are those of ASCII. Other characters are one
 * byte FOREIGN_LETTER each, and all of them are in `lower` too, in small letters. */
struct folded {
    char name[NAME_MOST + 1], lower[NAME_MOST + 1];
    size_t length;
    bool foreign;
};
#define FOREIGN_LETTER '\x80'

/* The small letter of a Greek or Cyrillic one. */
static uint32_t small_letter(uint32_t letter)
{
    if ((letter >= 0x391 && letter <= 0x3a9) || (letter >= 0x410 && letter <= 0x42f))
        return letter + 0x20;
    return letter >= 0x400 && letter <= 0x40f ? letter + 0x50 : letter;
}

/* What a character of several bytes is among ASCII's; 0: none of them; ' ': an accent that follows
 * its letter. */
static char plain_letter(uint32_t letter)
{
    if (letter >= 0xc0 && letter < 0xc0 + sizeof plain_letters - 1)
        return plain_letters[letter - 0xc0];
    if (letter >= 0xff01 && letter <= 0xff5e)
        return (char)(letter - 0xff01 + '!');
    return letter >= 0x300 && letter <= 0x36f ? ' ' : 0;
}

static uint32_t code_point(const unsigned char *bytes, size_t count)
{
    uint32_t letter = bytes[0] & (0xffu >> (count + 1));
    for (size_t i = 1; i < count; i++)
        letter = letter << 6 | (bytes[i] & 0x3f);
    return letter;
}

static struct folded fold(const char *name, size_t length)
{
    struct folded folded = {.length = 0};
    const unsigned char *at = (const unsigned char *)name, *end = at + length;
    size_t lower = 0;
    for (size_t bytes; at < end; at += bytes) {
        bytes = tacho_utf8_sequence(at, (size_t)(end - at));
        uint32_t letter = bytes > 1 ? code_point(at, bytes) : *at;
        char plain = *at < 0x80 ? (char)*at : 0;
        if (bytes > 1)
            plain = plain_letter(letter);
        bytes = bytes ? bytes : 1;
        if (plain == ' ' && bytes > 1)
            continue;
        folded.foreign = folded.foreign || *at >= 0x80;
        folded.name[folded.length++] = plain ? plain : FOREIGN_LETTER;
        memcpy(folded.lower + lower, at, bytes);
        if (bytes == 2) {
            letter = small_letter(letter);
            folded.lower[lower] = (char)(0xc0 | letter >> 6);
            folded.lower[lower + 1] = (char)(0x80 | (letter & 0x3f));
        }
        lower += bytes;
    }
    return folded;
}

/* Is there a word of a list in a text? */
static bool holds_word(const char *list, const char *text)
{
    for (; *text; text++)
        for (const char *at = list; *at; at += strcspn(at, " "), at += *at == ' ')
            if (strncmp(text, at, strcspn(at, " ")) == 0)
                return true;
    return false;
}

/* ---- names ------------------------------------------------------------------------------------ */

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

enum col_name_kind col_name_kind(const char *name, size_t length)
{
    char words[2 * NAME_MOST + 1], squeezed[NAME_MOST + 1];
    bool found = false, doubtful = false, ends_about = false;
    size_t skipped = length > NAME_MOST ? length - NAME_MOST : 0;
    struct folded folded = fold(name + skipped, length - skipped);
    split_words(folded.name, folded.length, words, squeezed);
    for (const char *word = words + strspn(words, " "); *word; word += strspn(word, " ")) {
        size_t bytes = strcspn(word, " "), letters = bytes;
        while (letters && isdigit((unsigned char)word[letters - 1])) /* "token2" */
            letters--;
        found = found || is_weak(word, bytes) || is_weak(word, letters);
        doubtful = doubtful || col_list_has(harmless, word, bytes);
        ends_about = col_list_has(about, word, bytes);
        word += bytes;
    }
    if (folded.foreign && holds_word(foreign, folded.lower))
        return COL_NAME_SECRET;
    if (holds_word(strong, squeezed))
        return ends_about ? COL_NAME_DOUBTFUL : COL_NAME_SECRET;
    if (!found && memchr(folded.name, (unsigned char)FOREIGN_LETTER, folded.length))
        return COL_NAME_FOREIGN;
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
    if (kind == COL_NAME_FOREIGN)
        return !is_number(value, length);
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
