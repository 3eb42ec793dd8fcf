/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables of the places where programs take secrets.
 */
#include "profiler/collector/run/secret_options.h"

#define COUNT(table) (sizeof(table) / sizeof *(table))
#define MYSQL \
    "mysql mysqldump mysqladmin mysqlsh mysqlimport mysqlcheck mysqlshow mysqlslap mysqlbinlog " \
    "mariadb mariadb-dump mariadb-admin mytop mycli mydumper myloader xtrabackup"
#define MONGO     "mongo mongosh mongodump mongorestore mongoexport mongoimport mongostat mongotop"
#define LDAP      "ldapsearch ldapmodify ldapadd ldapdelete ldapwhoami ldappasswd ldapcompare"
#define SNMP      "snmpget snmpgetnext snmpwalk snmpset snmpbulkwalk snmptrap"
#define ORACLE    "sqlplus sqlldr exp imp expdp impdp rman sql"
#define CONTAINER "docker podman nerdctl skopeo buildah helm oras crane buildctl"

const struct col_option_row col_option[] = {
    {"", "-u --user -U --login -a", true, true, 0, ':'},
    {"", "--proxy-user", true, true, 0, 0},
    {"curl", "-b", true, true, 0, '='},
    {"curl", "-E --cert", true, true, 0, ':'},
    {"curl", "-U", true, true, 0, 0},
    {MYSQL " " MONGO " "
           "sshpass 7z 7za 7zr 7zz rar unrar smbmap crackmapexec nxc hydra netexec beeline "
           "steghide psexec PsExec.exe evil-winrm ftp ncftp ncftpget ncftpput john cypher-shell "
           "couchbase-cli rabbitmqadmin useradd usermod groupmod",
     "-p", true, true, 0, 0},
    {"redis-cli valkey-cli keydb-cli", "-a", true, true, 0, 0},
    {CONTAINER " "
               "az oc heroku twine cf bx ibmcloud rdesktop cqlsh influx vncdo clickhouse-client",
     "-p", true, false, 0, 0},
    {"influx glab vercel doctl fly flyctl snyk", "-t", true, true, 0, 0},
    {"ab", "-A -P", true, true, 0, ':'},
    {"swaks", "-ap", false, true, 0, 0},
    {"sendemail sendEmail", "-xp", false, true, 0, 0},
    {"put-parameter keyvault set-secret", "--value", true, true, 0, 0},
    {"secret secrets variable", "--from-literal --body --data --value", true, true, 0, 0},
    {"secret secrets variable", "-b -v", false, false, 0, 0},
    {"pulumi", "--secret", false, true, 1, 0},
    {"ansible-vault", "encrypt_string", false, true, 0, 0},
    {"poetry composer", "config", false, true, 2, 0},
    {"ftp lftp", "user", false, true, 1, 0},
    {"expect", "send", false, true, 0, 0},
    {"nmcli", "wifi-sec.psk 802-11-wireless-security.psk wifi-sec.wep-key0 vpn.secrets", false,
     true, 0, 0},
    {"mkpasswd", "", false, true, 0, 0},
    {"mkpasswd", "-m", false, true, 1, 0},
    {"openai", "-k", true, true, 0, 0},
    {"kaggle", "-v", false, true, 0, 0},
    {"rar unrar", "-hp", true, true, 0, 0},
    {"zip unzip sqlcmd bcp ipmitool tsql bsqldb fisql impacket ncat mosquitto_pub mosquitto_sub "
     "isql p4",
     "-P", true, true, 0, 0},
    {"mosquitto_pub mosquitto_sub nats", "-pw", true, true, 0, 0},
    {"plink pscp psftp putty kadmin", "-pw", false, true, 0, 0},
    {LDAP, "-w", true, true, 0, 0},
    {"ldappasswd", "-s -a", true, true, 0, 0},
    {"smbclient rpcclient net smbget smbmap smbcacls nmblookup wmic winexe", "-U", true, true, 0,
     '%'},
    {"smbclient rpcclient net smbget", "--user", true, true, 0, '%'},
    {"openssl", "-k -K -hmac -pass passwd -6 -5 -1 -apr1 -salt", false, true, 0, 0},
    {SNMP, "-c -A -X", true, true, 0, 0},
    {"wandb vault neptune comet clearml doppler netlify bw keyctl cargo", "login", false, true, 0,
     0},
    {"bw", "unlock", false, true, 0, 0},
    {"bw", "login", false, true, 1, 0},
    {"gpg gpg2 rclone", "obscure", false, true, 0, 0},
    {"ngrok", "authtoken add-authtoken", false, true, 0, 0},
    {"ssh-keygen", "-N -P", false, true, 0, 0},
    {"mc", "add set", false, true, 2, 0},
    {"mc", "add set", false, true, 3, 0},
    {"vault", "put", false, true, 1, 0},
    {"vault", "put", false, true, 2, 0},
    {"redis-cli valkey-cli", "AUTH", false, true, 0, 0},
    {"redis-cli valkey-cli", "AUTH", false, true, 1, 0},
    {"htpasswd", "-b -cb -bc -bB -Bb", false, true, 2, 0},
    {"htpasswd", "-nb -bn -nbB -Bbn", false, true, 1, 0},
    {"htpasswd", "-bnBC -nbBC -bC -BbC", false, true, 2, 0},
    {"rabbitmqctl", "add_user change_password authenticate_user", false, true, 1, 0},
    {"net", "user", false, true, 1, 0},
    {"lftp", "-u", true, true, 0, ','},
    {"xfreerdp rdesktop wfreerdp", "/p:", true, true, 0, 0},
    {"keyctl", "add", false, true, 2, 0},
    {"pdftk qpdf", "user_pw", false, true, 0, 0},
    {"pdftk", "owner_pw input_pw", false, true, 0, 0},
    {"qpdf", "--encrypt", false, true, 0, 0},
    {"qpdf", "--encrypt", false, true, 1, 0},
    {"pdftotext pdftoppm", "-upw -opw", false, true, 0, 0},
    {"isql", "-v", false, true, 2, 0},
    {"pass", "insert", false, true, 1, 0},
    {"iwconfig iw", "key", true, true, 0, 0},
    {"wpa_passphrase", "", false, true, 1, 0},
    {ORACLE, "", false, true, 0, '/'},
    {ORACLE, "target -s -S -L", false, true, 0, '/'},
};
const size_t col_option_count = COUNT(col_option);
_Static_assert(COUNT(col_option) <= COL_OPTIONS_MOST, "which of them were named is kept");

