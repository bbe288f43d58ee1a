#!/usr/bin/python3
"""Writes ARTEFACT.spdx.json, the SPDX 2.3 document of a released file: the files in it with checksums, and the Debian and npm packages
whose code it contains. All of it is read from the files, from dpkg's database and from the packages. ./dev bundle, ./dev deb and ./dev image call it.
"""
import argparse
import datetime
import hashlib
import json
import logging
import pathlib
import re
import subprocess
import sys

from debian.copyright import Copyright, Error

# Debian's short names of licences that have a name in SPDX's list. A package with another name gets NOASSERTION.
SPDX_NAMES = {
    "apache-2.0": "Apache-2.0", "apache-2.0 with llvm exception": "Apache-2.0 WITH LLVM-exception", "bsd-2-clause": "BSD-2-Clause",
    "bsd-3-clause": "BSD-3-Clause", "bsl-1.0": "BSL-1.0", "cc0-1.0": "CC0-1.0", "expat": "MIT", "gpl-2": "GPL-2.0-only",
    "gpl-2+": "GPL-2.0-or-later", "gpl-3": "GPL-3.0-only", "gpl-3+": "GPL-3.0-or-later", "isc": "ISC", "lgpl-2": "LGPL-2.0-only",
    "lgpl-2+": "LGPL-2.0-or-later", "lgpl-2.1": "LGPL-2.1-only", "lgpl-2.1+": "LGPL-2.1-or-later", "mit": "MIT", "zlib": "Zlib",
}
OWN_LICENCE = "Apache-2.0"


def output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def spdx_id(*words: str) -> str:
    """An identifier may have letters, digits, '.' and '-'. The digest keeps names apart that differ only in other characters."""
    text = "-".join(words)
    return f"SPDXRef-{re.sub(r'[^A-Za-z0-9.-]', '-', text)}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def expression(name: str) -> str:
    """Returns the SPDX expression of a licence in Debian's notation, or an empty text if a part of it has none."""
    alternatives = []
    for alternative in re.split(r",?\s+or\s+", name, flags=re.I):
        parts = [SPDX_NAMES.get(part.strip().lower(), "") for part in re.split(r",?\s+and\s+", alternative, flags=re.I)]
        if not all(parts):
            return ""
        alternatives.append(" AND ".join(parts) if len(parts) == 1 else f"({' AND '.join(parts)})")
    return alternatives[0] if len(alternatives) == 1 else f"({' OR '.join(alternatives)})"


def declared_licence(package: str) -> str:
    """Returns the licences of a Debian package's upstream files, all of them together. Without a machine-readable copyright file,
    or with a licence outside SPDX's list, it is NOASSERTION."""
    try:
        with open(f"/usr/share/doc/{package}/copyright", encoding="utf-8") as file:
            paragraphs = list(Copyright(file, strict=False).all_files_paragraphs())
    except (OSError, Error):
        return "NOASSERTION"
    names = {p.license.synopsis for p in paragraphs if p.license and not all(f.startswith("debian/") for f in p.files)}
    found = sorted({expression(name) for name in names})
    return " AND ".join(found) if found and all(found) else "NOASSERTION"


def debian_package(package: str, version: str, architecture: str) -> dict:
    return {
        "SPDXID": spdx_id("Debian", package), "name": package, "versionInfo": version, "supplier": "Organization: Debian",
        "downloadLocation": "NOASSERTION", "filesAnalyzed": False, "licenseConcluded": "NOASSERTION",
        "licenseDeclared": declared_licence(package), "copyrightText": "NOASSERTION",
        "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                          "referenceLocator": f"pkg:deb/debian/{package.replace('+', '%2B')}@{version.replace('+', '%2B').replace(':', '%3A')}?arch={architecture}"}],
    }


def npm_package(description: pathlib.Path) -> dict:
    facts = json.loads(description.read_text())
    return {
        "SPDXID": spdx_id("npm", facts["name"]), "name": facts["name"], "versionInfo": facts["version"], "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False, "licenseConcluded": "NOASSERTION", "licenseDeclared": facts["license"], "copyrightText": "NOASSERTION",
        "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                          "referenceLocator": f"pkg:npm/{facts['name']}@{facts['version']}"}],
    }


def files_of(folder: pathlib.Path, artefact: str) -> list:
    found = []
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and not p.is_symlink()):
        name, content = f"./{path.relative_to(folder)}", path.read_bytes()
        found.append({
            "SPDXID": spdx_id("File", artefact, name), "fileName": name, "licenseConcluded": "NOASSERTION", "copyrightText": "NOASSERTION",
            "checksums": [{"algorithm": "SHA1", "checksumValue": hashlib.sha1(content).hexdigest()},
                          {"algorithm": "SHA256", "checksumValue": hashlib.sha256(content).hexdigest()}]})
    return found


