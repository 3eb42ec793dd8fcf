#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Prints the bill of materials of a package of tacho as SPDX 2.3 in JSON.
#
#   .ci/sbom.py VERSION EPOCH < PARTS
#
# EPOCH: seconds, the time that the document names. PARTS: one line for each library that is linked in or copied, with tabs:
# name, version, package URL of its source, and an SPDX licence expression (NOASSERTION where SPDX has no name for it).
# The same input gives the same output.
import datetime
import json
import sys

version, epoch = sys.argv[1], int(sys.argv[2])
parts = [line.rstrip("\n").split("\t") for line in sys.stdin if line.strip()]


def identifier(name):
    return "SPDXRef-" + name.replace(".", "-").replace("+", "-")


def package(name, own_version, url, licence):
    found = {
        "SPDXID": identifier(name),
        "name": name,
        "versionInfo": own_version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": licence,
        "licenseDeclared": licence,
        "copyrightText": "NOASSERTION",
    }
    if url:
        found["externalRefs"] = [
            {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": url}
        ]
    return found


document = {
    "spdxVersion": "SPDX-2.3",
    "dataLicense": "CC0-1.0",
    "SPDXID": "SPDXRef-DOCUMENT",
    "name": "tacho-" + version,
    # a name that no other document has; nothing needs to be found there
    "documentNamespace": f"urn:tacho:sbom:{version}:{epoch}",
    "creationInfo": {
        "created": datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "creators": ["Tool: tacho-.ci/sbom.py"],
    },
    "packages": [package("tacho", version, "", "Apache-2.0")] + [package(*part) for part in parts],
    "relationships": [
        {"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-tacho"}
    ]
    + [
        {
            "spdxElementId": "SPDXRef-tacho",
            "relationshipType": "STATIC_LINK" if part[0] != "chart.js" else "CONTAINS",
            "relatedSpdxElement": identifier(part[0]),
        }
        for part in parts
    ],
}
print(json.dumps(document, indent=2))