const char *const col_verb =
    "set setenv setx add put config export -x -gx -Ux login by with --global --local --system "
    "store define --add write create update env quote";

const char *const col_bare =
    "password passwd passphrase requirepass masterauth _authToken secret_key user_pw owner_pw "
    "input_pw wpa-psk psk api_key apikey secret-key secret_access_key credential";

const char *const col_secret_file =
    "netrc authinfo pgpass mylogin.cnf my.cnf boto s3cfg npmrc pypirc yarnrc.yml git-credentials "
    "kaggle.json smbcredentials vault-token vault_pass vault-pass id_rsa id_dsa id_ecdsa "
    "id_ed25519 "
    "dockercfg htpasswd shadow gh_hosts.yml hub rclone.conf";

const char *const col_reader[] = {"sudo -S",
                                  "password-stdin",
                                  "with-token",
                                  "chpasswd",
                                  "passphrase-fd",
                                  "token-stdin",
                                  "passwd --stdin",
                                  "pass stdin",
                                  "passin stdin",
                                  "pw-stdin",
                                  "password-file -",
                                  "password-file=-",
                                  "cryptsetup",
                                  "smbpasswd -s",
                                  "sudo --stdin",
                                  "secrets versions add",
                                  "secret create",
                                  "kinit",
                                  "passwd ",
                                  "gh auth",
                                  "vault login",
                                  "base64",
                                  "su -",
                                  "ssh-add",
                                  "secret put",
                                  "secret set",
                                  "variable set",
                                  "git credential",
                                  "openssl enc",
                                  "age -p"};
const size_t col_reader_count = COUNT(col_reader);

const struct col_scheme_row col_scheme[] = {
    {"Bearer", 4},    {"bearer", 8},           {"BEARER", 4},        {"Basic", 8},
    {"Token", 12},    {"token", 12},           {"Digest", 8},        {"Negotiate", 8},
    {"NTLM", 8},      {"ApiKey", 8},           {"GenieKey", 8},      {"Splunk", 8},
    {"SSWS", 8},      {"AWS4-HMAC-SHA256", 8}, {"OAuth", 8},         {"SharedAccessSignature", 8},
    {"SharedKey", 8}, {"Api-Key", 8},          {"IDENTIFIED BY", 1}, {"identified by", 1}};
const size_t col_scheme_count = COUNT(col_scheme);

const char *const col_hash[] = {
    "commit", "sha1",   "sha2",  "sha5",        "sha=",     "--sha",      "rev",
    "hash",   "digest", "md5",   "checksum",    "checkout", "etag",       "ckpt",
    "-id",    "_id",    "--tag", "tag=",        "blob",     "snapshot",   "checkpoint",
    "uuid",   "ref=",   "--ref", "cherry-pick", "resume",   "fingerprint"};
const size_t col_hash_count = COUNT(col_hash);

const char *const col_user_schemes =
    "ssh sftp ftp rsync hdfs nfs git scp gs file postgresql "
    "postgres mysql mongodb smb cifs abfs abfss wasb wasbs webhdfs";
