#!/usr/bin/env python3
"""Each data member of a class that has a mutex says what protects it (CONTRIBUTING.md).

The member is const, a reference or atomic, it is guarded (ABSL_GUARDED_BY, ABSL_PT_GUARDED_BY), it is a Mutex or a CondVar itself, or it
has a comment of one of these forms, on its line or above its group. A group ends at an empty line.

  // thread: NAME           only this thread uses the member; `owner` is the thread that starts and ends the object
  // set before NAME        not changed after that call or event
  // thread-safe            the member protects itself

Sources use the mutex of base/mutex.h, whose annotations clang checks. Tests and their fixtures are exempt.
"""
import bisect
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TEST = ("_test", "_fixture", "_bench", "_fuzzer", "_fake")
# The client links no libstdc++. tests/abi tests it with the C++ library alone.
OTHER_MUTEX_ALLOWED = ("base/mutex.h", "client/", "tests/abi/")
OTHER_MUTEX = re.compile(r"\bstd::(?:\w*mutex|condition_variable\w*|lock_guard|unique_lock|scoped_lock|shared_lock)\b|\babsl::(?:Mutex|CondVar)\w*")
SAYS = re.compile(r"//.*\b(?:thread: \w|set before \w|thread-safe\b)")
CLASS = re.compile(r"\b(?:class|struct)\s+(?:[A-Z_]{4,}(?:\([^)]*\))?\s+)*([A-Za-z_]\w*)(?:\s+final)?(?:\s*:(?!:)[^;{]*)?\s*\{")
MUTEX = re.compile(r"^(?:mutable\s+)?(?:lockstep::)?(?:Mutex|std::\w*mutex)\b(?!\s*[*&])")
SELF = re.compile(r"^(?:mutable\s+)?(?:(?:lockstep::)?(?:Mutex|CondVar)|std::(?:\w*mutex|condition_variable\w*|once_flag|atomic\b|atomic_\w+))\b(?!\s*[*&])")
NO_MEMBER = re.compile(r"^(?:using|typedef|friend|enum|class|struct|union|template|explicit|virtual|static_assert|static constexpr|constexpr|static const\b(?![^=;]*\*))")


def blank(text: str) -> str:
    """The source with comments, and what strings hold, replaced by spaces. Positions and lines stay."""
    def spaces(match):
        found = match.group()
        return re.sub(r"[^\n]", " ", found) if found[0] == "/" else found[0] + " " * (len(found) - 2) + found[-1]
    return re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])\'', spaces, text, flags=re.DOTALL)


def end_of_block(code: str, start: int) -> int:
    depth = 0
    for at in range(start, len(code)):
        depth += {"{": 1, "}": -1}.get(code[at], 0)
        if depth == 0:
            return at
    return len(code)


def without_templates(statement: str) -> str:
    before = None
    while before != statement:
        before = statement
        statement = re.sub(r"(\w)\s*<[^<>;]*>", r"\1", statement)
    return statement


def statements(code: str, start: int, end: int):
    """The declarations of a class's body: (position, text)."""
    begin, at, round_depth = start, start, 0
    while at < end:
        c = code[at]
        if c == "{":
            close = end_of_block(code, at)
            head = re.sub(r"\bABSL_\w+\([^()]*\)", "", without_templates(code[begin:at]))
            after = code[close + 1:end].lstrip()[:1]
            function = "(" in head.split("=")[0] or "operator" in head
            at = close
            if round_depth == 0 and function and after not in (",", "{", ";"):
                begin = at + 1
        elif c == "(":
            round_depth += 1
        elif c == ")":
            round_depth -= 1
        elif c == ":" and round_depth == 0 and re.fullmatch(r"\s*(?:public|private|protected)\s*", code[begin:at]):
            begin = at + 1
        elif c == ";" and round_depth == 0:
            yield begin + len(code[begin:at]) - len(code[begin:at].lstrip()), code[begin:at].strip()
            begin = at + 1
        at += 1


def member_of(statement: str) -> str:
    """The statement's declaration without templates, annotations and initial value, if it declares data; else empty."""
    if not statement or statement.startswith(("#", "~")) or NO_MEMBER.match(statement):
        return ""
    declared = re.sub(r"\bABSL_\w+\([^()]*\)", "", without_templates(statement))
    declared = re.split(r"=|\{", declared.replace("==", ""), 1)[0].strip()
    if re.search(r"\(\s*\*\s*\w+\s*\)", declared):
        return declared  # a pointer to a function
    return "" if "(" in declared or "operator" in declared or " " not in declared else declared


def protected(statement: str, declared: str) -> bool:
    if "ABSL_GUARDED_BY" in statement or "ABSL_PT_GUARDED_BY" in statement or SELF.match(declared) or "&" in declared:
        return True
    const_value = re.match(r"^(?:static |inline )*const\b", declared) and "*" not in declared
    return bool(const_value or re.search(r"\*\s*const\b", declared))


def said(lines: list, first: int, last: int) -> bool:
    """Whether a comment on the lines [first, last], or above their group, says what protects them."""
    if any(SAYS.search(line) for line in lines[first:last + 1]):
        return True
    for line in reversed(lines[:first]):
        if not line.strip() or line.strip().endswith((":", "{")):
            return False
        if line.strip().startswith("//") and SAYS.search(line):
            return True
    return False


def check(name: str, text: str, bad: list):
    code, lines = blank(text), text.split("\n")
    starts = [0] + [match.end() for match in re.finditer("\n", text)]
    line_of = lambda position: bisect.bisect_right(starts, position) - 1
    if not name.startswith(OTHER_MUTEX_ALLOWED):
        for match in OTHER_MUTEX.finditer(code):
            bad.append(f"{name}:{line_of(match.start()) + 1}: {match.group()}: use base/mutex.h, whose annotations clang checks")
    for one in CLASS.finditer(code):
        if re.search(r"\benum\s+$", code[:one.start()]):
            continue
        members = [(at, s, member_of(s)) for at, s in statements(code, one.end(), end_of_block(code, one.end() - 1))]
        if not any(declared and MUTEX.match(declared) for _, _, declared in members):
            continue
        for at, statement, declared in members:
            first, last = line_of(at), line_of(at + len(statement))
            if declared and not protected(statement, declared) and not said(lines, first, last):
                bad.append(f"{name}:{first + 1}: {one.group(1)} has a mutex, and `{declared}` does not say what protects it")


def main() -> int:
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.h", "*.cc"], cwd=ROOT, capture_output=True, text=True, check=True)
    bad = []
    for name in sorted(filter(None, listed.stdout.split("\n"))):
        path = ROOT / name
        if path.exists() and not path.stem.endswith(TEST) and not name.startswith(("tests/", "base/mutex.h")):
            check(name, path.read_text(), bad)
    for line in bad:
        print(line)
    print(f"check_members: {len(bad)} findings")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
