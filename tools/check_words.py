#!/usr/bin/env python3
"""Checks the style of CONTRIBUTING.md as far as a program can: listed words, comments and headings that open
with a question word, and sentences of more than 30 words. It reads Markdown, comments and texts that
programs print.

usage: check_words.py [PATH...]    (without a path: every file that git knows; a folder stands for its
files)
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LONGEST = 30  # most words in a sentence
WORDS = re.compile(r"\b(told|whoever|whomever|somebody|anew|of nobody|(?<!there )(?<!There )is no(?! longer)(?! more than))\b", re.IGNORECASE)
OPENERS = re.compile(r"(who|whom|what|which|whose|whether)\b", re.IGNORECASE)
# Pages that list the words, and texts of other authors.
EXEMPT = ("CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "docs/moved.md", "tools/check_words.py", "tests/golden/", "tests/web/package", "web/package",
          "tests/parquet/package")
SENTENCE_END = re.compile(r"(?<=[.!?])[)\"'”]*\s+(?=[A-Z`\"'(\[*_0-9<])|\n\n")
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')


def listed(paths: list) -> list:
    patterns = paths or ["*.md", "*.cc", "*.h", "*.c", "*.cu", "*.proto", "*.py", "*.sh", "*.ts", "*.mjs", "*.cmake", "CMakeLists.txt", "*/CMakeLists.txt"]
    done = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "--", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in done.stdout.split("\n") if name and not name.startswith(EXEMPT) and (ROOT / name).is_file()]


def plain(text: str) -> str:
    """Removes code, targets of links and emphasis."""
    text = re.sub(r"`[^`]*`", "Code", text)  # a sentence may begin with code
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return re.sub(r"https?://\S+", "link", text)


def words_in(sentence: str) -> int:
    return len(re.findall(r"[A-Za-z0-9][\w'’.,/%-]*", sentence))


class Findings:
    def __init__(self, name: str):
        self.name = name
        self.lines = []

    def add(self, line: int, what: str):
        self.lines.append(f"{self.name}:{line}: {what}")

    def prose(self, start: int, text: str):
        """`text` begins in line `start` and has the line breaks of the file."""
        for found in WORDS.finditer(plain(text)):
            self.add(start + plain(text)[:found.start()].count("\n"), f"\"{found.group(0)}\": {plain(text)[max(0, found.start() - 30):found.end() + 20]!r}")
        at = 0
        for sentence in SENTENCE_END.split(plain(text)):
            count = words_in(sentence)
            if count > LONGEST:
                place = plain(text).find(sentence[:20], at)
                self.add(start + plain(text)[:max(place, 0)].count("\n"), f"a sentence of {count} words: {' '.join(sentence.split()[:8])} …")
            at += 1

    def opening(self, line: int, text: str, kind: str):
        if OPENERS.match(text):
            self.add(line, f"the {kind} opens with \"{text.split()[0]}\": {text[:60]!r}")


def check_markdown(name: str, text: str) -> Findings:
    findings = Findings(name)
    code = False
    paragraph, start = [], 0

    def flush():
        if paragraph:
            findings.prose(start, "\n".join(paragraph))
            paragraph.clear()

    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            code = not code
            flush()
        elif code or line.startswith("    ") and not paragraph:
            flush()
        elif line.startswith("#"):
            flush()
            findings.opening(number, line.lstrip("# "), "heading")
            findings.prose(number, line.lstrip("# "))
        elif line.lstrip().startswith("|"):
            flush()
            for cell in re.split(r"(?<!\\)\|", line.strip().strip("|")):
                findings.prose(number, cell.strip())
        elif not line.strip():
            flush()
        else:
            if re.match(r"\s*([-*+]|\d+[.)])\s", line):
                flush()
            if not paragraph:
                start = number
            paragraph.append(line.strip())
    flush()
    return findings


def comment_blocks(text: str, mark: str):
    """Yields (first line, texts of its lines, whether it stands alone) for each comment."""
    block, first = [], 0
    for number, line in enumerate(text.splitlines() + [""], 1):
        alone = re.match(r"\s*" + mark + r"+!?\s?(.*)$", line)
        if alone and not (mark == "#" and line.startswith("#!")):
            if not block:
                first = number
            block.append(alone.group(1))
            continue
        if block:
            yield first, block, True
            block = []
        trailing = re.search(r"\S\s+" + mark + r"\s(.+)$", STRING.sub('""', line))
        if trailing:
            yield number, [trailing.group(1)], False


def check_source(name: str, text: str) -> Findings:
    findings = Findings(name)
    mark = "//" if name.endswith((".cc", ".h", ".c", ".cu", ".proto", ".ts", ".mjs")) else "#"
    for first, block, alone in comment_blocks(text, mark):
        if alone:
            findings.opening(first, block[0].strip(), "comment")
        # Lists and examples in a comment are not sentences.
        findings.prose(first, "\n".join("\n" if not line.strip() or line.startswith("  ") else line for line in block))
    if name.endswith((".cc", ".h", ".py")) and not re.search(r"_(test|fixture|bench)\.", name):
        for number, line in enumerate(text.splitlines(), 1):
            if re.match(r"\s*(//|#)", line):
                continue
            for literal in STRING.findall(line):
                if " " in literal:
                    for found in WORDS.finditer(literal):
                        findings.add(number, f"\"{found.group(0)}\" in a text: {literal[max(0, found.start() - 30):found.end() + 20]!r}")
    for number, line in enumerate(text.splitlines(), 1):
        case = re.match(r"\s*TEST(?:_F|_P)?\(\s*\w+\s*,\s*(\w+)", line)
        if case:
            spaced = re.sub(r"(?<!^)(?=[A-Z])", " ", case.group(1))
            for found in WORDS.finditer(spaced):
                findings.add(number, f"\"{found.group(0)}\" in a test's name: {case.group(1)}")
            findings.opening(number, spaced, "test's name")
    return findings


def main() -> int:
    findings = []
    for name in listed(sys.argv[1:]):
        text = (ROOT / name).read_text(errors="replace")
        findings += (check_markdown if name.endswith(".md") else check_source)(name, text).lines
    for line in findings:
        print(line)
    print(f"check_words: {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
