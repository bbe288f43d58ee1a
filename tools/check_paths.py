#!/usr/bin/env python3
"""Checks that the paths in Markdown files and comments exist. It checks links with their #fragments, and
words in backticks or comments that begin with a folder of the tree."""
import functools
import glob
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\(([^)\s#]*)(?:#([^)\s]*))?\)")
# A path after a slash, a dot or a word is a part of another path.
PATH = r"(?<![\w/.$}>~-])((?:%s)/[\w./{},*+-]*[\w/}*])"
# Folders that the build and gpu-check create. PAST lists pages about earlier releases.
MADE = ("build/", "docs/gpu-results", "tests/golden/gpu")
PAST = ("docs/moved.md", "CHANGELOG.md")


def files(*patterns: str) -> list:
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.split("\n") if name and (ROOT / name).exists()]


def expand(path: str) -> list:
    """Expands `a/{b,c}.h` into two paths."""
    match = re.search(r"\{([^{}]*)\}", path)
    if not match:
        return [path]
    return [done for part in match.group(1).split(",") for done in expand(path[:match.start()] + part + path[match.end():])]


def exists(path: str) -> bool:
    path = path.rstrip("/.,")
    if path.startswith(MADE):
        return True
    return all(glob.glob(str(ROOT / one)) or glob.glob(str(ROOT / one) + ".*") for one in expand(path))


@functools.lru_cache(maxsize=None)
def anchors(file: pathlib.Path) -> frozenset:
    """Returns the fragments that GitHub makes from a Markdown file's headings, and the ids that the file
    sets."""
    found, code = {}, False
    text = file.read_text()
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            code = not code
        heading = None if code else re.match(r" {0,3}#{1,6}\s+(.*?)\s*#*\s*$", line)
        if heading:
            shown = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading.group(1))  # a link shows only its text
            name = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
            count = found[name] = found.get(name, -1) + 1
            if count:
                found[f"{name}-{count}"] = 0
    return frozenset(found) | frozenset(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text))


def broken(name: str, target: str, fragment: str) -> str:
    """Returns the fault of a link in the file `name`, or an empty text."""
    if "://" in target or target.startswith("mailto:"):
        return ""
    file = (ROOT / name).parent / target if target else ROOT / name
    if not file.exists():
        return f"the link {target} leads nowhere"
    if fragment and file.suffix == ".md" and fragment not in anchors(file.resolve()):
        return f"the link {target}#{fragment} names a heading that does not exist"
    return ""


def main() -> int:
    tops = "|".join(sorted(re.escape(p.name) for p in ROOT.iterdir() if p.is_dir() and not p.name.startswith(".") and p.name != "build"))
    path = re.compile(PATH % tops)
    bad = []
    for name in files("*.md"):
        if name in PAST:
            continue
        code = False
        for number, line in enumerate((ROOT / name).read_text().splitlines(), 1):
            if line.lstrip().startswith("```"):
                code = not code
            for target, fragment in LINK.findall(line):
                fault = broken(name, target, fragment)
                if fault:
                    bad.append(f"{name}:{number}: {fault}")
            if code:
                continue
            for span in re.findall(r"`([^`]+)`", line):
                match = path.match(span)
                if match and not exists(match.group(1)):
                    bad.append(f"{name}:{number}: {match.group(1)} does not exist")
    for name in files("*.cc", "*.h", "*.py", "*.sh", "*.cmake", "CMakeLists.txt", "*/CMakeLists.txt", "*.proto", "*.ts"):
        comment = re.compile(r"//(.*)") if name.endswith((".cc", ".h", ".proto", ".ts")) else re.compile(r"#(.*)")
        for number, line in enumerate((ROOT / name).read_text(errors="replace").splitlines(), 1):
            text = comment.search(line)
            for found in path.findall(text.group(1)) if text else ():
                if "." in found.rsplit("/", 1)[-1] and not exists(found):
                    bad.append(f"{name}:{number}: {found} does not exist")
    for line in bad:
        print(line)
    print(f"check_paths: {len(bad)} paths that do not exist")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
