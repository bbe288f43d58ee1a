#!/usr/bin/env python3
"""Each class is defined in one source file: no two .cc files define members of one class (CONTRIBUTING.md). Tests and fixtures may."""
import collections
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TEST = ("_test", "_fixture", "_bench", "_fuzzer", "_fake")
EXEMPT = ()  # not split yet
NAMESPACE = re.compile(r"^namespace ([\w:]+) \{", re.MULTILINE)
# A definition begins in the first column: an optional type, then Class::Member( or Outer::Inner::Member(. Before it, no line has a
# bracket, a semicolon or an assignment.
MEMBER = re.compile(r"^(?:[A-Za-z_][^\n;=(#]*[\s*&>])?((?:[A-Z]\w*(?:<[^<>\n]*>)?::)+)(?:~?\w+|operator[^\n(]+|operator\(\))\(", re.MULTILINE)


def sources() -> list:
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.cc"], cwd=ROOT, capture_output=True, text=True, check=True)
    names = [name for name in listed.stdout.split("\n") if name and (ROOT / name).exists() and not pathlib.PurePath(name).stem.endswith(TEST)]
    return names


def classes_in(text: str) -> set:
    """The outermost classes whose members the source defines. A class of an unnamed namespace belongs to its file, so two files may have one."""
    namespaces = NAMESPACE.findall(text)
    space = namespaces[0] if namespaces else ""
    own = set(re.findall(r"^(?:class|struct) (\w+)", text, re.MULTILINE))
    found = {re.sub(r"<.*", "", member.split("::")[0]) for member in MEMBER.findall(text)}
    return {f"{space}::{name}" for name in found - own}


def main() -> int:
    files = collections.defaultdict(list)
    for name in sources():
        for one in classes_in((ROOT / name).read_text()):
            files[one].append(name)
    bad = {one: where for one, where in sorted(files.items()) if len(where) > 1}
    for one, where in bad.items():
        print(f"{one} is defined in {' and '.join(sorted(where))}: split it by responsibility, or merge the files")
    print(f"check_classes: {len(bad)} classes in several files")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
