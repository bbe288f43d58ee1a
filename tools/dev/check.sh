# ./dev check [--all]: checks the sources without a build. With --all, also runs clang-tidy on every file.
. tools/dev/lib.sh
all=0
case "${1:-}" in
  --all) all=1 ;;
  --help|-h) echo "usage: ./dev check [--all]
  checks folders and includes, that each class has one source file, that the members of a class with a mutex say what protects them, the words of texts, formatting, the paths that docs and comments name, and the commits in .git-blame-ignore-revs; --all adds clang-tidy on every file"; exit ;;
esac
install build check
failed=0
python3 tools/check_layers.py || failed=1
python3 tools/check_paths.py || failed=1
python3 tools/check_classes.py || failed=1
python3 tools/check_members.py || failed=1
python3 tools/check_words.py || failed=1
bash tools/dev/format.sh --check || { failed=1; echo "check: run ./dev format to fix this" >&2; }
# A shallow clone does not have these commits.
if [ "$(git rev-parse --is-shallow-repository)" = false ]; then
  while read -r commit; do
    git cat-file -e "$commit^{commit}" || { failed=1; echo "check: .git-blame-ignore-revs names $commit, which is not in the history" >&2; }
  done < <(grep -o '^[0-9a-f]\{40\}' .git-blame-ignore-revs)
fi
[ $all = 0 ] || bash tools/dev/lint.sh --all || failed=1
exit $failed
