#!/usr/bin/env python3
"""Each class is defined in one source file (CONTRIBUTING.md). Tests and fixtures are exempt.

No two .cc files define members of one class. No two files define types with one name in one namespace: the linker keeps one of their
inline functions, so that one type's destructor would destroy the other's objects.
"""
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
# Namespaces and types begin in the first column.
LINE = re.compile(r"^(?:namespace ?([\w:]*) ?\{|(\})  // (?:unnamed )?namespace|(?:class|struct|union|enum(?: class)?) (?:alignas\(\d+\) )?(?:\[\[\w+\]\] )?(\w+)(?!\w|::)[^;\n]*\{)",
                  re.MULTILINE)


def sources(*patterns) -> list:
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    names = [name for name in listed.stdout.split("\n") if name and (ROOT / name).exists() and not pathlib.PurePath(name).stem.endswith(TEST)]
    return names


def classes_in(text: str) -> set:
    """The outermost classes whose members the source defines. A class of an unnamed namespace belongs to its file, so two files may have one."""
    namespaces = NAMESPACE.findall(text)
    space = namespaces[0] if namespaces else ""
    own = set(re.findall(r"^(?:class|struct) (\w+)", text, re.MULTILINE))
    found = {re.sub(r"<.*", "", member.split("::")[0]) for member in MEMBER.findall(text)}
    return {f"{space}::{name}" for name in found - own}


def types_in(text: str) -> set:
    """The types that the file defines and that have a name outside it."""
    opened, found = [], set()
    for space, closed, name in LINE.findall(text):
        if name:
            if "" not in opened:
                found.add("::".join([*opened, name]))
        elif closed:
            del opened[-1:]
        else:
            opened.append(space)
    return found


def in_several_files(found_in, names: list) -> dict:
    files = collections.defaultdict(list)
    for name in names:
        for one in found_in((ROOT / name).read_text()):
            files[one].append(name)
    return {one: " and ".join(sorted(where)) for one, where in sorted(files.items()) if len(where) > 1}


def main() -> int:
    split = in_several_files(classes_in, sources("*.cc"))
    for one, where in split.items():
        print(f"{one} is defined in {where}: split it by responsibility, or merge the files")
    doubled = in_several_files(types_in, sources("*.cc", "*.h"))
    for one, where in doubled.items():
        print(f"{where} both define {one}: give one of them another name, or the same header")
    print(f"check_classes: {len(split)} classes in several files, {len(doubled)} names of two types")
    return 1 if split or doubled else 0


if __name__ == "__main__":
    sys.exit(main())
