# ./dev reproduce: builds the bundle, the packages and the image of HEAD in two clones, and compares every byte.
#
# The clones differ in folder, depth, umask, time zone, language and time of day.
. tools/dev/lib.sh

keep=0 against=
while [ $# -gt 0 ]; do
  case "$1" in
    --against) against=${2:?"--against needs a folder"}; shift ;;
    --keep) keep=1 ;;
    *) echo "usage: ./dev reproduce [--against DIR] [--keep]
  Prints the checksums of the files, or the first file that differs; diffoscope explains it, if it is installed.
  --against DIR   builds only once, and compares with the files of a release in DIR
  --keep          keeps the clones in build/reproduce; without it they remain only after a difference
  DEBFULLNAME and DEBEMAIL are those of ./dev deb. A compiler cache is not used. The image needs buildah." >&2
       case "$1" in -h|--help) exit 0 ;; *) exit 2 ;; esac ;;
  esac
  shift
done
[ -z "$(git status --porcelain)" ] || say "builds HEAD, without the changes that are not committed"
install build deb

work=$PWD/build/reproduce
rm -rf "$work"
# Without DEBEMAIL, the maintainer of the packages is a fact of the build machine.
export CCACHE_DISABLE=1 DEBEMAIL=${DEBEMAIL:-packages@example.org}
image=1
command -v buildah >/dev/null || { image=0; say "buildah is not installed, so the image is left out"; }

# build_in FOLDER UMASK TIME-ZONE LOCALE
build_in() {
  local begin=$SECONDS
  git clone -q --no-hardlinks . "$1"
  (cd "$1" && umask "$2" && export TZ=$3 LC_ALL=$4 && bash tools/dev/bundle.sh && bash tools/dev/deb.sh &&
    { [ $image = 0 ] || bash tools/dev/image.sh; }) >&2
  say "built in $1 in $((SECONDS - begin)) s"
}
first=$against
if [ -z "$against" ]; then
  build_in "$work/a" 022 UTC C
  first=$work/a/build
fi
build_in "$work/second-clone/in/a_deeper/folder" 077 Asia/Kolkata C.UTF-8
second=$work/second-clone/in/a_deeper/folder/build

# released FOLDER: prints the names of the released files.
released() { (cd "$1" && find . -maxdepth 1 -type f \( -name 'lockstep*.tar.zst' -o -name 'lockstep*.deb' -o -name 'lockstep*.oci.tar' -o -name 'lockstep*.spdx.json' \) -printf '%f\n' | LC_ALL=C sort); }

# unpack ARCHIVE FOLDER: unpacks an archive to find the first different file in it.
unpack() {
  mkdir -p "$2"
  case "$1" in
    *.deb) dpkg-deb -R "$1" "$2/content" ;;
    *.tar.zst|*.oci.tar) tar -C "$2" -xaf "$1" ;;
    *) cp "$1" "$2/" ;;
  esac
}

# explain FILE: prints the first difference inside a released file. Both tools fail if they find one, which must not end the script
# before its own message.
explain() {
  if command -v diffoscope >/dev/null; then diffoscope "$first/$1" "$second/$1" || true; return; fi
  unpack "$first/$1" "$work/inside/first"
  unpack "$second/$1" "$work/inside/second"
  (cd "$work/inside" && diff -rq first second | head -n 1) || true
}

if ! difference=$(diff <(released "$first") <(released "$second")); then
  die "the builds have different files (< $first, > $second):"$'\n'"$difference"
fi
for file in $(released "$first"); do
  if ! cmp -s "$first/$file" "$second/$file"; then
    explain "$file" >&2
    die "$file differs; the clones remain in build/reproduce"
  fi
done
(cd "$first" && released . | xargs sha256sum)
echo "two builds of $(git rev-parse --short HEAD) have the same bytes: $(released "$first" | wc -l) files"
[ $keep = 1 ] || rm -rf "$work"