def own_package(artefact: pathlib.Path, files: list, version: str, commit: str) -> dict:
    sha1s = sorted(file["checksums"][0]["checksumValue"] for file in files)
    return {
        "SPDXID": spdx_id("Artefact", artefact.name), "name": "lockstep", "versionInfo": version, "packageFileName": artefact.name,
        "supplier": "NOASSERTION", "downloadLocation": "NOASSERTION", "filesAnalyzed": True, "sourceInfo": commit,
        "licenseConcluded": "NOASSERTION", "licenseDeclared": OWN_LICENCE, "licenseInfoFromFiles": ["NOASSERTION"],
        "copyrightText": "NOASSERTION",
        "packageVerificationCode": {"packageVerificationCodeValue": hashlib.sha1("".join(sha1s).encode()).hexdigest()},
        "checksums": [{"algorithm": "SHA256", "checksumValue": hashlib.sha256(artefact.read_bytes()).hexdigest()}],
    }


def related(element: str, kind: str, other: str) -> dict:
    return {"spdxElementId": element, "relationshipType": kind, "relatedSpdxElement": other}


def installed_version(package: str) -> str:
    return output("dpkg-query", "-W", "-f", "${Version}\n", package).split()[0]


def document(args: argparse.Namespace) -> dict:
    architecture = output("dpkg", "--print-architecture").strip()
    files = files_of(args.folder, args.artefact.name)
    own = own_package(args.artefact, files, args.version, args.commit)
    packages = {}
    relationships = [related("SPDXRef-DOCUMENT", "DESCRIBES", own["SPDXID"])]
    relationships += [related(own["SPDXID"], "CONTAINS", file["SPDXID"]) for file in files]

    def add(package: dict, kind: str) -> str:
        if package["SPDXID"] not in packages:
            packages[package["SPDXID"]] = package
            relationships.append(related(own["SPDXID"], kind, package["SPDXID"]))
        return package["SPDXID"]

    for line in args.libraries.read_text().splitlines() if args.libraries else ():
        library, package, version = line.split()
        added = add(debian_package(package, version, architecture), "CONTAINS")
        relationships.append(related(spdx_id("File", args.artefact.name, f"./lib/{library}"), "COPY_OF", added))
    for package in args.copied:
        add(debian_package(package, installed_version(package), architecture), "CONTAINS")
    for package in args.static:
        add(debian_package(package, installed_version(package), architecture), "STATIC_LINK")
    for description in args.npm:
        add(npm_package(description), "CONTAINS")
    if args.inside:
        inner = json.loads(args.inside.read_text())
        kinds = {r["relatedSpdxElement"]: r["relationshipType"] for r in inner["relationships"]}
        for package in inner["packages"][1:]:
            add(package, kinds[package["SPDXID"]])

    contents = [own, *(packages[key] for key in sorted(packages))]
    digest = hashlib.sha256(json.dumps([contents, files, relationships]).encode()).hexdigest()
    created = datetime.datetime.fromtimestamp(args.created, datetime.timezone.utc)
    return {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": args.artefact.name,
        "documentNamespace": f"https://spdx.org/spdxdocs/{args.artefact.name}-{digest}",
        "creationInfo": {"created": created.strftime("%Y-%m-%dT%H:%M:%SZ"), "creators": ["Tool: lockstep-sbom"]},
        "packages": contents, "files": files, "relationships": relationships,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("artefact", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path, help="with the artefact's content")
    parser.add_argument("--version", required=True)
    parser.add_argument("--commit", required=True, help="a text that names the sources")
    parser.add_argument("--created", type=int, required=True, help="seconds since 1970")
    parser.add_argument("--libraries", type=pathlib.Path, help="the bundle's licenses/LIBRARIES: file in lib/, Debian package, version")
    parser.add_argument("--copied", nargs="*", default=[], help="other Debian packages with files in the artefact")
    parser.add_argument("--static", nargs="*", default=[], help="Debian packages whose code is compiled or linked into the programs")
    parser.add_argument("--npm", nargs="*", default=[], type=pathlib.Path, help="package.json of npm packages in the programs")
    parser.add_argument("--inside", type=pathlib.Path, help="document of another artefact whose whole content is in this one")
    args = parser.parse_args()
    logging.disable(logging.WARNING)  # about old forms of copyright files, which it reads
    pathlib.Path(f"{args.artefact}.spdx.json").write_text(json.dumps(document(args), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
